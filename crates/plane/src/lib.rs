//! Workers, one a core, and the streams beside them.
#![forbid(unsafe_code)]

mod clock;
mod counters;
mod fleet;
pub mod limits;
mod orders;
mod stream;
mod thread;
mod worker;

pub use counters::{COUNTERS, Latency, Pulse, Totals};
pub use fleet::{Fleet, Seat};
pub use stream::{Connections, Ending, Handed, IsProxy, StreamLimits, Streams, listen};
pub use thread::{Cause, Failure, OnFailure, OnStop};
pub use worker::Worker;

use packet::Packet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What answers. Each thread has one of its own.
pub trait App: Send {
    /// Sees to a burst, or to what its port shows of it at a time: turns each query into its reply,
    /// in place, and sets each verdict. What the application reads from elsewhere (its snapshot) it
    /// refreshes here, once. `now` is when the burst was read, by the system's monotonic clock.
    fn burst(&mut self, packets: &mut [Packet<'_>], now: Duration);

    /// The thread is about to wait: lets go of everything that others would wait for.
    fn park(&mut self);

    /// What else the application waits for: readable when [`tend`](Self::tend) has something to do.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sees to what others have answered, without waiting, and sends the replies that were put off
    /// ([`Verdict::Later`](packet::Verdict::Later)): each a packet with its peer, its origin and
    /// now a verdict, and how long ago it came.
    fn tend(&mut self, _now: Duration, _send: &mut dyn FnMut(&Packet<'_>, Duration)) {}

    /// Whether replies are put off.
    fn owes(&self) -> bool {
        false
    }
}
