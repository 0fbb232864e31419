//! A Kubernetes API server as commands of a node use it: objects as JSON, Events, and rights that
//! may be missing.
#![forbid(unsafe_code)]

mod api;
mod event;
pub mod limits;
#[cfg(any(test, feature = "lying-server"))]
#[allow(missing_docs, reason = "for tests only")]
pub mod lying;
mod messages;
mod rights;

pub use api::{Api, ApiError, encode, told};
pub use event::{Event, Subject, seconds};
pub use messages::Messages;
pub use rights::{Feature, Rights};
