//! Limits of this crate.
use std::time::Duration;

/// Estimate of open files that are neither DNS sockets nor streams: logs, zone files, connections
/// for metrics and status.
pub const FILES_OTHER: usize = 256;
/// Streams that the limit of open files must allow; with fewer the server does not start.
pub const STREAMS_LEAST: usize = 8;
/// Tries to find a port that is free over TCP and UDP, if the config allows any port.
pub const PORTS_TRIED_MAX: usize = 100;
/// How often each thread gets a query of the server itself.
pub const SELF_QUERY_INTERVAL: Duration = Duration::from_millis(250);
/// A thread that answers none of them for this long is silent: the server is not ready.
pub const SILENT_AFTER: Duration = Duration::from_secs(1);
/// A thread that answers none of them for this long hangs: the server is to be restarted.
pub const HUNG_AFTER: Duration = Duration::from_secs(10);
/// Maximum time of one command on a thread. A busy thread walks through a cache of 64 MiB in some
/// seconds.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the numbers of a group of upstreams that no rule names any more are not given to
/// another: longer than a query or a late reply is under way.
pub const GROUP_RETIRED: Duration = Duration::from_secs(60);
/// Interval of checks for the report of a command.
pub const COMMAND_PAUSE: Duration = Duration::from_millis(1);
/// Niceness of the threads that serve HTTP: workers on the same CPU run first.
pub const HTTP_NICENESS: i32 = 10;
/// Characters that are kept of a panic's description.
pub const PANIC_TEXT_MAX: usize = 1_000;
/// How long after a panic of a thread that answers was logged the next one is.
pub const PANIC_LOG_PAUSE: Duration = Duration::from_secs(60);
/// Bytes of a file with upstreams, such as `/etc/resolv.conf`.
pub const RESOLV_CONF_LEN_MAX: u64 = 64 << 10;
