//! Every maximum of this crate.

use std::time::Duration;

/// Entries of a ring, and answered frames that may wait to be sent: some milliseconds of work, so
/// that a burst survives the scheduler.
pub const RING: u32 = 2_048;

/// Frames that the kernel may hold for reception. It uses them in turn, so with as many as a ring
/// holds, each would have left the CPU caches before it is used again.
pub const FILLED_MAX: u32 = RING / 2;

/// Frames of one queue. More than the ring, so that frames that wait to be sent never stop
/// reception.
pub const FRAMES: u32 = RING + FILLED_MAX;

/// The most frames of a burst whose first reply is sent before the others are answered.
pub const SMALL: usize = packet::BURST_MAX / 4;

/// Bytes of a frame's memory, if the interface's packets fit; otherwise twice that, which is a page
/// and the kernel's maximum.
pub const CHUNK: u32 = 2_048;
/// See [`CHUNK`].
pub const CHUNK_MAX: u32 = 2 * CHUNK;

/// Bytes that the kernel reserves before each frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: u32 = 256;

/// Deferred replies that are sent together.
pub const LATE_MAX: usize = 32;

/// How often the kernel is called to send one burst: it sends some 32 frames each time.
pub const KICKS_MAX: u32 = 16;

/// Addresses and ports that are answered; as many as the program's map holds.
pub const TARGETS_MAX: usize = 1_024;

/// Queues of an interface; as many as the program's map holds.
pub const QUEUES_MAX: u32 = 256;

/// VLAN interfaces of an interface; as many as the program's map holds.
pub const LINKS_MAX: usize = 1_024;

/// How long a queue may stay in use: the kernel frees that of a closed socket in the background.
pub const QUEUE_FREED_MAX: Duration = Duration::from_secs(1);
/// How often it is checked meanwhile.
pub const QUEUE_CHECK_INTERVAL: Duration = Duration::from_millis(5);
