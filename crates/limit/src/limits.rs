//! Every maximum of this room.

/// Debts in one set of a table: a cache line of them.
pub const SET_LEN: usize = 8;
/// Sets of a table unless configured otherwise: 1 MiB, for 131,072 clients.
pub const SETS_DEFAULT: usize = 16_384;
/// How often a worker tries to write a debt that others write too, before it lets a question pass.
pub const ATTEMPTS_MAX: usize = 2;
/// Questions or replies a second that a rate can be: at more, the clock's ticks are too coarse.
pub const PER_SECOND_MAX: u32 = 1_000_000;
/// Seconds that a burst may take to be paid back.
pub const BURST_SECONDS_MAX: u64 = 3600;
/// The slowest slip: every so many replies that are over a limit, one is sent truncated.
pub const SLIP_MAX: u8 = 15;
/// Bits of an IPv6 address that can tell networks apart.
pub const V6_LEN_MAX: u8 = 64;
