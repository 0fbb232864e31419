//! Every maximum of this crate.

/// Bytes of the largest datagram received and the largest reply sent. More than any size that this
/// server announces (1,232 by default).
pub const ROOM: usize = 4_096;

/// Bytes of the kernel's receive queue of each socket, with its bookkeeping. About 5,000 small
/// datagrams: some milliseconds of work. A burst survives the scheduler, and under overload waiting
/// datagrams are not so old that their clients have given up.
pub const RECEIVE_BUFFER: usize = 4 << 20;

/// Bytes of the kernel's send queue of each socket.
pub const SEND_BUFFER: usize = 1 << 20;

/// Deferred replies sent together, and their bytes.
pub const LATE_MAX: usize = 32;
/// See [`LATE_MAX`].
pub const LATE_BYTES_MAX: usize = 1 << 16;

/// The most sockets that one steering program chooses from.
pub const STEERED_MAX: usize = 1_024;
