//! Every maximum of this crate.

/// Entries in one bucket of the index.
pub const LINE_LEN: usize = 10;
/// Uses of an entry are counted up to this.
pub const USES_MAX: u8 = 3;
/// Uses after which an entry moves from the queue of new entries to the main queue.
pub const USES_MOVED: u8 = 1;
/// Entries that one new entry may move. After that, the next entry in its way is removed, used or
/// not.
pub const MOVES_MAX: usize = 32;
/// The queue of new entries has this share of the bytes: one in this many.
pub const NEW_SHARE: usize = 10;
/// One entry may have this share of the queue of new entries: one in this many.
pub const ENTRY_SHARE: usize = 4;
/// Expected bytes of an entry, from which the length of the index follows.
pub const ENTRY_LEN_EXPECTED: usize = 160;
/// The least memory in bytes: an answer of 4 KiB fits.
pub const MEMORY_MIN: usize = 256 << 10;
/// The most memory in bytes: positions have 32 bits, in units of [`UNIT`].
pub const MEMORY_MAX: usize = 16 << 30;
/// Positions and sizes are multiples of this many bytes.
pub const UNIT: usize = 8;
