//! Events: a bounded, lossy ring from one thread of the plane to one of control; or commands, the
//! other way, where to find no room is an error; or what one thread of the plane tells another,
//! which sleeps where there is nothing.
//!
//! The ring is of 64-bit words. An event is a word with its length in octets, and the octets behind
//! it. Only the writer moves `head`, only the reader `tail`; both count words for ever, and a
//! word's place is the count modulo the ring's size. The words between `tail` and `head` are the
//! reader's, the others the writer's, and the two stores with release pass them on.

use crate::Apart;
use crate::limits::EVENTS_OCTETS_MAX;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// Octets of a word.
const WORD: usize = size_of::<u64>();

/// What the writer alone stores to.
struct Written {
    /// Words written since the beginning.
    head: AtomicU64,
    /// Events for which there was no room.
    lost: AtomicU64,
    /// The writer is gone: nothing follows.
    closed: AtomicBool,
}

struct Ring {
    words: Box<[AtomicU64]>,
    written: Apart<Written>,
    /// Words read since the beginning; the reader alone stores to it.
    tail: Apart<AtomicU64>,
}

/// A ring of `octets`, rounded up to a power of two and at most [`EVENTS_OCTETS_MAX`]. It takes
/// memory only as it is written to.
pub fn events(octets: usize) -> (EventWriter, EventReader) {
    let words = octets.min(EVENTS_OCTETS_MAX).div_ceil(WORD).next_power_of_two();
    let written = Written {
        head: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        closed: AtomicBool::new(false),
    };
    let tail = Apart(AtomicU64::new(0));
    let ring = Arc::new(Ring { words: zeroed(words), written: Apart(written), tail });
    let writer = EventWriter { ring: ring.clone(), head: 0, tail_seen: 0, told: 0 };
    (writer, EventReader { ring, tail: 0, event: Vec::new() })
}

/// Words whose pages the kernel gives when they are first written.
#[cfg(not(loom))]
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    // SAFETY: all bits zero is the atomic integer 0.
    unsafe { Box::new_zeroed_slice(words).assume_init() }
}

#[cfg(loom)]
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

impl Ring {
    /// The word at a count.
    #[inline]
    fn word(&self, count: u64) -> &AtomicU64 {
        // The ring's size is a power of two.
        &self.words[count as usize & (self.words.len() - 1)]
    }
}

/// The writing end, for one thread. It never waits: what finds no room is lost, and counted.
pub struct EventWriter {
    ring: Arc<Ring>,
    head: u64,
    /// Where the reader was when the writer looked last.
    tail_seen: u64,
    /// Where the writer was when it looked last whether the reader sleeps.
    told: u64,
}

impl EventWriter {
    /// Writes one event: `parts` one behind the other, each filled up with zeros to a multiple of 8
    /// octets. Tells whether there was room for it.
    #[inline]
    pub fn write<const N: usize>(&mut self, parts: [&[u8]; N]) -> bool {
        let words: usize = parts.iter().map(|part| part.len().div_ceil(WORD)).sum();
        if !self.has_room(1 + words as u64) {
            self.lose();
            return false;
        }
        let mut at = self.head;
        let mut put = |word: u64| {
            self.ring.word(at).store(word, Ordering::Relaxed);
            at += 1;
        };
        put((words * WORD) as u64);
        for part in parts {
            let (whole, rest) = part.as_chunks::<WORD>();
            whole.iter().for_each(|octets| put(u64::from_ne_bytes(*octets)));
            if !rest.is_empty() {
                let mut last = [0; WORD];
                last[..rest.len()].copy_from_slice(rest);
                put(u64::from_ne_bytes(last));
            }
        }
        self.head = at;
        // Release: whoever sees the new head sees the words.
        self.ring.written.0.head.store(at, Ordering::Release);
        true
    }

