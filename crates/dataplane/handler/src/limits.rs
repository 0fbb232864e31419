//! Every maximum of this crate.

/// Counters of networks: one of clients in no network, one of each network that has a counter of
/// its own, and the last of all others.
pub const NETWORK_SLOTS: usize = 125;

/// Bytes of the messages of one thread that a handler outside the data plane has not answered. What
/// exceeds it is dropped as [`ControlFull`](packet::DropReason::ControlFull).
pub const CONTROL_BYTES_MAX: usize = 512 << 10;

/// Bytes of those of one IPv4 address or IPv6 /64, so that others have room: three of the longest
/// messages, or [`BURST_MAX`](packet::BURST_MAX) short ones.
pub const CONTROL_BYTES_PER_CLIENT_MAX: usize = CONTROL_BYTES_MAX / 2;

/// Bytes of those that name one key: who does not have the key can send them, too, from any address
/// over UDP.
pub const CONTROL_BYTES_PER_KEY_MAX: usize = CONTROL_BYTES_MAX / 4;

/// Bytes that each such message counts for at least.
pub const CONTROL_BYTES_MIN: usize = 4_096;

/// Bytes that it takes beside its own.
pub const CONTROL_HEAD_LEN: usize = 48;

/// Bytes of the answers of a handler that wait for the thread: room for the longest. Others wait
/// outside the data plane.
pub const CONTROL_ANSWERS_LEN_MAX: usize = 128 << 10;

/// Bytes of room behind such a message for the OPT record of its response.
pub const CONTROL_REPLY_ROOM: usize = 1_024;
