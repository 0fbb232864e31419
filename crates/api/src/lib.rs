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
mod counts;
mod credentials;
mod cursor;
mod failures;
mod hex;
mod import;
mod journal;
pub mod limits;
mod operate;
mod patient;
mod principal;
mod problem;
mod rates;
mod routes;
mod server;
mod sets;
mod snapshot;
mod text;
mod tls;
mod zones;

pub use counts::Counts;
pub use credentials::{Credentials, TOKEN_PREFIX};
pub use principal::{Grant, Pattern, Principal, Verb};
pub use routes::openapi;
pub use server::serve;
pub use text::{SetBody, ValueBody};
pub use tls::{Certificates, Tls};

use control::command::{Command, Outcome};
use control::status::Status;
use records::Desk;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

/// What comes of a command later.
pub type Told<'s> = Pin<Box<dyn Future<Output = Result<Outcome, String>> + Send + 's>>;

/// The server as operators meet it: the same that the admin socket tells and is told.
pub trait Operator: Send + Sync + 'static {
    /// What it tells of itself. May wait.
    fn status(&self) -> Status;

    /// Has the threads that answer do something, and waits until they have.
    fn command(&self, command: Command) -> Told<'_>;
}

/// What is served, and to whom.
#[derive(Clone)]
pub struct Api {
    /// Where zones are read and written; not there while the store is opened.
    pub desk: Arc<OnceLock<Desk>>,
    /// Who may come in.
    pub credentials: Arc<Credentials>,
    /// Whom operators' questions go to.
    pub operator: Arc<dyn Operator>,
    /// What is counted.
    pub counts: Arc<Counts>,
    /// Requests that each principal may make a second, 1 at least.
    pub requests_per_second: u32,
    /// A folder with room for a snapshot that is restored.
    pub spool: PathBuf,
}
