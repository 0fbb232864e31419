//! Limits of this crate.

/// Age of the last panic in the handling of a query, in seconds, until which it is a fault.
pub const PANIC_AGE_MAX: f64 = 3_600.0;
/// Names that the text of a fault has at most.
pub const FAULT_NAMES_MAX: usize = 3;
