//! The zone that workers read: as its source has it, but sets with rules have only the chosen
//! records, and addresses stand for ALIAS records. Both zones share all other leaves.
use crate::names::Names;
use crate::pack::{self, NodeChange};
use crate::zone::{Zone, is_chosen};
use image::{Group, Leaf, Location, Node, Order, RecordSet, Selection, inverse_of, record_hash};
use packet::View;
use std::sync::Arc;
use wire::Rtype;

/// A leaf of a zone, or of the sets of one of its views.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeafIndex {
    /// The view; [`View::DEFAULT`]: it is a leaf of the zone.
    pub view: View,
    number: usize,
}

/// What stands for a set in the zone that workers read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChosenSet {
    /// Some of its records.
    Records(ChosenRecords),
    /// Other sets: addresses for an ALIAS record.
    Computed(Vec<ComputedSet>),
}

impl From<ChosenRecords> for ChosenSet {
    fn from(records: ChosenRecords) -> Self {
        Self::Records(records)
    }
}

/// A set that no source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedSet {
    /// Their type.
    pub rtype: Rtype,
    /// The TTL.
    pub ttl: u32,
    /// The data of each record.
    pub records: Vec<Box<[u8]>>,
    /// How an answer is selected from them; `None`: it has all.
    pub selection: Option<AnswerRules>,
}

/// What is answered of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenRecords {
    /// The TTL.
    pub ttl: u32,
    /// The numbers of the records that may be answered; empty: the set is not there.
    pub numbers: Vec<usize>,
    /// How an answer is selected from them; `None`: it has all.
    pub selection: Option<AnswerRules>,
}

/// How an answer is selected from records: `answer::choose` applies it to each query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerRules {
    /// The order of the records that not all answers have.
    pub order: Order,
    /// How many of the first records each answer has.
    pub first: u16,
    /// How many of the others an answer has at most.
    pub others: u16,
    /// The weight of each record; empty: all are equal.
    pub weights: Vec<u16>,
    /// Where each record is, in ascending order; empty: answers are selected from all.
    pub locations: Vec<Location>,
}

impl AnswerRules {
    /// The packed form for these records; `key` depends on the zone alone.
    fn pack(&self, key: u64, records: &[&[u8]]) -> Vec<u8> {
        let (bounds, has_weights) = ((self.first, self.others), !self.weights.is_empty());
        let mut packed = Selection::pack_head(self.order, bounds, key, has_weights).to_vec();
        let mut sum = 0;
        for weight in &self.weights {
            sum += u32::from(*weight);
            packed.extend(sum.to_le_bytes());
        }
        if self.order == Order::Hash {
            packed.extend(records.iter().flat_map(|data| record_hash(data).to_le_bytes()));
            packed.extend(self.weights.iter().flat_map(|weight| inverse_of(*weight).to_le_bytes()));
        }
        let mut start = 0;
        for same in self.locations.chunk_by(|one, next| one == next) {
            let (location, end) = (same[0], start + same.len() as u16);
            packed.extend(Group { location, start, end }.pack());
            start = end;
        }
        packed
    }
}

/// A number that follows from the name of a zone alone (FNV-1a), so that all servers choose alike.
fn zone_key(origin: &[u8]) -> u64 {
    origin.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Chooses what is answered of a set of this node of a view; `None`: all records, as they are.
pub type Chooser<'c> = dyn FnMut(View, Node<'_>, RecordSet<'_>) -> Option<ChosenSet> + 'c;

/// A [`Chooser`] of one view.
type ViewChooser<'c> = dyn FnMut(Node<'_>, RecordSet<'_>) -> Option<ChosenSet> + 'c;

/// The names in these leaves, and in those that an older version had in their place.
fn names_in(new: &Names, old: Option<&Names>, numbers: &[usize]) -> Vec<Box<[u8]>> {
    let (new, old) = (new.leaves(), old.map(Names::leaves));
    let gone = new.len()..old.map_or(0, |old| old.len());
    let numbers = numbers.iter().copied().chain(gone);
    let leaves = numbers.flat_map(|number| [new.get(number), old.and_then(|old| old.get(number))]);
    leaves
        .flatten()
        .flat_map(|leaf| Leaf::new(leaf).nodes())
        .map(|node| node.name().into())
        .collect()
}

/// The sets of a zone from whose records is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenSets {
    /// Those with rules, and ALIAS records.
    Ruled,
    /// Those, and all of addresses.
    RuledOrAddresses,
}

