//! Limits of this crate.
use std::time::Duration;

/// Sockets that a service manager may pass.
pub const PASSED_MAX: usize = 4096;
/// Bytes of a message between a server and the holder of its sockets.
pub const HELD_LEN_MAX: usize = 8192;
/// Sockets in such a message: no more than the kernel passes at once.
pub const HELD_FDS_MAX: usize = 200;
/// Maximum time of one message to the service manager.
pub const NOTIFY_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes of one entry of the user database.
pub const USER_ENTRY_LEN_MAX: usize = 1 << 20;
/// Bytes of log lines that wait to be written; lines above it are lost and counted.
pub const LOG_LEN_MAX: usize = 1 << 20;
/// Maximum wait for the log to be written when the process ends.
pub const LOG_FLUSH_MAX: Duration = Duration::from_secs(1);
