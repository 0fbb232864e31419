//! Every maximum of this crate.

/// UDP sockets of a network namespace in a reading; of more, the first.
pub const SOCKETS_MAX: usize = 65_536;

/// Threads of all processes in a reading; of more, the first.
pub const THREADS_MAX: usize = 8_192;

/// Bytes of a file below /proc or /sys that are read; what is longer is cut off.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Receive and send queues of each end of the two-host bench.
pub const QUEUES: std::ops::RangeInclusive<u32> = 1..=64;

/// Bytes of a packet on the two-host bench: what IPv6 needs at least (RFC 8200 §5), and the most
/// that a veth device takes.
pub const MTU: std::ops::RangeInclusive<u32> = 1_280..=65_535;

/// Characters of a bench's name; device names add to it and have at most 15.
pub const NAME_BYTES_MAX: usize = 10;

/// The time from SIGTERM until a process is killed.
pub const END_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(2);

/// How long a machine is watched for a manifest: the kernel counts CPU time by 10 ms, which is a
/// fiftieth of it.
pub const WATCH_TIME: std::time::Duration = std::time::Duration::from_millis(500);

/// Processes that a manifest names.
pub const BUSY_PROCESSES_MAX: usize = 5;

/// Network devices that a manifest chooses by itself; of more, the first.
pub const DEVICES_MAX: usize = 32;

/// Core sets of one size that are sorted into classes.
pub const CORE_SETS_MAX: usize = 100_000;
