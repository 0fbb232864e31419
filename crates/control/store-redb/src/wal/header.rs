//! The header of the log: two copies of one sector. A change is complete when both are synced, so
//! that each copy alone is sufficient.
use super::sector::{SECTOR, checksum};
use super::{BLOCK, StoreKey, damaged, unread};
use crate::failed;
use redb::StorageBackend;
use std::io;
use store::{Revision, StoreError};

/// The start of a log.
const MAGIC: [u8; 16] = *b"DUNLIN WRITELOG\n";
/// The format of the log. A change needs a new number.
const FORM: u64 = 3;
/// Offsets of the copies: in different blocks.
const COPIES: [u64; 2] = [0, BLOCK as u64];
/// Bytes before the groups.
pub const HEADER_LEN: u64 = 2 * BLOCK as u64;
/// Used bytes of a copy with its checksum.
const USED: usize = 72;

/// The content of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The key of the store and of checksums. Random, so that no written data can look like a
    /// group.
    pub store: StoreKey,
    /// The number of changes of the header so far.
    pub change: u64,
    /// Used bytes of the file; a shorter file is truncated.
    pub len: u64,
    /// A revision known to be in the tree. A tree without it, and without the groups, was rolled
    /// back.
    pub in_tree: Revision,
}

impl LogHeader {
    pub fn new(store: StoreKey, in_tree: Revision) -> Self {
        Self { store, change: 0, len: HEADER_LEN, in_tree }
    }

    fn copy(&self, at: u64) -> [u8; SECTOR] {
        let mut copy = [0; SECTOR];
        copy[..16].copy_from_slice(&MAGIC);
        let [high, low] = self.store;
        let numbers = [FORM, high, low, self.change, self.len, self.in_tree.0];
        for (room, number) in copy[16..].chunks_exact_mut(8).zip(numbers) {
            room.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(self.store, at, &copy[..USED - 8]);
        copy[USED - 8..USED].copy_from_slice(&sum.to_le_bytes());
        copy
    }

    fn read_copy(copy: &[u8], at: u64) -> Option<Result<Self, u64>> {
        let number = |n: usize| {
            let chunk = copy[16 + 8 * n..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(chunk)
        };
        let header = Self {
            store: [number(1), number(2)],
            change: number(3),
            len: number(4),
            in_tree: Revision(number(5)),
        };
        let is_whole =
            copy[..16] == MAGIC && number(6) == checksum(header.store, at, &copy[..USED - 8]);
        is_whole.then(|| if number(0) == FORM { Ok(header) } else { Err(number(0)) })
    }

    /// Writes both copies without a sync.
    pub fn write(&self, file: &dyn StorageBackend) -> io::Result<()> {
        COPIES.iter().try_for_each(|at| file.write(*at, &self.copy(*at)))
    }

    /// The header of a log, and whether a copy must be written again.
    ///
    /// # Errors
    /// Both copies are missing, damaged, or of a newer version.
    pub fn read(file: &dyn StorageBackend) -> Result<(Self, bool), StoreError> {
        let len = file.len().map_err(unread)?;
        if len == 0 {
            return Err(damaged("it is empty, but had writes of a store"));
        }
        let mut found = Vec::new();
        for at in COPIES {
            let mut copy = [0; SECTOR];
            if at + SECTOR as u64 <= len {
                file.read(at, &mut copy).map_err(unread)?;
            }
            found.push(Self::read_copy(&copy, at));
        }
        let newest = found.iter().flatten().max_by_key(|copy| match copy {
            Ok(header) => header.change,
            Err(_) => 0,
        });
        match newest {
            None => Err(damaged("both copies of its header are damaged, or it is another file")),
            Some(Err(form)) => Err(failed(&format!(
                "it was written by a newer version of Dunlin (format {form}; the newest known is \
                 {FORM}): use that version"
            ))),
            Some(Ok(header)) => {
                let is_worn = found.iter().any(|copy| copy != &Some(Ok(*header)));
                Ok((*header, is_worn))
            }
        }
    }
}
