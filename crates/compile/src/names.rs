//! The names of one zone: found by hash, ordered canonically, persistent.
//!
//! A leaf holds the nodes; the order refers to them by hash. The two top bits of a reference are
//! the node's ordinal among the names that share the other 62 bits.
use crate::limits::{LEAF_NAMES, ORDINALS_MAX};
use crate::order::{Order, Ref};
use crate::pack::{self, NodeChange};
use crate::vector::{Buckets, Vector};
use image::{HashKey, Leaf, NODE_HEAD_LEN, Node, Nodes, Tree};
use std::sync::Arc;
use wire::canonical_cmp;

const ORDINAL_SHIFT: u32 = 62;
const HASH_MASK: u64 = u64::MAX >> 2;

/// What is told of a name that can have no ordinal.
pub const CROWDED: &str = "too many names share one hash; restart to draw another key";

/// What the order calls a node.
pub fn reference(hash: u64, ordinal: u8) -> Ref {
    hash & HASH_MASK | u64::from(ordinal) << ORDINAL_SHIFT
}

/// The names of one zone. A clone costs some references; a change, the path to what changed.
#[derive(Clone)]
pub struct Names {
    key: Arc<HashKey>,
    leaves: Buckets<Arc<[u8]>>,
    order: Order,
}

/// A node that is put.
struct Put {
    hash: u64,
    /// Where it lies among the others, how long it is, and its name.
    at: usize,
    len: usize,
    name_len: usize,
    is_new: bool,
    /// Of one that is new.
    ordinal: u8,
}

impl Put {
    fn name<'n>(&self, nodes: &'n [u8]) -> &'n [u8] {
        &nodes[self.at + NODE_HEAD_LEN..][..self.name_len]
    }

    fn change<'n>(&self, nodes: &'n [u8]) -> NodeChange<'n> {
        let octets = Some(&nodes[self.at..][..self.len]);
        NodeChange { hash: self.hash, name: self.name(nodes), is_new: self.is_new, octets }
    }
}

impl Names {
    /// No names.
    pub fn new(key: Arc<HashKey>) -> Self {
        let leaves = Buckets([pack::leaf(&mut [])].into_iter().collect());
        Self { key, leaves, order: Order::default() }
    }

    /// Takes leaves that were built for it, and the order if that is known.
    pub fn from_leaves(key: Arc<HashKey>, leaves: Vector<Arc<[u8]>>, order: Option<Order>) -> Self {
        let mut names = Self { key, leaves: Buckets(leaves), order: Order::default() };
        names.order = order.unwrap_or_else(|| names.sorted());
        names
    }

    /// The key of its hashes.
    pub fn key(&self) -> &Arc<HashKey> {
        &self.key
    }

    /// The leaves, to build others like them.
    pub fn leaves(&self) -> &Vector<Arc<[u8]>> {
        &self.leaves.0
    }

