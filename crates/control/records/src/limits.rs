//! Limits of this crate.
use std::time::Duration;

/// Zones in the store.
pub const ZONES_MAX: usize = 10_000;
/// Edits of one batch.
pub const EDITS_MAX: usize = 10_000;
/// Bytes of a principal's name.
pub const PRINCIPAL_LEN_MAX: usize = 255;
/// Bytes of the reason of a write.
pub const REASON_LEN_MAX: usize = 255;
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
/// Commits that a store in memory keeps for watches.
pub const COMMITS_KEPT: usize = 1_024;
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
/// Stored bytes of one journal page, except for a single larger entry.
pub const JOURNAL_PAGE_BYTES_MAX: usize = 1 << 20;
/// Changes of a write whose data the journal stores. For a larger write it stores names and types.
pub const JOURNAL_EDITS_MAX: usize = 1_000;
/// Bytes of a write's data that the journal stores, before and after. For a larger write it stores
/// names and types.
pub const JOURNAL_DATA_MAX: usize = 4 << 20;
/// Changes of a write whose names the journal stores. For a larger one, such as the deletion of a
/// large zone, it stores the number.
pub const JOURNAL_NAMES_MAX: usize = EDITS_MAX;
/// Deleted zones with stored journals; the oldest are removed first.
pub const DELETED_ZONES_MAX: usize = 1_000;
/// Bytes of all these journals; the oldest are removed first, except the newest one.
pub const DELETED_BYTES_MAX: u64 = 256 << 20;
/// Entries of a zone's journal; the oldest are removed first.
pub const JOURNAL_ENTRIES_MAX: u64 = 100_000;
/// Bytes of a zone's journal; the oldest entries are removed first.
pub const JOURNAL_BYTES_MAX: u64 = 64 << 20;
/// The longest list that is written at each change.
pub const ZONE_LIST_SHORT: usize = 256;
/// How long to wait before a longer list is written again.
pub const ZONE_LIST_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait before a failed write of the list is retried.
pub const ZONE_LIST_RETRY: Duration = Duration::from_secs(10);
/// Bytes of a list of zones: each name fully escaped with its checksum, and the first line.
pub const ZONE_LIST_LEN_MAX: u64 = (ZONES_MAX as u64 + 1) * 1_100;
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
