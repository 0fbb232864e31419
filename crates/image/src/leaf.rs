//! A leaf: some dozens of nodes, found by hash, in one block of octets.
//!
//! ```text
//! leaf   number of the last bucket, all of whose bits are ones (2), nodes (2)
//!        for each bucket, and one behind the last: where its first node starts (4)
//!        the nodes, by bucket
//! ```
use crate::{NODE_HEAD_LEN, Node};

/// Octets in front of a leaf's table.
pub const LEAF_HEAD_LEN: usize = 4;

/// The number of the last bucket of a leaf of so many nodes: about one node a bucket.
pub const fn last_bucket(nodes: usize) -> u16 {
    (nodes.next_power_of_two() - 1) as u16
}

/// The bucket of a hash. The high bits: the low ones have chosen the leaf.
#[inline]
pub const fn bucket_of(hash: u64, last: u16) -> usize {
    (hash >> 32) as usize & last as usize
}

/// A packed leaf, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a>(&'a [u8]);

impl<'a> Leaf<'a> {
    /// Takes a packed leaf; an empty slice is a leaf without nodes.
    #[inline]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    #[inline]
    fn last_bucket(&self) -> u16 {
        self.0.first_chunk().map_or(0, |last| u16::from_le_bytes(*last))
    }

    /// The whole packed form.
    pub fn octets(&self) -> &'a [u8] {
        self.0
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.0
            .get(2..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |n| u16::from_le_bytes(*n))
            .into()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node of this name, whose hash it is. `name` is relative, in lower case.
    #[inline]
    pub fn find(&self, hash: u64, name: &[u8]) -> Option<Node<'a>> {
        let mut nodes = self.span(hash)?;
        while let [l0, l1, name_len, rest @ ..] = nodes {
            let len = usize::from(u16::from_le_bytes([*l0, *l1]));
            if usize::from(*name_len) == name.len()
                && let Some(theirs) = rest.get(..name.len())
                && same(theirs, name)
            {
                return nodes.get(..len).map(Node::new);
            }
            nodes = nodes.get(len.max(NODE_HEAD_LEN)..)?;
        }
        None
    }

    /// The nodes in the bucket of this hash; each may have another hash and only share its bucket.
    #[inline]
    pub fn bucket(&self, hash: u64) -> Nodes<'a> {
        Nodes(self.span(hash).unwrap_or_default())
    }

    /// The octets of those nodes.
    #[inline(always)]
    fn span(&self, hash: u64) -> Option<&'a [u8]> {
        let at = LEAF_HEAD_LEN + 4 * bucket_of(hash, self.last_bucket());
        let span = u64::from_le_bytes(*self.0.get(at..at + 8)?.first_chunk()?);
        self.0.get(..(span >> 32) as usize)?.get(span as u32 as usize..)
    }

    /// All nodes, in the order they lie.
    pub fn nodes(&self) -> Nodes<'a> {
        let table = LEAF_HEAD_LEN + 4 * (usize::from(self.last_bucket()) + 2);
        Nodes(self.0.get(table..).unwrap_or_default())
    }
}

/// Iterator over nodes that lie one behind another.
#[derive(Clone, Debug)]
pub struct Nodes<'a>(&'a [u8]);

impl<'a> Nodes<'a> {
    /// Takes packed nodes that lie one behind another.
    pub const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// The octets of those that are yet to come.
    pub fn octets(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Nodes<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        let len = usize::from(u16::from_le_bytes(*self.0.first_chunk()?));
        let (node, rest) = self.0.split_at_checked(len.max(NODE_HEAD_LEN))?;
        self.0 = rest;
        Some(Node::new(node))
    }
}

/// Whether two names are the same. Most are short: a call would cost more than the comparison.
#[inline(always)]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        len if len != b.len() => false,
        0..8 => a.iter().eq(b),
        8..=16 => have_same_ends::<8>(a, b),
        17..=32 => have_same_ends::<16>(a, b),
        _ => {
            let (whole_a, whole_b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
            have_same_ends::<16>(a, b) && whole_a.iter().zip(whole_b).all(|(a, b)| a == b)
        }
    }
}

/// Whether the first N octets are the same, and the last N, which may overlap those.
#[inline(always)]
fn have_same_ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    a.first_chunk::<N>() == b.first_chunk::<N>() && a.last_chunk::<N>() == b.last_chunk::<N>()
}
