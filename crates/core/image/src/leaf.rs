//! A leaf: some dozens of nodes, found by hash, in one block of bytes.
//!
//! ```text
//! leaf   number of the last bucket, all of whose bits are ones (2), nodes (2)
//!        for each bucket, and one behind the last: where its first node starts (4)
//!        the nodes, by bucket
//! ```
use crate::{NODE_HEAD_LEN, Node};

/// Bytes before a leaf's table.
pub const LEAF_HEAD_LEN: usize = 4;

/// The number of the last bucket of a leaf: about one node a bucket.
pub const fn last_bucket(nodes: usize) -> u16 {
    (nodes.next_power_of_two() - 1) as u16
}

/// The bucket of a hash, by its high bits: the low ones have chosen the leaf.
#[inline]
pub const fn bucket_of(hash: u64, last: u16) -> usize {
    (hash >> 32) as usize & last as usize
}

/// A packed leaf, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a>(&'a [u8]);

impl<'a> Leaf<'a> {
    /// A packed leaf; an empty slice is a leaf without nodes.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    fn last_bucket(&self) -> u16 {
        self.0.first_chunk().map_or(0, |last| u16::from_le_bytes(*last))
    }

    /// The whole packed form.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.0
            .get(2..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |n| u16::from_le_bytes(*n))
            .into()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node of a name with this hash. `name` is relative, in lower case.
    #[inline]
    pub fn find(&self, hash: u64, name: &[u8]) -> Option<Node<'a>> {
        let mut nodes = self.span(hash)?;
        // A node of this name has no fewer bytes.
        while let [l0, l1, name_len, theirs @ ..] = nodes.get(..NODE_HEAD_LEN + name.len())? {
            let len = usize::from(u16::from_le_bytes([*l0, *l1]));
            if usize::from(*name_len) == name.len() && same(theirs, name) {
                return nodes.get(..len).map(Node::new);
            }
            nodes = nodes.get(len.max(NODE_HEAD_LEN)..)?;
        }
        None
    }

    /// The nodes in the bucket of this hash. Their hashes may differ.
    #[inline]
    pub fn bucket(&self, hash: u64) -> Nodes<'a> {
        Nodes(self.span(hash).unwrap_or_default())
    }

    #[inline(always)]
    fn span(&self, hash: u64) -> Option<&'a [u8]> {
        let at = LEAF_HEAD_LEN + 4 * bucket_of(hash, self.last_bucket());
        let span = u64::from_le_bytes(*self.0.get(at..at + 8)?.first_chunk()?);
        self.0.get(..(span >> 32) as usize)?.get(span as u32 as usize..)
    }

    /// All nodes in packed order.
    pub fn nodes(&self) -> Nodes<'a> {
        let table = LEAF_HEAD_LEN + 4 * (usize::from(self.last_bucket()) + 2);
        Nodes(self.0.get(table..).unwrap_or_default())
    }
}

/// Iterator over consecutive nodes.
#[derive(Clone, Debug)]
pub struct Nodes<'a>(&'a [u8]);

impl<'a> Nodes<'a> {
    /// An iterator over consecutive packed nodes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The remaining bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
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

/// Whether two names are equal. Inlined, because most are short.
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

/// Whether the first N and the last N bytes are equal; they may overlap.
#[inline(always)]
fn have_same_ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    a.first_chunk::<N>() == b.first_chunk::<N>() && a.last_chunk::<N>() == b.last_chunk::<N>()
}
