//! ALIAS records: names that have the addresses of another name in our zones.
//!
//! Each is followed to its target in the zones as their sources have them, and remembers the leaves
//! that it read. If one of these changes, the ALIAS is followed again. So a change costs what it
//! changes, and an ALIAS the length of its chain.
use crate::health::ZoneKey;
use crate::limits::ALIAS_HOPS_MAX;
use compile::{LeafIndex, View, Zone};
use image::{Node, RecordSet};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// The sets of a name: its zone, the view that has them, and the relative name.
pub(crate) type NameId = (ZoneKey, View, Box<[u8]>);
/// A leaf of a zone as its source has it.
pub(crate) type ReadLeaf = (ZoneKey, LeafIndex);

/// The zones as their sources have them.
pub(crate) trait Contents {
    /// The zone of this origin.
    fn zone(&self, origin: Name<'_>) -> Option<Arc<Zone>>;
}

/// What the last followed ALIAS led to.
pub(crate) struct Followed {
    /// The zone of the name that has the addresses, and the name in it; `None`: there is none.
    pub end: Option<(Arc<Zone>, Box<[u8]>)>,
    /// The view whose clients get them.
    pub view: View,
    /// The least TTL on the way.
    pub ttl: u32,
    reads: Reads,
}

/// What was read to follow an ALIAS.
#[derive(Default)]
pub(crate) struct Reads {
    leaves: HashSet<ReadLeaf>,
    names: Vec<NameBuf>,
    zones: HashMap<ZoneKey, Arc<Zone>>,
}

/// All ALIAS records of published zones.
#[derive(Default)]
pub(crate) struct Aliases {
    read: HashMap<NameId, Reads>,
    readers: HashMap<ReadLeaf, HashSet<NameId>>,
    /// The zones that were read, as they were then.
    contents: HashMap<ZoneKey, Arc<Zone>>,
}

/// Follows an ALIAS record, to what the clients of a view get.
pub(crate) fn follow(contents: &dyn Contents, view: View, alias: RecordSet<'_>) -> Followed {
    let mut followed = Followed { end: None, view, ttl: alias.ttl(), reads: Reads::default() };
    let target = |set: RecordSet<'_>| {
        let target = set.records().next()?;
        Name::parse(target).ok().map(NameBuf::from)
    };
    let mut next = target(alias);
    for _ in 0..ALIAS_HOPS_MAX {
        let Some(name) = next.take() else { break };
        followed.reads.names.push(name.clone());
        let mut above = std::iter::successors(Some(name.as_name()), |name| name.parent());
        let Some(zone) = above.find_map(|origin| contents.zone(origin)) else { break };
        if !zone.facts().loaded {
            break;
        }
        let Some(relative) = zone.relative(name.as_name()) else { break };
        let Some(node) = followed.reads.look_up(&zone, view, &relative) else { break };
        let onward = [Rtype::CNAME, Rtype::ALIAS].iter().find_map(|rtype| node.set(*rtype));
        let Some(set) = onward else {
            let end = node.name().into();
            followed.end = Some((Arc::clone(&zone), end));
            break;
        };
        followed.ttl = followed.ttl.min(set.ttl());
        next = target(set);
    }
    followed
}

impl Reads {
    /// The node that answers for a name: its own, or that of a wildcard (RFC 4592). `None`: there
    /// is none, or it is not of the zone but below a delegation or a DNAME record.
    fn look_up<'z>(&mut self, zone: &'z Arc<Zone>, view: View, name: &[u8]) -> Option<Node<'z>> {
        let key: ZoneKey = zone.origin().as_bytes().into();
        self.zones.entry(Arc::clone(&key)).or_insert_with(|| Arc::clone(zone));
        let mut get = |name: &[u8]| {
            for view in [View::DEFAULT, view] {
                self.leaves.insert((Arc::clone(&key), zone.leaf_of(view, name)));
            }
            zone.node_in(view, name)
        };
        let parent = |name: &[u8]| Some(name.get(1 + usize::from(*name.first()?)..)?.to_vec());
        let above: Vec<Vec<u8>> =
            std::iter::successors(Some(name.to_vec()), |name| parent(name)).collect();
        let mut found = None;
        for (depth, at) in above.iter().enumerate() {
            let Some(node) = get(at) else { continue };
            let is_apex = at.is_empty();
            let hides = node.set(Rtype::DNAME).is_some() && depth > 0;
            if hides || node.set(Rtype::NS).is_some() && !is_apex {
                return None;
            }
            found = match found {
                None if depth == 0 => Some(node),
                None => Some(get(&[b"\x01*", &at[..]].concat())?),
                Some(_) => found,
            };
        }
        found
    }
}

impl Aliases {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.read.is_empty()
    }

    /// Notes what an ALIAS has read.
    pub fn put(&mut self, id: NameId, followed: Followed) {
        self.remove(&id);
        let reads = followed.reads;
        for leaf in &reads.leaves {
            self.readers.entry(leaf.clone()).or_default().insert(id.clone());
        }
        for (key, zone) in &reads.zones {
            self.contents.entry(Arc::clone(key)).or_insert_with(|| Arc::clone(zone));
        }
        self.read.insert(id, Reads { zones: HashMap::new(), ..reads });
    }

    /// An ALIAS is not there any more.
    pub fn remove(&mut self, id: &NameId) {
        let Some(reads) = self.read.remove(id) else { return };
        for leaf in reads.leaves {
            if let Some(readers) = self.readers.get_mut(&leaf) {
                readers.remove(id);
                if readers.is_empty() {
                    self.readers.remove(&leaf);
                }
            }
        }
        if self.read.is_empty() {
            self.contents.clear();
        }
    }

    /// Those that have read a leaf.
    pub fn readers(&self, leaf: &ReadLeaf) -> impl Iterator<Item = &NameId> {
        self.readers.get(leaf).into_iter().flatten()
    }

    /// Those that may lead elsewhere, now that a zone has this content. `was_there`: it had
    /// content before.
    pub fn affected(
        &mut self,
        origin: Name<'_>,
        content: Option<&Arc<Zone>>,
        was_there: bool,
    ) -> Vec<NameId> {
        if self.read.is_empty() {
            return Vec::new();
        }
        let key: ZoneKey = origin.as_bytes().to_ascii_lowercase().into();
        let old = self.contents.remove(&key);
        let (Some(old), Some(new), true) = (&old, content, was_there) else {
            // Names may be those of another zone now.
            let is_in = |name: &NameBuf| name.as_name().is_within(origin);
            let stays = old.is_none() && content.is_some() == was_there;
            let within = self.read.iter().filter(|(_, reads)| reads.names.iter().any(is_in));
            let within = within.map(|(id, _)| id.clone());
            return if stays { Vec::new() } else { within.collect() };
        };
        self.contents.insert(Arc::clone(&key), Arc::clone(new));
        let leaves = [new.changed_leaves(Some(old)), old.changed_leaves(Some(new))].concat();
        let leaves: HashSet<LeafIndex> = leaves.into_iter().collect();
        let of_leaf = |leaf| self.readers(&(Arc::clone(&key), leaf)).cloned().collect::<Vec<_>>();
        leaves.into_iter().flat_map(of_leaf).collect()
    }
}
