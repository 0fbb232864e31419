//! Limits of this crate.
use std::time::Duration;

/// Bytes of a part of a staged commit.
pub const PART_BYTES_MAX: usize = 1 << 20;
/// How long the outcome of a write is looked up.
pub const OUTCOME_MAX: Duration = Duration::from_secs(5);
/// Encoded bytes of commits that are served, and that the disk did not take; more are left in etcd.
pub const UNSAVED_BYTES_MAX: usize = 64 << 20;
/// Commits that wait to be applied; more are left in etcd.
pub const COMMITS_QUEUED: usize = 64;
/// Commits that etcd keeps for servers that were away; older ones are deleted.
pub const COMMITS_STORED: u64 = 10_000;
/// How many revisions pass between deletions of old commits.
pub const TRIM_INTERVAL: u64 = 500;
/// How old a staged batch without a commit gets before it is swept.
pub const STAGED_MAX: Duration = Duration::from_secs(15);
/// How often to look for such batches.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How long a server locks out the commits of others, should it die.
pub const COMMIT_LOCK_TTL: Duration = Duration::from_secs(10);
/// After a newer revision came, how long its commit may take: the watch brings it at once.
pub const COMMIT_WAIT: Duration = Duration::from_secs(1);
/// The pause before a commit that another server locks out is tried again.
pub const LOCKED_PAUSE: Duration = Duration::from_millis(100);
/// How often other servers may commit before a large batch, until it locks them out.
pub const BATCH_CONFLICTS_MAX: u32 = 2;
/// How far `dunlin fleet adopt` raises the revision: above every one that another server may have
/// served, which the adopting server missed. So no serial goes back there.
pub const REVISIONS_ADOPTED: u64 = 1 << 20;
/// Times that a commit is retried because another writer only fenced or moved.
pub const RETRIES_MAX: u32 = 20;
/// Keys of zones and sets that cannot be read and are known; the others after these.
pub const UNREADABLE_MAX: usize = 100;
/// How many of them a message names.
pub const UNREADABLE_SHOWN: usize = 3;
