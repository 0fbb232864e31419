//! The records by which two versions of a zone differ (RFC 1995). Parts that both share cost
//! nothing, so that the versions of a zone that changes a little are compared in little time.
use crate::names::Names;
use crate::walk::WalkedRecord;
use crate::zone::Zone;
use image::{Leaf, Node, RecordSet};
use std::sync::Arc;
use wire::Rtype;

/// Whether a record is gone or came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// Only the older version has it.
    Removed,
    /// Only the newer version has it.
    Added,
}

impl Zone {
    /// Passes the records by which a newer version of this zone differs, without the SOA record,
    /// in no order. A record whose TTL has changed is removed and added. Ends early if `each`
    /// returns false; returns whether it did not.
    pub fn compare(
        &self,
        newer: &Self,
        mut each: impl FnMut(RecordChange, WalkedRecord<'_>) -> bool,
    ) -> bool {
        let pairs = [(&self.names, &newer.names), (&self.hashed, &newer.hashed)];
        pairs.into_iter().all(|(old, new)| compare_names(old, new, &mut each))
    }
}

type Each<'e> = dyn FnMut(RecordChange, WalkedRecord<'_>) -> bool + 'e;

fn compare_names(old: &Names, new: &Names, each: &mut Each<'_>) -> bool {
    let (old, new) = (old.leaves(), new.leaves());
    let is_same = |a: &Arc<[u8]>, b: &Arc<[u8]>| Arc::ptr_eq(a, b) || a == b;
    let changed = new.changed_since(old, is_same);
    let gone = (new.len()..old.len()).filter_map(|at| old.get(at));
    let before = changed.iter().filter_map(|at| old.get(*at)).chain(gone);
    let after = changed.iter().filter_map(|at| new.get(*at));
    let mut before: Vec<Node<'_>> = before.flat_map(|leaf| Leaf::new(leaf).nodes()).collect();
    let mut after: Vec<Node<'_>> = after.flat_map(|leaf| Leaf::new(leaf).nodes()).collect();
    let by_name = |one: &Node<'_>, other: &Node<'_>| one.name().cmp(other.name());
    before.sort_unstable_by(by_name);
    after.sort_unstable_by(by_name);
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return true,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(old), Some(new)) => old.name().cmp(new.name()),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { after.next() } else { None };
        if !compare_nodes(old, new, each) {
            return false;
        }
    }
}

/// Compares the sets of one name.
fn compare_nodes(old: Option<Node<'_>>, new: Option<Node<'_>>, each: &mut Each<'_>) -> bool {
    let Some(name) = old.or(new).map(|node| node.name()) else { return true };
    if let (Some(old), Some(new)) = (old, new)
        && old.as_bytes() == new.as_bytes()
    {
        return true;
    }
    let is_counted = |set: &RecordSet<'_>| !(name.is_empty() && set.rtype() == Rtype::SOA);
    let mut removed = old.into_iter().flat_map(|node| node.sets()).filter(is_counted);
    removed
        .all(|set| pass_missing(name, RecordChange::Removed, &set, set_of(new, set.rtype()), each))
        && {
            let mut added = new.into_iter().flat_map(|node| node.sets()).filter(is_counted);
            added.all(|set| {
                pass_missing(name, RecordChange::Added, &set, set_of(old, set.rtype()), each)
            })
        }
}

fn set_of(node: Option<Node<'_>>, rtype: Rtype) -> Option<RecordSet<'_>> {
    node?.set(rtype)
}

/// Passes the records of a set that the other version of the set lacks.
fn pass_missing(
    name: &[u8],
    change: RecordChange,
    set: &RecordSet<'_>,
    other: Option<RecordSet<'_>>,
    each: &mut Each<'_>,
) -> bool {
    let (rtype, ttl) = (set.rtype(), set.ttl());
    let other = other.filter(|other| other.ttl() == ttl);
    let has = |data: &[u8]| other.is_some_and(|other| other.records().any(|its| its == data));
    let mut records = set.records().filter(|data| !has(data));
    records.all(|data| each(change, WalkedRecord { name, rtype, ttl, data }))
}
