//! Zones, and the way from a question's name to one.
use crate::{HashKey, Leaf, Node};
use wire::limits::PADDED_LEN;
use wire::{Name, QName};

/// A set of depths, a name's labels below the origin: bit `d` stands for depth `d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthMask(pub u128);

impl DepthMask {
    /// Adds a depth.
    pub const fn insert(&mut self, depth: usize) {
        self.0 |= 1 << depth;
    }

    /// Whether a depth is in it.
    #[inline]
    pub const fn contains(self, depth: usize) -> bool {
        self.0 >> depth & 1 != 0
    }

    /// The depths up to and with `depth`, from the least.
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

/// How a zone's NSEC3 names are hashed (RFC 5155 §4.1), with SHA-1, the only algorithm there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nsec3Params {
    /// Extra iterations.
    pub iterations: u16,
    /// Octets of salt in use.
    pub salt_len: u8,
    /// The salt.
    pub salt: [u8; 255],
}

/// What is known about a zone as a whole. The masks and the depth may say more than is true after
/// records went away (a look in vain is the price), never less.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Whether it was ever loaded. Until then its names get SERVFAIL (invariant I10).
    pub loaded: bool,
    /// Whether the apex is signed: only then there is anything to prove with.
    pub signed: bool,
    /// Whether it is nobody's in particular: what a hosts file says goes before what it says.
    pub yields: bool,
    /// Labels of the origin.
    pub origin_labels: u8,
    /// Labels of the deepest name, below the origin.
    pub depth_max: u8,
    /// Depths at which a delegation or a DNAME stands.
    pub cuts: DepthMask,
    /// Depths of names that have a wildcard directly below them.
    pub wildcards: DepthMask,
    /// Where denials are by hashed names.
    pub nsec3: Option<Nsec3Params>,
}

impl Default for Nsec3Params {
    fn default() -> Self {
        Self { iterations: 0, salt_len: 0, salt: [0; 255] }
    }
}

/// The names of a zone, as `compile` keeps them.
pub trait Tree: Sync {
    /// The packed leaf that holds the name of this hash, if the zone has the name.
    fn leaf(&self, hash: u64) -> &[u8];

    /// How many names there are, empty non-terminals among them.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name at this place in canonical order (RFC 4034 §6.1).
    fn at(&self, rank: usize) -> Option<Node<'_>>;

    /// How many names sort before `name`, which is relative to the origin and in lower case.
    fn rank(&self, name: &[u8]) -> usize;
}

/// A zone to answer from.
pub trait Zone: Sync {
    /// The name of its apex, in lower case.
    fn origin(&self) -> Name<'_>;

    /// What is known about it as a whole.
    fn facts(&self) -> &Facts;

    /// Its names, but for the hashed ones of NSEC3.
    fn names(&self) -> &dyn Tree;

    /// The hashed names of NSEC3, which only denials see (RFC 5155 §7.2.8).
    fn hashed(&self) -> &dyn Tree;

    /// The packed leaf that holds the name of this hash, if the zone has the name.
    fn leaf(&self, hash: u64) -> &[u8];
}

/// One step down from the root towards a zone.
#[derive(Clone, Copy, Default)]
pub struct Step<'a> {
    /// The zone whose apex is here.
    pub zone: Option<&'a dyn Zone>,
    /// Whether some zone's apex lies below.
    pub has_below: bool,
}

/// Everything that answers are read from.
pub trait World: Sync {
    /// The key of all hashes.
    fn key(&self) -> &HashKey;

    /// A number that is another one whenever names have changed hands: a zone came, or went. It is
    /// never 0.
    fn map(&self) -> u32;

    /// The zone at the root that a hosts file made, by the file's number from 0; nothing behind the
    /// last.
    fn hosts(&self, number: usize) -> Option<&dyn Zone>;

    /// What is at this absolute name, in lower case and without its root label; `None` where
    /// neither it nor anything below it is a zone.
    fn step(&self, hash: u64, name: &[u8]) -> Option<Step<'_>>;
}

/// Where a name is to be looked up.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    /// The zone with the longest origin.
    pub zone: &'a dyn Zone,
    /// What is known about it.
    pub facts: &'a Facts,
    /// Whether other zones lie below its origin.
    pub has_below: bool,
}

impl<'w> dyn World + 'w {
    /// The zone that the name lies in: the one with the longest origin (RFC 1034 §4.3.2, step 2).
    /// A zone at the name itself does not count when `above` is asked for.
    pub fn route(&self, name: &QName, above: bool) -> Option<Route<'_>> {
        let labels = name.labels();
        let root_at = name.octets().len() - 1;
        let mut best = None;
        for depth in 0..=labels - usize::from(above && labels > 0) {
            let start = name.start_of_last(depth);
            let hash = self.key().hash(name.padded(), start, root_at - start);
            let Some(step) = self.step(hash, &name.octets()[start..root_at]) else { break };
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

/// A name relative to a zone's origin: the first octets of a buffer, labels without a root.
#[derive(Clone, Copy)]
pub struct RelName<'n> {
    buffer: &'n [u8; PADDED_LEN],
    start: usize,
    end: usize,
}

impl<'n> RelName<'n> {
    /// The octets from `start` to `end` of a buffer. Both must be at most 255.
    #[inline]
    pub const fn new(buffer: &'n [u8; PADDED_LEN], start: usize, end: usize) -> Self {
        Self { buffer, start, end }
    }

    /// The labels.
    #[inline]
    pub fn octets(&self) -> &'n [u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}

impl<'z> dyn Zone + 'z {
    /// The node of a name.
    #[inline]
    pub fn find(&self, key: &HashKey, name: RelName<'_>) -> Option<Node<'_>> {
        let hash = key.hash(name.buffer, name.start, name.end - name.start);
        Leaf::new(self.leaf(hash)).find(hash, name.octets())
    }
}
