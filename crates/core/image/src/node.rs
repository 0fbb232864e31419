//! A node: one name of a zone with its record sets, as packed bytes.
//!
//! ```text
//! node   bytes of all (2); name length (1), name relative to the origin without a root, lower
//!        case; ordinal (1): its number among the names whose hash is the same, and in the highest
//!        bit whether it is declared; its sets by type
//! set    type (2, big-endian), TTL (4, big-endian, seconds), records (2), bytes of data (2),
//!        then the records: each behind its length (2), unless the type fixes it
//! ```
//! Type and TTL stand in the order of the wire, so that they are copied, not converted.
use wire::Rtype;

/// Bytes before a node's name.
pub const NODE_HEAD_LEN: usize = 3;
const ORDINAL_LEN: usize = 1;
/// Set in the byte of the ordinal of a declared name.
pub const DECLARED: u8 = 0x80;
/// Bytes before a set's records.
pub const SET_HEAD_LEN: usize = 10;

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
        self.number() & !DECLARED
    }

    /// Whether its source declared that it exists, even without records and names below it.
    pub fn is_declared(&self) -> bool {
        self.number() & DECLARED != 0
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
        u16::from_le_bytes([self.head[6], self.head[7]]).into()
    }

    /// The packed data of all records.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[SET_HEAD_LEN..]
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
