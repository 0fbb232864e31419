//! Counters of a queue, for readers in other threads.

use crate::ring::{QueueRings, RingLevel};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counters of a queue.
#[derive(Debug)]
pub struct QueueCounts {
    strays: AtomicU64,
    refusals: AtomicU64,
    free: AtomicU32,
    fill: RingLevel,
    receive: RingLevel,
    send: RingLevel,
    complete: RingLevel,
}

/// The places of a queue's frames. While no packet is under way, and the kernel copies, these are
/// all of [`FRAMES`](crate::limits::FRAMES). Otherwise the rest is lent to a burst, waits to be
/// flushed, or is with the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Free.
    pub free: u32,
    /// To be received into.
    pub fill: u32,
    /// Received, not yet taken.
    pub receive: u32,
    /// To be sent.
    pub send: u32,
    /// Sent, not yet taken back.
    pub complete: u32,
}

impl FrameCounts {
    /// The sum.
    pub fn sum(&self) -> u32 {
        self.free + self.fill + self.receive + self.send + self.complete
    }
}

impl QueueCounts {
    pub(crate) fn new(rings: &QueueRings) -> Self {
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

    /// Counts one; called by one thread only.
    pub(crate) fn stray(&self) {
        self.strays.store(self.strays() + 1, Ordering::Relaxed);
    }

    /// Counts one; called by one thread only.
    pub(crate) fn refuse(&self) {
        self.refusals.store(self.refusals() + 1, Ordering::Relaxed);
    }

    pub(crate) fn set_free(&self, count: usize) {
        self.free.store(count as u32, Ordering::Relaxed);
    }

    /// Invalid descriptors from the kernel, which were ignored.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Times that the driver refused to send.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// The places of the frames after the last burst or flush, and in the rings.
    pub fn places(&self) -> FrameCounts {
        FrameCounts {
            free: self.free.load(Ordering::Relaxed),
            fill: self.fill.waiting(),
            receive: self.receive.waiting(),
            send: self.send.waiting(),
            complete: self.complete.waiting(),
        }
    }
}
