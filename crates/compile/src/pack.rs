//! Packing nodes and leaves: the write side of what `image` reads.
use crate::limits::SET_WIRE_LEN_MAX;
use image::{LEAF_HEAD_LEN, NODE_HEAD_LEN, Node, bucket_of, last_bucket};
use std::cmp::Ordering;
use std::sync::Arc;
use wire::Rtype;

/// Octets of a record in a message besides its data: owner as a pointer, type, class, TTL, length.
const RECORD_HEAD_LEN: usize = 12;

/// Packs a node's head; its length is not known yet.
pub fn node_head(into: &mut Vec<u8>, name: &[u8], ordinal: u8) {
    into.extend_from_slice(&[0, 0, name.len() as u8]);
    into.extend_from_slice(name);
    into.push(ordinal);
}

/// Writes the length of the node that starts at `start` and ends where `into` does.
///
/// # Errors
/// When its record sets are too large together.
pub fn close_node(into: &mut [u8], start: usize) -> Result<(), String> {
    let len = into.len() - start;
    let Ok(octets) = u16::try_from(len) else {
        return Err(format!(
            "its record sets take {len} octets together; {} is the most",
            u16::MAX
        ));
    };
    into[start..start + 2].copy_from_slice(&octets.to_le_bytes());
    Ok(())
}

/// A node without record sets.
pub fn bare_node(name: &[u8]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(NODE_HEAD_LEN + name.len() + 1);
    node_head(&mut octets, name, 0);
    let len = octets.len() as u16;
    octets[..2].copy_from_slice(&len.to_le_bytes());
    octets
}

/// Packs one record set.
///
/// # Errors
/// When it could not be sent in one message.
pub fn set<'r>(
    into: &mut Vec<u8>,
    rtype: Rtype,
    ttl: u32,
    records: impl Iterator<Item = &'r [u8]>,
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
            "the {rtype} set of {count} records takes {wire_len} octets; no message can carry more \
             than {SET_WIRE_LEN_MAX}"
        ));
    }
    let data_len = into.len() - data_at;
    into[start + 6..start + 8].copy_from_slice(&(count as u16).to_le_bytes());
    into[start + 8..start + 10].copy_from_slice(&(data_len as u16).to_le_bytes());
    Ok(())
}

/// The order of two records' data, in which the case of names does not count (RFC 4034 §6.2).
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

/// The packed node with one set replaced, added or (`None`) taken away.
///
/// # Errors
/// As [`close_node`].
pub fn with_set(node: Node<'_>, rtype: Rtype, packed: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let mut octets = Vec::with_capacity(node.octets().len() + packed.map_or(0, <[u8]>::len));
    node_head(&mut octets, node.name(), node.ordinal());
    let mut packed = packed;
    for old in node.sets() {
        if old.rtype() >= rtype {
            octets.extend_from_slice(packed.take().unwrap_or_default());
        }
        if old.rtype() != rtype {
            octets.extend_from_slice(old.octets());
        }
    }
    octets.extend_from_slice(packed.unwrap_or_default());
    close_node(&mut octets, 0)?;
    Ok(octets)
}

/// Packs a leaf from nodes and their hashes; the same nodes always give the same octets.
pub fn leaf(nodes: &mut [(u64, &[u8])]) -> Arc<[u8]> {
    let last = last_bucket(nodes.len());
    nodes.sort_unstable_by_key(|(hash, octets)| (bucket_of(*hash, last), *hash, *octets));
    let buckets = usize::from(last) + 1;
    let table_end = LEAF_HEAD_LEN + 4 * (buckets + 1);
    let total = table_end + nodes.iter().map(|(_, octets)| octets.len()).sum::<usize>();
    let mut packed = Vec::with_capacity(total);
    packed.extend_from_slice(&last.to_le_bytes());
    packed.extend_from_slice(&(nodes.len() as u16).to_le_bytes());
    let (mut at, mut rest) = (table_end, nodes.iter().peekable());
    for bucket in 0..=buckets {
        while let Some((_, octets)) = rest.next_if(|(hash, _)| bucket_of(*hash, last) < bucket) {
            at += octets.len();
        }
        packed.extend_from_slice(&(at as u32).to_le_bytes());
    }
    nodes.iter().for_each(|(_, octets)| packed.extend_from_slice(octets));
    packed.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Leaf;

    fn node(name: &[u8], addresses: &[[u8; 4]]) -> Vec<u8> {
        let mut octets = Vec::new();
        node_head(&mut octets, name, 0);
        set(&mut octets, Rtype::A, 30, addresses.iter().map(|a| &a[..])).unwrap();
        close_node(&mut octets, 0).unwrap();
        octets
    }

    #[test]
    fn every_node_of_a_leaf_is_found_and_no_other() {
        for count in [0usize, 1, 2, 3, 31, 32, 33, 200] {
            let hash = |n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let nodes: Vec<_> =
                (0..count).map(|n| node(&[1, n as u8], &[[10, 0, 0, n as u8]])).collect();
            let mut pairs: Vec<_> =
                nodes.iter().enumerate().map(|(n, octets)| (hash(n), &octets[..])).collect();
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
    fn sets_are_added_replaced_and_taken_away() {
        let octets = node(b"\x01a", &[[10, 0, 0, 1], [10, 0, 0, 2]]);
        let mut text = Vec::new();
        set(&mut text, Rtype::TXT, 60, [&b"\x02hi"[..]].into_iter()).unwrap();
        let both = with_set(Node::new(&octets), Rtype::TXT, Some(&text)).unwrap();
        let types: Vec<_> = Node::new(&both).sets().map(|set| set.rtype()).collect();
        assert_eq!(types, [Rtype::A, Rtype::TXT]);
        assert_eq!(with_set(Node::new(&both), Rtype::TXT, None).unwrap(), octets);
        let mut other = Vec::new();
        set(&mut other, Rtype::A, 5, [&[10, 9, 9, 9][..]].into_iter()).unwrap();
        let replaced = with_set(Node::new(&both), Rtype::A, Some(&other)).unwrap();
        let set = Node::new(&replaced).set(Rtype::A).unwrap();
        assert_eq!((set.ttl(), set.data()), (5, &[10, 9, 9, 9][..]));
        let bare = with_set(Node::new(&octets), Rtype::A, None).unwrap();
        assert!(Node::new(&bare).is_empty());
    }

    #[test]
    fn a_set_that_no_message_can_carry_is_refused() {
        let long = vec![0; 1000];
        let mut octets = Vec::new();
        let refused = set(&mut octets, Rtype::TXT, 1, (0..80).map(|_| &long[..]));
        assert!(refused.unwrap_err().contains("80 records"));
        assert!(octets.is_empty());
    }
}
