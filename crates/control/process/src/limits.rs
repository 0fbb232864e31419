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
/// Restarts of a server by the holder of its sockets within `HELD_RESTARTS_TIME`, before the holder
/// ends.
pub const HELD_RESTARTS_MAX: usize = 10;
/// Older restarts do not count.
pub const HELD_RESTARTS_TIME: Duration = Duration::from_secs(60);
/// Restarts without a pause.
pub const HELD_RESTARTS_AT_ONCE: usize = 3;
/// Pause before the next one, which doubles.
pub const HELD_RESTART_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
pub const HELD_RESTART_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often a holder finds out whether the process that replaced its server still serves.
pub const NEW_PROCESS_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often in a row it has to be gone.
pub const SILENT_POLLS_MAX: usize = 5;
