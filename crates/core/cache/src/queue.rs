//! A ring of entries of any length.
//!
//! An entry never wraps around the end of the range: one that is too long for the rest starts at
//! the beginning, behind a filler. All numbers are units.
use crate::entry::{Entry, fill};
use crate::limits::UNIT;

/// The part of the range in use: from `tail`, the oldest entry, `used` units up to `head`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryQueue {
    begin: usize,
    end: usize,
    head: usize,
    tail: usize,
    used: usize,
}

impl EntryQueue {
    pub(crate) const fn new(begin: usize, end: usize) -> Self {
        Self { begin, end, head: begin, tail: begin, used: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.end - self.begin
    }

    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Frees the whole range.
    pub(crate) const fn clear(&mut self) {
        (self.head, self.tail, self.used) = (self.begin, self.begin, 0);
    }

    /// Whether the entry at this position belongs to the queue.
    pub(crate) const fn holds(&self, slot: usize) -> bool {
        self.begin <= slot && slot < self.end
    }

    /// Takes room for a new entry, if there is any.
    pub(crate) fn take(&mut self, bytes: &mut [u8], units: usize) -> Option<usize> {
        let free = self.len() - self.used;
        let rest = self.end - self.head;
        // The free range goes from head to tail. It wraps if it is longer than the rest.
        if units > rest {
            if free < rest + units {
                return None;
            }
            if rest > 0 {
                fill(bytes, self.head * UNIT, rest);
            }
            self.used += rest;
            self.head = self.begin;
        } else if units > free {
            return None;
        }
        let slot = self.head;
        self.head += units;
        self.used += units;
        Some(slot)
    }

    /// Removes the oldest entry or filler.
    pub(crate) fn pop(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        if self.tail == self.end {
            self.tail = self.begin;
        }
        let slot = self.tail;
        let units = Entry::at(bytes, slot * UNIT).units();
        self.tail += units;
        self.used -= units;
        Some(slot)
    }
}
