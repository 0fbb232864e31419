//! Limits of this crate.

/// Reported remarks; more are counted.
pub const REMARKS_MAX: usize = 1 << 12;
