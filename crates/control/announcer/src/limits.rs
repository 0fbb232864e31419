//! Limits of this crate.

/// Bytes of the reason of a withdrawal on disk.
pub const WITHDRAWAL_LEN_MAX: u64 = 4096;
