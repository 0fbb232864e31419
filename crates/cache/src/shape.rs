//! How memory is divided, and what is known of what lies there.
use crate::entry::HEAD_LEN;
use crate::index::Line;
use crate::limits::{ENTRY_LEN_EXPECTED, LINE_LEN, MEMORY_MAX, MEMORY_MIN, NEW_SHARE, UNIT};
use crate::queue::Queue;

/// What memory a cache needs: so many lines, all [`Line::EMPTY`], ghosts and octets, all 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lines of the index.
    pub lines: usize,
    /// What is left of entries that fell out of the queue of new ones, four octets each.
    pub ghosts: usize,
    /// Octets of entries.
    pub octets: usize,
}

impl Shape {
    /// Divides so many octets, which [`MEMORY_MIN`] and [`MEMORY_MAX`] bound.
    pub const fn of(memory: usize) -> Self {
        let memory = if memory < MEMORY_MIN {
            MEMORY_MIN
        } else if memory > MEMORY_MAX {
            MEMORY_MAX
        } else {
            memory
        };
        // Lines are half full, so that one in some hundred has no room for its next entry.
        let (entries, line) = (LINE_LEN / 2, size_of::<Line>());
        let share = entries * (ENTRY_LEN_EXPECTED + size_of::<u32>()) + line;
        let lines = memory / share;
        let ghosts = lines * entries;
        let octets = (memory - lines * line - ghosts * size_of::<u32>()) / UNIT * UNIT;
        Self { lines, ghosts, octets }
    }
}

/// Which of a cache's memory is in use.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) fresh: Queue,
    pub(crate) kept: Queue,
    /// Entries there are.
    pub(crate) entries: usize,
}

impl State {
    /// Of a cache of this shape that holds nothing yet.
    pub const fn new(shape: &Shape) -> Self {
        // Behind the last unit, too, a whole head can be read.
        let units = (shape.octets - HEAD_LEN) / UNIT;
        let fresh = Queue::new(0, units / NEW_SHARE);
        Self { fresh, kept: Queue::new(units / NEW_SHARE, units), entries: 0 }
    }

    /// How many entries there are.
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Octets that entries take, those among them that were replaced and not yet driven out.
    pub const fn used(&self) -> usize {
        (self.fresh.used() + self.kept.used()) * UNIT
    }
}
