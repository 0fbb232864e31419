//! Iteration over all entries, to show or remove some.
//!
//! The order is that of the index and not of the queues: entries move within queues, but keep their
//! bucket. So a walk may be interrupted by insertions, and meets every entry that exists from its
//! begin to its end.
use crate::entry::Entry;
use crate::limits::UNIT;
use crate::store::{Cache, QueryKind};
use core::ops::Range;

/// An entry during a walk. A walk does not count as a use.
#[derive(Clone, Copy, Debug)]
pub struct WalkedEntry<'m> {
    /// Type, class and flags.
    pub kind: QueryKind,
    /// The name.
    pub name: &'m [u8],
    /// As [`CacheHit::message`](crate::CacheHit::message).
    pub message: &'m [u8],
    /// Seconds since insertion.
    pub age: u32,
    /// Lifetime in seconds.
    pub ttl: u32,
    /// Recent uses, at most [`USES_MAX`](crate::limits::USES_MAX).
    pub uses: u8,
}

impl Cache<'_> {
    /// Shows the entries of some buckets, and removes those for which `keep` returns false. Returns
    /// the number of removed entries. A cache without entries is reset.
    pub fn retain(
        &mut self,
        lines: Range<usize>,
        now: u32,
        mut keep: impl FnMut(&WalkedEntry<'_>) -> bool,
    ) -> usize {
        let before = self.state.entries;
        for number in lines.start..lines.end.min(self.lines.len()) {
            let line = self.lines[number];
            for slot in line.all() {
                let entry = Entry::at(self.bytes, slot * UNIT);
                let met = WalkedEntry {
                    kind: QueryKind(entry.kind()),
                    name: entry.name(),
                    message: entry.message(),
                    age: now.saturating_sub(entry.made()),
                    ttl: entry.ttl(),
                    uses: entry.uses(),
                };
                if !keep(&met) {
                    self.remove(slot, entry.hash());
                }
            }
        }
        if self.state.entries == 0 {
            self.state.fresh.clear();
            self.state.main.clear();
        }
        before - self.state.entries
    }
}
