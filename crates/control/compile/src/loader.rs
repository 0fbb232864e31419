//! Loads a whole zone: builds leaves from records in any order, and keeps unchanged leaves of the
//! served zone.
//!
//! Records are packed into chunks by the low bits of their name's hash. Then each part is sorted
//! and built, and its chunks are freed. So a load needs little more memory than the new zone.
mod views;

use crate::limits::{LEAF_NAMES, ORDINALS_MAX, PROBLEMS_MAX};
use crate::names::{CROWDED, Names, reference};
use crate::pack;
use crate::problem::ZoneProblem;
use crate::vector::index_among;
use crate::zone::{FactObserver, Zone, check_node, parent};
use image::{Declared, HashKey, Leaf, Node, Tree};
use model::BrokenRule;
use std::fmt;
use std::sync::Arc;
use wire::{Name, Rtype};

const PARTS: usize = 256;
const CHUNK_LEN: usize = 16 << 10;
/// Bytes of a staged record before its name: hash, total length, place, TTL, type, length of the
/// name.
const STAGED_HEAD_LEN: usize = 8 + 4 + 4 + 4 + 2 + 1;
/// Recently staged parents, so that children do not stage them again.
const RECENT_PARENTS: usize = 1 << 14;
/// If more than one in this many names changed, sorting costs less than updating the order.
const REORDER_SHARE: usize = 16;

/// Collects a zone's records.
pub struct Loader<'o> {
    key: Arc<HashKey>,
    origin: Box<[u8]>,
    old: Option<&'o Zone>,
    names: RecordStaging,
    hashed: RecordStaging,
    recent: Vec<u64>,
}

impl<'o> Loader<'o> {
    /// Starts a zone; shares unchanged parts with `old`.
    pub fn new(key: Arc<HashKey>, origin: Name<'_>, old: Option<&'o Zone>) -> Self {
        Self {
            key,
            origin: origin.as_bytes().to_ascii_lowercase().into(),
            old,
            names: RecordStaging::new(),
            hashed: RecordStaging::new(),
            recent: vec![0; RECENT_PARENTS],
        }
    }

    /// Adds a record. `place` is the caller's; a [`ZoneProblem`] returns it.
    ///
    /// # Errors
    /// The owner is outside of the zone.
    pub fn add(
        &mut self,
        owner: Name<'_>,
        rtype: Rtype,
        ttl: u32,
        rdata: &[u8],
        place: u32,
    ) -> Result<(), String> {
        let mut lower = [0; Name::LEN_MAX];
        let lower = &mut lower[..owner.len()];
        lower.copy_from_slice(owner.as_bytes());
        lower.make_ascii_lowercase();
        let origin = Name::parse(&self.origin).map_err(|why| why.to_string())?;
        if !owner.is_within(origin) {
            return Err(format!("{owner} is outside of the zone {origin}"));
        }
        let name = &lower[..owner.len() - origin.len()];
        let hash = self.key.hash_of(name);
        let of_nsec3 = match rtype {
            Rtype::NSEC3 => true,
            Rtype::RRSIG => rdata.starts_with(&Rtype::NSEC3.0.to_be_bytes()),
            _ => false,
        };
        if of_nsec3 {
            self.hashed.add(hash, name, Some((rtype, ttl, rdata)), place);
            return Ok(());
        }
        self.names.add(hash, name, Some((rtype, ttl, rdata)), place);
        self.add_parents(name, place);
        Ok(())
    }

    /// Declares that a name exists, even without records, and as what.
    ///
    /// # Errors
    /// The name is outside of the zone.
    pub fn declare(
        &mut self,
        name: Name<'_>,
        declared: Declared,
        place: u32,
    ) -> Result<(), String> {
        let origin = Name::parse(&self.origin).map_err(|why| why.to_string())?;
        if !name.is_within(origin) {
            return Err(format!("{name} is outside of the zone {origin}"));
        }
        let name = name.as_bytes()[..name.len() - origin.len()].to_ascii_lowercase();
        // In place of a TTL.
        let declared = Some((Rtype(0), u32::from(declared as u8), &[][..]));
        self.names.add(self.key.hash_of(&name), &name, declared, place);
        self.add_parents(&name, place);
        Ok(())
    }

    /// A name exists if one below it exists (RFC 8020, RFC 4592 §2.2.2).
    fn add_parents(&mut self, name: &[u8], place: u32) {
        let mut rest = name;
        while let Some(above) = parent(rest).filter(|above| !above.is_empty()) {
            let hash = self.key.hash_of(above);
            let seen = &mut self.recent[hash as usize % RECENT_PARENTS];
            if *seen == hash {
                break;
            }
            *seen = hash;
            self.names.add(hash, above, None, place);
            rest = above;
        }
    }