    /// Counts an event that never came to be written, as when it was too large to be gathered.
    #[cold]
    pub fn lose(&mut self) {
        let lost = &self.ring.written.0.lost;
        lost.store(lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether the reader, if it sleeps when [`is_empty`](EventReader::is_empty) says so, has to be
    /// woken for what was written since this was asked last.
    ///
    /// It has not where it has yet to read what was there before: it will find all of it.
    pub fn has_to_wake(&mut self) -> bool {
        let told = core::mem::replace(&mut self.told, self.head);
        if told == self.head {
            return false;
        }
        // Of this fence and the reader's one is the first: either the tail is seen here that the
        // reader stored before it, or the reader sees what was written.
        fence(Ordering::SeqCst);
        self.ring.tail.0.load(Ordering::Relaxed) >= told
    }

    /// A mark behind what was written last: see [`is_read`](Self::is_read).
    pub fn mark(&self) -> u64 {
        self.head
    }

    /// Whether all was read that was written before a mark.
    pub fn is_read(&self, mark: u64) -> bool {
        self.ring.tail.0.load(Ordering::Relaxed) >= mark
    }

    /// Whether so many words are free. The reader's line is looked at only when they seem not to.
    #[inline]
    fn has_room(&mut self, words: u64) -> bool {
        let size = self.ring.words.len() as u64;
        if self.head + words - self.tail_seen > size {
            // Acquire: the reader has read what we are going to write over.
            self.tail_seen = self.ring.tail.0.load(Ordering::Acquire);
        }
        self.head + words - self.tail_seen <= size
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        // Release: who sees it closed sees all that was written.
        self.ring.written.0.closed.store(true, Ordering::Release);
    }
}

/// The reading end, for one thread.
pub struct EventReader {
    ring: Arc<Ring>,
    tail: u64,
    /// The event shown last.
    event: Vec<u8>,
}

impl EventReader {
    /// Shows the events that are there, oldest first, and makes room for others; returns how many
    /// they were. What is written meanwhile is for the next call.
    pub fn drain(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        let head = self.ring.written.0.head.load(Ordering::Acquire);
        let mut events = 0;
        while self.tail < head {
            let len = self.ring.word(self.tail).load(Ordering::Relaxed);
            let words = len / WORD as u64;
            self.event.clear();
            for count in self.tail + 1..=self.tail + words {
                let word = self.ring.word(count).load(Ordering::Relaxed);
                self.event.extend_from_slice(&word.to_ne_bytes());
            }
            self.tail += 1 + words;
            // Release: the words have been read before they are written over.
            self.ring.tail.0.store(self.tail, Ordering::Release);
            show(&self.event);
            events += 1;
        }
        events
    }

    /// Whether all that was written has been read. If so, the writer of anything later finds that
    /// it [has to wake](EventWriter::has_to_wake) who reads.
    pub fn is_empty(&self) -> bool {
        // See there.
        fence(Ordering::SeqCst);
        self.ring.written.0.head.load(Ordering::Relaxed) == self.tail
    }

    /// How many events found no room so far.
    pub fn lost(&self) -> u64 {
        self.ring.written.0.lost.load(Ordering::Relaxed)
    }

    /// Whether the writer is gone. If so, one more [`drain`](Self::drain) shows all there is, and
    /// [`lost`](Self::lost) grows no more.
    pub fn is_closed(&self) -> bool {
        self.ring.written.0.closed.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn reader_and_writer_share_no_line_they_both_write() {
        let (writer, _reader) = events(64);
        let at = |line: *const u8| line as usize / 128;
        let written = &raw const writer.ring.written;
        let tail = &raw const writer.ring.tail;
        let words = writer.ring.words.as_ptr();
        assert_ne!(at(written.cast()), at(tail.cast()));
        assert_ne!(at(words.cast()), at(tail.cast()));
    }

    #[test]
    fn no_ring_is_larger_than_the_limit() {
        let (writer, _reader) = events(usize::MAX);
        assert_eq!(writer.ring.words.len() * WORD, EVENTS_OCTETS_MAX);
    }
}
