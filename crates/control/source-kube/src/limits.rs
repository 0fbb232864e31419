//! The maxima of everything that waits, grows or repeats here (invariant I9).
use std::time::Duration;

/// Events of all streams that are not turned into records yet. A full queue stops the streams.
pub const EVENTS_MAX: usize = 1_024;
/// Events that become one update of the zones.
pub const BATCH_EVENTS_MAX: usize = 256;
/// Bytes of one object, or of one line of a stream. The API server itself has a maximum of 3 MiB.
pub const OBJECT_LEN_MAX: usize = 8 << 20;
/// Objects of one page of a list, for servers without streaming lists.
pub const PAGE_OBJECTS: usize = 250;
/// Bytes of one page.
pub const PAGE_LEN_MAX: usize = 256 << 20;
/// Bytes of a record set in a message, as the zone manager allows them: more are served in part.
pub const SET_LEN_MAX: usize = 65_000;
/// Records of a set, as the zone manager allows them.
pub const SET_RECORDS_MAX: usize = zone_manager::RECORDS_MAX;
/// Fewer services than this fit the set of a reverse name, however long their names are.
pub const SHARED_MIN: usize = SET_LEN_MAX / (12 + 255);
/// How long a connection may take to be made.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long the head of a response may take.
pub const RESPONSE_MAX: Duration = Duration::from_secs(10);
/// How long one page may take.
pub const PAGE_MAX: Duration = Duration::from_secs(60);
/// A stream without an event for so long is opened again. The API server sends a bookmark each
/// minute; this is two of them, and a little.
pub const SILENCE_MAX: Duration = Duration::from_secs(130);
/// A peer that acknowledges nothing for so long is dead: idle time, interval of probes, probes.
pub const KEEPALIVE: (Duration, Duration, u32) =
    (Duration::from_secs(10), Duration::from_secs(5), 3);
/// The least and the most time before a stream is opened again.
pub const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// How often a kind of object is looked for that the cluster does not know.
pub const UNKNOWN_RETRY: Duration = Duration::from_secs(30);
/// How long a stream may last before the API server ends it, in seconds: between this and twice.
pub const STREAM_SECONDS: u64 = 290;
/// How often the state is saved, if it changed.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(15);
/// Bytes of one object of a saved state: a service with all its slices.
pub const SAVED_OBJECT_LEN_MAX: usize = 256 << 20;
/// How often the serial of the zones may change.
pub const SERIAL_INTERVAL: Duration = Duration::from_secs(1);
/// Characters of the name of a check that are kept: no check has a longer one.
pub const CHECK_SHOWN_MAX: usize = 64;
/// Checks that services name in vain, which the status and the log name.
pub const UNUSED_CHECKS_SHOWN: usize = 20;
/// Objects of a fleet that cannot be read, which the status and the log name.
pub const UNUSABLE_SHOWN: usize = 20;
