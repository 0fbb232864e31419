//! Limits of this crate.
use std::time::Duration;

/// Bytes of the longest message (RFC 1035 §4.2.2).
pub const MESSAGE_LEN_MAX: usize = 65_535;
/// Streams of one client at once.
pub const STREAMS_PER_CLIENT_MAX: usize = 4;
/// Connections at once, with those that get only a refusal. Further ones are closed.
pub const SESSIONS_MAX: usize = 512;
/// Connections over TLS of one client at once. The longest idle one makes room.
pub const SESSIONS_PER_CLIENT_MAX: usize = 32;
/// How long a connection over TLS may be idle.
pub const IDLE_MAX: Duration = Duration::from_secs(60);
/// Connections that wait to be served.
pub const WAITING_MAX: usize = 1_024;
/// How long a client may take to read before its speed counts.
pub const READ_GRACE: Duration = Duration::from_secs(20);
/// Bytes a second that a client must read after that.
pub const READ_RATE_MIN: u64 = 16 << 10;
/// Bytes of the differences of one zone, which IXFR sends. Older ones are forgotten.
pub const DIFFERENCES_OF_ZONE_MAX: usize = 2 << 20;
/// Bytes of the differences of all zones.
pub const DIFFERENCES_MAX: usize = 64 << 20;
/// How often a zone is looked at for a new serial: its servers are notified at most so often.
pub const NOTIFY_INTERVAL: Duration = Duration::from_secs(1);
/// The time until a notification is sent again; it doubles with each try.
pub const NOTIFY_RETRY: Duration = Duration::from_secs(2);
/// How often a notification is sent, with the first time.
pub const NOTIFY_TRIES_MAX: u32 = 6;
/// Notifications that wait for answers: one for each zone and server.
pub const NOTIFICATIONS_MAX: usize = 100_000;
/// Notifications that are sent in one [`NOTIFY_INTERVAL`].
pub const NOTIFICATIONS_AT_ONCE_MAX: usize = 1_000;
