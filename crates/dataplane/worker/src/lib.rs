//! Worker threads for datagrams, one a core, and threads for streams.
#![forbid(unsafe_code)]

mod clock;
mod counters;
pub mod limits;
mod panics;
mod port_changes;
mod stream;
mod thread;
mod worker;
mod workers;

pub use counters::{COUNTERS, LatencyHistogram, WorkerTotals};
pub use panics::catch_panic;
pub use stream::{
    ClientIdentity, ConnectionSink, Connections, Ending, HandedConnection, IsProxy, Shares,
    StreamLimits, Streams, listen,
};
pub use thread::{FailureCause, OnFailure, StopHook, ThreadFailure};
pub use worker::Worker;
pub use workers::{WorkerSetup, Workers};

use packet::Packet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The application, which answers messages. Each thread has its own.
pub trait App: Send {
    /// Answers a burst, or the part of it that the port passes: turns each query into its reply, in
    /// place, and sets each verdict. The application refreshes its snapshot here, once. `now` is
    /// the time of reading the burst, by the system's monotonic clock.
    fn burst(&mut self, packets: &mut [Packet<'_>], now: Duration);

    /// The thread is about to wait: releases everything that other threads wait for, such as the
    /// snapshot.
    fn park(&mut self);

    /// Readable when [`poll_deferred`](Self::poll_deferred) has something to do.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Handles replies of upstream servers, and those of handlers outside the data plane, without
    /// waiting, and sends deferred replies ([`Verdict::Deferred`](packet::Verdict::Deferred),
    /// [`Verdict::Control`](packet::Verdict::Control)): each is a packet with its peer, its
    /// origin and a verdict, and the time since it was received.
    fn poll_deferred(&mut self, _now: Duration, _send: &mut dyn FnMut(&Packet<'_>, Duration)) {}

    /// Takes a connection with a message whose response has many
    /// ([`Verdict::Stream`](packet::Verdict::Stream)), the first one in its inbox.
    fn take_connection(&mut self, _connection: HandedConnection) {}

    /// Whether replies are deferred.
    fn has_deferred(&self) -> bool {
        false
    }
}
