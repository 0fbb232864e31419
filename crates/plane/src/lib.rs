//! Workers, one a core, and the streams beside them.
#![forbid(unsafe_code)]

mod clock;
mod counters;
mod fleet;
pub mod limits;
mod stream;
mod thread;
mod worker;

pub use counters::{COUNTERS, Latency, Pulse, Totals};
pub use fleet::{Fleet, Seat};
pub use stream::{Connections, Ending, Handed, IsProxy, StreamLimits, Streams, listen};
pub use thread::{Cause, Failure, OnFailure, OnStop};
pub use worker::Worker;

use packet::Packet;
use std::time::Duration;

/// What answers. Each thread has one of its own.
pub trait App: Send {
    /// Sees to a whole burst: turns each query into its reply, in place, and sets each verdict.
    /// What the application reads from elsewhere (its snapshot) it refreshes here, once. `now` is
    /// when the burst was read, by the system's monotonic clock.
    fn burst(&mut self, packets: &mut [Packet<'_>], now: Duration);

    /// The thread is about to wait: lets go of everything that others would wait for.
    fn park(&mut self);
}
