//! Packs nodes and leaves; `image` reads them.
use crate::limits::SET_WIRE_LEN_MAX;
use image::{
    DECLARED_BITS, Declared, HAS_RULES, LEAF_HEAD_LEN, Leaf, NODE_HEAD_LEN, Node, bucket_of,
    last_bucket,
};
use std::cmp::Ordering;
use std::sync::Arc;
use wire::Rtype;

/// Bytes of a record in a message without its data: owner pointer, type, class, TTL, length.
const RECORD_HEAD_LEN: usize = 12;

/// Packs a node's head without its length.
pub fn node_head(into: &mut Vec<u8>, name: &[u8], ordinal: u8) {
    into.extend_from_slice(&[0, 0, name.len() as u8]);
    into.extend_from_slice(name);
    into.push(ordinal);
}

/// Sets a packed node's ordinal among names that share its hash.
pub fn set_ordinal(node: &mut [u8], ordinal: u8) {
    let at = NODE_HEAD_LEN + Node::new(node).name().len();
    node[at] = node[at] & DECLARED_BITS | ordinal;
}

/// Sets what a packed node is declared as.
pub fn set_declared(node: &mut [u8], declared: Declared) {
    let at = NODE_HEAD_LEN + Node::new(node).name().len();
    node[at] = node[at] & !DECLARED_BITS | declared as u8;
}

/// Writes the length of the node from `start` to the end of `into`.
///
/// # Errors
/// Its record sets are too large together.
pub fn close_node(into: &mut [u8], start: usize) -> Result<(), String> {
    let len = into.len() - start;
    let Ok(bytes) = u16::try_from(len) else {
        return Err(format!(
            "its record sets take {len} bytes together; the maximum is {}",
            u16::MAX
        ));
    };
    into[start..start + 2].copy_from_slice(&bytes.to_le_bytes());
    Ok(())
}

/// Appends a node without record sets.
pub fn bare_node(into: &mut Vec<u8>, name: &[u8]) {
    let start = into.len();
    node_head(into, name, 0);
    let len = (into.len() - start) as u16;
    into[start..start + 2].copy_from_slice(&len.to_le_bytes());
}

/// Packs one record set. `rules`: those that choose among its records, packed; empty: none.
///
/// # Errors
/// The set does not fit one message.
pub fn set<'r>(
    into: &mut Vec<u8>,
    rtype: Rtype,
    ttl: u32,
    records: impl Iterator<Item = &'r [u8]>,
    rules: &[u8],
) -> Result<(), String> {
    let start = into.len();
    into.extend_from_slice(&rtype.0.to_be_bytes());
    into.extend_from_slice(&ttl.to_be_bytes());
    into.extend_from_slice(&[0; 4]);
    let data_at = into.len();
    let (mut count, mut wire_len) = (0usize, 0);
    for record in records {
        if rtype.fixed_rdata_len().is_none() {
            into.extend_from_slice(&(record.len() as u16).to_le_bytes());
        }
        into.extend_from_slice(record);
        count += 1;
        wire_len += RECORD_HEAD_LEN + record.len();
    }
    if wire_len > SET_WIRE_LEN_MAX {
        into.truncate(start);
        return Err(format!(
            "the {rtype} set of {count} records takes {wire_len} bytes; no message can carry more \
             than {SET_WIRE_LEN_MAX}"
        ));
    }
    let mut head_count = count as u16;
    if !rules.is_empty() {
        head_count |= HAS_RULES;
        into.extend_from_slice(rules);
        into.extend_from_slice(&(rules.len() as u16).to_le_bytes());
    }
    let data_len = into.len() - data_at;
    if data_len > usize::from(u16::MAX) {
        into.truncate(start);
        return Err(format!("the {rtype} set of {count} records is too large with its rules"));
    }
    into[start + 6..start + 8].copy_from_slice(&head_count.to_le_bytes());
    into[start + 8..start + 10].copy_from_slice(&(data_len as u16).to_le_bytes());
    Ok(())
}

/// Compares the data of two records; the case of names does not matter (RFC 4034 §6.2).
pub fn cmp_data(rtype: Rtype, a: &[u8], b: &[u8]) -> Ordering {
    let names_at = match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME | Rtype::MINFO | Rtype::RP => 0,
        Rtype::MX | Rtype::AFSDB | Rtype::KX | Rtype::RT => 2,
        Rtype::SRV => 6,
        _ => return a.cmp(b),
    };
    let ((a_head, a_names), (b_head, b_names)) =
        (a.split_at(names_at.min(a.len())), b.split_at(names_at.min(b.len())));
    let lower = u8::to_ascii_lowercase;
    a_head.cmp(b_head).then_with(|| a_names.iter().map(lower).cmp(b_names.iter().map(lower)))
}

