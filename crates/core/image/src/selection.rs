//! How an answer is selected from the records of a set, as packed bytes behind them.
//!
//! ```text
//! selection  form (1): 255, which no rules of a source have; order (1), with 128 for weights;
//!            records that each answer has (2), most further ones (2), key of the zone (8);
//!            with weights: for each record the sum of the weights up to its own (4);
//!            by hash: the hash of each record (8); with weights, the inverse of each weight (8);
//!            for each location in ascending order: the location (16), the number of the first
//!            record behind its own (2)
//! ```
//! Numbers are little-endian. With locations the records are sorted by them, so that those of a
//! common path are neighbors. Sums, hashes and inverses are what a choice needs of the records that
//! does not depend on the client.
use crate::Location;
use core::ops::Range;

/// The most records of a set that is ordered by weight or by hash.
pub const ORDERED_MAX: usize = 256;
/// Bytes before the weights.
pub const SELECTION_HEAD_LEN: usize = 14;
const FORM: u8 = 0xff;
const HAS_WEIGHTS: u8 = 0x80;
const SUM_LEN: usize = 4;
const HASH_LEN: usize = 8;
/// Bytes of a location with its end.
const GROUP_LEN: usize = Location::PACKED_LEN + 2;

/// In which order records are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// As they stand, from a random one on.
    #[default]
    Random = 0,
    /// By chance, in proportion to their weights.
    Weighted = 1,
    /// By a hash of each with the client's network, in proportion to their weights.
    Hash = 2,
}

/// How an answer is selected from a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// The order of the records that not all answers have.
    pub order: Order,
    /// How many of the first records each answer has.
    pub first: u16,
    /// How many of the others an answer has at most.
    pub others: u16,
    /// The key of [`Order::Hash`], which depends on the zone alone.
    pub key: u64,
    sums: &'a [[u8; SUM_LEN]],
    hashes: &'a [[u8; HASH_LEN]],
    inverses: &'a [[u8; HASH_LEN]],
    groups: &'a [[u8; GROUP_LEN]],
}

impl<'a> Selection<'a> {
    /// The packed form of what stands before the weights.
    pub const fn pack_head(
        order: Order,
        (first, others): (u16, u16),
        key: u64,
        has_weights: bool,
    ) -> [u8; SELECTION_HEAD_LEN] {
        let order = order as u8 | if has_weights { HAS_WEIGHTS } else { 0 };
        let ([f0, f1], [o0, o1]) = (first.to_le_bytes(), others.to_le_bytes());
        let [k0, k1, k2, k3, k4, k5, k6, k7] = key.to_le_bytes();
        [FORM, order, f0, f1, o0, o1, k0, k1, k2, k3, k4, k5, k6, k7]
    }

    /// Reads the packed form of a selection from so many records.
    #[inline(always)]
    pub(crate) fn unpack(packed: &'a [u8], records: usize) -> Option<Self> {
        let (head, rest) = packed.split_first_chunk::<SELECTION_HEAD_LEN>()?;
        let [FORM, order, f0, f1, o0, o1, key @ ..] = *head else { return None };
        let weighed = if order & HAS_WEIGHTS == 0 { 0 } else { records };
        let order = match order & !HAS_WEIGHTS {
            0 => Order::Random,
            1 => Order::Weighted,
            2 => Order::Hash,
            _ => return None,
        };
        let (hashed, inverted) = if order == Order::Hash { (records, weighed) } else { (0, 0) };
        let (sums, rest) = split(rest, weighed)?;
        let (hashes, rest) = split(rest, hashed)?;
        let (inverses, rest) = split(rest, inverted)?;
        let (groups, _) = rest.as_chunks();
        let [first, others] = [[f0, f1], [o0, o1]].map(u16::from_le_bytes);
        let key = u64::from_le_bytes(key);
        Some(Self { order, first, others, key, sums, hashes, inverses, groups })
    }

    /// Whether records have weights; otherwise all are equal.
    #[inline]
    pub const fn has_weights(&self) -> bool {
        !self.sums.is_empty()
    }

