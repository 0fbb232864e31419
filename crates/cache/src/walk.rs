//! Going over what is kept, to look at it or to forget some of it.
//!
//! The way leads along the index and not along the queues: entries move from one end of a queue to
//! the other, but their line of the index stays theirs. So a walk may be taken in pieces, with
//! anything put in between, and meets each entry that was there from its beginning to its end.
use crate::entry::Entry;
use crate::limits::UNIT;
use crate::store::{Cache, Kind};
use core::ops::Range;

/// An entry, as a walk meets it. That it was met does not count as a use.
#[derive(Clone, Copy, Debug)]
pub struct Met<'m> {
    /// What was asked of the name.
    pub kind: Kind,
    /// The name.
    pub name: &'m [u8],
    /// As in [`Found::message`](crate::Found::message).
    pub message: &'m [u8],
    /// Seconds since it was put.
    pub age: u32,
    /// Seconds it was good for.
    pub ttl: u32,
    /// How often it was found lately, [`USES_MAX`](crate::limits::USES_MAX) at most.
    pub uses: u8,
}

impl Cache<'_> {
    /// Shows the entries of some lines of the index, and forgets those that `keep` says no to.
    /// Returns how many went. A cache that nothing is left of is as new.
    pub fn retain(
        &mut self,
        lines: Range<usize>,
        now: u32,
        mut keep: impl FnMut(&Met<'_>) -> bool,
    ) -> usize {
        let before = self.state.entries;
        for number in lines.start..lines.end.min(self.lines.len()) {
            let line = self.lines[number];
            for place in line.all() {
                let entry = Entry::at(self.octets, place * UNIT);
                let met = Met {
                    kind: Kind(entry.kind()),
                    name: entry.name(),
                    message: entry.message(),
                    age: now.saturating_sub(entry.made()),
                    ttl: entry.ttl(),
                    uses: entry.uses(),
                };
                if !keep(&met) {
                    self.forget(place, entry.hash());
                }
            }
        }
        if self.state.entries == 0 {
            self.state.fresh.clear();
            self.state.kept.clear();
        }
        before - self.state.entries
    }
}
