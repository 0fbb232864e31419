//! Zones, and routing from a query name to its zone.
use crate::{HashKey, Leaf, Node};
use packet::View;
use wire::limits::PADDED_LEN;
use wire::{Name, QName};

/// A set of depths, in labels below the origin: bit `d` stands for depth `d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthMask(pub u128);

impl DepthMask {
    /// Adds a depth.
    pub const fn insert(&mut self, depth: usize) {
        self.0 |= 1 << depth;
    }

    /// Whether it contains a depth.
    #[inline]
    pub const fn contains(self, depth: usize) -> bool {
        self.0 >> depth & 1 != 0
    }

    /// The depths up to and including `depth`, ascending.
    #[inline]
    pub fn up_to(self, depth: usize) -> impl Iterator<Item = usize> {
        let mut bits = self.0 & (u128::MAX >> (127 - depth));
        core::iter::from_fn(move || {
            (bits != 0).then(|| {
                let depth = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                depth
            })
        })
    }
}

/// The NSEC3 parameters of a zone (RFC 5155 §4.1), with SHA-1, the only algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nsec3Params {
    /// Extra iterations.
    pub iterations: u16,
    /// Bytes of salt in use.
    pub salt_len: u8,
    /// The salt.
    pub salt: [u8; 255],
}

/// Facts about a zone as a whole. After records were removed, masks and depth may still include
/// them, which only costs a lookup.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneFacts {
    /// Whether it was ever loaded. Until then its names get SERVFAIL (invariant I10).
    pub loaded: bool,
    /// Whether the apex is signed. Otherwise there are no proofs.
    pub signed: bool,
    /// Whether hosts files take precedence over it, as for built-in zones.
    pub yields: bool,
    /// Whether sets have rules. Workers never read such a zone: the zone manager publishes one with
    /// the chosen records.
    pub has_rules: bool,
    /// Whether other views see other sets.
    pub has_views: bool,
    /// Labels of the origin.
    pub origin_labels: u8,
    /// Labels of the deepest name below the origin.
    pub depth_max: u8,
    /// Depths with a delegation or a DNAME.
    pub cuts: DepthMask,
    /// Depths of names that have a wildcard directly below them.
    pub wildcards: DepthMask,
    /// The parameters of a zone with NSEC3.
    pub nsec3: Option<Nsec3Params>,
}

impl Default for Nsec3Params {
    fn default() -> Self {
        Self { iterations: 0, salt_len: 0, salt: [0; 255] }
    }
}

/// The names of a zone, as `compile` stores them.
pub trait Tree: Sync {
    /// The packed leaf that has the name of this hash, if the zone has the name.
    fn leaf(&self, hash: u64) -> &[u8];

    /// The number of names, empty non-terminals included.
    fn len(&self) -> usize;

    /// Whether there are no names.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name at this position in canonical order (RFC 4034 §6.1).
    fn at(&self, rank: usize) -> Option<Node<'_>>;

    /// How many names sort before `name`, which is relative to the origin and in lower case.
    fn rank(&self, name: &[u8]) -> usize;
}

/// A zone to answer from.
pub trait Zone: Sync {
    /// The name of its apex, in lower case.
    fn origin(&self) -> Name<'_>;

    /// Facts about the zone as a whole.
    fn facts(&self) -> &ZoneFacts;

    /// Its names, except the hashed ones of NSEC3.
    fn names(&self) -> &dyn Tree;

    /// The hashed names of NSEC3, which only denials use (RFC 5155 §7.2.8).
    fn hashed(&self) -> &dyn Tree;

    /// The packed leaf that has the name of this hash, if the zone has the name.
    fn leaf(&self, hash: u64) -> &[u8];
}

/// One step from the root towards a zone.
#[derive(Clone, Copy, Default)]
pub struct LabelStep<'a> {
    /// The zone with its apex here.
    pub zone: Option<&'a dyn Zone>,
    /// Whether some zone's apex lies below.
    pub has_below: bool,
}

/// All zones of a snapshot.
pub trait ZoneTable: Sync {
    /// The key of all hashes.
    fn key(&self) -> &HashKey;

    /// The number of the name map: it changes whenever a zone is added or removed, and is never 0.
    fn map(&self) -> u32;

    /// The zone of a view's hosts file, by the file's number from 0; `None` behind the last.
    fn hosts(&self, view: View, number: usize) -> Option<&dyn Zone>;

    /// The step at this absolute name, in lower case without its root label; `None` if neither it
    /// nor any name below it is a zone of this view.
    fn step(&self, view: View, hash: u64, name: &[u8]) -> Option<LabelStep<'_>>;
}

/// The zone of a name.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    /// The zone with the longest origin.
    pub zone: &'a dyn Zone,
    /// Its facts.
    pub facts: &'a ZoneFacts,
    /// Whether other zones lie below its origin.
    pub has_below: bool,
}

impl<'w> dyn ZoneTable + 'w {
    /// The zone of a view with the longest origin of a name (RFC 1034 §4.3.2, step 2). With
    /// `above`, a zone at the name itself does not count.
    pub fn route(&self, view: View, name: &QName, above: bool) -> Option<Route<'_>> {
        let labels = name.labels();
        let root_at = name.as_bytes().len() - 1;
        let mut best = None;
        for depth in 0..=labels - usize::from(above && labels > 0) {
            let start = name.start_of_last(depth);
            let hash = self.key().hash(name.padded(), start, root_at - start);
            let Some(step) = self.step(view, hash, &name.as_bytes()[start..root_at]) else { break };
            if let Some(zone) = step.zone {
                best = Some((zone, step.has_below));
            }
            if !step.has_below {
                break;
            }
        }
        best.map(|(zone, has_below)| Route { zone, facts: zone.facts(), has_below })
    }
}

/// A name relative to a zone's origin: the first bytes of a buffer, labels without a root.
#[derive(Clone, Copy)]
pub struct RelName<'n> {
    buffer: &'n [u8; PADDED_LEN],
    start: usize,
    end: usize,
}

impl<'n> RelName<'n> {
    /// The bytes from `start` to `end` of a buffer. Both must be at most 255.
    #[inline]
    pub const fn new(buffer: &'n [u8; PADDED_LEN], start: usize, end: usize) -> Self {
        Self { buffer, start, end }
    }

    /// The labels.
    #[inline]
    pub fn as_bytes(&self) -> &'n [u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}

impl<'z> dyn Zone + 'z {
    /// The node of a name.
    #[inline]
    pub fn find(&self, key: &HashKey, name: RelName<'_>) -> Option<Node<'_>> {
        let hash = key.hash(name.buffer, name.start, name.end - name.start);
        Leaf::new(self.leaf(hash)).find(hash, name.as_bytes())
    }
}
