//! A ring of records in shared memory, with one writer and one reader: the least that two processes
//! need to pass bytes. A yardstick: it waits by looking.
use crate::limits::{RECORD_BYTES_MAX, RING_WORDS};
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Words of two cache lines: hardware fetches a neighbor, too.
const LINE_WORDS: usize = 16;
/// The words of one ring: what the reader writes, what the writer writes, the records.
const WORDS: usize = 2 * LINE_WORDS + RING_WORDS;
const READ: usize = 0;
const IS_READER_GONE: usize = 1;
const WRITTEN: usize = LINE_WORDS;
const IS_WRITER_GONE: usize = LINE_WORDS + 1;
const RECORDS: usize = 2 * LINE_WORDS;

/// Shared memory with an even number of rings: two for each connection.
pub struct Memory {
    words: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: what is behind the pointer lives as long as the memory, and is made of atomics only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory for these connections, and a descriptor of it for another process.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new(connections: usize) -> io::Result<(Arc<Self>, OwnedFd)> {
        let file = memfd_create("dunlin-lab-rings", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, (connections * 2 * WORDS * size_of::<u64>()) as u64)?;
        Ok((Self::open(&file)?, file))
    }

    /// The memory behind a descriptor.
    ///
    /// # Errors
    /// It is none of ours.
    pub fn open(file: impl AsFd) -> io::Result<Arc<Self>> {
        let len = fstat(&file)?.st_size as usize / size_of::<u64>();
        if len == 0 || !len.is_multiple_of(2 * WORDS) {
            return Err(io::Error::other("the memory is not that of rings"));
        }
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let bytes = len * size_of::<u64>();
        // SAFETY: a new mapping, at a place the kernel chooses; the file is as long, and none of
        // ours is shortened.
        let memory = unsafe { mmap(ptr::null_mut(), bytes, access, kind, file, 0)? };
        let words = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Self { words, len }))
    }

    fn ring(&self, number: usize) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, has so many words, and zeros are valid ones.
        let words = unsafe { slice::from_raw_parts(self.words.as_ptr(), self.len) };
        &words[number * WORDS..(number + 1) * WORDS]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and nothing refers to it any more. Failure
        // would leave it mapped, which harms nothing.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), self.len * size_of::<u64>()) };
    }
}

/// The writer's end.
pub struct Writer {
    memory: Arc<Memory>,
    ring: usize,
    written: u64,
    read: u64,
}

/// The reader's end.
pub struct Reader {
    memory: Arc<Memory>,
    ring: usize,
    read: u64,
    written: u64,
    /// What is left of a record, and where it begins.
    rest: Vec<u8>,
    begin: usize,
}

/// Both ends of a connection that one side has: it reads one ring and writes the other one.
pub fn connection(memory: &Arc<Memory>, number: usize, is_server: bool) -> (Reader, Writer) {
    let (from, to) = (number * 2 + usize::from(!is_server), number * 2 + usize::from(is_server));
    let rest = Vec::with_capacity(RECORD_BYTES_MAX);
    let reader = Reader { memory: memory.clone(), ring: from, read: 0, written: 0, rest, begin: 0 };
    (reader, Writer { memory: memory.clone(), ring: to, written: 0, read: 0 })
}

const fn place(position: u64) -> usize {
    RECORDS + position as usize % RING_WORDS
}

impl Writer {
    /// Writes a record of the first bytes, at most [`RECORD_BYTES_MAX`]; how many, or none while
    /// there is no room.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let ring = self.memory.ring(self.ring);
        let bytes = &bytes[..bytes.len().min(RECORD_BYTES_MAX)];
        let needed = 1 + bytes.len().div_ceil(8) as u64;
        if self.written + needed > self.read + RING_WORDS as u64 {
            self.read = ring[READ].load(Acquire);
            if ring[IS_READER_GONE].load(Acquire) != 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.written + needed > self.read + RING_WORDS as u64 {
                return Ok(None);
            }
        }
        ring[place(self.written)].store(bytes.len() as u64, Relaxed);
        for (position, part) in (self.written + 1..).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            ring[place(position)].store(u64::from_ne_bytes(word), Relaxed);
        }
        self.written += needed;
        ring[WRITTEN].store(self.written, Release);
        Ok(Some(bytes.len()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.memory.ring(self.ring)[IS_WRITER_GONE].store(1, Release);
    }
}

