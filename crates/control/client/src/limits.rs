//! Limits of the commands.
use std::time::Duration;

/// Zones that `dunlin status` lists without `--zones`.
pub const STATUS_ZONES_MAX: usize = 40;
/// Errors that `dunlin status` shows of one file.
pub const STATUS_ERRORS_MAX: usize = 5;
/// Intervals that `dunlin top` accepts.
pub const TOP_INTERVAL: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3_600);
/// Interval at which `dunlin anycast … --wait` and `--follow` look.
pub const ANYCAST_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A server that is silent for so long announces nothing, for `dunlin anycast status --follow`.
pub const ANYCAST_SILENT_MAX: Duration = Duration::from_secs(1);
/// Rates in the chart of `dunlin top`: the columns of a wide terminal.
pub const TOP_HISTORY_MAX: usize = 512;
/// Bytes of an API response that is read into memory.
pub const API_RESPONSE_LEN_MAX: usize = 64 << 20;
/// Interval at which `dunlin journal --follow` requests new entries.
pub const JOURNAL_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time until the response to a read begins.
pub const API_READ_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest time until the response to a reload begins: the server loads every zone first.
pub const API_SLOW_TIME_MAX: Duration = Duration::from_secs(300);
/// The longest time until the response to a write begins.
pub const API_WRITE_TIME_MAX: Duration = Duration::from_secs(60);
/// Samples below which the lists of hot names and clients show the number of samples.
pub const HOT_SAMPLES_MIN: u64 = 400;
/// Lines that are shown of a difference.
pub const DIFFERENCE_LINES_MAX: usize = 200;
/// Changes in one request.
pub const CHANGES_AT_ONCE: usize = api::limits::CHANGES_MAX;
/// Bytes of a file of record sets that is compared with a zone.
pub const COMPARED_LEN_MAX: u64 = 1 << 30;
/// Queries for each worker below which their distribution says nothing.
pub const EVEN_QUERIES_MIN: u64 = 100;
/// How long a command waits for a server that is starting.
pub const STARTING_TIME_MAX: Duration = Duration::from_secs(30);
/// The pause before it tries again.
pub const STARTING_PAUSE: Duration = Duration::from_millis(100);
/// Record sets that an import would delete, in the reason why it is held.
pub const LOST_SHOWN_MAX: usize = 3;
/// Zones that a restore removes, in its question.
pub const REMOVED_SHOWN_MAX: usize = 20;
