//! Limits.
use std::time::Duration;

/// Bytes of a request for a round trip.
pub const ROUND_TRIP_BYTES: usize = 64;

/// Bytes of a page, as the article has it.
pub const PAGE_BYTES: usize = 1_000;

/// Bytes of a packet, as the article has it.
pub const PACKET_BYTES: usize = 1_400;

/// Bytes of a write to a stream.
pub const WRITE_BYTES: usize = 64 << 10;

/// Bytes that a loop copies at once: more than caches have.
pub const COPY_BYTES: usize = 64 << 20;

/// Connections of a load of pages.
pub const CONNECTIONS: usize = 16;

/// Words of a ring, of 8 bytes each: a power of two.
pub const RING_WORDS: usize = 1 << 15;

/// Bytes of a record of a ring.
pub const RECORD_BYTES_MAX: usize = 32 << 10;

/// The longest time that an end waits for the other one.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Datagrams are over when none has come for so long.
pub const SILENCE: Duration = Duration::from_millis(200);

/// Looks at a ring before the CPU is given to others. None where both ends have the same CPU.
pub const SPINS: u32 = 2_000;

/// Sequence numbers that replicas may be ahead of what they have executed.
pub const WINDOW: u64 = 256;

/// Executed places that a replica keeps for others that are behind, when views change.
pub const RETAINED: u64 = 64;

/// Messages of a later view that a replica keeps.
pub const EARLY_MAX: usize = 1 << 16;

/// Requests that a client has outstanding.
pub const OUTSTANDING: usize = 8;

/// Time without a decision after which a replica leaves its view.
pub const VIEW_TIMEOUT: Duration = Duration::from_millis(500);
