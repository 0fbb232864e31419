//! How an answer is selected from the records of a set, as packed bytes behind them.
//!
//! ```text
//! selection  form (1): 255, which no rules of a source have; order (1), with 128 for weights;
//!            records that each answer has (2), most further ones (2), key of the zone (8);
//!            with weights: the weight of each record (2);
//!            for each location in ascending order: the location (16), the number of the first
//!            record behind its own (2)
//! ```
//! Numbers are little-endian. With locations the records are sorted by them, so that those of a
//! common path are neighbors.
use crate::Location;

/// The most records of a set that is ordered by weight or by hash.
pub const ORDERED_MAX: usize = 256;
/// Bytes before the weights.
pub const SELECTION_HEAD_LEN: usize = 14;
const FORM: u8 = 0xff;
const HAS_WEIGHTS: u8 = 0x80;
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
    weights: &'a [u8],
    groups: &'a [u8],
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
    #[inline]
    pub(crate) fn unpack(packed: &'a [u8], records: usize) -> Option<Self> {
        let (head, rest) = packed.split_first_chunk::<SELECTION_HEAD_LEN>()?;
        let [FORM, order, f0, f1, o0, o1, key @ ..] = *head else { return None };
        let weights = if order & HAS_WEIGHTS == 0 { 0 } else { 2 * records };
        let (weights, groups) = rest.split_at_checked(weights)?;
        let order = match order & !HAS_WEIGHTS {
            0 => Order::Random,
            1 => Order::Weighted,
            2 => Order::Hash,
            _ => return None,
        };
        let [first, others] = [[f0, f1], [o0, o1]].map(u16::from_le_bytes);
        Some(Self { order, first, others, key: u64::from_le_bytes(key), weights, groups })
    }

    /// Whether records have weights; otherwise all are equal.
    #[inline]
    pub const fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// The weight of a record.
    #[inline]
    pub fn weight(&self, record: usize) -> u16 {
        let weight = self.weights.get(2 * record..).and_then(<[u8]>::first_chunk);
        weight.map_or(1, |weight| u16::from_le_bytes(*weight))
    }

    /// The locations of the records; none: all answers are selected from all.
    #[inline]
    pub const fn groups(&self) -> Groups<'a> {
        Groups { rest: self.groups, end: 0 }
    }
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
    rest: &'a [u8],
    end: u16,
}

impl Iterator for Groups<'_> {
    type Item = Group;

    #[inline]
    fn next(&mut self) -> Option<Group> {
        let (location, rest) = self.rest.split_first_chunk()?;
        let (end, rest) = rest.split_first_chunk()?;
        let (start, end) = (self.end, u16::from_le_bytes(*end));
        *self = Self { rest, end };
        Some(Group { location: Location::unpack(*location), start, end })
    }
}
