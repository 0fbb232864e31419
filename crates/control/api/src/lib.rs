//! REST under `/v1`: zones of the store, their record sets, and operation of the server.
//!
//! Every request has a principal, authenticated by a bearer token or a client certificate, whose
//! grants say what it may do. Errors are `application/problem+json` with the field and the rule;
//! then nothing has changed. `/v1/openapi.json` describes the API.
#![forbid(unsafe_code)]

mod body;
mod bulk;
mod caller;
mod condition;
mod counters;
mod credentials;
mod cursor;
mod description;
mod failed_logins;
mod guarded_body;
mod import;
mod journal;
pub mod limits;
mod operate;
mod principal;
mod problem;
mod quota;
mod rate_limiter;
mod receipt;
mod routes;
mod server;
mod sets;
mod shadow;
mod snapshot;
mod stall_timeout;
mod state;
mod stream;
mod text;
mod tls;
mod zones;

pub use counters::ApiCounters;
pub use credentials::{Credentials, NewCredential, TOKEN_PREFIX};
pub use principal::{Grant, Pattern, Principal, Verb};
pub use routes::openapi;
pub use server::serve;
pub use state::{Api, CommandFuture, ServerControl};
pub use text::{SetBody, ValueBody};
pub use tls::{Certificates, Tls};
