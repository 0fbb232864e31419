//! Loads a whole zone from record sets in canonical order, such as a store's, without sorting.
//!
//! Packed nodes are collected in chunks by the low bits of their name's hash. Then each part
//! becomes leaves, and its chunks are freed.
use crate::limits::{LEAF_NAMES, ORDINALS_MAX};
use crate::names::{Names, is_below, reference};
use crate::order::{CanonicalOrder, NameRef};
use crate::pack;
use crate::problem::ZoneProblem;
use crate::vector::index_among;
use crate::zone::{FactObserver, RuleViolation, Zone, check_node, parent};
use image::{HashKey, Node};
use model::BrokenRule;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype, canonical_cmp};

const PARTS: usize = 256;
const CHUNK_LEN: usize = 16 << 10;
/// Bytes of the hash before each node.
const HASH_LEN: usize = 8;

/// Collects a zone's record sets in canonical order of their names, then by type.
pub struct OrderedLoader {
    key: Arc<HashKey>,
    zone: Zone,
    /// The packed node of the current name; empty before the first.
    node: Vec<u8>,
    parts: Vec<Vec<Vec<u8>>>,
    order: Vec<NameRef>,
}

impl OrderedLoader {
    /// Starts a zone.
    pub fn new(key: Arc<HashKey>, origin: Name<'_>) -> Self {
        let mut zone = Zone::unloaded(Arc::clone(&key), origin);
        zone.facts.loaded = true;
        let parts = (0..PARTS).map(|_| Vec::new()).collect();
        Self { key, zone, node: Vec::new(), parts, order: Vec::new() }
    }

