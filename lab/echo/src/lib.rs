//! The echo server: what a machine can answer at most, by every way of receiving there is.
//!
//! It answers each query with itself, QR set; no parsing, no lookup. Whatever a DNS server gets
//! less than this, by the same way of receiving, is what the server itself costs.

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

/// Why there is no echo, or why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It was asked for what cannot be.
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
