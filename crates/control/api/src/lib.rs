//! REST under `/v1`: zones of the store and their record sets, and what operators ask for.
//!
//! Every request has a principal behind it, by a bearer token or a client certificate, and its
//! grants say what it may. What is wrong with a request is told as `application/problem+json`,
//! with the field and the rule, and nothing has changed then. `/v1/openapi.json` describes it all.
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