    /// Adds a record set with its packed rules. Its name is relative to the origin, in lower case.
    ///
    /// # Errors
    /// The set is out of order, or not valid in a zone.
    pub fn add<'r>(
        &mut self,
        name: &[u8],
        rtype: Rtype,
        ttl: u32,
        records: impl Iterator<Item = &'r [u8]>,
        rules: &[u8],
    ) -> Result<(), ZoneProblem> {
        let last = Node::new(&self.node);
        if self.node.is_empty() || last.name() != name {
            self.begin(name)?;
        } else if last.sets().last().is_some_and(|set| set.rtype() >= rtype) {
            return Err(self.broken(name, RuleViolation::new(BrokenRule::TWICE, OUT_OF_ORDER)));
        }
        let limit = |what| RuleViolation::new(BrokenRule::LIMIT, what);
        let packed = pack::set(&mut self.node, rtype, ttl, records, rules);
        let closed = packed.and_then(|()| pack::close_node(&mut self.node, 0));
        closed.map_err(|what| self.broken(name, limit(what)))
    }

    /// Starts the node of the next name, and its parents without sets.
    fn begin(&mut self, name: &[u8]) -> Result<(), ZoneProblem> {
        let mut missing = Vec::new();
        if self.node.is_empty() {
            // `finish` reports what is missing at the apex.
            missing.extend((!name.is_empty()).then_some(&[][..]));
        }
        let last = Node::new(&self.node).name();
        if !self.node.is_empty() && canonical_cmp(last, name).is_ge() {
            return Err(self.broken(name, RuleViolation::new(BrokenRule::TWICE, OUT_OF_ORDER)));
        }
        let mut above = name;
        let start = missing.len();
        while let Some(next) = parent(above).filter(|next| !next.is_empty()) {
            if last == next || is_below(last, next) {
                break;
            }
            missing.push(next);
            above = next;
        }
        missing[start..].reverse();
        let mut node = std::mem::take(&mut self.node);
        if !node.is_empty() {
            self.stage(&node)?;
        }
        for above in missing {
            node.clear();
            pack::bare_node(&mut node, above);
            self.stage(&node)?;
        }
        node.clear();
        pack::bare_node(&mut node, name);
        self.node = node;
        Ok(())
    }

    /// Adds a complete node.
    fn stage(&mut self, bytes: &[u8]) -> Result<(), ZoneProblem> {
        let node = Node::new(bytes);
        let checked = check_node(node).and_then(|()| self.zone.facts.note(node));
        checked.map_err(|why| self.broken(node.name(), why))?;
        let hash = self.key.hash_of(node.name());
        self.order.push(reference(hash, 0));
        let part = &mut self.parts[hash as usize % PARTS];
        let len = HASH_LEN + bytes.len();
        if part.last().is_none_or(|chunk| chunk.len() + len > CHUNK_LEN) {
            let room = if part.is_empty() { len } else { CHUNK_LEN.max(len) };
            part.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = part.last_mut() {
            chunk.extend_from_slice(&hash.to_le_bytes());
            chunk.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn broken(&self, name: &[u8], why: RuleViolation) -> ZoneProblem {
        let name = NameBuf::joined(name, self.zone.origin());
        let name = name.map(|name| name.as_name().to_string()).unwrap_or_default();
        ZoneProblem { place: None, rule: why.rule, what: format!("{name}: {why}") }
    }

    /// Builds the zone.
    ///
    /// # Errors
    /// The first problem.
    pub fn finish(mut self) -> Result<Zone, ZoneProblem> {
        let node = std::mem::take(&mut self.node);
        if !node.is_empty() {
            self.stage(&node)?;
        }
        let len = self.order.len().div_ceil(LEAF_NAMES).max(1);
        let groups = PARTS.min(1 << (usize::BITS - 1 - len.leading_zeros()));
        let mut leaves = vec![None; len];
        let mut is_crowded = false;
        for group in 0..groups {
            let parts = self.parts.iter_mut().skip(group).step_by(groups);
            let parts: Vec<Vec<u8>> = parts.flat_map(std::mem::take).collect();
            is_crowded |= build(&parts, &mut leaves)?;
        }
        let empty = pack::leaf(&mut []);
        let leaves = leaves.into_iter().map(|leaf| leaf.unwrap_or_else(|| Arc::clone(&empty)));
        // Names that share a hash get their ordinals only now.
        let order = (!is_crowded).then(|| CanonicalOrder::from_sorted(self.order.into_iter()));
        let mut zone = self.zone;
        zone.names = Names::from_leaves(self.key, leaves.collect(), order);
        for (rtype, rule) in [(Rtype::SOA, BrokenRule::SOA), (Rtype::NS, BrokenRule::NS)] {
            if zone.names.get(&[]).and_then(|apex| apex.set(rtype)).is_none() {
                let what = format!("the zone {} has no {rtype} record at its apex", zone.origin());
                return Err(ZoneProblem { place: None, rule, what });
            }
        }
        Ok(zone)
    }
}

const OUT_OF_ORDER: &str = "the record set is out of order: its source is damaged";

/// Builds the leaves of some parts; returns whether names share a hash.
fn build(parts: &[Vec<u8>], leaves: &mut [Option<Arc<[u8]>>]) -> Result<bool, ZoneProblem> {
    let len = leaves.len();
    let mut nodes: Vec<(usize, u64, &[u8])> = Vec::new();
    for mut chunk in parts.iter().map(|chunk| &chunk[..]) {
        while let Some((hash, rest)) = chunk.split_first_chunk::<HASH_LEN>() {
            let hash = u64::from_le_bytes(*hash);
            let node_len = rest.first_chunk().map_or(0, |len| u16::from_le_bytes(*len));
            let (node, behind) = rest.split_at(node_len.into());
            nodes.push((index_among(hash, len), hash, node));
            chunk = behind;
        }
    }
    // By hash within a leaf, so that names with the same hash are adjacent.
    nodes.sort_unstable_by_key(|(leaf, hash, _)| (*leaf, reference(*hash, 0)));
    let is_crowded = nodes.windows(2).any(|two| reference(two[0].1, 0) == reference(two[1].1, 0));
    let numbered = if is_crowded { number(&nodes)? } else { Vec::new() };
    for (node, numbered) in nodes.iter_mut().zip(&numbered) {
        node.2 = numbered;
    }
    let (mut packed, mut room) = (Vec::new(), Vec::new());
    for here in nodes.chunk_by(|a, b| a.0 == b.0) {
        packed.clear();
        packed.extend(here.iter().map(|(_, hash, bytes)| (*hash, *bytes)));
        leaves[here[0].0] = Some(pack::leaf_in(&mut room, &mut packed));
    }
    Ok(is_crowded)
}

/// Gives nodes their ordinals among those of the same hash.
fn number(nodes: &[(usize, u64, &[u8])]) -> Result<Vec<Vec<u8>>, ZoneProblem> {
    let mut numbered: Vec<Vec<u8>> = Vec::with_capacity(nodes.len());
    for same in nodes.chunk_by(|a, b| reference(a.1, 0) == reference(b.1, 0)) {
        for (ordinal, (_, _, bytes)) in same.iter().enumerate() {
            if ordinal >= ORDINALS_MAX.into() {
                let what = crate::names::CROWDED.into();
                return Err(ZoneProblem { place: None, rule: BrokenRule::LIMIT, what });
            }
            let mut bytes = bytes.to_vec();
            pack::set_ordinal(&mut bytes, ordinal as u8);
            numbered.push(bytes);
        }
    }
    Ok(numbered)
}
