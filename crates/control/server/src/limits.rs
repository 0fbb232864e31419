//! Limits of the server process.
use std::time::Duration;

/// Open files that are neither sockets questions come in by nor streams, at a guess: logs, zones
/// that are being read, those who ask for metrics and status.
pub const FILES_OTHER: usize = 256;
/// Streams that a limit of open files must leave room for, so that the server starts.
pub const STREAMS_LEAST: usize = 8;
/// Ports that are tried where any would do: one is to be free over TCP and UDP.
pub const PORTS_TRIED_MAX: usize = 100;
/// Sockets that a service manager may pass.
pub const PASSED_MAX: usize = 4096;
/// How long a service manager may take to be told something.
pub const NOTIFY_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes of one entry of the user database.
pub const USER_ENTRY_LEN_MAX: usize = 1 << 20;
/// Errors of a zone file that the status tells; `dunlin check` tells more.
pub const ZONE_ERRORS_MAX: usize = 10;
/// How long who loads zones waits while control's mailbox is full.
pub const MAILBOX_PATIENCE: Duration = Duration::from_millis(10);
/// Bytes of the log that wait to be written; what is more is lost and counted.
pub const LOG_OCTETS_MAX: usize = 1 << 20;
/// How long the end waits for the log to be written.
pub const LOG_FLUSH_MAX: Duration = Duration::from_secs(1);
/// How long the end waits for the other threads when one has failed.
pub const GIVE_UP_MAX: Duration = Duration::from_secs(10);
/// How often the threads that answer are looked at.
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a thread may do nothing, though it does not wait, until it counts as stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How long a thread may take for what it is told: one that answers as fast as it can goes over a
/// cache of 64 MiB in some seconds.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether it has done it.
pub const COMMAND_PAUSE: Duration = Duration::from_millis(1);
/// Threads that wait for the store on behalf of the REST API: exports of slow clients leave half of
/// them to other requests.
pub const API_BLOCKING_MAX: usize = 2 * api::limits::EXPORTS_MAX;
/// Niceness of the threads that serve HTTP: workers on the same CPU go first.
pub const HTTP_NICENESS: i32 = 10;
