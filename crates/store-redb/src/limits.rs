//! Every maximum of this room.

use std::time::Duration;

/// How long a store is waited for that another process is about to give back.
pub const GIVEN_BACK_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether it was.
pub const GIVEN_BACK_INTERVAL: Duration = Duration::from_millis(20);
/// Octets of the file that are kept in memory. What more is read comes from the page cache.
pub const CACHE_OCTETS: usize = 64 << 20;
/// Octets that must be free on the disk for a write to be tried: what a full group may take, and
/// what redb needs to bring it there.
pub const FREE_OCTETS_MIN: u64 = 16 << 20;
/// Octets that must be free beside that for each octet of a group: its pages are copied.
pub const FREE_OCTETS_EACH: u64 = 4;
/// Sets of a zone that is gone which are swept at once.
pub const SWEEP_SETS: usize = 5_000;
