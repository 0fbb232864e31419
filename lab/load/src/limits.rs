//! Every maximum of this crate.

use std::time::Duration;

/// Threads of one load.
pub const THREADS_MAX: usize = 256;
/// Sockets or connections of one thread.
pub const CHANNELS_MAX: usize = 16_384;
/// Queries of one thread that may be under way at once. A place in the table has 48 bytes.
pub const OUTSTANDING_MAX: usize = 1 << 22;
/// Queries that leave, or answers that are read, with one system call.
pub const BATCH_MAX: usize = 64;
/// Bytes of the value of an EDNS option that queries carry.
pub const OPTION_MAX: usize = 64;
/// Bytes of the longest query: header, name, type and class, OPT with an option.
pub const QUERY_MAX: usize = 12 + 255 + 4 + 11 + 4 + OPTION_MAX;
/// Bytes of an answer over UDP, or of several where the kernel joins those of one flow.
pub const JOINED_MAX: usize = 1 << 16;
/// Bytes that io_uring reads of an answer.
pub const RING_BUFFER_BYTES: usize = 4_096;
/// How long a neighbour's link address is waited for: a device may be without link for some seconds
/// when a program comes to it.
pub const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for meanwhile.
pub const NEIGHBOUR_READ_INTERVAL: Duration = Duration::from_millis(5);
/// The longest sleep of a thread, in nanoseconds, while its device must be triggered to continue
/// sending.
pub const STUCK_NAP_NS: u64 = 20_000;
/// Bytes of DPDK's memory: buffers of a device with some queues.
pub const DPDK_MEMORY: u64 = 256 << 20;
/// How often a device of DPDK is opened, and how long its link is then waited for.
pub const DPDK_TRIES: usize = 5;
/// See `DPDK_TRIES`.
pub const DPDK_LINK_PATIENCE: Duration = Duration::from_secs(2);
/// The first port that queries have as their source where no socket chooses one.
pub const FIRST_PORT: u16 = 1_024;
/// Queries that are prepared.
pub const NAMES_MAX: usize = 1 << 24;
/// Bytes of all prepared queries.
pub const NAMES_BYTES_MAX: usize = 1 << 30;
/// Bytes a line of a data file may have.
pub const LINE_MAX: usize = 65_536;
/// Bytes of a captured packet: the longest that tcpdump writes (MAXIMUM_SNAPLEN).
pub const PACKET_MAX: usize = 262_144;
/// Captured times.
pub const TIMES_MAX: usize = 1 << 26;
/// Steps of a rate.
pub const STEPS_MAX: usize = 1_000;
/// The shortest period of a square wave, in nanoseconds: due queries are found for each half of it.
pub const PERIOD_MIN_NS: u64 = 1_000_000;
/// Queries a second that may be planned.
pub const RATE_MAX: f64 = 1e9;
/// Queries of one burst.
pub const BURST_MAX: u32 = 65_536;
/// Lookups of one thread that may be under way at once.
pub const LOOKUPS_MAX: usize = 65_536;
/// Domains of a search list, as resolv.conf(5) had it.
pub const SEARCH_MAX: usize = 16;
/// Intervals that a report keeps; more are still shown and summed up.
pub const SERIES_MAX: usize = 86_400;
/// The longest time a histogram tells apart, in nanoseconds: an hour.
pub const TIME_MAX_NS: u64 = 3_600_000_000_000;
/// Record sets that answers are compared with.
pub const TRUTH_MAX: usize = 1 << 24;
/// Bytes that wait to be written to a connection, and that are read of one at once.
pub const STREAM_BUFFER: usize = 1 << 17;
