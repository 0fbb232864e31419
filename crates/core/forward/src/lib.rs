//! Forwarding without sockets, clock or randomness of its own.
//!
//! A [`Forwarder`] receives queries, messages and time. It returns what to send to which server,
//! and which queries were answered. Equal queries share one transmission. The fastest server is
//! queried first, and a second one if it is late. Failing servers are not queried for a while.
//! Probes and late replies show whether they are alive.
//!
//! A reply counts only from the queried server, at the socket of the query, with its ID and its
//! question in the same case (RFC 5452 §9.1). A server that does not keep the case is queried over
//! TCP, and one without EDNS is queried without it.
#![no_std]
#![forbid(unsafe_code)]

mod case_mask;
mod compatibility;
mod event;
mod forwarder;
mod late;
pub mod limits;
mod message;
mod pending;
mod probe;
mod query_form;
mod receive;
mod send;
mod timer;
mod upstream;

pub use event::{ForwardEvent, LateAnswer, QueryId, QueryOutcome, Transmission};
pub use forwarder::{Forwarder, ForwarderState, RandomSource};
pub use message::QUERY_LEN_MAX;
pub use pending::{PendingQuery, UpstreamGroup};
pub use upstream::{StreamLoss, Upstream, UpstreamCounts, UpstreamHealth, UpstreamTransport};
