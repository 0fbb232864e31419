//! Limits of this crate.
use std::time::Duration;

/// Revisions of which a server knows the digest: others may report one that is older.
pub const DIGESTS_KEPT: usize = 16_384;
/// Queued requests.
pub const QUEUE_REQUESTS_MAX: usize = 4_096;
/// Edits of all queued requests.
pub const QUEUE_EDITS_MAX: usize = 100_000;
/// Bytes of queued edits, with overhead. At least the largest body of the API. The same amount
/// again may be in progress.
pub const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Edits of a full group, which is committed before more are taken.
pub const GROUP_EDITS_MAX: usize = 20_000;
/// How long a group is validated again after another writer committed first.
pub const CONFLICTS_MAX: Duration = Duration::from_secs(4);
/// The longest pause before that, which grows from a fraction of it.
pub const CONFLICT_PAUSE_MAX: Duration = Duration::from_millis(32);
/// How long to wait for the commits of another writer that came first, before the whole store is
/// read.
pub const CATCH_UP_MAX: Duration = Duration::from_secs(1);
/// Requests waiting for a revision to be live.
pub const LIVE_WAITERS_MAX: usize = 16_384;
/// Sets of one page.
pub const PAGE_SETS_MAX: usize = 10_000;
/// Bytes of one page's data, except for a single larger set.
pub const PAGE_BYTES_MAX: usize = 256 << 10;
/// Sets examined for one page, with those that the filter excludes.
pub const PAGE_LOOKED_AT_MAX: usize = 100_000;
/// Entries of one journal page.
pub const JOURNAL_PAGE_MAX: usize = 1_000;
/// How long to wait before a failed store is tried again, at first.
pub const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest wait before a failed store is tried again.
pub const RETRY_MAX: Duration = Duration::from_secs(30);
/// A request tries a failed store, too, unless the last try was less than this many times its own
/// duration ago.
pub const RETRY_COST: u32 = 10;
/// How far the revision of a replaced store is above all known ones: more than the writes that may
/// be missing, and far below half of all serials (RFC 1982).
pub const REPLACED_AHEAD: u64 = 1 << 24;
/// Unreadable zones that are reported by name; all are counted.
pub const UNREADABLE_MAX: usize = 100;
/// Warnings about the sets of one write.
pub const WARNINGS_MAX: usize = 100;
/// Views of one zone that have sets.
pub const VIEWS_OF_ZONE_MAX: usize = 16;