    /// Builds the zone.
    ///
    /// # Errors
    /// All problems, up to [`PROBLEMS_MAX`].
    pub fn finish(self) -> Result<Zone, Vec<ZoneProblem>> {
        self.finish_with_warnings().map(|(zone, _)| zone)
    }

    /// Builds the zone. Also returns warnings, up to [`PROBLEMS_MAX`].
    ///
    /// # Errors
    /// As [`Loader::finish`].
    pub fn finish_with_warnings(self) -> Result<(Zone, Vec<ZoneProblem>), Vec<ZoneProblem>> {
        drop(self.recent);
        let origin = Name::parse(&self.origin).unwrap_or(Name::ROOT);
        let mut zone = Zone::unloaded(Arc::clone(&self.key), origin);
        zone.facts.loaded = true;
        let mut problems = Vec::new();
        let mut check = |node: Node<'_>, place: u32| {
            let checked = check_node(node).and_then(|()| zone.facts.note(node));
            if let Err(why) = checked {
                let name = AbsoluteName(node.name(), &self.origin);
                let what = format!("{name}: {why}");
                problems.push(ZoneProblem { place: Some(place), rule: why.rule, what });
            }
        };
        let mut warnings = ZoneWarnings { origin: &self.origin, all: Vec::new() };
        let (names, hashed) = (self.old.map(|old| &old.names), self.old.map(|old| &old.hashed));
        let names = self.names.build(&self.key, names, &mut warnings, &mut check);
        let hashed = self.hashed.build(&self.key, hashed, &mut warnings, &mut |_, _| {});
        let mut warnings = warnings.all;
        for built in [&names, &hashed] {
            if let Err(problem) = built {
                problems.push(problem.clone());
            }
        }
        if let (Ok(names), Ok(hashed)) = (names, hashed) {
            (zone.names, zone.hashed) = (names, hashed);
            for (rtype, rule) in [(Rtype::SOA, BrokenRule::SOA), (Rtype::NS, BrokenRule::NS)] {
                if zone.names.get(&[]).and_then(|apex| apex.set(rtype)).is_none() {
                    let what = format!("the zone {origin} has no {rtype} record at its apex");
                    problems.push(ZoneProblem { place: None, rule, what });
                }
            }
        }
        problems.sort_by_key(|problem| problem.place.unwrap_or(u32::MAX));
        problems.truncate(PROBLEMS_MAX);
        warnings.sort_by_key(|warning| warning.place);
        if problems.is_empty() { Ok((zone, warnings)) } else { Err(problems) }
    }
}

/// Warnings, up to [`PROBLEMS_MAX`].
struct ZoneWarnings<'o> {
    origin: &'o [u8],
    all: Vec<ZoneProblem>,
}

impl ZoneWarnings<'_> {
    /// Warns of a set with several TTLs, at the first record that differs. RRSIGs of several types
    /// are not one set: each has the TTL of the covered set (RFC 4034 §3).
    fn note_ttls(&mut self, set: &[StagedRecord<'_>], lowest: u32) {
        let differs = |staged: &StagedRecord<'_>| staged.ttl != lowest;
        let rtype = set[0].rtype;
        if !set.iter().any(differs) || rtype == Rtype::RRSIG || self.all.len() >= PROBLEMS_MAX {
            return;
        }
        let first = set.iter().min_by_key(|staged| staged.place).map_or(lowest, |it| it.ttl);
        let others = set.iter().filter(|staged| staged.ttl != first);
        let Some(other) = others.min_by_key(|staged| staged.place) else { return };
        let (name, ttl) = (AbsoluteName(set[0].name, self.origin), other.ttl);
        let what = format!(
            "{name}: this {rtype} record has a TTL of {ttl}, an earlier one {first}; \
             the set is served with {lowest}"
        );
        self.all.push(ZoneProblem {
            place: Some(other.place),
            rule: BrokenRule::TTL_DIFFERS,
            what,
        });
    }
}

/// Displays a relative name with its origin.
struct AbsoluteName<'n>(&'n [u8], &'n [u8]);

impl fmt::Display for AbsoluteName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Name::parse(&[self.0, self.1].concat()) {
            Ok(name) => name.fmt(f),
            Err(why) => why.fmt(f),
        }
    }
}

/// Packed records, partitioned by hash.
struct RecordStaging {
    parts: Vec<Vec<Vec<u8>>>,
}

struct StagedRecord<'s> {
    hash: u64,
    place: u32,
    ttl: u32,
    /// 0: the name exists without a record here.
    rtype: Rtype,
    name: &'s [u8],
    rdata: &'s [u8],
}

