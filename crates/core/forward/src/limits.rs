//! Every maximum of this crate. Times are microseconds.

/// Queries of one thread under way.
pub const QUERIES_MAX: usize = 4096;
/// Clients of one thread that wait for answers.
pub const WAITERS_MAX: usize = 8192;
/// Clients that wait for the same answer; further ones get SERVFAIL.
pub const WAITERS_PER_QUERY_MAX: u16 = 1024;
/// How often one query is sent, to all servers together.
pub const TRIES_MAX: usize = 6;
/// How often one query is sent to one server (RFC 9520 §3.1).
pub const TRIES_OF_SERVER_MAX: usize = 3;
/// Servers of all groups together.
pub const UPSTREAMS_MAX: usize = 256;
/// Servers of one group.
pub const GROUP_LEN_MAX: usize = 16;
/// How long a client waits at most.
pub const QUERY_MICROS_MAX: u64 = 4_000_000;
/// How long to wait for a server without a measured round trip.
pub const WAIT_MICROS_UNHEARD: u64 = 400_000;
/// The shortest and the longest wait for a server before the next try.
pub const WAIT_MICROS_MIN: u64 = 50_000;
/// See [`WAIT_MICROS_MIN`].
pub const WAIT_MICROS_MAX: u64 = 1_500_000;
/// The shortest wait before a hedged query.
pub const HEDGE_MICROS_MIN: u64 = 5_000;
/// One in this many queries is hedged, on average.
pub const HEDGE_SHARE: u32 = 8;
/// Hedged queries in a row, after a time without any.
pub const HEDGES_MAX: u32 = 32;
/// How long a query waits for its stream to open.
pub const STREAM_OPEN_MICROS_MAX: u64 = 1_500_000;
/// How much longer to wait for an answer by stream than by UDP: a lost segment is repeated after
/// 200 ms or more.
pub const STREAM_WAIT_MICROS_MORE: u64 = 250_000;
/// Queries over TLS are padded to multiples of this many bytes (RFC 8467 §4.1).
pub const PADDING_BLOCK: usize = 128;
/// Failures in a row after which a server is down, if it was silent for [`SILENCE_MICROS_DOWN`].
pub const FAILURES_DOWN: u8 = 3;
/// See [`FAILURES_DOWN`].
pub const SILENCE_MICROS_DOWN: u64 = 200_000;
/// How long a server is silent before it is unreachable. Until then it is queried if no other is
/// up, as it may have become slow.
pub const SILENCE_MICROS_GONE: u64 = 1_000_000;
/// The same for a server without a measured round trip.
pub const SILENCE_MICROS_GONE_UNHEARD: u64 = 700_000;
/// The same in round trips, for slow servers.
pub const SILENCE_ROUND_TRIPS_GONE: u64 = 3;
/// Failures in a row after which a server is down in any case.
pub const FAILURES_SURE: u8 = 16;
/// Probes in a row without a reply before a silent server is down.
pub const PROBES_DOWN: u8 = 2;
/// The shortest time between two probes of a server that answers them.
pub const PROBE_GAP_MICROS: u64 = 250_000;
/// How often a new name is sent to an unreachable server, besides probes.
pub const TRICKLE_MICROS: u64 = 2_000_000;
/// Late queries of a thread; the oldest is replaced.
pub const LATE_MAX: usize = 4096;
/// How long after a query its late reply counts.
pub const LATE_MICROS: u64 = 8_000_000;
/// How long a failing server is not queried at first; the time doubles with each failed attempt.
pub const REST_MICROS_MIN: u64 = 500_000;
/// How long it is not queried at most.
pub const REST_MICROS_MAX: u64 = 30_000_000;
/// Half-life of a measured round trip without a new one, so that a slow server is tried again.
pub const HALF_LIFE_MICROS: u64 = 10_000_000;
/// Slots of the timer wheel, and the length of each.
pub const WHEEL_LEN: usize = 1024;
/// See [`WHEEL_LEN`].
pub const WHEEL_MICROS: u64 = 4096;
/// How long a server counts as one without EDNS, as one that keeps the case of letters, or as one
/// that does not.
pub const COMPATIBILITY_MICROS: u64 = 600_000_000;
/// How long to wait for another reply after one with the question in another case.
pub const CASE_GRACE_MICROS: u64 = 20_000;
/// Evidence after which a server that kept the case of letters counts as one that does not.
pub const CASE_LOSSES_MAX: u8 = 3;
/// Denials in a row that are checked with a query in lower case, until a server has answered one in
/// random case; then one in [`CASE_CHECK_MICROS`].
pub const CASE_CHECKS_MAX: u8 = 16;
/// See [`CASE_CHECKS_MAX`].
pub const CASE_CHECK_MICROS: u64 = 1_000_000;
/// The largest UDP reply that is requested, in bytes (RFC 9715 §3.2).
pub const UDP_LEN_MAX: u16 = 1232;
