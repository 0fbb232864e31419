//! Every maximum of this room.

use std::time::Duration;

/// How long a store is waited for that another process is about to give back.
pub const GIVEN_BACK_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether it was.
pub const GIVEN_BACK_INTERVAL: Duration = Duration::from_millis(20);
/// Octets of the tree that are kept in memory. What more is read comes from the page cache.
pub const CACHE_OCTETS: usize = 64 << 20;
/// Octets that must be free on the disk for a write to be tried: what a full group may take, and
/// what redb needs to bring it there.
pub const FREE_OCTETS_MIN: u64 = 16 << 20;
/// Octets that must be free beside that for each octet of a group: its pages are copied.
pub const FREE_OCTETS_EACH: u64 = 4;
/// Octets that must be free beside that for each edit in the log, as it may lie anywhere: a page,
/// and a part of those above it.
pub const FREE_OCTETS_EDIT: u64 = 8 << 10;
/// Sets of a zone that is gone which are swept at once.
pub const SWEEP_SETS: usize = 5_000;
/// Octets of the write-ahead log that are written before they are brought into the tree, at most;
/// as much again while they are. It is a part of the log's form.
pub const HALF_OCTETS: u64 = 16 << 20;
/// Octets of it that are enough to be brought there at once: the more there are, the more of them
/// lie on the same page of the tree.
pub const CHECKPOINT_OCTETS: u64 = HALF_OCTETS / 2;
/// How long fewer may wait for it.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Octets by which the log's file grows.
pub const GROWN_BY: u64 = 1 << 20;
/// Octets that a group brings, roughly: a larger one is not worth being written twice, and goes
/// into the tree at once.
pub const GROUP_OCTETS_MAX: u64 = 1 << 20;
/// How much less of the CPUs a checkpoint that nobody asked for gets than who writes or answers
/// (setpriority(2)): a tenth of what others get. Somebody may come to wait for it.
pub const CHECKPOINT_NICENESS: i32 = 10;
/// Octets of the tree that are brought to the disk at once while nobody waits for them.
pub const PACE_OCTETS: usize = 64 << 10;
