//! Every maximum of this room.

/// Octets of the file that are kept in memory. What more is read comes from the page cache.
pub const CACHE_OCTETS: usize = 64 << 20;
/// Octets that must be free on the disk for a write to be tried: what a full group may take, and
/// what redb needs to bring it there.
pub const FREE_OCTETS_MIN: u64 = 16 << 20;
/// Octets that must be free beside that for each octet of a group: its pages are copied.
pub const FREE_OCTETS_EACH: u64 = 4;
/// Sets of a zone that is gone which are swept at once.
pub const SWEEP_SETS: usize = 5_000;
