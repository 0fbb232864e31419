//! The echo server: the highest rate that a machine can answer, with each I/O model.
//!
//! It answers each query with itself, QR set; no parsing, no lookup. The difference between a DNS
//! server and an echo with the same I/O model is the cost of the server itself.

mod burst;
mod datagram;
mod echo;
mod interface;
pub mod limits;
mod model;
mod netns;
mod options;
mod packet_filter;
mod port_counter;
mod reply;
mod shared_counters;
mod slab;
mod sockets;
mod thread_context;

pub use echo::{Echo, Snapshot, Thread, WaitEnd};
pub use options::{Model, Options};
pub use port_counter::{PortCounter, PortCounts};
pub use reply::Reason;
pub use shared_counters::Counts;

use std::fmt;

/// Why an echo did not start, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The options are impossible.
    Invalid(String),
    /// It failed.
    Failed(String),
}

impl Error {
    /// The attempt, and why it failed.
    pub(crate) fn failed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Invalid(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Error {}
