//! Every maximum of this crate.

/// Debts in one set of a table: a cache line.
pub const SET_LEN: usize = 8;
/// Default number of sets: 1 MiB, for 131,072 clients.
pub const SETS_DEFAULT: usize = 16_384;
/// How often a worker retries to write a debt that others write too, before it admits the query.
pub const ATTEMPTS_MAX: usize = 2;
/// Largest rate, in queries or replies a second. Above it, the clock ticks are too coarse.
pub const PER_SECOND_MAX: u32 = 1_000_000;
/// Longest time to pay back a burst, in seconds.
pub const BURST_SECONDS_MAX: u64 = 3600;
/// Largest `slip`: one in this many replies above a limit is sent truncated.
pub const SLIP_MAX: u8 = 15;
/// Longest IPv6 prefix that distinguishes networks, in bits.
pub const V6_LEN_MAX: u8 = 64;
/// Slots of the index of a table of networks, at most: 256 KiB.
pub const INDEX_SLOTS_MAX: usize = 1 << 16;
