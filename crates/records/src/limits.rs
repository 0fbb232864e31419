//! Every maximum of this room.
use std::time::Duration;

/// Zones in the store.
pub const ZONES_MAX: usize = 10_000;
/// Edits of one batch.
pub const EDITS_MAX: usize = 10_000;
/// Octets of a principal's name.
pub const PRINCIPAL_LEN_MAX: usize = 255;
/// Requests that wait at the desk.
pub const QUEUE_REQUESTS_MAX: usize = 4_096;
/// Edits of all requests that wait at the desk.
pub const QUEUE_EDITS_MAX: usize = 100_000;
/// Octets of what those edits put, with what it takes to keep them. No body that the API takes is
/// larger by itself. As much again may be at work.
pub const QUEUE_OCTETS_MAX: usize = 256 << 20;
/// Edits that make a group full: it is brought to the disk before more are taken.
pub const GROUP_EDITS_MAX: usize = 20_000;
/// Who waits for a revision to be live.
pub const LIVE_WAITERS_MAX: usize = 16_384;
/// How often it is looked whether every worker has loaded an image somebody waits for.
pub const LIVE_INTERVAL: Duration = Duration::from_micros(50);
/// Sets of one page.
pub const PAGE_SETS_MAX: usize = 10_000;
/// Octets of the data of one page's sets, unless one set has more: then it is alone.
pub const PAGE_OCTETS_MAX: usize = 256 << 10;
/// Sets that are looked at for one page, whether they pass its filter or not.
pub const PAGE_LOOKED_AT_MAX: usize = 100_000;
/// Entries of one answer from the journal.
pub const JOURNAL_PAGE_MAX: usize = 1_000;
/// Octets of one answer from the journal, as they are kept, unless one entry has more.
pub const JOURNAL_PAGE_OCTETS_MAX: usize = 1 << 20;
/// Edits of a batch that the journal keeps one by one; of a larger one it keeps the number.
pub const JOURNAL_EDITS_MAX: usize = 1_000;
/// Entries of the journal of one zone; the oldest go first.
pub const JOURNAL_ENTRIES_MAX: u64 = 100_000;
/// Octets of the journal of one zone; the oldest entries go first.
pub const JOURNAL_OCTETS_MAX: u64 = 64 << 20;
/// How long the desk waits before it tries again what found control's mailbox full.
pub const MAILBOX_PATIENCE: Duration = Duration::from_millis(1);
