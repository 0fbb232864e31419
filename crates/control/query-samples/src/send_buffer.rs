//! A buffer of items for a slow reader.
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

/// Items in order, limited in bytes.
#[derive(Debug)]
pub struct SendBuffer {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    /// The length of each item.
    lens: VecDeque<usize>,
    /// Written bytes of the first item.
    begun: usize,
}

impl SendBuffer {
    /// An empty buffer for `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max, lens: VecDeque::new(), begun: 0 }
    }

    /// Adds an item of several parts; returns whether there was room.
    pub fn push(&mut self, parts: &[&[u8]]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(len > 0, "an item of nothing would never be written");
        if self.bytes.len() + len > self.bytes_max {
            return false;
        }
        parts.iter().for_each(|part| self.bytes.extend(*part));
        self.lens.push_back(len);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes until the buffer is empty or `to` would block; adds the completed items to `written`.
    ///
    /// # Errors
    /// The errors of `to`; unwritten bytes stay.
    pub fn flush(&mut self, to: &mut impl Write, written: &mut u64) -> io::Result<()> {
        while !self.bytes.is_empty() {
            match to.write(self.bytes.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => *written += self.take(len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Drops the rest of a partly written item, which is useless without its start; returns 1 or 0.
    pub fn give_up_begun(&mut self) -> u64 {
        match self.lens.front() {
            Some(len) if self.begun > 0 => self.take(len - self.begun),
            _ => 0,
        }
    }

    /// Drops all items; returns their number.
    pub fn give_up(&mut self) -> u64 {
        self.take(self.bytes.len())
    }

    /// Removes bytes; returns how many items end with or in them.
    fn take(&mut self, len: usize) -> u64 {
        self.bytes.drain(..len);
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

    /// Accepts this many bytes, then would block.
    struct SlowWriter(usize, Vec<u8>);

    impl Write for SlowWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.0);
            if len == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.0 -= len;
            self.1.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn items_without_room_are_refused_and_others_written_in_order() {
        let mut outbox = SendBuffer::new(10);
        assert!(outbox.push(&[b"one", b"1"]) && outbox.push(&[b"two"]));
        assert!(!outbox.push(&[b"four"]), "11 bytes");
        assert!(outbox.push(&[b"six"]));
        let (mut slow, mut written) = (SlowWriter(6, Vec::new()), 0);
        outbox.flush(&mut slow, &mut written).expect("it is only slow");
        assert_eq!((&slow.1[..], written), (&b"one1tw"[..], 1));
        assert!(outbox.push(&[b"sevens"]), "room again");
        slow.0 = 100;
        outbox.flush(&mut slow, &mut written).expect("no error");
        assert_eq!((&slow.1[..], written), (&b"one1twosixsevens"[..], 4));
        assert!(outbox.is_empty());
    }

    #[test]
    fn only_partly_written_item_is_dropped() {
        let mut outbox = SendBuffer::new(100);
        assert!(outbox.push(&[b"one"]) && outbox.push(&[b"two"]) && outbox.push(&[b"six"]));
        let (mut slow, mut written) = (SlowWriter(3, Vec::new()), 0);
        outbox.flush(&mut slow, &mut written).expect("it is only slow");
        assert_eq!(outbox.give_up_begun(), 0, "one is written, two not begun");
        slow.0 = 1;
        outbox.flush(&mut slow, &mut written).expect("it is only slow");
        assert_eq!((outbox.give_up_begun(), written), (1, 1));
        slow = SlowWriter(100, Vec::new());
        outbox.flush(&mut slow, &mut written).expect("no error");
        assert_eq!((&slow.1[..], written), (&b"six"[..], 2));
        assert!(outbox.push(&[b"seven"]));
        assert_eq!((outbox.give_up(), outbox.is_empty()), (1, true));
    }
}
