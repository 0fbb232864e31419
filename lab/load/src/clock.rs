//! Time since the load began, the same for all its threads.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds from a start that may be in the future.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: u64,
}

/// CLOCK_MONOTONIC, in nanoseconds.
#[inline]
fn monotonic() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time the calling thread has used, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Nanoseconds since 1970, for output.
pub(crate) fn wall_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

impl Clock {
    /// Begins this many nanoseconds from now.
    pub(crate) fn ahead(by_ns: u64) -> Self {
        Self { begin: monotonic() + by_ns }
    }

    /// Nanoseconds since the beginning; 0 before.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        monotonic().saturating_sub(self.begin)
    }

    /// How far the beginning lies ahead, in nanoseconds.
    pub(crate) fn until_begin(&self) -> u64 {
        self.begin.saturating_sub(monotonic())
    }

    /// Keeps the CPU busy for this long.
    pub(crate) fn spin(&self, length_ns: u64) {
        let until = monotonic() + length_ns;
        while monotonic() < until {
            std::hint::spin_loop();
        }
    }
}
