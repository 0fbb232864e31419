//! The form of times in a status.
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 for a time before it.
pub fn seconds(when: SystemTime) -> f64 {
    when.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
