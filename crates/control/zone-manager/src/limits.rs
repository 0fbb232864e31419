//! Limits of this crate.
use std::time::Duration;

/// Record sets with a queued change.
pub const UPDATES_MAX: usize = 65_536;
/// Smaller losses of names are never held.
pub const LOSS_MIN: u64 = 20;
/// How often to check whether replaced images can be freed.
pub const COLLECT_INTERVAL: Duration = Duration::from_millis(10);
