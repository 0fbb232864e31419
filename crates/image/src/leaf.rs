//! A leaf: some dozens of nodes, found by hash, in one block of octets.
//!
//! ```text
//! leaf   nodes (2), log2 of buckets (2)
//!        for each bucket, and one behind the last: the index of its first node (2)
//!        for each node: where it starts (4)
//!        the nodes, by bucket
//! ```
use crate::Node;

const HEAD_LEN: usize = 4;

/// How many bits of the hash choose a bucket among those of a leaf of so many nodes: about one
/// node a bucket.
pub const fn bucket_bits(nodes: usize) -> u32 {
    usize::BITS - nodes.saturating_sub(1).leading_zeros()
}

/// The bucket of a hash. The high bits: the low ones have chosen the leaf.
#[inline]
pub const fn bucket_of(hash: u64, bits: u32) -> usize {
    (hash >> 32) as usize & ((1 << (bits & 15)) - 1)
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

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.u16_at(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn u16_at(&self, at: usize) -> usize {
        match self.0.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(octets) => u16::from_le_bytes(*octets).into(),
            None => 0,
        }
    }

    #[inline]
    fn u32_at(&self, at: usize) -> usize {
        match self.0.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(octets) => u32::from_le_bytes(*octets) as usize,
            None => self.0.len(),
        }
    }

    fn bits(&self) -> u32 {
        self.u16_at(2) as u32
    }

    /// Where the offsets of the nodes stand.
    #[inline]
    fn offsets_at(&self, bits: u32) -> usize {
        HEAD_LEN + 2 * ((1 << (bits & 15)) + 1)
    }

    #[inline]
    fn node(&self, index: usize, offsets_at: usize, nodes: usize) -> Node<'a> {
        let at = offsets_at + 4 * index;
        let end = if index + 1 < nodes { self.u32_at(at + 4) } else { self.0.len() };
        Node::new(self.0.get(self.u32_at(at)..end).unwrap_or_default())
    }

    /// The node of this name, whose hash it is. `name` is relative, in lower case.
    #[inline]
    pub fn find(&self, hash: u64, name: &[u8]) -> Option<Node<'a>> {
        self.bucket(hash).find(|node| node.name() == name)
    }

    /// The nodes in the bucket of this hash; each may have another hash and only share its bucket.
    #[inline]
    pub fn bucket(&self, hash: u64) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let leaf = *self;
        let bits = leaf.bits();
        let bucket = HEAD_LEN + 2 * bucket_of(hash, bits);
        let nodes = leaf.len();
        let offsets_at = leaf.offsets_at(bits);
        (leaf.u16_at(bucket)..leaf.u16_at(bucket + 2))
            .map(move |index| leaf.node(index, offsets_at, nodes))
    }

    /// All nodes, in the order they lie.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let leaf = *self;
        let (offsets_at, nodes) = (leaf.offsets_at(leaf.bits()), leaf.len());
        (0..nodes).map(move |index| leaf.node(index, offsets_at, nodes))
    }
}
