//! Transfers zones to other servers: whole (AXFR, RFC 5936), or what has changed since a serial
//! (IXFR, RFC 1995).
//!
//! [`Transfers`] decides who may have a zone and which records answer; [`TransferThread`] serves
//! the connections. A transfer is of one version of the zone, of which nothing is copied, and waits
//! for its client.
#![forbid(unsafe_code)]

mod counters;
mod delivery;
mod history;
pub mod limits;
mod message;
mod notifications;
mod notifier;
mod permits;
mod request;
mod session;
mod source;
mod tls;
mod transfers;

pub use message::{MessageWriter, TooLong};
pub use notifications::NotifyTarget;
pub use request::{Message, Request, Wanted};
pub use session::{TlsListeners, TransferThread};
pub use source::{Listed, OwnedRecord, RecordSource, ZoneRecords};
pub use transfers::{Access, KeyOwner, KnownKey, Peer, Response, ResponseStream, Transfers};

#[cfg(test)]
mod tests;
