//! Limits of this crate.
use std::time::Duration;

/// How often bytes are counted.
pub const MEASURE_INTERVAL: Duration = Duration::from_secs(5);
/// How often an etcd is asked how large it is.
pub const SPACE_INTERVAL: Duration = Duration::from_secs(60);
/// Measured sizes that are kept: those of a day.
pub const SIZES_MAX: usize = 24 * 60;
/// A trend needs measurements of this time at least.
pub const TREND_MIN: Duration = Duration::from_secs(10 * 60);
