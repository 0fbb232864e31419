//! The maxima of everything that waits, grows or repeats here (invariant I9).
use std::time::Duration;

/// Events of all streams that are not turned into records yet. A full queue stops the streams.
pub const EVENTS_MAX: usize = 1_024;
/// Events that become one update of the zones.
pub const BATCH_EVENTS_MAX: usize = 256;
/// Bytes of one line of a stream. The API server itself has a maximum of 3 MiB. The object of a
/// longer line is skipped.
pub const OBJECT_LEN_MAX: usize = 8 << 20;
/// Bytes of a line that is skipped in which the name of its object is looked for.
pub const SKIPPED_HEAD_LEN: usize = 4 << 10;
/// Objects of one page of a list, for servers without streaming lists.
pub const PAGE_OBJECTS: usize = 250;
/// Bytes of one page. A longer page is requested again with half of the objects.
pub const PAGE_LEN_MAX: usize = 256 << 20;
/// Bytes of other responses: of errors, of what the server has, of one namespace.
pub const ANSWER_LEN_MAX: usize = 4 << 20;
/// Bytes of a record set in a message, as the zone manager allows them: more are served in part.
pub const SET_LEN_MAX: usize = 65_000;
/// Records of a set, as the zone manager allows them.
pub const SET_RECORDS_MAX: usize = zone_manager::RECORDS_MAX;
/// Fewer services than this fit the set of a reverse name, however long their names are.
pub const SHARED_MIN: usize = SET_LEN_MAX / (12 + 255);
/// A stream without an event for so long is opened again. The API server sends a bookmark each
/// minute; this is two of them, and a little.
pub const SILENCE_MAX: Duration = Duration::from_secs(130);
/// How long the next bytes of any other response may take.
pub const STALL_MAX: Duration = Duration::from_secs(60);
/// The longest wait that a server can request by `Retry-After`.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// A kind of object that the cluster knew is gone if it is not found so often in a row.
pub const ABSENCES_MIN: u32 = 2;
/// How long a stream may last before the API server ends it, in seconds: between this and twice.
pub const STREAM_SECONDS: u64 = 290;
/// The known state of a kind of object is outdated after this time without an event or bookmark.
pub const STALE_AFTER: Duration = Duration::from_secs(300);
/// Streams that fail one after the other before an open one counts only once it brings something.
pub const UNPROVEN_AFTER: u32 = 2;
/// How long such a stream is open before it counts though it has brought nothing.
pub const PROVEN_AFTER: Duration = Duration::from_secs(10);
/// How often failures of one cause are logged.
pub const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Causes that are logged in one such interval.
pub const LOGGED_CAUSES_MAX: usize = 64;
/// How often the state is saved, if it changed.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(15);
/// Bytes of one object of a saved state: a service with all its slices.
pub const SAVED_OBJECT_LEN_MAX: usize = 256 << 20;
/// How long changes of clients are gathered before they are passed on.
pub const CLIENTS_DELAY: Duration = Duration::from_millis(100);
/// How often the serial of the zones may change.
pub const SERIAL_INTERVAL: Duration = Duration::from_secs(1);
/// Characters of the name of a check that are kept: no check has a longer one.
pub const CHECK_SHOWN_MAX: usize = 64;
/// Checks that services name in vain, which the status and the log name.
pub const UNUSED_CHECKS_SHOWN: usize = 20;
/// Events of conflicts that are written at once.
pub const EVENTS_MAX_OF_CONFLICTS: usize = 10;
/// When an Event of a conflict that stays is written again: the API server stores Events for an
/// hour.
pub const EVENTS_REPEATED_AFTER: Duration = Duration::from_secs(55 * 60);
/// How often the server that writes the parts of a cluster says that it is there.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Statuses of objects that are written at once, each second.
pub const STATUSES_MAX: usize = 20;
/// When a status that the API server did not keep, or that could not be written, is written again.
pub const STATUSES_REPEATED_AFTER: Duration = Duration::from_secs(10 * 60);
/// Bytes of the message of a status.
pub const STATUS_LEN_MAX: usize = 1_000;
/// Objects of a fleet that cannot be read, which the status and the log name.
pub const UNUSABLE_SHOWN: usize = 20;
/// Skipped objects that are counted.
pub const SKIPPED_MAX: usize = 1_000;
/// Skipped objects that the status and the log name.
pub const SKIPPED_SHOWN: usize = 20;

/// Bounds of requests and of lists. Tests have smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How long the head of a response may take: at first, and at most. Each that is late doubles
    /// it, so that a slow server is waited for.
    pub response: (Duration, Duration),
    /// The least and the most time before a stream is opened again. Each failure doubles it.
    pub retry: (Duration, Duration),
    /// The most time after a connection that could not be made, which costs the server nothing.
    pub connect_retry_max: Duration,
    /// A stream that brings something after this time works: the next failure is a first one.
    pub stable: Duration,
    /// How often a kind of object is looked for that the cluster does not know.
    pub unknown_retry: Duration,
    /// How long a list may take.
    pub list_time_max: Duration,
    /// Bytes of a list.
    pub list_len_max: u64,
    /// Objects of a list, and of one kind that are known.
    pub objects_max: u64,
    /// Pages of a list.
    pub pages_max: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            response: (seconds(10), seconds(120)),
            retry: (Duration::from_millis(100), seconds(10)),
            connect_retry_max: seconds(1),
            stable: seconds(60),
            unknown_retry: seconds(30),
            list_time_max: seconds(30 * 60),
            list_len_max: 8 << 30,
            objects_max: 2_000_000,
            pages_max: 20_000,
        }
    }
}
