//! Limits.

/// Bytes of a bundle file that is read.
pub const BUNDLE_BYTES_MAX: u64 = 256 << 20;

/// Runs of a bundle.
pub const RUNS_MAX: usize = 100_000;

/// Points of a sweep that begins without confirmation.
pub const POINTS_ASK: usize = 10_000;

/// Latency curves in one chart.
pub const CURVES_MAX: usize = 7;

/// Heat maps of latency over time in one report.
pub const TIME_MAPS_MAX: usize = 4;

/// Rows of the packet and verdict tables.
pub const ROWS_MAX: usize = 200;
