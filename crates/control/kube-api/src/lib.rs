//! The client of a Kubernetes API server: how it is found, the connection, objects as JSON, Events,
//! and rights that may be missing.
#![forbid(unsafe_code)]

mod access_files;
mod api;
mod connection;
mod event;
pub mod limits;
mod list;
#[cfg(any(test, feature = "lying-server"))]
#[allow(missing_docs, reason = "for tests only")]
pub mod lying;
mod messages;
mod rights;

pub use api::{Api, ApiError, encode};
pub use connection::{Access, Connection, causes};
pub use event::{Event, Subject, seconds};
pub use list::ListOf;
pub use messages::Messages;
pub use rights::{Feature, Rights};
