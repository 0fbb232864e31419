//! The maxima of everything that waits, grows or repeats here (invariant I9).
use std::time::Duration;

/// Record sets of one part.
pub const SETS_MAX: usize = 200;
/// Records of all sets of one part.
pub const RECORDS_MAX: usize = model::RECORDS_MAX;
/// Faults of one part.
pub const FAULTS_MAX: usize = 8;
/// Bytes of a merged set in a message: more records are left out.
pub const SET_LEN_MAX: usize = 65_000;
/// Parts of all clusters.
pub const PARTS_MAX: usize = 200_000;
/// Events that become one update of the zones.
pub const BATCH_EVENTS_MAX: usize = 256;
/// Parts that cannot be merged, which the status and the log name.
pub const CONFLICTS_SHOWN: usize = 20;
/// How often the parts are saved, if they changed.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(15);
/// How often the serial of a zone may change.
pub const SERIAL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a feed is followed before a cluster without a newer heartbeat is gone: two heartbeats
/// of its writer.
pub const FOLLOWED_MIN: Duration = Duration::from_secs(10 * 60);
