//! Limits of stores.
use std::time::Duration;

/// Zones in the store.
pub const ZONES_MAX: usize = 10_000;
/// Edits of one batch.
pub const EDITS_MAX: usize = 10_000;
/// Bytes of a principal's name.
pub const PRINCIPAL_LEN_MAX: usize = 255;
/// Bytes of the reason of a write.
pub const REASON_LEN_MAX: usize = 255;
/// Commits that a store in memory keeps for watches.
pub const COMMITS_KEPT: usize = 1_024;
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
