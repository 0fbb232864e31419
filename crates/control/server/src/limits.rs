//! Limits of the server process.
use std::time::Duration;

/// Estimate of open files that are neither DNS sockets nor streams: logs, zone files, connections
/// for metrics and status.
pub const FILES_OTHER: usize = 256;
/// Streams that the limit of open files must allow; with fewer the server does not start.
pub const STREAMS_LEAST: usize = 8;
/// Tries to find a port that is free over TCP and UDP, if the config allows any port.
pub const PORTS_TRIED_MAX: usize = 100;
/// Sockets that a service manager may pass.
pub const PASSED_MAX: usize = 4096;
/// Maximum time of one message to the service manager.
pub const NOTIFY_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes of one entry of the user database.
pub const USER_ENTRY_LEN_MAX: usize = 1 << 20;
/// Bytes of log lines that wait to be written; lines above it are lost and counted.
pub const LOG_LEN_MAX: usize = 1 << 20;
/// Maximum wait for the log to be written when the process ends.
pub const LOG_FLUSH_MAX: Duration = Duration::from_secs(1);
/// Maximum wait for the other threads after one has failed.
pub const STOP_AFTER_FAILURE_MAX: Duration = Duration::from_secs(10);
/// Interval of the health check.
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// A thread that has work and makes no progress for this long is stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Maximum time of one command on a thread. A busy thread walks through a cache of 64 MiB in some
/// seconds.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the numbers of a group of upstreams that no rule names any more are not given to
/// another: longer than a query or a late reply is under way.
pub const GROUP_RETIRED: Duration = Duration::from_secs(60);
/// Bytes of a file with servers, such as `/etc/resolv.conf`.
pub const RESOLV_CONF_LEN_MAX: u64 = 64 << 10;
/// Interval of checks for the report of a command.
pub const COMMAND_PAUSE: Duration = Duration::from_millis(1);
/// Threads that wait for the store on behalf of the REST API. Exports to slow clients use at most
/// half of them.
pub const API_BLOCKING_MAX: usize = 2 * api::limits::EXPORTS_MAX;
/// Niceness of the threads that serve HTTP: workers on the same CPU run first.
pub const HTTP_NICENESS: i32 = 10;
/// How long a start waits for the names of a Kubernetes cluster, as CoreDNS does.
pub const KUBERNETES_START_MAX: Duration = Duration::from_secs(5);
/// How often it is checked meanwhile.
pub const CLUSTER_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Characters that are kept of a panic's description.
pub const PANIC_TEXT_MAX: usize = 1_000;
/// How long after a panic of a thread that answers was logged the next one is.
pub const PANIC_LOG_PAUSE: Duration = Duration::from_secs(60);
/// How long a handler may take to decide a message that the data plane passed on: less than the
/// data plane keeps a connection for it.
pub const CONTROL_TIME_MAX: Duration = Duration::from_secs(4);
/// How long a zone of which a NOTIFY told waits until it looks at its file for another one.
pub const NOTIFY_PAUSE: Duration = Duration::from_secs(1);
/// Removed zones that the reason names why a reload is held.
pub const REMOVED_SHOWN_MAX: usize = 5;
