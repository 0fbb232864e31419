//! Every maximum of this crate.

/// Combinations of NUMA nodes that are tried when CPUs are distributed; beyond, they are packed.
pub const COMBINATIONS_MAX: usize = 65_536;

/// Bytes of a state file.
pub const STATE_BYTES_MAX: u64 = 16 * 1_024 * 1_024;
