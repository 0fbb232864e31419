//! The management API under `/v1`: zones of the store and their record sets, and the operation of
//! the server.
//!
//! Each request has a principal: that of its bearer token or client certificate, or the local user
//! at the other end of the Unix socket. The principal's grants say what it may do. A refused
//! request changes nothing; its response is `application/problem+json` with the field and the rule.
//! `/v1/openapi.json` describes all paths.
#![forbid(unsafe_code)]

mod anycast;
mod body;
mod bulk;
mod caller;
mod checks;
mod condition;
mod counters;
mod credentials;
mod cursor;
mod description;
mod dump;
mod endpoints;
mod explain;
mod failed_logins;
mod fleet;
mod guarded_body;
mod import;
mod journal;
pub mod limits;
mod manage;
mod operate;
mod powerdns;
mod principal;
mod problem;
mod quota;
mod rate_limiter;
mod receipt;
mod revert;
mod routes;
mod server;
mod sets;
mod shadow;
mod sites;
mod snapshot;
mod state;
mod store;
mod stream;
mod text;
mod views;
mod zones;

pub use counters::ApiCounters;
pub use credentials::{
    CredentialError, CredentialFile, Credentials, NewCredential, PrincipalKey, TOKEN_PREFIX,
    TokenRefused, check_document,
};
pub use dump::ZoneText;
pub use model::{MemberBody, MinUpBody, ValueBody};
pub use principal::{Grant, Pattern, Principal, Verb};
pub use routes::openapi;
pub use server::{LocalApi, serve};
pub use state::{Api, ControlFuture, ExplainRequest, ServerControl};
pub use text::SetBody;