    /// The weight of a record.
    #[inline]
    pub fn weight(&self, record: usize) -> u16 {
        if self.has_weights() { self.weight_of(&(record..record + 1)) as u16 } else { 1 }
    }

    /// The sum of the weights of some records; 0: all are equal.
    #[inline]
    pub fn weight_of(&self, records: &Range<usize>) -> u32 {
        self.weight_before(records.end).saturating_sub(self.weight_before(records.start))
    }

    /// The sum of the weights of the records before this one.
    #[inline]
    pub fn weight_before(&self, record: usize) -> u32 {
        let before = record.checked_sub(1).and_then(|before| self.sums.get(before));
        before.map_or(0, |sum| u32::from_le_bytes(*sum))
    }

    /// The number of the record in whose part of the sum of all weights this number lies.
    #[inline]
    pub fn record_at(&self, weight: u32) -> Option<usize> {
        self.sums.iter().position(|sum| u32::from_le_bytes(*sum) > weight)
    }

    /// The hashes of some records, if they are ordered by them.
    #[inline]
    pub fn hashes(&self, records: &Range<usize>) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        numbers(self.hashes, records)
    }

    /// The same with [`inverse_of`] the weight of each, if they have weights.
    #[inline]
    pub fn weighed_hashes(
        &self,
        records: &Range<usize>,
    ) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        numbers(self.hashes, records).zip(numbers(self.inverses, records))
    }

    /// Whether records have locations.
    #[inline]
    pub const fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The locations of the records; none: all answers are selected from all.
    #[inline]
    pub const fn groups(&self) -> Groups<'a> {
        Groups { rest: self.groups, end: 0 }
    }
}

/// So many arrays, and what follows them.
#[inline]
fn split<const N: usize>(bytes: &[u8], len: usize) -> Option<(&[[u8; N]], &[u8])> {
    let (arrays, rest) = bytes.split_at_checked(N * len)?;
    Some((arrays.as_chunks().0, rest))
}

/// The numbers of some records.
#[inline]
fn numbers<'a>(
    packed: &'a [[u8; 8]],
    records: &Range<usize>,
) -> impl ExactSizeIterator<Item = u64> + use<'a> {
    let packed = packed.get(records.clone()).unwrap_or_default();
    packed.iter().map(|number| u64::from_le_bytes(*number))
}

/// The hash of a record: it follows from its data alone, so that all servers have the same.
pub fn record_hash(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let add = |sum: u64, word: &[u8; 8]| {
        // The golden ratio, as SplitMix64 has it.
        (sum.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    mix(add(words.iter().fold(data.len() as u64, add), &last))
}

/// 2^63 through a weight, or the largest number for 0.
pub const fn inverse_of(weight: u16) -> u64 {
    if weight == 0 { u64::MAX } else { (1 << 63) / weight as u64 }
}

/// Spreads each bit over all (MurmurHash3's finalizer with the constants of David Stafford).
#[inline]
pub const fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Records at one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where they are.
    pub location: Location,
    /// The number of the first one.
    pub start: u16,
    /// The number of the first one behind them.
    pub end: u16,
}

impl Group {
    /// The packed form.
    pub fn pack(self) -> [u8; GROUP_LEN] {
        let mut packed = [0; GROUP_LEN];
        packed[..Location::PACKED_LEN].copy_from_slice(&self.location.pack());
        packed[Location::PACKED_LEN..].copy_from_slice(&self.end.to_le_bytes());
        packed
    }
}

/// Iterator over the locations of records, in ascending order.
#[derive(Clone, Debug)]
pub struct Groups<'a> {
    rest: &'a [[u8; GROUP_LEN]],
    end: u16,
}

impl Iterator for Groups<'_> {
    type Item = Group;

    #[inline]
    fn next(&mut self) -> Option<Group> {
        let ([location @ .., e0, e1], rest) = self.rest.split_first()?;
        let (start, end) = (self.end, u16::from_le_bytes([*e0, *e1]));
        *self = Self { rest, end };
        Some(Group { location: Location::unpack(*location), start, end })
    }
}
