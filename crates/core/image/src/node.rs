//! A node: one name of a zone with its record sets, as packed bytes.
//!
//! ```text
//! node   bytes of all (2); name length (1), name relative to the origin without a root, lower
//!        case; ordinal (1): its number among the names whose hash is the same, and in the two
//!        highest bits whether and as what it is declared; its sets by type
//! set    type (2, big-endian), TTL (4, big-endian, seconds), records (2), bytes of data (2),
//!        then the records: each behind its length (2), unless the type fixes it
//! ```
//! If the highest bit of the number of records is set, rules of the set and their length (2) follow
//! its records. Such sets choose what is answered; the zones that workers read have the result: the
//! records that may be answered, and if not each answer has all of them, a [`Selection`] as the
//! rules.

//! Type and TTL stand in the order of the wire, so that they are copied, not converted.
use crate::Selection;
use wire::Rtype;

/// Bytes before a node's name.
pub const NODE_HEAD_LEN: usize = 3;
const ORDINAL_LEN: usize = 1;
/// The bits of [`Declared`] in the byte of the ordinal.
pub const DECLARED_BITS: u8 = 0xc0;
/// Bytes before a set's records.
pub const SET_HEAD_LEN: usize = 10;
/// Set in the number of records of a set with rules.
pub const HAS_RULES: u16 = 0x8000;

/// What a source declared of a name, whatever records it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Declared {
    /// Nothing: it needs records, or names below it, to exist.
    #[default]
    Nothing = 0,
    /// It exists even without records and names below it.
    Name = 0x80,
    /// The same; it is a wildcard, and stands for each label that is an address with hyphens:
    /// `10-0-0-1` has the address 10.0.0.1, with the TTL of the zone's SOA.
    Addresses = 0xc0,
}

/// One name of a zone. A name without sets is an empty non-terminal, or declared.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a>(&'a [u8]);

impl<'a> Node<'a> {
    /// A packed node.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The whole packed form.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The name relative to the origin: labels in lower case, no root. Empty at the apex.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        match self.0 {
            [_, _, len, rest @ ..] => rest.get(..usize::from(*len)).unwrap_or_default(),
            _ => &[],
        }
    }

    /// What follows the name and `bytes` further bytes.
    #[inline(always)]
    fn behind(&self, bytes: usize) -> Option<&'a [u8]> {
        let len = usize::from(*self.0.get(NODE_HEAD_LEN - 1)?);
        self.0.get(bytes + len..)
    }

    /// Its number among the names with the same hash.
    pub fn ordinal(&self) -> u8 {
        self.number() & !DECLARED_BITS
    }

    /// What its source declared of it.
    pub fn declared(&self) -> Declared {
        match self.number() & DECLARED_BITS {
            0xc0 => Declared::Addresses,
            0x80 => Declared::Name,
            _ => Declared::Nothing,
        }
    }

    /// Whether its source declared that it exists, even without records and names below it.
    pub fn is_declared(&self) -> bool {
        self.declared() != Declared::Nothing
    }

    /// The byte of the ordinal.
    fn number(&self) -> u8 {
        self.behind(NODE_HEAD_LEN).and_then(<[u8]>::first).copied().unwrap_or_default()
    }

    /// Whether it has no record set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sets().0.is_empty()
    }

    /// The record sets, by type.
    #[inline]
    pub fn sets(&self) -> Sets<'a> {
        Sets(self.behind(NODE_HEAD_LEN + ORDINAL_LEN).unwrap_or_default())
    }

    /// The set of one type.
    #[inline]
    pub fn set(&self, rtype: Rtype) -> Option<RecordSet<'a>> {
        let wanted = rtype.0.to_be_bytes();
        let mut sets = Sets(self.behind(NODE_HEAD_LEN + ORDINAL_LEN)?);
        sets.find(|set| [set.head[0], set.head[1]] == wanted)
    }
}

/// Iterator over a node's record sets.
#[derive(Clone, Debug)]
pub struct Sets<'a>(&'a [u8]);

impl<'a> Iterator for Sets<'a> {
    type Item = RecordSet<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordSet<'a>> {
        let head: &[u8; SET_HEAD_LEN] = self.0.first_chunk()?;
        let len = usize::from(u16::from_le_bytes([head[8], head[9]]));
        let (bytes, rest) = self.0.split_at_checked(SET_HEAD_LEN + len)?;
        self.0 = rest;
        Some(RecordSet { bytes, head })
    }
}

/// All records of one name and one type.
#[derive(Clone, Copy, Debug)]
pub struct RecordSet<'a> {
    bytes: &'a [u8],
    head: &'a [u8; SET_HEAD_LEN],
}

impl<'a> RecordSet<'a> {
    /// Their type.
    #[inline]
    pub fn rtype(&self) -> Rtype {
        Rtype(u16::from_be_bytes([self.head[0], self.head[1]]))
    }

    /// Their TTL in seconds.
    #[inline]
    pub fn ttl(&self) -> u32 {
        u32::from_be_bytes([self.head[2], self.head[3], self.head[4], self.head[5]])
    }

    /// The packed head.
    #[inline]
    pub fn head(&self) -> &'a [u8; SET_HEAD_LEN] {
        self.head
    }

    /// The number of records, at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        (u16::from_le_bytes([self.head[6], self.head[7]]) & !HAS_RULES).into()
    }

    /// Whether rules choose among its records.
    #[inline]
    pub fn has_rules(&self) -> bool {
        u16::from_le_bytes([self.head[6], self.head[7]]) & HAS_RULES != 0
    }

    /// The packed rules; empty: there are none.
    pub fn rules(&self) -> &'a [u8] {
        self.split().map_or(&[], |(_, rules)| rules)
    }

    /// How an answer is selected from its records; `None`: it has all.
    pub fn selection(&self) -> Option<Selection<'a>> {
        self.selected().map(|(_, selection)| selection)
    }

    /// The same with the packed data of all records.
    #[inline(always)]
    pub fn selected(&self) -> Option<(&'a [u8], Selection<'a>)> {
        let (data, rules) = self.split()?;
        Some((data, Selection::unpack(rules, self.count())?))
    }

    /// The records and the rules of a set with rules.
    #[inline]
    fn split(&self) -> Option<(&'a [u8], &'a [u8])> {
        if !self.has_rules() {
            return None;
        }
        let (rest, len) = self.bytes[SET_HEAD_LEN..].split_last_chunk()?;
        rest.split_at_checked(rest.len().checked_sub(u16::from_le_bytes(*len).into())?)
    }

    /// The packed data of all records of a set without rules. Zones that workers read have no
    /// others.
    #[inline]
    pub fn plain_data(&self) -> &'a [u8] {
        &self.bytes[SET_HEAD_LEN..]
    }

    /// The packed data of all records.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        if self.has_rules() {
            return self.split().map_or(&[], |(records, _)| records);
        }
        self.plain_data()
    }

    /// The whole packed form.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The data of each record.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        Records { rest: self.data(), fixed: self.rtype().fixed_rdata_len() }
    }
}

/// Iterator over the data of a set's records.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    fixed: Option<usize>,
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = match self.fixed {
            Some(len) => (len, self.rest),
            None => {
                let (len, rest) = self.rest.split_first_chunk()?;
                (usize::from(u16::from_le_bytes(*len)), rest)
            }
        };
        if self.rest.is_empty() {
            return None;
        }
        let (record, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some(record)
    }
}
