//! The exchange between control plane and data plane: the snapshot pointer and commands in one
//! direction, counters and events in the other.
//!
//! No thread waits: publishing never blocks, reading is one atomic load a burst, and no cache line
//! has two writers (invariants I3 and I4).

mod counters;
mod events;
mod heap;
pub mod limits;
mod snapshot;
mod sync;

pub use counters::{Counters, CountersView};
pub use events::{EventReader, EventWriter, events};
pub use heap::return_freed_memory;
pub use snapshot::{Publisher, Reader, ReadersFull};

/// Separates the writes of one thread from those of others: two 64-byte cache lines, since CPUs
/// fetch neighboring lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<T>(T);
