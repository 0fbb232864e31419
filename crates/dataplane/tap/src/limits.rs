//! Limits of the tap.

/// Bytes of the ring of one thread: about 4,700 queries of 50 bytes with responses of 100 bytes
/// between two reads. The kernel provides the memory as the ring is used.
pub const RING_OCTETS: usize = 1 << 20;
/// Bytes of queries copied while a burst is answered: all of a full burst of the largest datagrams,
/// or one of the longest stream messages.
pub const STAGED_OCTETS: usize = 256 * 1024;
/// The lowest sampling rate: one query in this many.
pub const ONE_IN_MAX: u32 = 1_000_000;
