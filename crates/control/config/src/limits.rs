//! Limits of the config: what a value may be, and how much of each there may be.
use std::time::Duration;

/// Bytes of a config file: room for as many zones as one may name.
pub const CONFIG_LEN_MAX: u64 = 1 << 24;
/// Addresses to listen on; each takes a socket a worker.
pub const LISTEN_MAX: usize = worker::limits::ADDRESSES_MAX;
/// Bytes of an interface's name: as many as the kernel takes.
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
/// Bytes of a text in an answer: one character string (RFC 1035 §3.3).
pub const TEXT_LEN_MAX: usize = 255;
/// Bytes of an answer over UDP that may be configured: from RFC 1035 §4.2.1 to the size of a page.
pub const UDP_SIZE: std::ops::RangeInclusive<u16> = 512..=4096;
/// Bytes of a path in the config.
pub const PATH_LEN_MAX: usize = 4096;
/// Entries of one list of prefixes.
pub const PREFIXES_MAX: usize = 1 << 12;
/// Queries or replies a second that a limit may name.
pub const RATE_MAX: u32 = 1_000_000;
/// Bytes of the tables of rate limits that may be configured.
pub const LIMIT_MEMORY: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 34;
/// Suffixes whose names are forwarded.
pub const FORWARDS_MAX: usize = 1024;
/// Bytes of a file of certificates to believe: a system's bundle has some 200 KiB.
pub const CA_LEN_MAX: u64 = 4 << 20;
/// Hosts files.
pub const HOSTS_FILES_MAX: usize = 16;
/// Times that what hosts files say may be kept for.
pub const HOSTS_TTL: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(7 * 24 * 3600);
/// Rules about names that are looked up as others.
pub const REWRITES_MAX: usize = 1024;
/// Bytes of the cache that may be configured.
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
/// Bytes of the buffers of all stream connections that may be configured.
pub const STREAM_MEMORY: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 36;
/// How long a server that was told to end may still answer.
pub const DRAIN: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
/// Errors told of one config file; the rest is counted.
pub const DIAGNOSTICS_MAX: usize = 100;
/// Letters of a wrong key or value that are told.
pub const TEXT_SHOWN_MAX: usize = 64;
