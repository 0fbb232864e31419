//! Verifies each read of the tree's file: remembers the checksum of each block when it is written,
//! or first read by [`crate::tree::inspect`], which verifies it with the checksums of the tree.
use crate::locks::same_locks;
use redb::StorageBackend;
use std::fmt;
use std::io;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a block, as of the smallest page.
const BLOCK: usize = 4096;

/// The tree's file.
#[derive(Debug)]
pub struct VerifiedFile<B> {
    file: B,
    /// Of each block except the first, redb's header, which is read once and written in parts. 0:
    /// unknown.
    sums: RwLock<Vec<u64>>,
}

/// A block is not what was written.
#[derive(Debug)]
pub struct ChecksumMismatch {
    at: u64,
}

impl fmt::Display for ChecksumMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the block near byte {} is not what was written", self.at)
    }
}

impl std::error::Error for ChecksumMismatch {}

fn sum(block: &[u8]) -> u64 {
    xxh3_64(block).max(1)
}

/// The whole blocks of a range, with their numbers; never the first.
fn blocks(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let skipped = (offset.next_multiple_of(BLOCK as u64) - offset) as usize;
    let first = (offset as usize).div_ceil(BLOCK);
    let blocks = bytes.get(skipped..).unwrap_or_default().chunks_exact(BLOCK);
    blocks.enumerate().map(move |(n, block)| (first + n, block)).filter(|(n, _)| *n > 0)
}

impl<B: StorageBackend> VerifiedFile<B> {
    pub fn new(file: B) -> Self {
        Self { file, sums: RwLock::default() }
    }

    fn known(&self) -> RwLockReadGuard<'_, Vec<u64>> {
        self.sums.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_be_known(&self) -> RwLockWriteGuard<'_, Vec<u64>> {
        self.sums.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores the checksums of blocks.
fn note(sums: &mut Vec<u64>, of: impl Iterator<Item = (usize, u64)>) {
    for (n, sum) in of {
        if sums.len() <= n {
            sums.resize(n + 1, 0);
        }
        sums[n] = sum;
    }
}

impl<B: StorageBackend> StorageBackend for VerifiedFile<B> {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let new: Vec<_> = blocks(offset, data).map(|(n, block)| (n, sum(block))).collect();
        // Locked during the write, because redb may write what another thread is about to read.
        let mut sums = self.to_be_known();
        self.file.write(offset, data)?;
        note(&mut sums, new.into_iter());
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut unknown = Vec::new();
        {
            let sums = self.known();
            self.file.read(offset, out)?;
            for (n, block) in blocks(offset, out) {
                let found = sum(block);
                match sums.get(n).copied().unwrap_or(0) {
                    0 => unknown.push((n, found)),
                    known if known == found => {}
                    _ => {
                        let rotten = ChecksumMismatch { at: (n * BLOCK) as u64 };
                        return Err(io::Error::new(io::ErrorKind::InvalidData, rotten));
                    }
                }
            }
        }
        if !unknown.is_empty() {
            let mut sums = self.to_be_known();
            unknown.retain(|(n, _)| sums.get(*n).copied().unwrap_or(0) == 0);
            note(&mut sums, unknown.into_iter());
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut sums = self.to_be_known();
        self.file.set_len(len)?;
        sums.truncate(len.div_ceil(BLOCK as u64) as usize);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    same_locks!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;

    #[test]
    fn bit_flipped_after_the_first_read_is_detected() {
        for is_written in [true, false] {
            let file = InMemoryBackend::new();
            file.set_len(4 * BLOCK as u64).unwrap();
            let file = VerifiedFile::new(file);
            let (mut page, at) = ([7; BLOCK], 2 * BLOCK as u64);
            if is_written {
                file.write(at, &page).unwrap();
            }
            file.read(at, &mut page).unwrap();
            file.file.write(at + 900, &[page[900] ^ 4]).unwrap();
            let why = file.read(at, &mut page).unwrap_err();
            assert!(why.get_ref().is_some_and(|why| why.is::<ChecksumMismatch>()), "{why}");
            assert!(file.read(at - BLOCK as u64, &mut page).is_ok());
            file.write(at, &page).unwrap();
            file.read(at, &mut page).unwrap();
        }
    }
}
