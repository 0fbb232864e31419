//! What stands at a name (RFC 1034 §4.3.2 step 3): the name itself, a cut above it, an alias for
//! all below, a wildcard, or nothing.
use image::{DepthMask, Facts, HashKey, Leaf, Node, RelName, Zone};
use wire::limits::PADDED_LEN;
use wire::{QName, Rtype};

/// What a zone has for a name.
pub(crate) enum Found<'w> {
    /// The name exists.
    Exact(Node<'w>),
    /// It does not, but a wildcard stands for it, directly below the closest encloser, whose
    /// depth this is (RFC 4592 §3.3).
    Wildcard(Node<'w>, usize),
    /// It does not exist; the depth of its closest encloser.
    Nothing(usize),
    /// It lies at or below a delegation.
    Cut(Node<'w>, usize),
    /// It lies below a DNAME.
    Dname(Node<'w>, usize),
}

/// A name in relation to a zone: where the name's last so many labels below the origin are.
#[derive(Clone, Copy)]
pub(crate) struct Place<'n> {
    name: &'n QName,
    origin_labels: usize,
    end: usize,
}

impl<'n> Place<'n> {
    #[inline]
    pub(crate) fn new(name: &'n QName, facts: &Facts) -> Self {
        let origin_labels = facts.origin_labels.into();
        Self { name, origin_labels, end: name.start_of_last(origin_labels) }
    }

    /// The hash of the whole name below the origin.
    #[inline]
    pub(crate) fn hash(&self, key: &HashKey) -> u64 {
        key.hash(self.name.padded(), 0, self.end)
    }

    /// The labels below the origin.
    #[inline]
    pub(crate) fn octets(&self) -> &'n [u8] {
        &self.name.octets()[..self.end]
    }

    /// How many they are.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.name.labels() - self.origin_labels
    }

    /// The ancestor of this depth, or the name itself.
    #[inline]
    pub(crate) fn at(&self, depth: usize) -> RelName<'n> {
        RelName::new(self.name.padded(), self.start(depth), self.end)
    }

    /// Where the ancestor of this depth starts in the whole name.
    #[inline]
    pub(crate) fn start(&self, depth: usize) -> usize {
        self.name.start_of_last(self.origin_labels + depth)
    }

    /// The name of a wildcard below the ancestor of this depth, and its length.
    pub(crate) fn wildcard(&self, depth: usize) -> ([u8; PADDED_LEN], usize) {
        let mut buffer = [0; PADDED_LEN];
        let above = self.at(depth).octets();
        buffer[..2].copy_from_slice(b"\x01*");
        // The name is at least a label longer than its ancestor, so that this fits.
        buffer[2..2 + above.len()].copy_from_slice(above);
        (buffer, 2 + above.len())
    }
}

/// Looks a name up. `hash` is that of the whole name below the origin, `leaf` where it lies.
#[inline]
pub(crate) fn find<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    place: &Place<'_>,
    rtype: Rtype,
    hash: u64,
    leaf: &'w [u8],
) -> Found<'w> {
    let facts = zone.facts();
    if facts.cuts != DepthMask::default()
        && let Some(cut) = find_cut(key, zone, place, rtype)
    {
        return cut;
    }
    match Leaf::new(leaf).find(hash, place.octets()) {
        Some(node) => Found::Exact(node),
        None => find_instead(key, zone, place),
    }
}

/// Cuts, from above: what lies below one is not this zone's to answer.
fn find_cut<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    place: &Place<'_>,
    rtype: Rtype,
) -> Option<Found<'w>> {
    let depth = place.depth();
    for above in zone.facts().cuts.up_to(depth) {
        let node = zone.find(key, place.at(above))?;
        let at_name = above == depth;
        // RFC 4035 §3.1.4.1: DS at the cut is the parent's.
        let ours = above == 0 || at_name && rtype == Rtype::DS;
        if !ours && node.set(Rtype::NS).is_some() {
            return Some(Found::Cut(node, above));
        }
        if !at_name && node.set(Rtype::DNAME).is_some() {
            return Some(Found::Dname(node, above));
        }
    }
    None
}

/// What stands for a name that does not exist.
fn find_instead<'w>(key: &HashKey, zone: &'w dyn Zone, place: &Place<'_>) -> Found<'w> {
    let encloser = closest_encloser(key, zone, place);
    if zone.facts().wildcards.contains(encloser) {
        let (buffer, len) = place.wildcard(encloser);
        if let Some(node) = zone.find(key, RelName::new(&buffer, 0, len)) {
            return Found::Wildcard(node, encloser);
        }
    }
    Found::Nothing(encloser)
}

/// The depth of the longest existing ancestor of a name that does not exist. An ancestor of one
/// that exists always exists itself, so that halving finds it; most often it is the parent.
#[inline]
fn closest_encloser(key: &HashKey, zone: &dyn Zone, place: &Place<'_>) -> usize {
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
