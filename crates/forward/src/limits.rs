//! Every maximum of this room. Times are microseconds.

/// Questions that one thread waits for at once.
pub const ASKS_MAX: usize = 4096;
/// Clients of one thread that wait for their answers.
pub const WAITERS_MAX: usize = 8192;
/// Clients that wait for the same answer; more are told that the server could not do it.
pub const WAITERS_OF_ASK_MAX: u16 = 1024;
/// How often one question is sent, to whomever.
pub const TRIES_MAX: usize = 6;
/// How often one question is sent to one server (RFC 9520 §3.1).
pub const TRIES_OF_SERVER_MAX: usize = 3;
/// Servers of all groups together.
pub const UPSTREAMS_MAX: usize = 256;
/// Servers of one group.
pub const GROUP_LEN_MAX: usize = 16;
/// How long a client waits at most.
pub const ASK_MICROS_MAX: u64 = 4_000_000;
/// How long a server that was never heard is waited for.
pub const WAIT_MICROS_UNHEARD: u64 = 400_000;
/// The shortest and the longest wait for a server, before another is asked or it is asked again.
pub const WAIT_MICROS_MIN: u64 = 50_000;
/// See [`WAIT_MICROS_MIN`].
pub const WAIT_MICROS_MAX: u64 = 1_500_000;
/// The shortest wait before a second server is asked because the first one is late.
pub const HEDGE_MICROS_MIN: u64 = 5_000;
/// Second servers are asked for one question in so many, on average.
pub const HEDGE_SHARE: u32 = 8;
/// Second servers that may be asked at once, when none was for long.
pub const HEDGES_MAX: u32 = 32;
/// How long a question waits for its stream to open.
pub const STREAM_OPEN_MICROS_MAX: u64 = 1_500_000;
/// How much longer an answer by stream is waited for than one by datagram: what gets lost there is
/// repeated by itself, 200 ms later or more.
pub const STREAM_WAIT_MICROS_MORE: u64 = 250_000;
/// Octets in multiples of which questions are padded where they are enciphered (RFC 8467 §4.1).
pub const PADDING_BLOCK: usize = 128;
/// Failures in a row after which a server is left alone for a while, if nothing was heard of it for
/// [`SILENCE_MICROS_DOWN`].
pub const FAILURES_DOWN: u8 = 3;
/// See [`FAILURES_DOWN`].
pub const SILENCE_MICROS_DOWN: u64 = 200_000;
/// How long a server is silent before it is gone: until then it is asked on where nobody else is
/// up, as it may have become slow.
pub const SILENCE_MICROS_GONE: u64 = 1_000_000;
/// Failures in a row after which it is left alone in any case.
pub const FAILURES_SURE: u8 = 16;
/// How long a failing server is first left alone; twice as long each time that it is tried in vain.
pub const REST_MICROS_MIN: u64 = 500_000;
/// How long it is left alone at most.
pub const REST_MICROS_MAX: u64 = 30_000_000;
/// What was measured of a server that was not heard again counts half after so long, so that who
/// was slow once is tried again.
pub const HALF_LIFE_MICROS: u64 = 10_000_000;
/// Slots of the clock that wakes what waits, and how long each is.
pub const WHEEL_LEN: usize = 1024;
/// See [`WHEEL_LEN`].
pub const WHEEL_MICROS: u64 = 4096;
/// Octets of the longest reply over UDP that is asked for (RFC 9715 §3.2).
pub const UDP_LEN_MAX: u16 = 1232;