impl RecordStaging {
    fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Vec::new()).collect() }
    }

    fn add(&mut self, hash: u64, name: &[u8], record: Option<(Rtype, u32, &[u8])>, place: u32) {
        let (rtype, ttl, rdata) = record.unwrap_or((Rtype(0), 0, &[]));
        let len = STAGED_HEAD_LEN + name.len() + rdata.len();
        let part = &mut self.parts[hash as usize % PARTS];
        if part.last().is_none_or(|chunk| chunk.len() + len > CHUNK_LEN) {
            let room = if part.is_empty() { len } else { CHUNK_LEN.max(len) };
            part.push(Vec::with_capacity(room));
        }
        let Some(chunk) = part.last_mut() else { return };
        chunk.extend_from_slice(&hash.to_le_bytes());
        chunk.extend_from_slice(&(len as u32).to_le_bytes());
        chunk.extend_from_slice(&place.to_le_bytes());
        chunk.extend_from_slice(&ttl.to_le_bytes());
        chunk.extend_from_slice(&rtype.0.to_le_bytes());
        chunk.push(name.len() as u8);
        chunk.extend_from_slice(name);
        chunk.extend_from_slice(rdata);
    }

    fn names(&self) -> usize {
        let mut hashes = Vec::new();
        self.parts
            .iter()
            .map(|part| {
                hashes.clear();
                hashes.extend(part.iter().flat_map(|chunk| read(chunk)).map(|staged| staged.hash));
                hashes.sort_unstable();
                hashes.dedup();
                hashes.len()
            })
            .sum()
    }

    /// Builds the leaves; passes each node to `check` with the place of its first record.
    fn build(
        mut self,
        key: &Arc<HashKey>,
        old: Option<&Names>,
        warnings: &mut ZoneWarnings<'_>,
        check: &mut dyn FnMut(Node<'_>, u32),
    ) -> Result<Names, ZoneProblem> {
        let wanted = self.names().div_ceil(LEAF_NAMES).max(1);
        // Keep a suitable old geometry, so that leaves can be shared.
        let same = old
            .map(|old| old.leaves().len())
            .filter(|len| (wanted.div_ceil(2)..=wanted.saturating_mul(2)).contains(len));
        let len = same.unwrap_or(wanted);
        let shared = old.filter(|_| same.is_some());
        let groups = PARTS.min(1 << (usize::BITS - 1 - len.leading_zeros()));
        let mut builder =
            LeafBuilder { shared, leaves: vec![None; len], added: vec![], removed: vec![] };
        for group in 0..groups {
            let parts: Vec<_> = (group..PARTS)
                .step_by(groups)
                .map(|part| std::mem::take(&mut self.parts[part]))
                .collect();
            builder.build_group(&parts, len, warnings, check)?;
        }
        builder.finish(key)
    }
}

fn read(mut chunk: &[u8]) -> impl Iterator<Item = StagedRecord<'_>> {
    std::iter::from_fn(move || {
        let head = chunk.first_chunk::<STAGED_HEAD_LEN>()?;
        let u32_at =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (record, rest) = chunk.split_at_checked(u32_at(8) as usize)?;
        chunk = rest;
        let (name, rdata) = record[STAGED_HEAD_LEN..].split_at(head[22].into());
        Some(StagedRecord {
            hash: u64::from(u32_at(0)) | u64::from(u32_at(4)) << 32,
            place: u32_at(12),
            ttl: u32_at(16),
            rtype: Rtype(u16::from_le_bytes([head[20], head[21]])),
            name,
            rdata,
        })
    })
}

struct LeafBuilder<'o> {
    shared: Option<&'o Names>,
    leaves: Vec<Option<Arc<[u8]>>>,
    added: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
}

