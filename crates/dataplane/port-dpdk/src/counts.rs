//! Counters of a device and of its queues, for readers in other threads.

use crate::calls::RawCounts;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a device counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Frames received and sent.
    pub received: u64,
    /// See `received`.
    pub sent: u64,
    /// Frames that no ring had room for.
    pub missed: u64,
    /// Received frames with an error.
    pub errors: u64,
    /// Frames for which no buffer was free.
    pub no_buffer: u64,
    /// Frames that the device could not send.
    pub send_errors: u64,
    /// Received frames in several buffers.
    pub segmented: u64,
    /// Buffers that are not in use.
    pub buffers_free: u32,
    /// All buffers.
    pub buffers: u32,
    /// Whether its link is up.
    pub is_up: bool,
    /// Whether the device was removed.
    pub is_gone: bool,
}

impl From<RawCounts> for DeviceCounts {
    fn from(raw: RawCounts) -> Self {
        let RawCounts { received, sent, missed, errors, no_buffer, send_errors, .. } = raw;
        let RawCounts { segmented, buffers_free, buffers, is_up, is_gone, .. } = raw;
        let (is_up, is_gone) = (is_up != 0, is_gone != 0);
        Self {
            received,
            sent,
            missed,
            errors,
            no_buffer,
            send_errors,
            segmented,
            buffers_free,
            buffers,
            is_up,
            is_gone,
        }
    }
}

/// Counters of a queue. One thread counts.
#[derive(Debug, Default)]
pub struct QueueCounts {
    pub(crate) polls: Count,
    pub(crate) empty: Count,
    pub(crate) foreign: Count,
    pub(crate) other: Count,
    pub(crate) refused: Count,
    pub(crate) waits: Count,
    pub(crate) to_host: Count,
    pub(crate) host_full: Count,
    pub(crate) from_host: Count,
}

impl QueueCounts {
    /// Calls to receive, and those of them that received nothing.
    pub fn polls(&self) -> (u64, u64) {
        (self.polls.get(), self.empty.get())
    }

    /// Frames to another Ethernet address.
    pub fn foreign(&self) -> u64 {
        self.foreign.get()
    }

    /// How often the queue waited for an interrupt.
    pub fn waits(&self) -> u64 {
        self.waits.get()
    }

    /// Frames that the kernel got, and those that it sent.
    pub fn host(&self) -> (u64, u64) {
        (self.to_host.get(), self.from_host.get())
    }

    /// Frames that the kernel did not take: there were too many, or its interface is down.
    pub fn host_full(&self) -> u64 {
        self.host_full.get()
    }

    /// Frames that are no datagram to a served address and port, on a device without an interface
    /// of the kernel.
    pub fn other(&self) -> u64 {
        self.other.get()
    }

    /// Replies that the device had no room for.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub fn add(&self, count: usize) {
        self.0.store(self.get() + count as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