    /// The order, to change it beside the leaves.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The node of a name: relative, in lower case.
    pub fn get(&self, name: &[u8]) -> Option<Node<'_>> {
        let hash = self.key.hash_of(name);
        Leaf::new(self.leaf(hash)).find(hash, name)
    }

    /// Whether names lie below this one.
    pub fn has_below(&self, name: &[u8]) -> bool {
        let rank = self.rank(name);
        let here = self.at(rank).is_some_and(|node| node.name() == name);
        let next = self.at(rank + usize::from(here));
        next.is_some_and(|node| is_below(node.name(), name))
    }

    /// Puts packed nodes in the places of those of their names, or adds them: they lie one behind
    /// another, in canonical order, each name once; `is_new` says of each whether its name is not
    /// there. A leaf is packed once, however many of them are in it.
    ///
    /// # Errors
    /// When more names than [`ORDINALS_MAX`] share their hash; nothing is put then.
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

    /// Where each of some nodes lies.
    fn find_all(&self, nodes: &[u8], is_new: &[bool]) -> Vec<Put> {
        let mut at = 0;
        let find = |(node, is_new): (Node<'_>, &bool)| {
            let (name, len) = (node.name(), node.octets().len());
            let (hash, is_new) = (self.key.hash_of(name), *is_new);
            let put = Put { hash, at, len, name_len: name.len(), is_new, ordinal: 0 };
            at += len;
            put
        };
        Nodes::new(nodes).zip(is_new).map(find).collect()
    }

    /// Takes new names into the order; the leaves have them already. Those between two that were
    /// there come in at once.
    fn order_all(&mut self, puts: &[Put], nodes: &[u8]) {
        let new: Vec<&Put> = puts.iter().filter(|put| put.is_new).collect();
        let mut rest = &new[..];
        let mut run = Vec::new();
        while let Some(first) = rest.first() {
            let rank = self.rank(first.name(nodes));
            let len = match self.at(rank) {
                None => rest.len(),
                Some(next) => {
                    let comes_before =
                        |put: &&Put| canonical_cmp(put.name(nodes), next.name()).is_lt();
                    1 + rest[1..].partition_point(comes_before)
                }
            };
            run.clear();
            run.extend(rest[..len].iter().map(|put| reference(put.hash, put.ordinal)));
            self.order.insert(rank, &run);
            rest = &rest[len..];
        }
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &[u8]) {
        let hash = self.key.hash_of(name);
        if Leaf::new(self.leaf(hash)).find(hash, name).is_none() {
            return;
        }
        let rank = self.rank(name);
        self.order.remove(rank);
        let mut change = [NodeChange { hash, name, is_new: false, octets: None }];
        self.edit(&mut Vec::new(), self.leaves.index(hash), &mut change);
        // Half an item of hysteresis, so that one name coming and going does not split and join.
        if self.leaves.0.len() > 1
            && self.order.len() + LEAF_NAMES < self.leaves.0.len() * LEAF_NAMES
        {
            self.shrink();
        }
    }

    /// The lowest ordinal that no other name of this hash has, those of `taken` among them.
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

    /// Packs a leaf anew with some nodes changed.
    fn edit(&mut self, room: &mut Vec<u8>, index: usize, changes: &mut [NodeChange<'_>]) {
        let old = self.leaves.0.get(index).expect("there is always a leaf");
        let new = pack::changed_leaf(room, Leaf::new(old), changes, |name| self.key.hash_of(name));
        self.leaves.0.set(index, new);
    }

    fn hashed_nodes<'l>(&self, leaf: &'l [u8]) -> Vec<(u64, &'l [u8])> {
        Leaf::new(leaf).nodes().map(|node| (self.key.hash_of(node.name()), node.octets())).collect()
    }

    /// One leaf more: it takes its names from the one it is split from.
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

    /// One leaf less: its names go back to where it was split from.
    fn shrink(&mut self) {
        let Some(last) = self.leaves.0.pop() else { return };
        let index = self.leaves.next_split();
        let other = Arc::clone(self.leaves.0.get(index).expect("one leaf is always left"));
        let mut nodes = self.hashed_nodes(&other);
        nodes.extend(self.hashed_nodes(&last));
        self.leaves.0.set(index, pack::leaf(&mut nodes));
    }

    /// The node of a reference.
    fn resolve(&self, item: Ref) -> Option<Node<'_>> {
        let ordinal = (item >> ORDINAL_SHIFT) as u8;
        let hash = item & HASH_MASK;
        let mut candidates = Leaf::new(self.leaf(hash)).bucket(hash);
        let first = candidates.next()?;
        let Some(second) = candidates.next() else { return Some(first) };
        [first, second].into_iter().chain(candidates).find(|node| {
            node.ordinal() == ordinal && self.key.hash_of(node.name()) & HASH_MASK == hash
        })
    }

    /// The order of all names that are in the leaves.
    fn sorted(&self) -> Order {
        let mut keys = Vec::new();
        // Each with its key's place and, in the low 16 bits, length.
        let mut items: Vec<(u64, Ref)> = Vec::new();
        for leaf in self.leaves.0.iter() {
            for node in Leaf::new(leaf).nodes() {
                let at = keys.len();
                sort_key(&mut keys, node.name());
                let hash = self.key.hash_of(node.name());
                let place = (at << 16 | (keys.len() - at)) as u64;
                items.push((place, reference(hash, node.ordinal())));
            }
        }
        let key = |place: u64| &keys[(place >> 16) as usize..][..(place & 0xffff) as usize];
        items.sort_unstable_by(|a, b| key(a.0).cmp(key(b.0)));
        Order::from_sorted(items.into_iter().map(|(_, item)| item))
    }

    /// The order once `leaves` take the place of these, `removed` names went and `added` came.
    pub fn reordered(
        &self,
        leaves: &Vector<Arc<[u8]>>,
        added: &[Vec<u8>],
        removed: &[Vec<u8>],
    ) -> Order {
        let mut names = self.clone();
        for name in removed {
            let rank = names.rank(name);
            names.order.remove(rank);
        }
        // References are now looked up among the new leaves: the order names only what is in both.
        names.leaves = Buckets(leaves.clone());
        for name in added {
            let rank = names.rank(name);
            let ordinal = names.get(name).map_or(0, |node| node.ordinal());
            names.order.insert(rank, &[reference(self.key.hash_of(name), ordinal)]);
        }
        names.order
    }
}

/// Octets whose plain order is the canonical order of names: labels from the right, each ended by
/// a 0; a 0 or 1 within a label is escaped so that it sorts behind the end.
pub fn sort_key(into: &mut Vec<u8>, name: &[u8]) {
    let mut starts = [0u8; wire::Name::LABELS_MAX];
    let (mut at, mut labels) = (0, 0);
    while at < name.len() {
        starts[labels] = at as u8;
        labels += 1;
        at += 1 + usize::from(name[at]);
    }
    for start in starts[..labels].iter().rev() {
        let start = usize::from(*start);
        for &octet in &name[start + 1..][..name[start].into()] {
            match octet {
                0 | 1 => into.extend_from_slice(&[1, octet + 1]),
                _ => into.push(octet),
            }
        }
        into.push(0);
    }
}

/// Whether a relative name lies below another.
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
