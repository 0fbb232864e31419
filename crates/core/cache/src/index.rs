//! The index: buckets of ten slots, each a cache line. A hash chooses the bucket.
use crate::limits::LINE_LEN;

/// Ten slots, and a part of each entry's hash.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Bucket {
    /// Sixteen bits of each hash.
    tags: [u16; LINE_LEN],
    /// Position of each entry plus one, in units; 0: free.
    slots: [u32; LINE_LEN],
}

impl Bucket {
    /// A bucket without entries.
    pub const EMPTY: Self = Self { tags: [0; LINE_LEN], slots: [0; LINE_LEN] };

    /// The positions of entries that may have this hash.
    #[inline]
    pub(crate) fn slots(&self, hash: u64) -> impl Iterator<Item = usize> {
        let tag = hash as u16;
        self.tags
            .iter()
            .zip(&self.slots)
            .filter(move |(own, slot)| **own == tag && **slot != 0)
            .map(|(_, slot)| *slot as usize - 1)
    }

    /// All positions.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().filter(|slot| **slot != 0).map(|slot| *slot as usize - 1)
    }

    /// Adds an entry; false if the bucket is full.
    pub(crate) fn insert(&mut self, hash: u64, slot: usize) -> bool {
        let Some(at) = self.slots.iter().position(|slot| *slot == 0) else { return false };
        self.tags[at] = hash as u16;
        self.slots[at] = slot as u32 + 1;
        true
    }

    /// Moves or removes an entry; false if it is not here.
    pub(crate) fn change(&mut self, from: usize, to: Option<usize>) -> bool {
        let from = from as u32 + 1;
        let Some(at) = self.slots.iter().position(|slot| *slot == from) else { return false };
        self.slots[at] = to.map_or(0, |to| to as u32 + 1);
        true
    }
}

/// Chooses one of `len` items by the upper bits of a hash.
#[inline]
pub(crate) fn choose(hash: u64, len: usize) -> usize {
    ((u128::from(hash) * len as u128) >> 64) as usize
}
