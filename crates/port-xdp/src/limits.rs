//! How much of everything.

use std::time::Duration;

/// Entries of a ring, and answered frames that may wait to leave: some milliseconds of work, so
/// that a burst survives the scheduler.
pub const RING: u32 = 2_048;

/// Frames that the kernel may hold for reception. It takes them in turns, so with as many as a ring
/// holds none would be in a cache any more when it is written to again.
pub const FILLED_MAX: u32 = RING / 2;

/// Frames of one queue. More than the ring, so that what waits to leave never keeps the kernel from
/// receiving.
pub const FRAMES: u32 = RING + FILLED_MAX;

/// The most frames of a burst whose first reply leaves before the others are answered.
pub const SMALL: usize = packet::BURST_MAX / 4;

/// Octets of a frame's memory, where the interface's packets fit; else the double, which is a page
/// and as much as the kernel takes.
pub const CHUNK: u32 = 2_048;
/// See [`CHUNK`].
pub const CHUNK_MAX: u32 = 2 * CHUNK;

/// Octets that the kernel keeps in front of each frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: u32 = 256;

/// Replies that were put off and leave together.
pub const LATE_MAX: usize = 32;

/// Times that the kernel is asked to go on sending one burst: it sends some 32 frames each time.
pub const KICKS_MAX: u32 = 16;

/// Addresses and ports that are answered; as many as the program's table holds.
pub const TARGETS_MAX: usize = 1_024;

/// Queues of an interface; as many as the program's table holds.
pub const QUEUES_MAX: u32 = 256;

/// Networks behind the tags of an interface; as many as the program's table holds.
pub const LINKS_MAX: usize = 1_024;

/// How long a queue may stay taken: the kernel frees that of a closed socket in the background.
pub const QUEUE_FREED_MAX: Duration = Duration::from_secs(1);
/// How often it is looked at meanwhile.
pub const QUEUE_LOOK: Duration = Duration::from_millis(5);

/// How long others may change a dispatcher before we do.
pub const DISPATCHER_LOCKED_MAX: Duration = Duration::from_secs(5);
/// How often it is looked at meanwhile.
pub const DISPATCHER_LOOK: Duration = Duration::from_millis(20);
/// How often others may be faster in changing it.
pub const DISPATCHER_TRIES: u32 = 10;
