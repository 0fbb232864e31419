//! The clock that all threads share.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The system's monotonic clock.
#[inline]
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    // Both are never negative, and nanoseconds are below a second.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