impl ChosenSets {
    fn has(self, set: &RecordSet<'_>) -> bool {
        let is_of_addresses = matches!(set.rtype(), Rtype::A | Rtype::AAAA);
        is_chosen(set) || (self == Self::RuledOrAddresses && is_of_addresses)
    }
}

impl Zone {
    /// The leaves that differ from those of an older version, by their identity. `None`: all.
    pub fn changed_leaves(&self, old: Option<&Self>) -> Vec<LeafIndex> {
        let of_view = |view| {
            let new = self.names_of(view).map(Names::leaves);
            let old = old.and_then(|old| old.names_of(view)).map(Names::leaves);
            let changed: Vec<usize> = match (new, old) {
                (Some(new), Some(old)) => new.changed_since(old, Arc::ptr_eq),
                (new, _) => (0..new.map_or(0, |new| new.len())).collect(),
            };
            changed.into_iter().map(move |number| LeafIndex { view, number })
        };
        self.all_views().flat_map(of_view).collect()
    }

    /// The zone itself, then its views.
    fn all_views(&self) -> impl Iterator<Item = View> {
        [View::DEFAULT].into_iter().chain(self.loaded_views())
    }

    /// The leaf of a relative name in lower case, among the sets of a view.
    pub fn leaf_of(&self, view: View, name: &[u8]) -> LeafIndex {
        let number = self.names_of(view).map_or(0, |names| names.index_of(name));
        LeafIndex { view, number }
    }

    /// These sets in a leaf, with their nodes.
    pub fn sets_of(
        &self,
        leaf: LeafIndex,
        which: ChosenSets,
    ) -> impl Iterator<Item = (Node<'_>, RecordSet<'_>)> {
        let names = self.names_of(leaf.view);
        let bytes = names.and_then(|names| names.leaves().get(leaf.number));
        Leaf::new(bytes.map_or(&[][..], |leaf| leaf)).nodes().flat_map(move |node| {
            let sets = node.sets().filter(move |set| which.has(set));
            sets.map(move |set| (node, set))
        })
    }

    /// Whether answers to clients of a view may lack records of the sets of a node: it is not
    /// signed, and no glue.
    pub fn may_lack_records(&self, view: View, node: Node<'_>) -> bool {
        node.set(Rtype::RRSIG).is_none() && self.cut_in(view, node.name()).is_none()
    }

    /// This zone with the chosen records. `before`: what an older version of it became, with the
    /// same `which`; `leaves`: those that changed since, or whose choice may.
    pub fn chosen(
        &self,
        before: Option<&Self>,
        leaves: &[LeafIndex],
        which: ChosenSets,
        chooser: &mut Chooser,
    ) -> Self {
        let mut chosen = Vec::new();
        let mut names_changed = Vec::new();
        for view in self.all_views() {
            let Some(own) = self.names_of(view) else { continue };
            let of_view = leaves.iter().filter(|leaf| leaf.view == view);
            let numbers: Vec<usize> = of_view.map(|leaf| leaf.number).collect();
            let old = before.and_then(|before| before.chosen_of(view));
            if before.is_some() && self.facts().has_views {
                names_changed.extend(names_in(own, old, &numbers));
            }
            let mut choose = |node: Node<'_>, set: RecordSet<'_>| chooser(view, node, set);
            chosen.push((view, self.chosen_names((own, old), &numbers, which, &mut choose)));
        }
        let mut zone = self.clone();
        zone.names = chosen.remove(0).1;
        let names_changed: Vec<&[u8]> = names_changed.iter().map(|name| &**name).collect();
        zone.lay_chosen(before, chosen, &names_changed);
        zone.facts.has_rules = false;
        zone
    }

    /// Chooses in these leaves of names. `old`: what an older version of them became.
    fn chosen_names(
        &self,
        (own, old): (&Names, Option<&Names>),
        numbers: &[usize],
        which: ChosenSets,
        choose: &mut ViewChooser,
    ) -> Names {
        let leaves = own.leaves();
        let mut chosen = old.map_or(leaves, Names::leaves).clone();
        while chosen.len() > leaves.len() {
            chosen.pop();
        }
        let mut room = Vec::new();
        for number in numbers {
            let Some(leaf) = leaves.get(*number) else { continue };
            let leaf = self.chosen_leaf(&mut room, leaf, which, choose);
            match *number < chosen.len() {
                true => chosen.set(*number, leaf),
                false => chosen.push(leaf),
            }
        }
        own.with_leaves(chosen)
    }

