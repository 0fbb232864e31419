//! The names of one zone, found by hash and in canonical order. Persistent.
//!
//! Leaves hold the nodes; the order refers to them by hash. The two top bits of a reference are the
//! node's ordinal among names that share the other 62 bits.
use crate::limits::{LEAF_NAMES, ORDINALS_MAX};
use crate::order::{CanonicalOrder, NameRef};
use crate::pack::{self, NodeChange};
use crate::vector::{Buckets, Vector};
use image::{HashKey, Leaf, NODE_HEAD_LEN, Node, Nodes, Tree};
use std::sync::Arc;
use wire::canonical_cmp;

const ORDINAL_SHIFT: u32 = 62;
const HASH_MASK: u64 = u64::MAX >> 2;

/// The error for a name that gets no ordinal.
pub const CROWDED: &str = "too many names share one hash; restart to draw another key";

/// A node's reference in the order.
pub fn reference(hash: u64, ordinal: u8) -> NameRef {
    hash & HASH_MASK | u64::from(ordinal) << ORDINAL_SHIFT
}

/// The names of one zone. A clone copies a few references; a change copies one path.
#[derive(Clone)]
pub struct Names {
    key: Arc<HashKey>,
    leaves: Buckets<Arc<[u8]>>,
    order: CanonicalOrder,
}

/// A node to insert or replace.
struct NodeUpdate {
    hash: u64,
    /// Its offset in the list, its length, and its name.
    at: usize,
    len: usize,
    name_len: usize,
    is_new: bool,
    /// Only of a new node.
    ordinal: u8,
}

impl NodeUpdate {
    fn name<'n>(&self, nodes: &'n [u8]) -> &'n [u8] {
        &nodes[self.at + NODE_HEAD_LEN..][..self.name_len]
    }

    fn change<'n>(&self, nodes: &'n [u8]) -> NodeChange<'n> {
        let bytes = Some(&nodes[self.at..][..self.len]);
        NodeChange { hash: self.hash, name: self.name(nodes), is_new: self.is_new, bytes }
    }
}

impl Names {
    /// No names.
    pub fn new(key: Arc<HashKey>) -> Self {
        let leaves = Buckets([pack::leaf(&mut [])].into_iter().collect());
        Self { key, leaves, order: CanonicalOrder::default() }
    }

    /// Creates names from leaves, and from their order if known.
    pub fn from_leaves(
        key: Arc<HashKey>,
        leaves: Vector<Arc<[u8]>>,
        order: Option<CanonicalOrder>,
    ) -> Self {
        let mut names = Self { key, leaves: Buckets(leaves), order: CanonicalOrder::default() };
        names.order = order.unwrap_or_else(|| names.sorted());
        names
    }

    /// The key of its hashes.
    pub fn key(&self) -> &Arc<HashKey> {
        &self.key
    }

    /// The leaves.
    pub fn leaves(&self) -> &Vector<Arc<[u8]>> {
        &self.leaves.0
    }

    /// The canonical order.
    pub fn order(&self) -> &CanonicalOrder {
        &self.order
    }

