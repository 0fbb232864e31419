//! Limits of this crate.
use std::time::Duration;

/// How long a server that died stays a member.
pub const MEMBER_TTL: Duration = Duration::from_secs(10);
/// The shortest time between reports of the served revision that no client waits for.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// The share of each member in that time: a large fleet writes at most 100 reports a second.
pub const REPORT_SHARE: Duration = Duration::from_millis(10);
/// The interval of reports when nothing is written.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// How often to look which zones of servers differ, until that is known.
pub const DIGESTS_INTERVAL: Duration = Duration::from_millis(500);
/// Zones that differ and are named.
pub const DIFFERENT_ZONES_MAX: usize = 5;
/// How long a client waits until all members serve a revision.
pub const FLEET_WAIT_MAX: Duration = Duration::from_secs(15);
/// How long the others are asked for quick reports after the last client has waited.
pub const WAIT_LINGER: Duration = Duration::from_secs(1);
/// Clients that wait for the fleet at the same time.
pub const WAITERS_MAX: usize = 1024;
/// How long the end of a server waits until the others know of it.
pub const LEAVE_MAX: Duration = Duration::from_millis(500);
/// How long after its end a server counts among those with announced addresses.
pub const PRESENCE_TTL: Duration = Duration::from_secs(10 * 60);
/// How often it says that it is there.
pub const PERMIT_RENEW: Duration = Duration::from_secs(60);
/// How often a permit that was refused is asked for again.
pub const PERMIT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a request for a permit may take.
pub const PERMIT_TIME_MAX: Duration = Duration::from_secs(3);
/// How often a permit is tried to be taken while others take theirs.
pub const PERMIT_TRIES: usize = 8;
