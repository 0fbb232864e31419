//! Looks a name up in a zone (RFC 1034 §4.3.2 step 3): the name itself, a cut above it, a DNAME, a
//! wildcard, or nothing.
use image::{DepthMask, HashKey, Leaf, Node, RelName, Zone, ZoneFacts};
use wire::limits::PADDED_LEN;
use wire::{QName, Rtype};

/// The result of a lookup.
pub(crate) enum ZoneAnswer<'w> {
    /// The name exists.
    Exact(Node<'w>),
    /// A wildcard matches the name. The number is the depth of the closest encloser, directly above
    /// the wildcard (RFC 4592 §3.3).
    Wildcard(Node<'w>, usize),
    /// The name does not exist. The number is the depth of its closest encloser.
    Nothing(usize),
    /// The name lies at or below this delegation.
    Cut(Node<'w>, usize),
    /// The name lies below this DNAME.
    Dname(Node<'w>, usize),
}

/// A name relative to a zone. A depth counts labels below the origin.
#[derive(Clone, Copy)]
pub(crate) struct ZoneName<'n> {
    name: &'n QName,
    origin_labels: usize,
    end: usize,
}

impl<'n> ZoneName<'n> {
    #[inline]
    pub(crate) fn new(name: &'n QName, facts: &ZoneFacts) -> Self {
        let origin_labels = facts.origin_labels.into();
        Self { name, origin_labels, end: name.start_of_last(origin_labels) }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &HashKey) -> u64 {
        key.hash(self.name.padded(), 0, self.end)
    }

    /// The labels below the origin.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &'n [u8] {
        &self.name.as_bytes()[..self.end]
    }

    /// The number of labels below the origin.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.name.labels() - self.origin_labels
    }

    /// The ancestor of this depth, or the name itself.
    #[inline]
    pub(crate) fn at(&self, depth: usize) -> RelName<'n> {
        RelName::new(self.name.padded(), self.start(depth), self.end)
    }

    /// The offset of the ancestor of this depth in the whole name.
    #[inline]
    pub(crate) fn start(&self, depth: usize) -> usize {
        self.name.start_of_last(self.origin_labels + depth)
    }

    /// The wildcard below the ancestor of this depth, and its length.
    pub(crate) fn wildcard(&self, depth: usize) -> ([u8; PADDED_LEN], usize) {
        let mut buffer = [0; PADDED_LEN];
        let above = self.at(depth).as_bytes();
        buffer[..2].copy_from_slice(b"\x01*");
        // This fits: the name has at least one label more than its ancestor.
        buffer[2..2 + above.len()].copy_from_slice(above);
        (buffer, 2 + above.len())
    }
}

/// Looks a name up. `hash` is the hash of the name below the origin, `leaf` the leaf of that hash.
#[inline]
pub(crate) fn find<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    place: &ZoneName<'_>,
    rtype: Rtype,
    hash: u64,
    leaf: &'w [u8],
) -> ZoneAnswer<'w> {
    let facts = zone.facts();
    if facts.cuts != DepthMask::default()
        && let Some(cut) = find_cut(key, zone, place, rtype)
    {
        return cut;
    }
    match Leaf::new(leaf).find(hash, place.as_bytes()) {
        Some(node) => ZoneAnswer::Exact(node),
        None => find_closest(key, zone, place),
    }
}

/// The topmost delegation or DNAME above the name.
fn find_cut<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    place: &ZoneName<'_>,
    rtype: Rtype,
) -> Option<ZoneAnswer<'w>> {
    let depth = place.depth();
    for above in zone.facts().cuts.up_to(depth) {
        let node = zone.find(key, place.at(above))?;
        let at_name = above == depth;
        // RFC 4035 §3.1.4.1: DS at the cut belongs to the parent.
        let own_zone = above == 0 || at_name && rtype == Rtype::DS;
        if !own_zone && node.set(Rtype::NS).is_some() {
            return Some(ZoneAnswer::Cut(node, above));
        }
        if !at_name && node.set(Rtype::DNAME).is_some() {
            return Some(ZoneAnswer::Dname(node, above));
        }
    }
    None
}

/// The wildcard that matches a name that does not exist, or nothing.
fn find_closest<'w>(key: &HashKey, zone: &'w dyn Zone, place: &ZoneName<'_>) -> ZoneAnswer<'w> {
    let encloser = closest_encloser(key, zone, place);
    if zone.facts().wildcards.contains(encloser) {
        let (buffer, len) = place.wildcard(encloser);
        if let Some(node) = zone.find(key, RelName::new(&buffer, 0, len)) {
            return ZoneAnswer::Wildcard(node, encloser);
        }
    }
    ZoneAnswer::Nothing(encloser)
}

/// The depth of the longest existing ancestor of a name that does not exist. All ancestors of an
/// existing name exist, so a binary search finds it. It is usually the parent, which is tried
/// first.
#[inline]
fn closest_encloser(key: &HashKey, zone: &dyn Zone, place: &ZoneName<'_>) -> usize {
    let exists = |depth| zone.find(key, place.at(depth)).is_some();
    let deepest = (place.depth().saturating_sub(1)).min(zone.facts().depth_max.into());
    if deepest == 0 || exists(deepest) {
        return deepest;
    }
    let (mut exist, mut lack) = (0, deepest);
    while lack - exist > 1 {
        let middle = (exist + lack) / 2;
        if exists(middle) {
            exist = middle;
        } else {
            lack = middle;
        }
    }
    exist
}