impl Reader {
    /// Reads from one record; how many bytes, 0 at the end, or none while nothing is there.
    pub fn try_read(&mut self, into: &mut [u8]) -> Option<usize> {
        if self.begin == self.rest.len() && !self.take()? {
            return Some(0);
        }
        let left = &self.rest[self.begin..];
        let len = left.len().min(into.len());
        into[..len].copy_from_slice(&left[..len]);
        self.begin += len;
        Some(len)
    }

    /// Takes a record; false at the end, none while nothing is there.
    fn take(&mut self) -> Option<bool> {
        let ring = self.memory.ring(self.ring);
        if self.read == self.written {
            let is_gone = ring[IS_WRITER_GONE].load(Acquire) != 0;
            self.written = ring[WRITTEN].load(Acquire);
            if self.read == self.written {
                return is_gone.then_some(false);
            }
        }
        // Another process may write anything.
        let len = (ring[place(self.read)].load(Relaxed) as usize).min(RECORD_BYTES_MAX);
        self.rest.clear();
        self.begin = 0;
        let words = len.div_ceil(8);
        for position in (self.read + 1..).take(words) {
            self.rest.extend_from_slice(&ring[place(position)].load(Relaxed).to_ne_bytes());
        }
        self.rest.truncate(len);
        self.read += 1 + words as u64;
        ring[READ].store(self.read, Release);
        Some(true)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.memory.ring(self.ring)[IS_READER_GONE].store(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn bytes_of_any_lengths_arrive_in_order_until_the_end() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let (memory, file) = Memory::new(1).unwrap();
        let other = Memory::open(file).unwrap();
        let (_, mut writer) = connection(&memory, 0, false);
        let (mut reader, _) = connection(&other, 0, true);
        let sent: Vec<u8> =
            (0..3_000_000_u32).map(|n| n.wrapping_mul(31).to_le_bytes()[1]).collect();
        let copy = sent.clone();
        let sending = thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut left = &copy[..];
            while !left.is_empty() {
                let len = random.usize(1..RECORD_BYTES_MAX * 2).min(left.len());
                match writer.try_write(&left[..len]).unwrap() {
                    Some(len) => left = &left[len..],
                    None => thread::yield_now(),
                }
            }
        });
        let mut random = fastrand::Rng::with_seed(!seed);
        let mut received = Vec::new();
        loop {
            let mut bytes = vec![0; random.usize(1..RECORD_BYTES_MAX * 2)];
            match reader.try_read(&mut bytes) {
                Some(0) => break,
                Some(len) => received.extend_from_slice(&bytes[..len]),
                None => thread::yield_now(),
            }
        }
        sending.join().unwrap();
        assert!(received == sent);
    }

    #[test]
    fn writer_waits_while_the_ring_is_full_and_fails_once_the_reader_is_gone() {
        let (memory, _file) = Memory::new(1).unwrap();
        let (_, mut writer) = connection(&memory, 0, false);
        let (reader, _) = connection(&memory, 0, true);
        let bytes = vec![1; RECORD_BYTES_MAX];
        let mut written = 0;
        while writer.try_write(&bytes).unwrap().is_some() {
            written += 1;
        }
        assert_eq!(written, RING_WORDS / (1 + RECORD_BYTES_MAX / 8));
        drop(reader);
        assert_eq!(writer.try_write(&bytes).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn memory_that_is_none_of_rings_is_refused() {
        let file = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4_096).unwrap();
        assert!(Memory::open(file).is_err());
    }
}
