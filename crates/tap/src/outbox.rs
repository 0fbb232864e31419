//! An outbox: items that wait to be written to somebody who may be slow, or gone.
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

/// Items in the order they came, at most so many octets of them.
#[derive(Debug)]
pub struct Outbox {
    octets: VecDeque<u8>,
    octets_max: usize,
    /// How long each item is.
    lens: VecDeque<usize>,
    /// Octets of the first item that are written.
    begun: usize,
}

impl Outbox {
    /// An empty one for `octets_max` octets.
    pub fn new(octets_max: usize) -> Self {
        Self { octets: VecDeque::new(), octets_max, lens: VecDeque::new(), begun: 0 }
    }

    /// Adds an item, which consists of `parts`, and tells whether there was room for it.
    pub fn push(&mut self, parts: &[&[u8]]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(len > 0, "an item of nothing would never be written");
        if self.octets.len() + len > self.octets_max {
            return false;
        }
        parts.iter().for_each(|part| self.octets.extend(*part));
        self.lens.push_back(len);
        true
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Writes until all is written or `to` takes no more for now; adds to `written` the items that
    /// are written to their end.
    ///
    /// # Errors
    /// As `to` fails; what was not written stays.
    pub fn flush(&mut self, to: &mut impl Write, written: &mut u64) -> io::Result<()> {
        while !self.octets.is_empty() {
            match to.write(self.octets.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => *written += self.take(len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives up the rest of an item that was written in part, since nobody can make sense of it
    /// without its beginning; returns how many items that were: 1 or 0.
    pub fn give_up_begun(&mut self) -> u64 {
        match self.lens.front() {
            Some(len) if self.begun > 0 => self.take(len - self.begun),
            _ => 0,
        }
    }

    /// Gives up all items, and returns how many they were.
    pub fn give_up(&mut self) -> u64 {
        self.take(self.octets.len())
    }

    /// Takes octets out, and returns how many items end with or in them.
    fn take(&mut self, len: usize) -> u64 {
        self.octets.drain(..len);
        self.begun += len;
        let mut items = 0;
        while let Some(first) = self.lens.front().filter(|first| **first <= self.begun) {
            self.begun -= first;
            self.lens.pop_front();
            items += 1;
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many octets, then no more for now.
    struct Slow(usize, Vec<u8>);

    impl Write for Slow {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let len = octets.len().min(self.0);
            if len == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.0 -= len;
            self.1.extend_from_slice(&octets[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_has_no_room_is_refused_and_what_has_is_written_in_order() {
        let mut outbox = Outbox::new(10);
        assert!(outbox.push(&[b"one", b"1"]) && outbox.push(&[b"two"]));
        assert!(!outbox.push(&[b"four"]), "11 octets");
        assert!(outbox.push(&[b"six"]));
        let (mut slow, mut written) = (Slow(6, Vec::new()), 0);
        outbox.flush(&mut slow, &mut written).expect("it is only slow");
        assert_eq!((&slow.1[..], written), (&b"one1tw"[..], 1));
        assert!(outbox.push(&[b"sevens"]), "room again");
        slow.0 = 100;
        outbox.flush(&mut slow, &mut written).expect("no error");
        assert_eq!((&slow.1[..], written), (&b"one1twosixsevens"[..], 4));
        assert!(outbox.is_empty());
    }

    #[test]
    fn only_what_was_begun_is_given_up() {
        let mut outbox = Outbox::new(100);
        assert!(outbox.push(&[b"one"]) && outbox.push(&[b"two"]) && outbox.push(&[b"six"]));
        let (mut slow, mut written) = (Slow(3, Vec::new()), 0);
        outbox.flush(&mut slow, &mut written).expect("it is only slow");
        assert_eq!(outbox.give_up_begun(), 0, "one is written, two not begun");
        slow.0 = 1;
        outbox.flush(&mut slow, &mut written).expect("it is only slow");
        assert_eq!((outbox.give_up_begun(), written), (1, 1));
        slow = Slow(100, Vec::new());
        outbox.flush(&mut slow, &mut written).expect("no error");
        assert_eq!((&slow.1[..], written), (&b"six"[..], 2));
        assert!(outbox.push(&[b"seven"]));
        assert_eq!((outbox.give_up(), outbox.is_empty()), (1, true));
    }
}