impl LeafBuilder<'_> {
    fn build_group(
        &mut self,
        parts: &[Vec<Vec<u8>>],
        len: usize,
        warnings: &mut ZoneWarnings<'_>,
        check: &mut dyn FnMut(Node<'_>, u32),
    ) -> Result<(), ZoneProblem> {
        let chunks = parts.iter().flatten();
        let mut records: Vec<StagedRecord<'_>> = chunks.flat_map(|chunk| read(chunk)).collect();
        records.sort_unstable_by(|a, b| {
            let key = |s: &StagedRecord<'_>| (index_among(s.hash, len), s.hash);
            key(a)
                .cmp(&key(b))
                .then_with(|| a.name.cmp(b.name))
                .then_with(|| a.rtype.cmp(&b.rtype))
                .then_with(|| pack::cmp_data(a.rtype, a.rdata, b.rdata))
                .then_with(|| a.rdata.cmp(b.rdata))
        });
        let mut packed = Vec::new();
        let mut nodes: Vec<(u64, std::ops::Range<usize>)> = Vec::new();
        for leaf in records.chunk_by(|a, b| index_among(a.hash, len) == index_among(b.hash, len)) {
            packed.clear();
            nodes.clear();
            for node in leaf.chunk_by(|a, b| a.hash == b.hash && a.name == b.name) {
                let ordinal = ordinal(&nodes, node[0].hash).ok_or_else(|| ZoneProblem {
                    place: Some(node[0].place),
                    rule: BrokenRule::LIMIT,
                    what: CROWDED.into(),
                })?;
                let start = packed.len();
                pack_node(&mut packed, node, ordinal, warnings)?;
                check(Node::new(&packed[start..]), last_place(node));
                nodes.push((node[0].hash, start..packed.len()));
            }
            let mut nodes: Vec<_> =
                nodes.iter().map(|(hash, range)| (*hash, &packed[range.clone()])).collect();
            self.place(index_among(leaf[0].hash, len), pack::leaf(&mut nodes));
        }
        Ok(())
    }

    /// Keeps the old leaf if the new one is equal.
    fn place(&mut self, index: usize, new: Arc<[u8]>) {
        let old = self.shared.and_then(|names| names.leaves().get(index));
        self.leaves[index] = Some(match old {
            Some(old) if **old == *new => Arc::clone(old),
            Some(old) => {
                self.note_names(old, &new);
                new
            }
            None => new,
        });
    }

    fn note_names(&mut self, old: &[u8], new: &[u8]) {
        let names = |leaf| {
            let mut names: Vec<_> = Leaf::new(leaf).nodes().map(|node| node.name()).collect();
            names.sort_unstable();
            names
        };
        let (before, after) = (names(old), names(new));
        let missing = |from: &[&[u8]], among: &[&[u8]]| -> Vec<Vec<u8>> {
            let gone = from.iter().filter(|name| among.binary_search(name).is_err());
            gone.map(|name| name.to_vec()).collect()
        };
        self.added.extend(missing(&after, &before));
        self.removed.extend(missing(&before, &after));
    }

    fn finish(mut self, key: &Arc<HashKey>) -> Result<Names, ZoneProblem> {
        for index in 0..self.leaves.len() {
            if self.leaves[index].is_none() {
                self.place(index, pack::leaf(&mut []));
            }
        }
        let leaves = self.leaves.into_iter().flatten().collect();
        let changed = self.added.len() + self.removed.len();
        let order = self
            .shared
            .filter(|old| changed <= old.len() / REORDER_SHARE)
            .map(|old| old.reordered(&leaves, &self.added, &self.removed));
        Ok(Names::from_leaves(Arc::clone(key), leaves, order))
    }
}

/// The next ordinal among the nodes with the same reference.
fn ordinal(nodes: &[(u64, std::ops::Range<usize>)], hash: u64) -> Option<u8> {
    let same = |other: &&(u64, _)| reference(other.0, 0) == reference(hash, 0);
    let taken = nodes.iter().rev().take_while(same).count();
    (taken < ORDINALS_MAX.into()).then_some(taken as u8)
}

/// The place of the last record of a node: it is the one that conflicts.
fn last_place(node: &[StagedRecord<'_>]) -> u32 {
    let places = node.iter().filter(|staged| staged.rtype != Rtype(0)).map(|staged| staged.place);
    places.max().unwrap_or(node[0].place)
}

fn pack_node(
    packed: &mut Vec<u8>,
    node: &[StagedRecord<'_>],
    ordinal: u8,
    warnings: &mut ZoneWarnings<'_>,
) -> Result<(), ZoneProblem> {
    let start = packed.len();
    pack::node_head(packed, node[0].name, ordinal);
    for set in node.chunk_by(|a, b| a.rtype == b.rtype) {
        if set[0].rtype == Rtype(0) {
            let staged = set.iter().map(|staged| staged.ttl).max();
            let is = |declared: &Declared| Some(u32::from(*declared as u8)) == staged;
            let declared = [Declared::Name, Declared::Addresses].into_iter().find(is);
            pack::set_declared(&mut packed[start..], declared.unwrap_or_default());
            continue;
        }
        // RFC 2181 §5.2: differing TTLs are an error; serve the lowest.
        let ttl = set.iter().map(|staged| staged.ttl).min().unwrap_or_default();
        warnings.note_ttls(set, ttl);
        let same = |a: &StagedRecord<'_>, b: &StagedRecord<'_>| {
            pack::cmp_data(a.rtype, a.rdata, b.rdata).is_eq()
        };
        let distinct = set.chunk_by(same).map(|same| same[0].rdata);
        pack::set(packed, set[0].rtype, ttl, distinct, &[]).map_err(|what| ZoneProblem {
            place: Some(set[0].place),
            rule: BrokenRule::LIMIT,
            what,
        })?;
    }
    pack::close_node(packed, start).map_err(|what| ZoneProblem {
        place: Some(last_place(node)),
        rule: BrokenRule::LIMIT,
        what,
    })
}
