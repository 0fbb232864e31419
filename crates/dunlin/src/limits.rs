//! The limits of this room, in one place.
use std::time::Duration;

/// Octets of a config file: room for as many zones as one may name.
pub const CONFIG_LEN_MAX: u64 = 1 << 24;
/// Addresses to listen on; each takes a socket a worker.
pub const LISTEN_MAX: usize = plane::limits::ADDRESSES_MAX;
/// Octets of an interface's name: as many as the kernel takes.
pub const INTERFACE_LEN_MAX: usize = 15;
/// Nicenesses that workers may get: what puts them behind others is nobody's wish.
pub const NICE: std::ops::RangeInclusive<i32> = -20..=0;
/// Run priorities in a dispatcher of XDP programs.
pub const PRIORITY: std::ops::RangeInclusive<u32> = 0..=i32::MAX as u32;
/// Worker threads: each has a reader of the image, of which streams need some too.
pub const WORKERS_MAX: usize = 256;
/// Zones of one config.
pub const ZONES_MAX: usize = 1 << 16;
/// Cookie secrets: the one that signs, and those on their way in and out.
pub const SECRETS_MAX: usize = 4;
/// Octets of a text in an answer: one character string (RFC 1035 §3.3).
pub const TEXT_LEN_MAX: usize = 255;
/// Octets of an answer over UDP that may be configured: from RFC 1035 §4.2.1 to the size of a page.
pub const UDP_SIZE: std::ops::RangeInclusive<u16> = 512..=4096;
/// Octets of a path in the config.
pub const PATH_LEN_MAX: usize = 4096;
/// Entries of one list of prefixes.
pub const PREFIXES_MAX: usize = 1 << 12;
/// Queries or replies a second that a limit may name.
pub const RATE_MAX: u32 = 1_000_000;
/// Octets of the tables of rate limits that may be configured.
pub const LIMIT_MEMORY: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 34;
/// Suffixes whose names are forwarded.
pub const FORWARDS_MAX: usize = 1024;
/// Octets of a file of certificates to believe: a system's bundle has some 200 KiB.
pub const CA_LEN_MAX: u64 = 4 << 20;
/// Hosts files.
pub const HOSTS_FILES_MAX: usize = 16;
/// Times that what hosts files say may be kept for.
pub const HOSTS_TTL: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(7 * 24 * 3600);
/// Rules about names that are looked up as others.
pub const REWRITES_MAX: usize = 1024;
/// Octets of the cache that may be configured.
pub const CACHE_MEMORY: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 38;
/// Times that answers may be kept for: a week at most (RFC 8767 §4).
pub const CACHE_TTL: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(7 * 24 * 3600);
/// How long a failure may be remembered at first (RFC 9520 §3.2).
pub const FAILURE_TTLS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(upstream::limits::FAILURE_TTL_MAX as u64);
/// Stream threads.
pub const STREAM_THREADS_MAX: usize = 64;
/// Stream connections open at a time that may be configured.
pub const STREAMS_MAX: usize = 1 << 20;
/// How long a stream connection may be let idle.
pub const STREAM_IDLE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);
/// Octets of the buffers of all stream connections that may be configured.
pub const STREAM_MEMORY: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 36;
/// How long a server that was told to end may still answer.
pub const DRAIN: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
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
/// Octets of one entry of the user database.
pub const USER_ENTRY_LEN_MAX: usize = 1 << 20;
/// Errors told of one config file; the rest is counted.
pub const DIAGNOSTICS_MAX: usize = 100;
/// Letters of a wrong key or value that are told.
pub const TEXT_SHOWN_MAX: usize = 64;

/// Zones that `dunlin status` lists unless all are wanted: more are no longer one look.
pub const STATUS_ZONES_MAX: usize = 40;
/// Errors that `dunlin status` shows of one file.
pub const STATUS_ERRORS_MAX: usize = 5;
/// How often `dunlin top` may ask the server.
pub const TOP_INTERVAL: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3_600);
/// Looks whose rates `dunlin top` keeps, to draw them: as many as a wide terminal has columns.
pub const TOP_HISTORY_MAX: usize = 512;
/// Errors of a zone file that the status tells; `dunlin check` tells more.
pub const ZONE_ERRORS_MAX: usize = 10;
/// How long who loads zones waits while control's mailbox is full.
pub const MAILBOX_PATIENCE: Duration = Duration::from_millis(10);
/// Octets of the log that wait to be written; what is more is lost and counted.
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
/// Threads that wait for the store on behalf of the REST API.
pub const API_BLOCKING_MAX: usize = 16;
/// Octets of a response of the API that is taken as a whole.
pub const API_RESPONSE_LEN_MAX: usize = 64 << 20;
/// How long `dunlin records` and `dunlin zones` wait for a response to begin.
pub const API_RESPONSE_TIME_MAX: Duration = Duration::from_secs(60);
/// Lines of a difference that are shown; the rest is counted.
pub const DIFFERENCE_LINES_MAX: usize = 200;
/// Changes that are sent at a time.
pub const CHANGES_AT_ONCE: usize = api::limits::CHANGES_MAX;
/// Octets of a file of record sets that is compared with what there is.
pub const COMPARED_LEN_MAX: u64 = 1 << 30;
/// Octets of a config of another server's.
pub const IMPORT_LEN_MAX: usize = import_corefile::limits::FILE_LEN_MAX;

/// Intervals of a load whose histograms are kept for `--hlog`, about 1 MiB each.
pub const HLOG_INTERVALS_MAX: u64 = 600;
