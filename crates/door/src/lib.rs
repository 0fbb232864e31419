//! What control and plane say to each other: the snapshot pointer and commands inwards, counters
//! and events outwards.
//!
//! Nobody waits at either: publishing never blocks, reading is one atomic load a burst, and no
//! cache line is written by two threads (invariants I3 and I4).

mod counters;
mod events;
pub mod limits;
mod snapshot;
mod sync;

pub use counters::{Counters, CountersView};
pub use events::{EventReader, EventWriter, events};
pub use snapshot::{Publisher, Reader, ReadersFull};

/// Keeps what one thread writes away from what another writes or reads: two 64-octet cache lines,
/// since CPUs fetch neighbouring lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);
