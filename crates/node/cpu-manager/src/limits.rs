//! Every maximum of this crate.

/// Rules in a file.
pub const RULES_MAX: usize = 1_024;

/// Bytes of a rule file.
pub const RULES_BYTES_MAX: u64 = 1_024 * 1_024;

/// Bytes of the state file.
pub const STATE_BYTES_MAX: u64 = 64 * 1_024 * 1_024;

/// Control groups without rules or claims; a node with more is an error.
pub const GROUPS_MAX: usize = 16_384;

/// Containers with exclusive CPUs, including ended ones whose pod still runs.
pub const CLAIMS_MAX: usize = 4_096;
