//! How much of everything.

/// Octets a datagram may have: the largest query that is received and the largest reply that is
/// sent. Larger than any size a client of ours is told (1,232 by default).
pub const ROOM: usize = 4_096;

/// Octets asked of the kernel for each socket's receive queue, its bookkeeping counted in. About
/// 5,000 small datagrams: some milliseconds of work, so that a burst survives the scheduler, while
/// what waits in it under overload is not so old that its sender has given up.
pub const RECEIVE_BUFFER: usize = 4 << 20;

/// Octets asked of the kernel for each socket's send queue.
pub const SEND_BUFFER: usize = 1 << 20;

/// Replies that were put off and leave together, and their octets.
pub const LATE_MAX: usize = 32;
/// See [`LATE_MAX`].
pub const LATE_OCTETS_MAX: usize = 1 << 16;

/// The most sockets that one steering program chooses from.
pub const STEERED_MAX: usize = 1_024;
