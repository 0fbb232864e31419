//! Times and sizes of the announcement.
use std::time::Duration;

/// Between two heartbeats of the server.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);
/// A heartbeat of this age says nothing any more: the keeper withdraws.
pub const HEARTBEAT_AGE_MAX: Duration = Duration::from_secs(1);
/// Before the keeper is started again.
pub const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How often the keeper sees whether its routes are still there, and tries again what failed.
pub const REPAIR_INTERVAL: Duration = Duration::from_secs(1);
/// A keeper that has reported nothing for so long does not run.
pub const REPORT_AGE_MAX: Duration = Duration::from_secs(1);
/// How long the new process of a hot restart may take to be ready before it withdraws addresses
/// that the old one announced.
pub const TAKEN_OVER_MAX: Duration = Duration::from_secs(30);
/// Bytes of a message between server and keeper.
pub const MESSAGE_LEN_MAX: usize = 512;
/// Between two probes of an address.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// The longest time of a probe.
pub const PROBE_TIME_MAX: Duration = Duration::from_millis(250);
/// Probes in a row without an answer that withdraw an address.
pub const MISSING_MAX: u32 = 5;
/// The longest time for which flapping delays an announcement.
pub const HOLD_DOWN_MAX: Duration = Duration::from_secs(60);
/// How long a command waits for a permit of the fleet.
pub const PERMIT_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often it looks whether it has one.
pub const PERMIT_POLL: Duration = Duration::from_millis(50);
/// An announcement that lasts so long ends the suspicion of flapping.
pub const STEADY_AFTER: Duration = Duration::from_secs(600);