/// Appends the packed node with one set added, replaced or (`None`) removed.
///
/// # Errors
/// As [`close_node`].
pub fn with_set(
    into: &mut Vec<u8>,
    node: Node<'_>,
    rtype: Rtype,
    packed: Option<&[u8]>,
) -> Result<(), String> {
    let start = into.len();
    node_head(into, node.name(), node.ordinal());
    set_declared(&mut into[start..], node.declared());
    let mut packed = packed;
    for old in node.sets() {
        if old.rtype() >= rtype {
            into.extend_from_slice(packed.take().unwrap_or_default());
        }
        if old.rtype() != rtype {
            into.extend_from_slice(old.as_bytes());
        }
    }
    into.extend_from_slice(packed.unwrap_or_default());
    close_node(into, start)
}

/// Packs a leaf from nodes and their hashes. Equal nodes give equal bytes.
pub fn leaf(nodes: &mut [(u64, &[u8])]) -> Arc<[u8]> {
    leaf_in(&mut Vec::new(), nodes)
}

/// As [`leaf`], reusing a buffer.
pub fn leaf_in(room: &mut Vec<u8>, nodes: &mut [(u64, &[u8])]) -> Arc<[u8]> {
    let last = last_bucket(nodes.len());
    nodes.sort_unstable_by_key(|(hash, bytes)| (bucket_of(*hash, last), *hash, *bytes));
    let mut leaf = Buckets::new(room, last, nodes.len());
    let mut rest = &*nodes;
    while let Some((hash, _)) = rest.first() {
        let bucket = bucket_of(*hash, last);
        let len = rest.iter().take_while(|(hash, _)| bucket_of(*hash, last) == bucket).count();
        leaf.start(bucket);
        rest[..len].iter().for_each(|(_, bytes)| leaf.bytes.extend_from_slice(bytes));
        rest = &rest[len..];
    }
    leaf.finish()
}

/// A leaf while it is packed, bucket by bucket.
struct Buckets<'r> {
    bytes: &'r mut Vec<u8>,
    /// The next bucket whose start is not written.
    next: usize,
    count: usize,
}

impl<'r> Buckets<'r> {
    fn new(bytes: &'r mut Vec<u8>, last: u16, nodes: usize) -> Self {
        let count = usize::from(last) + 1;
        bytes.clear();
        bytes.extend_from_slice(&last.to_le_bytes());
        bytes.extend_from_slice(&(nodes as u16).to_le_bytes());
        bytes.resize(LEAF_HEAD_LEN + 4 * (count + 1), 0);
        Self { bytes, next: 0, count }
    }

    /// Appends go to this bucket from now on; skipped buckets are empty.
    fn start(&mut self, bucket: usize) {
        let at = (self.bytes.len() as u32).to_le_bytes();
        for bucket in self.next..=bucket {
            self.bytes[LEAF_HEAD_LEN + 4 * bucket..][..4].copy_from_slice(&at);
        }
        self.next = bucket + 1;
    }

    fn finish(mut self) -> Arc<[u8]> {
        self.start(self.count);
        self.bytes[..].into()
    }
}

/// A node of a leaf to add, replace or remove.
#[derive(Clone, Copy)]
pub struct NodeChange<'n> {
    pub hash: u64,
    /// Its name.
    pub name: &'n [u8],
    /// The leaf does not have it yet.
    pub is_new: bool,
    /// The new node; `None` removes it.
    pub bytes: Option<&'n [u8]>,
}

impl<'n> NodeChange<'n> {
    fn placed(&self) -> Option<(u64, &'n [u8])> {
        Some((self.hash, self.bytes?))
    }
}

