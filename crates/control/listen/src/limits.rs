//! Limits of this crate.
use std::time::Duration;

/// How long accepting pauses after an error, for example without a free descriptor. The listener's
/// backlog limits waiting connections.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum time of a TLS handshake.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a connection may make no progress in both directions.
pub const STALL_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes a second that a client must read of a response, while more is ready.
pub const READ_RATE_MIN: u64 = 16 << 10;
/// The time over which this rate is measured.
pub const READ_RATE_TIME: Duration = Duration::from_secs(10);
/// Bytes of a file of certificates or of a key.
pub const PEM_LEN_MAX: u64 = 4 << 20;
/// Interval of checks of certificate files.
pub const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(5);
