//! Where entries lie: sets of ten places, each a cache line that a hash chooses.
use crate::limits::LINE_LEN;

/// Ten places and what tells whose they are.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Line {
    /// Sixteen bits of each hash.
    tags: [u16; LINE_LEN],
    /// Where each entry lies, in units, and one more; 0: nowhere.
    places: [u32; LINE_LEN],
}

impl Line {
    /// A line of no entries.
    pub const EMPTY: Self = Self { tags: [0; LINE_LEN], places: [0; LINE_LEN] };

    /// The places of entries that may have this hash.
    #[inline]
    pub(crate) fn places(&self, hash: u64) -> impl Iterator<Item = usize> {
        let tag = hash as u16;
        self.tags
            .iter()
            .zip(&self.places)
            .filter(move |(own, place)| **own == tag && **place != 0)
            .map(|(_, place)| *place as usize - 1)
    }

    /// All places.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> {
        self.places.iter().filter(|place| **place != 0).map(|place| *place as usize - 1)
    }

    /// Notes an entry; false where there is no room.
    pub(crate) fn insert(&mut self, hash: u64, place: usize) -> bool {
        let Some(at) = self.places.iter().position(|place| *place == 0) else { return false };
        self.tags[at] = hash as u16;
        self.places[at] = place as u32 + 1;
        true
    }

    /// Notes that an entry lies elsewhere; false if it is not here.
    pub(crate) fn change(&mut self, from: usize, to: Option<usize>) -> bool {
        let from = from as u32 + 1;
        let Some(at) = self.places.iter().position(|place| *place == from) else { return false };
        self.places[at] = to.map_or(0, |to| to as u32 + 1);
        true
    }
}

/// Which of `len` things a hash chooses, by its upper bits.
#[inline]
pub(crate) fn choose(hash: u64, len: usize) -> usize {
    ((u128::from(hash) * len as u128) >> 64) as usize
}
