//! Requests to etcd, and watches of it: one member at a time, each within a bound.
//!
//! After an error the next member is asked. An error says what it means for the request: whether it
//! may be done, is not done, or needs an operator.
#![forbid(unsafe_code)]

mod connection;
mod events;
pub mod limits;
mod operation;
mod pages;
mod retry;
mod traffic;

pub use connection::{Connection, ConnectionSettings, EtcdSpace, RequestError, values};
pub use events::{Events, Mirror};
pub use operation::{delete_all, has_value, is_absent, put_under};
pub use pages::Pages;
pub use retry::{LoggedCauses, Retry};
pub use traffic::Traffic;
