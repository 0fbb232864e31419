//! Every maximum of this crate.

/// Intervals of a load whose histograms are kept for `--hlog`, about 1 MiB each.
pub const HLOG_INTERVALS_MAX: u64 = 600;
