//! What a queue tells others while it works.

use crate::queue::Rings;
use crate::ring::Level;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a queue counts, for others to read.
#[derive(Debug)]
pub struct Counts {
    strays: AtomicU64,
    refusals: AtomicU64,
    free: AtomicU32,
    fill: Level,
    receive: Level,
    send: Level,
    complete: Level,
}

/// How many of a queue's frames are where. While nothing is under way, and the kernel copies, these
/// are all of [`FRAMES`](crate::limits::FRAMES); else the rest is lent to a burst, waits to be
/// flushed, or is with the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Nobody's.
    pub free: u32,
    /// To be received into.
    pub fill: u32,
    /// Received, and not taken yet.
    pub receive: u32,
    /// To be sent.
    pub send: u32,
    /// Sent, and not taken back yet.
    pub complete: u32,
}

impl Places {
    /// All of these.
    pub fn sum(&self) -> u32 {
        self.free + self.fill + self.receive + self.send + self.complete
    }
}

impl Counts {
    pub(crate) fn new(rings: &Rings) -> Self {
        Self {
            strays: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            free: AtomicU32::new(0),
            fill: rings.fill.level(),
            receive: rings.receive.level(),
            send: rings.send.level(),
            complete: rings.complete.level(),
        }
    }

    /// One more, said by the only one who does.
    pub(crate) fn stray(&self) {
        self.strays.store(self.strays() + 1, Ordering::Relaxed);
    }

    /// The same.
    pub(crate) fn refuse(&self) {
        self.refusals.store(self.refusals() + 1, Ordering::Relaxed);
    }

    pub(crate) fn set_free(&self, count: usize) {
        self.free.store(count as u32, Ordering::Relaxed);
    }

    /// Descriptors of the kernel that were no frame which it had: they were left alone.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Times that the device refused to send, for a reason of its driver's.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Where the frames are: as the last burst or flush left them, and what the rings say.
    pub fn places(&self) -> Places {
        Places {
            free: self.free.load(Ordering::Relaxed),
            fill: self.fill.waiting(),
            receive: self.receive.waiting(),
            send: self.send.waiting(),
            complete: self.complete.waiting(),
        }
    }
}
