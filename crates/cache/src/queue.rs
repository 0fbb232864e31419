//! A queue of entries of any length in a range of the octets that goes round.
//!
//! Entries lie one behind the other, none across the end of the range: what is too long for the
//! rest begins anew, behind a filler. All numbers are units.
use crate::entry::{Entry, fill};
use crate::limits::UNIT;

/// What of the range is in use: from `tail`, the oldest entry, `used` units up to `head`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    begin: usize,
    end: usize,
    head: usize,
    tail: usize,
    used: usize,
}

impl Queue {
    pub(crate) const fn new(begin: usize, end: usize) -> Self {
        Self { begin, end, head: begin, tail: begin, used: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.end - self.begin
    }

    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Nothing of the range is in use any more.
    pub(crate) const fn clear(&mut self) {
        (self.head, self.tail, self.used) = (self.begin, self.begin, 0);
    }

    /// Whether an entry at this place is one of the queue's.
    pub(crate) const fn holds(&self, place: usize) -> bool {
        self.begin <= place && place < self.end
    }

    /// Room for a new entry, if there is any.
    pub(crate) fn take(&mut self, octets: &mut [u8], units: usize) -> Option<usize> {
        let free = self.len() - self.used;
        let rest = self.end - self.head;
        // What is free goes from head to tail. It goes round the end if it is more than the rest.
        if units > rest {
            if free < rest + units {
                return None;
            }
            if rest > 0 {
                fill(octets, self.head * UNIT, rest);
            }
            self.used += rest;
            self.head = self.begin;
        } else if units > free {
            return None;
        }
        let place = self.head;
        self.head += units;
        self.used += units;
        Some(place)
    }

    /// The oldest entry, or filler, which leaves the queue.
    pub(crate) fn pop(&mut self, octets: &[u8]) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        if self.tail == self.end {
            self.tail = self.begin;
        }
        let place = self.tail;
        let units = Entry::at(octets, place * UNIT).units();
        self.tail += units;
        self.used -= units;
        Some(place)
    }
}
