//! Every maximum of this room.

/// Entries whose place one line of the index can tell.
pub const LINE_LEN: usize = 10;
/// How often an entry is remembered to have been used.
pub const USES_MAX: u8 = 3;
/// Uses after which an entry that leaves the queue of new ones is kept.
pub const USES_KEPT: u8 = 1;
/// Entries that one new entry may move before what stands in its way goes, used or not.
pub const MOVES_MAX: usize = 32;
/// The share of the octets that is the queue of new entries: one in so many.
pub const NEW_SHARE: usize = 10;
/// The share of the queue of new entries that one entry may have: one in so many.
pub const ENTRY_SHARE: usize = 4;
/// Octets that an entry is expected to have, from which the length of the index follows.
pub const ENTRY_LEN_EXPECTED: usize = 160;
/// The least memory, in octets, with which an answer of 4 KiB still fits.
pub const MEMORY_MIN: usize = 256 << 10;
/// The most memory, in octets: places have 32 bits, in units of [`UNIT`].
pub const MEMORY_MAX: usize = 16 << 30;
/// Octets that places and sizes are counted in.
pub const UNIT: usize = 8;
