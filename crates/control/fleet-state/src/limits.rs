//! Limits of this crate.
use std::time::Duration;

/// How long a written document may take to come back by the watch before everything is listed.
pub const ECHO_MAX: Duration = Duration::from_millis(500);
/// How long a written document waits for the copy on the disk.
pub const SAVE_MAX: Duration = Duration::from_secs(1);
/// How long what a server found out waits for more, so that one transaction writes it all.
pub const STATES_BATCH: Duration = Duration::from_millis(50);
/// How often to look for servers that are silent, at least, while that makes a difference.
pub const LIFE_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after etcd had no space for what a server found out.
pub const NO_SPACE_PAUSE: Duration = Duration::from_secs(5);
/// How long what a server said is kept after it was last seen.
pub const STATES_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// How often to look for what no server stands behind any more.
pub const STATES_SWEEP_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Keys of `states/` that cannot be read and are named.
pub const UNUSABLE_STATES_MAX: usize = 100;
/// The shortest time between two transactions that write a map: what changes meanwhile is in one.
pub const MAP_BATCH: Duration = Duration::from_millis(20);
/// How long a server that does not know all values of a map still leads.
pub const MAP_READY_GRACE: Duration = Duration::from_secs(15);
/// Changes of a map that wait for the server that follows it. A full queue stops the watch.
pub const MAP_EVENTS_MAX: usize = 256;