/// Packs a leaf with changed nodes, each name once. The result equals [`leaf`] of all nodes, but
/// copies unaffected buckets. Reuses the buffer `room`.
pub fn changed_leaf(
    room: &mut Vec<u8>,
    old: Leaf<'_>,
    changes: &mut [NodeChange<'_>],
    hash_of: impl Fn(&[u8]) -> u64,
) -> Arc<[u8]> {
    let come = changes.iter().filter(|change| change.is_new).count();
    let go = changes.iter().filter(|change| change.bytes.is_none()).count();
    let count = old.len() + come - go;
    let last = last_bucket(count);
    let stays = |node: &Node<'_>, changes: &[NodeChange<'_>]| {
        changes.iter().all(|change| change.name != node.name())
    };
    if last != last_bucket(old.len()) {
        let kept = old.nodes().filter(|node| stays(node, changes));
        let mut nodes: Vec<_> = kept.map(|node| (hash_of(node.name()), node.as_bytes())).collect();
        nodes.extend(changes.iter().filter_map(NodeChange::placed));
        return leaf_in(room, &mut nodes);
    }
    changes.sort_unstable_by_key(|change| bucket_of(change.hash, last));
    let come: usize = changes.iter().filter_map(|change| change.bytes).map(<[u8]>::len).sum();
    room.reserve(old.as_bytes().len() + come);
    let mut packed = Buckets::new(room, last, count);
    let (mut rest, mut nodes) = (&*changes, Vec::new());
    for bucket in 0..=usize::from(last) {
        packed.start(bucket);
        let span = old.bucket((bucket as u64) << 32);
        let here = rest.iter().take_while(|change| bucket_of(change.hash, last) == bucket);
        let (here, behind) = rest.split_at(here.count());
        if here.is_empty() {
            packed.bytes.extend_from_slice(span.as_bytes());
            continue;
        }
        nodes.clear();
        let kept = span.filter(|node| stays(node, here));
        nodes.extend(kept.map(|node| (hash_of(node.name()), node.as_bytes())));
        nodes.extend(here.iter().filter_map(NodeChange::placed));
        nodes.sort_unstable();
        nodes.iter().for_each(|(_, bytes)| packed.bytes.extend_from_slice(bytes));
        rest = behind;
    }
    packed.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Leaf;

    fn node(name: &[u8], addresses: &[[u8; 4]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        node_head(&mut bytes, name, 0);
        set(&mut bytes, Rtype::A, 30, addresses.iter().map(|a| &a[..]), &[]).unwrap();
        close_node(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn leaf_finds_exactly_its_nodes() {
        for count in [0usize, 1, 2, 3, 31, 32, 33, 200] {
            let hash = |n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let nodes: Vec<_> =
                (0..count).map(|n| node(&[1, n as u8], &[[10, 0, 0, n as u8]])).collect();
            let mut pairs: Vec<_> =
                nodes.iter().enumerate().map(|(n, bytes)| (hash(n), &bytes[..])).collect();
            let packed = leaf(&mut pairs);
            let leaf = Leaf::new(&packed);
            assert_eq!((leaf.len(), leaf.nodes().count()), (count, count));
            for n in 0..count {
                let found = leaf.find(hash(n), &[1, n as u8]).expect("it is there");
                let set = found.set(Rtype::A).unwrap();
                assert_eq!((set.ttl(), set.count()), (30, 1));
                assert_eq!(set.records().next(), Some(&[10, 0, 0, n as u8][..]));
                assert!(leaf.find(hash(n), &[1, 255]).is_none());
            }
        }
    }

    #[test]
    fn changed_leaf_equals_a_packed_leaf() {
        let hash = |name: &[u8]| (u64::from(name[1]) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for (before, first, last) in [(0, 0, 1), (10, 3, 12), (31, 30, 33), (40, 0, 9), (5, 0, 5)] {
            let old: Vec<_> = (0..before).map(|n| node(&[1, n], &[[10, 0, 0, n]])).collect();
            for goes in [false, true] {
                let new: Vec<_> = (first..last).map(|n| node(&[1, n], &[[10, 9, 9, n]])).collect();
                let changed = |n: &u8| (first..last).contains(n);
                let name = |bytes| Node::new(bytes).name();
                let mut changes: Vec<_> = new
                    .iter()
                    .filter(|bytes| !goes || name(bytes)[1] < before)
                    .map(|bytes| NodeChange {
                        hash: hash(name(bytes)),
                        name: name(bytes),
                        is_new: name(bytes)[1] >= before,
                        bytes: (!goes).then_some(&bytes[..]),
                    })
                    .collect();
                let kept = (0..before).filter(|n| !changed(n)).map(|n| &old[usize::from(n)][..]);
                let whole = kept.chain(changes.iter().filter_map(|change| change.bytes));
                let mut whole: Vec<_> = whole.map(|bytes| (hash(name(bytes)), bytes)).collect();
                let mut all: Vec<_> =
                    old.iter().map(|bytes| (hash(name(bytes)), &bytes[..])).collect();
                let old = leaf(&mut all);
                let packed = changed_leaf(&mut Vec::new(), Leaf::new(&old), &mut changes, hash);
                assert_eq!(packed, leaf(&mut whole), "{before} {first} {last} {goes}");
            }
        }
    }

    #[test]
    fn sets_are_added_replaced_and_removed() {
        let bytes = node(b"\x01a", &[[10, 0, 0, 1], [10, 0, 0, 2]]);
        let mut text = Vec::new();
        set(&mut text, Rtype::TXT, 60, [&b"\x02hi"[..]].into_iter(), &[]).unwrap();
        let with_set = |node: &[u8], rtype, set: Option<&[u8]>| {
            let mut bytes = Vec::new();
            super::with_set(&mut bytes, Node::new(node), rtype, set).unwrap();
            bytes
        };
        let both = with_set(&bytes, Rtype::TXT, Some(&text));
        let types: Vec<_> = Node::new(&both).sets().map(|set| set.rtype()).collect();
        assert_eq!(types, [Rtype::A, Rtype::TXT]);
        assert_eq!(with_set(&both, Rtype::TXT, None), bytes);
        let mut other = Vec::new();
        set(&mut other, Rtype::A, 5, [&[10, 9, 9, 9][..]].into_iter(), &[]).unwrap();
        let replaced = with_set(&both, Rtype::A, Some(&other));
        let set = Node::new(&replaced).set(Rtype::A).unwrap();
        assert_eq!((set.ttl(), set.data()), (5, &[10, 9, 9, 9][..]));
        let bare = with_set(&bytes, Rtype::A, None);
        assert!(Node::new(&bare).is_empty());
    }

    #[test]
    fn set_above_the_message_size_is_refused() {
        let long = vec![0; 1000];
        let mut bytes = Vec::new();
        let refused = set(&mut bytes, Rtype::TXT, 1, (0..80).map(|_| &long[..]), &[]);
        assert!(refused.unwrap_err().contains("80 records"));
        assert!(bytes.is_empty());
    }
}
