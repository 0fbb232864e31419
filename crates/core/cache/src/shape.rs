//! Division of the memory, and the state of the cache.
use crate::entry::HEAD_LEN;
use crate::index::Bucket;
use crate::limits::{ENTRY_LEN_EXPECTED, LINE_LEN, MEMORY_MAX, MEMORY_MIN, NEW_SHARE, UNIT};
use crate::queue::EntryQueue;

/// The memory that a cache needs: buckets, all [`Bucket::EMPTY`], ghosts and bytes, all 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Buckets of the index.
    pub lines: usize,
    /// Hashes of entries that fell out of the queue of new entries, four bytes each.
    pub ghosts: usize,
    /// Bytes of entries.
    pub bytes: usize,
}

impl CacheShape {
    /// Divides the memory, in bytes, bounded by [`MEMORY_MIN`] and [`MEMORY_MAX`].
    pub const fn of(memory: usize) -> Self {
        let memory = if memory < MEMORY_MIN {
            MEMORY_MIN
        } else if memory > MEMORY_MAX {
            MEMORY_MAX
        } else {
            memory
        };
        // Buckets are half full on average, so that one in some hundred has no room for its next
        // entry.
        let (entries, line) = (LINE_LEN / 2, size_of::<Bucket>());
        let share = entries * (ENTRY_LEN_EXPECTED + size_of::<u32>()) + line;
        let lines = memory / share;
        let ghosts = lines * entries;
        let bytes = (memory - lines * line - ghosts * size_of::<u32>()) / UNIT * UNIT;
        Self { lines, ghosts, bytes }
    }
}

/// Which part of the memory is in use.
#[derive(Clone, Debug)]
pub struct CacheState {
    pub(crate) fresh: EntryQueue,
    pub(crate) main: EntryQueue,
    pub(crate) entries: usize,
}

impl CacheState {
    /// The state of an empty cache.
    pub const fn new(shape: &CacheShape) -> Self {
        // A whole head can also be read behind the last unit.
        let units = (shape.bytes - HEAD_LEN) / UNIT;
        let fresh = EntryQueue::new(0, units / NEW_SHARE);
        Self { fresh, main: EntryQueue::new(units / NEW_SHARE, units), entries: 0 }
    }

    /// The number of entries.
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Bytes of all entries, with replaced ones that were not displaced yet.
    pub const fn used(&self) -> usize {
        (self.fresh.used() + self.main.used()) * UNIT
    }
}