    fn chosen_leaf(
        &self,
        room: &mut Vec<u8>,
        leaf: &Arc<[u8]>,
        which: ChosenSets,
        chooser: &mut ViewChooser,
    ) -> Arc<[u8]> {
        let has_some = |node: &Node<'_>| node.sets().any(|set| which.has(&set));
        let nodes = || Leaf::new(leaf).nodes().filter(has_some);
        if nodes().next().is_none() {
            return Arc::clone(leaf);
        }
        let key = zone_key(self.origin().as_bytes());
        let packed: Vec<Vec<u8>> =
            nodes().map(|node| chosen_node(node, key, which, chooser)).collect();
        let hash_of = |name: &[u8]| self.names().key().hash_of(name);
        let mut changes: Vec<NodeChange<'_>> = nodes()
            .zip(&packed)
            .map(|(node, bytes)| NodeChange {
                hash: hash_of(node.name()),
                name: node.name(),
                is_new: false,
                bytes: Some(bytes),
            })
            .collect();
        let changed = pack::changed_leaf(room, Leaf::new(leaf), &mut changes, hash_of);
        // Sets without rules of their own are often answered as they are.
        if changed == *leaf { Arc::clone(leaf) } else { changed }
    }
}

/// A node with the chosen records of its sets with rules, and what selects answers from them. If
/// that does not fit, all chosen records are answered: locations may take more room than their
/// texts do, and a node that is that large has more than 60 KiB. Addresses for an ALIAS record that
/// do not fit beside other sets are left out.
fn chosen_node(node: Node<'_>, key: u64, which: ChosenSets, chooser: &mut ViewChooser) -> Vec<u8> {
    let choose = |set| {
        let chosen = which.has(&set).then(|| chooser(node, set)).flatten();
        (set, chosen)
    };
    let mut chosen: Vec<_> = node.sets().map(choose).collect();
    let packed = packed_node(node, &chosen, Some(key));
    let packed = packed.or_else(|_| packed_node(node, &chosen, None));
    let packed = packed.or_else(|_| {
        chosen.retain(|(_, set)| !matches!(set, Some(ChosenSet::Computed(_))));
        packed_node(node, &chosen, None)
    });
    packed.expect("a part of a node that fits")
}

/// Without a key, nothing selects.
fn packed_node(
    node: Node<'_>,
    chosen: &[(RecordSet<'_>, Option<ChosenSet>)],
    key: Option<u64>,
) -> Result<Vec<u8>, String> {
    let rules = |rules: &Option<AnswerRules>, records: &[&[u8]]| match (rules, key) {
        (Some(rules), Some(key)) => rules.pack(key, records),
        _ => Vec::new(),
    };
    // Addresses come before what they stand for.
    let mut sets: Vec<(Rtype, Vec<u8>)> = Vec::with_capacity(chosen.len());
    for (set, chosen) in chosen {
        let mut packed = Vec::new();
        match chosen {
            None => packed.extend_from_slice(set.as_bytes()),
            Some(ChosenSet::Records(ChosenRecords { ttl, numbers, selection })) => {
                let records: Vec<&[u8]> = set.records().collect();
                let chosen = numbers.iter().filter_map(|number| records.get(*number).copied());
                let chosen: Vec<&[u8]> = chosen.collect();
                if !numbers.is_empty() {
                    let rules = rules(selection, &chosen);
                    pack::set(&mut packed, set.rtype(), *ttl, chosen.into_iter(), &rules)?;
                }
            }
            Some(ChosenSet::Computed(computed)) => {
                for ComputedSet { rtype, ttl, records, selection } in computed {
                    let mut packed = Vec::new();
                    let records: Vec<&[u8]> = records.iter().map(|data| &**data).collect();
                    let rules = rules(selection, &records);
                    pack::set(&mut packed, *rtype, *ttl, records.into_iter(), &rules)?;
                    sets.push((*rtype, packed));
                }
            }
        }
        sets.push((set.rtype(), packed));
    }
    sets.sort_by_key(|(rtype, _)| *rtype);
    let mut packed = Vec::with_capacity(node.as_bytes().len());
    pack::node_head(&mut packed, node.name(), node.ordinal());
    pack::set_declared(&mut packed, node.declared());
    sets.iter().for_each(|(_, set)| packed.extend_from_slice(set));
    pack::close_node(&mut packed, 0)?;
    Ok(packed)
}
