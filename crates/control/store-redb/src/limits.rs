//! Limits of this crate.

use std::time::Duration;

/// How long to wait for another process to release the store.
pub const GIVEN_BACK_MAX: Duration = Duration::from_secs(10);
/// How often to check whether it did.
pub const GIVEN_BACK_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of the tree in memory; the page cache has more.
pub const CACHE_BYTES: usize = 64 << 20;
/// Free bytes on the disk for any write, beside those of its group: for growing the log, and for
/// redb's transactions.
pub const FREE_BYTES_MIN: u64 = 2 << 20;
/// Further free bytes for each byte of a group, because its pages are copied.
pub const FREE_BYTES_EACH: u64 = 4;
/// Further free bytes for each edit in the log: a page anywhere, and a part of its parents.
pub const FREE_BYTES_EDIT: u64 = 8 << 10;
/// Sets of removed zones that one sweep deletes.
pub const SWEEP_SETS: usize = 5_000;
/// Bytes of each half of the write-ahead log: one is written while the other is checkpointed. Part
/// of the log's format.
pub const HALF_BYTES: u64 = 16 << 20;
/// Bytes in the log that start a checkpoint: with more, more of them share pages of the tree.
pub const CHECKPOINT_BYTES: u64 = HALF_BYTES / 2;
/// The maximum age of a write before a checkpoint.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a segment of the log; segments alternate between its halves. Part of the log's format,
/// and the step by which a small log grows.
pub const SEGMENT_BYTES: u64 = 256 << 10;
/// The step by which a larger log grows, in bytes; a multiple of the above.
pub const GROWN_BY: u64 = 1 << 20;
/// The size of a larger log in bytes.
pub const GROWN_FROM: u64 = 4 << 20;
/// Approximate bytes of the largest group in the log; a larger one goes directly into the tree
/// instead of being written twice.
pub const GROUP_BYTES_MAX: u64 = 1 << 20;
/// The niceness of background checkpoints (setpriority(2)): a tenth of the CPU time of other
/// threads, since a thread may come to wait for them.
pub const CHECKPOINT_NICENESS: i32 = 10;
/// Bytes of the tree to sync at once in the background.
pub const PACE_BYTES: usize = 64 << 10;