    /// The node of a name: relative, in lower case.
    pub fn get(&self, name: &[u8]) -> Option<Node<'_>> {
        let hash = self.key.hash_of(name);
        Leaf::new(self.leaf(hash)).find(hash, name)
    }

    /// Whether there are names below this one.
    pub fn has_below(&self, name: &[u8]) -> bool {
        self.first_below(name).is_some()
    }

    /// The first name below this one.
    pub fn first_below(&self, name: &[u8]) -> Option<Node<'_>> {
        let rank = self.rank(name);
        let here = self.at(rank).is_some_and(|node| node.name() == name);
        let next = self.at(rank + usize::from(here));
        next.filter(|node| is_below(node.name(), name))
    }

    /// Inserts or replaces nodes. They are concatenated in canonical order, each name once;
    /// `is_new` says which names do not exist yet. Packs each changed leaf once.
    ///
    /// # Errors
    /// More than [`ORDINALS_MAX`] names share their hash; nothing changes.
    pub fn put_all(&mut self, nodes: &mut [u8], is_new: &[bool]) -> Result<(), String> {
        let mut puts = self.find_all(nodes, is_new);
        let come = puts.iter().filter(|put| put.is_new).count();
        while self.order.len() + come > self.leaves.0.len() * LEAF_NAMES {
            self.grow();
        }
        let mut by_leaf: Vec<(usize, u64, usize)> = puts
            .iter()
            .enumerate()
            .map(|(n, put)| (self.leaves.index(put.hash), put.hash & HASH_MASK, n))
            .collect();
        by_leaf.sort_unstable();
        for same in by_leaf.chunk_by(|a, b| a.1 == b.1) {
            let mut taken = Vec::new();
            for (_, _, number) in same {
                let put = &mut puts[*number];
                if put.is_new {
                    let ordinal = self.free_ordinal(put.hash, &taken)?;
                    pack::set_ordinal(&mut nodes[put.at..], ordinal);
                    put.ordinal = ordinal;
                    taken.push(ordinal);
                }
            }
        }
        let (mut changes, mut room) = (Vec::new(), Vec::new());
        for here in by_leaf.chunk_by(|a, b| a.0 == b.0) {
            changes.clear();
            changes.extend(here.iter().map(|(_, _, number)| puts[*number].change(nodes)));
            self.edit(&mut room, here[0].0, &mut changes);
        }
        self.order_all(&puts, nodes);
        Ok(())
    }

    fn find_all(&self, nodes: &[u8], is_new: &[bool]) -> Vec<NodeUpdate> {
        let mut at = 0;
        let find = |(node, is_new): (Node<'_>, &bool)| {
            let (name, len) = (node.name(), node.as_bytes().len());
            let (hash, is_new) = (self.key.hash_of(name), *is_new);
            let put = NodeUpdate { hash, at, len, name_len: name.len(), is_new, ordinal: 0 };
            at += len;
            put
        };
        Nodes::new(nodes).zip(is_new).map(find).collect()
    }

    /// Adds new names to the order, after the leaves. Inserts adjacent names at once.
    fn order_all(&mut self, puts: &[NodeUpdate], nodes: &[u8]) {
        let new: Vec<&NodeUpdate> = puts.iter().filter(|put| put.is_new).collect();
        let mut rest = &new[..];
        let mut run = Vec::new();
        while let Some(first) = rest.first() {
            let rank = self.rank(first.name(nodes));
            let len = match self.at(rank) {
                None => rest.len(),
                Some(next) => {
                    let comes_before =
                        |put: &&NodeUpdate| canonical_cmp(put.name(nodes), next.name()).is_lt();
                    1 + rest[1..].partition_point(comes_before)
                }
            };
            run.clear();
            run.extend(rest[..len].iter().map(|put| reference(put.hash, put.ordinal)));
            self.order.insert(rank, &run);
            rest = &rest[len..];
        }
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &[u8]) {
        let hash = self.key.hash_of(name);
        if Leaf::new(self.leaf(hash)).find(hash, name).is_none() {
            return;
        }
        let rank = self.rank(name);
        self.order.remove(rank);
        let mut change = [NodeChange { hash, name, is_new: false, bytes: None }];
        self.edit(&mut Vec::new(), self.leaves.index(hash), &mut change);
        // Half a leaf of hysteresis, so that one name does not split and join leaves in turn.
        if self.leaves.0.len() > 1
            && self.order.len() + LEAF_NAMES < self.leaves.0.len() * LEAF_NAMES
        {
            self.shrink();
        }
    }

    /// The lowest free ordinal of this hash.
    fn free_ordinal(&self, hash: u64, taken: &[u8]) -> Result<u8, String> {
        let mut is_taken = [false; ORDINALS_MAX as usize];
        let mut take = |ordinal: u8| is_taken[usize::from(ordinal)] = true;
        taken.iter().copied().for_each(&mut take);
        Leaf::new(self.leaf(hash))
            .bucket(hash)
            .filter(|node| (self.key.hash_of(node.name()) ^ hash) & HASH_MASK == 0)
            .for_each(|node| take(node.ordinal()));
        (0..ORDINALS_MAX)
            .find(|ordinal| !is_taken[usize::from(*ordinal)])
            .ok_or_else(|| CROWDED.into())
    }

    /// Repacks a leaf with changed nodes.
    fn edit(&mut self, room: &mut Vec<u8>, index: usize, changes: &mut [NodeChange<'_>]) {
        let old = self.leaves.0.get(index).expect("there is always a leaf");
        let new = pack::changed_leaf(room, Leaf::new(old), changes, |name| self.key.hash_of(name));
        self.leaves.0.set(index, new);
    }

    fn hashed_nodes<'l>(&self, leaf: &'l [u8]) -> Vec<(u64, &'l [u8])> {
        Leaf::new(leaf)
            .nodes()
            .map(|node| (self.key.hash_of(node.name()), node.as_bytes()))
            .collect()
    }

    /// Splits one leaf.
    fn grow(&mut self) {
        let index = self.leaves.next_split();
        let full = Arc::clone(self.leaves.0.get(index).expect("there is always a leaf"));
        self.leaves.0.push(Arc::clone(&full));
        let last = self.leaves.0.len() - 1;
        let (mut stay, mut go): (Vec<_>, Vec<_>) = self
            .hashed_nodes(&full)
            .into_iter()
            .partition(|(hash, _)| self.leaves.index(*hash) == index);
        self.leaves.0.set(index, pack::leaf(&mut stay));
        self.leaves.0.set(last, pack::leaf(&mut go));
    }

    /// Joins the last leaf with the one it was split from.
    fn shrink(&mut self) {
        let Some(last) = self.leaves.0.pop() else { return };
        let index = self.leaves.next_split();
        let other = Arc::clone(self.leaves.0.get(index).expect("one leaf is always left"));
        let mut nodes = self.hashed_nodes(&other);
        nodes.extend(self.hashed_nodes(&last));
        self.leaves.0.set(index, pack::leaf(&mut nodes));
    }

    /// As these names, but with other leaves of the same names.
    pub(crate) fn with_leaves(&self, leaves: Vector<Arc<[u8]>>) -> Self {
        Self { key: Arc::clone(&self.key), leaves: Buckets(leaves), order: self.order.clone() }
    }

    /// The leaf of a name.
    pub(crate) fn index_of(&self, name: &[u8]) -> usize {
        self.leaves.index(self.key.hash_of(name))
    }

    /// The node of a reference.
    fn resolve(&self, item: NameRef) -> Option<Node<'_>> {
        let ordinal = (item >> ORDINAL_SHIFT) as u8;
        let hash = item & HASH_MASK;
        let mut candidates = Leaf::new(self.leaf(hash)).bucket(hash);
        let first = candidates.next()?;
        let Some(second) = candidates.next() else { return Some(first) };
        [first, second].into_iter().chain(candidates).find(|node| {
            node.ordinal() == ordinal && self.key.hash_of(node.name()) & HASH_MASK == hash
        })
    }

    /// Sorts the names of all leaves.
    fn sorted(&self) -> CanonicalOrder {
        let mut keys = Vec::new();
        // Each with the offset of its key and, in the low 16 bits, the length.
        let mut items: Vec<(u64, NameRef)> = Vec::new();
        for leaf in self.leaves.0.iter() {
            for node in Leaf::new(leaf).nodes() {
                let at = keys.len();
                model::sort_key(&mut keys, node.name());
                let hash = self.key.hash_of(node.name());
                let place = (at << 16 | (keys.len() - at)) as u64;
                items.push((place, reference(hash, node.ordinal())));
            }
        }
        let key = |place: u64| &keys[(place >> 16) as usize..][..(place & 0xffff) as usize];
        items.sort_unstable_by(|a, b| key(a.0).cmp(key(b.0)));
        CanonicalOrder::from_sorted(items.into_iter().map(|(_, item)| item))
    }

    /// The order after a change to `leaves`, with `removed` and `added` names.
    pub fn reordered(
        &self,
        leaves: &Vector<Arc<[u8]>>,
        added: &[Vec<u8>],
        removed: &[Vec<u8>],
    ) -> CanonicalOrder {
        let mut names = self.clone();
        for name in removed {
            let rank = names.rank(name);
            names.order.remove(rank);
        }
        // Look up references among the new leaves: the order has only names in both.
        names.leaves = Buckets(leaves.clone());
        for name in added {
            let rank = names.rank(name);
            let ordinal = names.get(name).map_or(0, |node| node.ordinal());
            names.order.insert(rank, &[reference(self.key.hash_of(name), ordinal)]);
        }
        names.order
    }
}

/// Whether a relative name is below another.
pub fn is_below(name: &[u8], above: &[u8]) -> bool {
    if name.len() <= above.len() || !name.ends_with(above) {
        return false;
    }
    let cut = name.len() - above.len();
    let mut at = 0;
    while at < cut {
        at += 1 + usize::from(name[at]);
    }
    at == cut
}

impl Tree for Names {
    #[inline]
    fn leaf(&self, hash: u64) -> &[u8] {
        self.leaves.get(hash).map_or(&[], |leaf| leaf)
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn at(&self, rank: usize) -> Option<Node<'_>> {
        self.resolve(self.order.at(rank)?)
    }

    fn rank(&self, name: &[u8]) -> usize {
        self.order.partition(|item| {
            self.resolve(item).is_some_and(|node| canonical_cmp(node.name(), name).is_lt())
        })
    }
}
