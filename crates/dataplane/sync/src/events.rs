//! Events: a bounded, lossy ring from one thread of the plane to one of control; or commands, the
//! other way, where to find no room is an error; or what one thread of the plane tells another,
//! which sleeps where there is nothing.
//!
//! The ring is of 64-bit words. An event is a word with its length in bytes, and the bytes behind
//! it. Only the writer moves `head`, only the reader `tail`; both count words for ever, and a
//! word's place is the count modulo the ring's size. The words between `tail` and `head` are the
//! reader's, the others the writer's, and the two stores with release pass them on.

use crate::CachePadded;
use crate::limits::EVENTS_BYTES_MAX;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// What the writer alone stores to.
struct WriterState {
    /// Words written since the beginning.
    head: AtomicU64,
    /// Events for which there was no room.
    lost: AtomicU64,
    /// Whether the writer is gone.
    closed: AtomicBool,
}

struct Ring {
    words: Box<[AtomicU64]>,
    written: CachePadded<WriterState>,
    /// Words read since the beginning; only the reader stores to it.
    tail: CachePadded<AtomicU64>,
}

/// A ring of `bytes`, rounded up to a power of two, at most [`EVENTS_BYTES_MAX`]. It uses memory
/// only as it is written to.
pub fn events(bytes: usize) -> (EventWriter, EventReader) {
    let words = bytes.min(EVENTS_BYTES_MAX).div_ceil(WORD).next_power_of_two();
    let written = WriterState {
        head: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        closed: AtomicBool::new(false),
    };
    let tail = CachePadded(AtomicU64::new(0));
    let ring = Arc::new(Ring { words: zeroed(words), written: CachePadded(written), tail });
    let writer = EventWriter { ring: ring.clone(), head: 0, tail_seen: 0, reported: 0 };
    (writer, EventReader { ring, tail: 0, event: Vec::new() })
}

/// Words whose pages the kernel provides when they are first written.
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

/// The writing end, for one thread. It never waits: events without room are lost and counted.
pub struct EventWriter {
    ring: Arc<Ring>,
    head: u64,
    /// The reader's position when the writer last read it.
    tail_seen: u64,
    /// The writer's position at the last call of [`must_wake`](Self::must_wake).
    reported: u64,
}

impl EventWriter {
    /// Writes one event: `parts` in order, each padded with zeros to a multiple of 8 bytes. Returns
    /// whether there was room.
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
            whole.iter().for_each(|bytes| put(u64::from_ne_bytes(*bytes)));
            if !rest.is_empty() {
                let mut last = [0; WORD];
                last[..rest.len()].copy_from_slice(rest);
                put(u64::from_ne_bytes(last));
            }
        }
        self.head = at;
        // Release: a thread that sees the new head sees the words.
        self.ring.written.0.head.store(at, Ordering::Release);
        true
    }

    /// Counts an event that was not written, for example because it was too large.
    #[cold]
    pub fn lose(&mut self) {
        let lost = &self.ring.written.0.lost;
        lost.store(lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether a reader that sleeps after [`is_empty`](EventReader::is_empty) must be woken for
    /// what was written since the last call.
    ///
    /// It need not if earlier events are still unread: it will find all of them.
    pub fn must_wake(&mut self) -> bool {
        let reported = core::mem::replace(&mut self.reported, self.head);
        if reported == self.head {
            return false;
        }
        // One of the two fences is first: either the writer sees the reader's stored tail here, or
        // the reader sees the new words.
        fence(Ordering::SeqCst);
        self.ring.tail.0.load(Ordering::Relaxed) >= reported
    }

    /// A mark behind what was written last: see [`is_read`](Self::is_read).
    pub fn mark(&self) -> u64 {
        self.head
    }

    /// Whether everything written before a mark was read.
    pub fn is_read(&self, mark: u64) -> bool {
        self.ring.tail.0.load(Ordering::Relaxed) >= mark
    }

    /// Whether so many words are free. The reader's cache line is read only if they seem not to be.
    #[inline]
    fn has_room(&mut self, words: u64) -> bool {
        let size = self.ring.words.len() as u64;
        if self.head + words - self.tail_seen > size {
            // Acquire: the reader has read the words that will be overwritten.
            self.tail_seen = self.ring.tail.0.load(Ordering::Acquire);
        }
        self.head + words - self.tail_seen <= size
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        // Release: a thread that sees it closed sees all that was written.
        self.ring.written.0.closed.store(true, Ordering::Release);
    }
}

/// The reading end, for one thread.
pub struct EventReader {
    ring: Arc<Ring>,
    tail: u64,
    /// The last event.
    event: Vec<u8>,
}

impl EventReader {
    /// Passes the events to `show`, oldest first, and frees their room; returns how many. What is
    /// written meanwhile is left for the next call.
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
            // Release: the words were read before they are overwritten.
            self.ring.tail.0.store(self.tail, Ordering::Release);
            show(&self.event);
            events += 1;
        }
        events
    }

    /// Whether everything was read. If so, the writer of a later event [must
    /// wake](EventWriter::must_wake) the reader.
    pub fn is_empty(&self) -> bool {
        // See [`EventWriter::must_wake`].
        fence(Ordering::SeqCst);
        self.ring.written.0.head.load(Ordering::Relaxed) == self.tail
    }

    /// Events lost so far.
    pub fn lost(&self) -> u64 {
        self.ring.written.0.lost.load(Ordering::Relaxed)
    }

    /// Whether the writer is gone. If so, one more [`drain`](Self::drain) passes the last events,
    /// and [`lost`](Self::lost) no longer changes.
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
        assert_eq!(writer.ring.words.len() * WORD, EVENTS_BYTES_MAX);
    }
}
