//! A view of a zone: the zone with sets of the view laid over it, one name and type at a time.
//!
//! A view is a second, small tree beside that of the zone. It has the names of its own sets and
//! the names above them, each with all sets that the merged zone has there. All other names are
//! found in the zone, which is not copied. So a client of a view reads the merged zone.
use crate::laid_view::{ChangedNames, LaidView};
use crate::names::{CROWDED, Names};
use crate::pack;
use crate::problem::ZoneProblem;
use crate::zone::{FactObserver, RuleViolation, SetChange, Zone, ZoneView, check_node, parent};
use image::{HashKey, Leaf, Node, RecordSet, Tree, ZoneFacts};
use model::BrokenRule;
use packet::View;
use std::any::Any;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype, canonical_cmp};

/// Types that a view has none of: the zone has one SOA, and a signed zone has no views.
const REFUSED: [Rtype; 6] =
    [Rtype::SOA, Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::DNSKEY];

/// So many names that a view has no more may stay in its tree.
const STALE_NAMES_MAX: usize = 64;

/// The sets of a view, and the empty names above them.
#[derive(Clone)]
pub struct ViewSets(pub(crate) Arc<Names>);

impl ViewSets {
    /// No sets.
    pub fn none(key: Arc<HashKey>) -> Self {
        Self(Arc::new(Names::new(key)))
    }

    /// Their names, with the empty ones above them.
    pub fn names(&self) -> &Names {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The set of a relative name and a type.
    pub fn set(&self, name: &[u8], rtype: Rtype) -> Option<RecordSet<'_>> {
        self.0.get(name)?.set(rtype)
    }

    /// Changes sets, all or none, as [`Zone::change_all`] does. [`Zone::check_view`] says whether
    /// the zone can have them.
    ///
    /// # Errors
    /// As [`Zone::change_all`].
    pub fn change_all<R: AsRef<[u8]>>(
        &mut self,
        origin: Name<'_>,
        changes: &[SetChange<'_, R>],
    ) -> Result<(), ZoneProblem> {
        let mut zone = Zone::unloaded(Arc::clone(self.0.key()), origin);
        zone.names = Names::clone(&self.0);
        zone.change_all(changes)?;
        // A zone has an apex, and a view need not.
        if zone.names.len() == 1 && zone.names.get(&[]).is_some_and(|apex| apex.is_empty()) {
            zone.names.remove(&[]);
        }
        self.0 = Arc::new(zone.names);
        Ok(())
    }

    fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        (0..self.0.len()).filter_map(|rank| self.0.at(rank))
    }
}

/// The sets of a view as their source has them, and as they are answered.
#[derive(Clone)]
struct OwnSets {
    sets: ViewSets,
    /// The records that were chosen of each set; `None`: they are answered as they stand.
    chosen: Option<Names>,
}

impl OwnSets {
    /// The packed node of a name, laid over that of the zone. Sets that are too large together
    /// leave those of the view.
    fn laid_over(&self, below: Option<Node<'_>>, own: Node<'_>) -> Vec<u8> {
        let chosen = self.chosen.as_ref().and_then(|chosen| chosen.get(own.name()));
        let answered = chosen.unwrap_or(own);
        merge(below, own, answered).unwrap_or_else(|_| answered.as_bytes().to_vec())
    }
}

impl From<ViewSets> for OwnSets {
    fn from(sets: ViewSets) -> Self {
        Self { sets, chosen: None }
    }
}

/// A zone as the clients of a view see it.
pub struct ViewZone {
    zone: Zone,
    facts: ZoneFacts,
    /// Its own sets, to lay them over another version of the zone; `None`: never loaded.
    own: Option<OwnSets>,
    /// The names that differ from those of the zone, or may.
    names: Names,
    /// The hashes of these names: a table with linear probing. 0: free.
    hashes: Arc<[u64]>,
}

impl ViewZone {
    /// Lays sets over a zone without views.
    ///
    /// # Errors
    /// Too many names share one hash.
    fn new(zone: Zone, own: OwnSets) -> Result<Self, String> {
        let mut nodes: Vec<Vec<u8>> = Vec::with_capacity(own.sets.0.len());
        for node in own.sets.nodes() {
            nodes.push(own.laid_over(zone.names.get(node.name()), node));
            nodes.extend(namesakes(&zone, node.name()));
        }
        let name = |packed: &[u8]| Node::new(packed).name().to_vec();
        nodes.sort_by(|a, b| canonical_cmp(&name(a), &name(b)));
        nodes.dedup_by(|a, b| name(a) == name(b));
        let (mut facts, key) = (zone.facts, Arc::clone(zone.names.key()));
        for node in &nodes {
            // Only signatures can be wrong, and a view has none.
            let _ = facts.note(Node::new(node));
        }
        let hashes = nodes.iter().map(|node| key.hash_of(Node::new(node).name()));
        let hashes = hash_table(hashes, nodes.len())?;
        let mut names = Names::new(key);
        names.put_all(&mut nodes.concat(), &vec![true; nodes.len()])?;
        Ok(Self { zone, facts, own: Some(own), names, hashes })
    }

    /// As [`ViewZone::new`], from an older version, if sets have changed at these names alone.
    ///
    /// # Errors
    /// Too many names share one hash.
    fn changed(&self, zone: Zone, own: OwnSets, changed: &[&[u8]]) -> Result<Self, String> {
        let key = Arc::clone(zone.names.key());
        let mut affected: Vec<&[u8]> = Vec::new();
        for name in changed {
            // A name above may begin to exist, or end.
            affected.extend(std::iter::successors(Some(*name), |name| parent(name)));
        }
        affected.sort_by(|a, b| canonical_cmp(a, b));
        affected.dedup();
        let (mut names, mut facts) = (self.names.clone(), zone.facts);
        include(&mut facts, &self.facts);
        let (mut nodes, mut is_new, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for name in affected {
            let below = zone.names.get(name);
            let hash = key.hash_of(name);
            let node = match own.sets.0.get(name) {
                Some(node) => Some(own.laid_over(below, node)),
                None if self.has(hash) => below.map(|node| node.as_bytes().to_vec()),
                None => continue,
            };
            let Some(node) = node else {
                names.remove(name);
                continue;
            };
            let _ = facts.note(Node::new(&node));
            if !self.has(hash) {
                if namesakes(&zone, name).next().is_some() {
                    return Self::new(zone, own);
                }
                hashes.push(hash);
            }
            is_new.push(names.get(name).is_none());
            nodes.extend(node);
        }
        names.put_all(&mut nodes, &is_new)?;
        // Names that the view has no more stay in it as those of the zone.
        if names.len() > 2 * own.sets.0.len() + STALE_NAMES_MAX {
            return Self::new(zone, own);
        }
        let hashes = match hashes.is_empty() {
            true => Arc::clone(&self.hashes),
            false => with_hashes(&self.hashes, &hashes)?,
        };
        Ok(Self { zone, facts, own: Some(own), names, hashes })
    }

    /// Lays sets over a zone without views; `None`: they were never loaded.
    fn lay(zone: Zone, own: Option<OwnSets>) -> Result<Self, String> {
        match own {
            Some(own) => Self::new(zone, own),
            None => Ok(Self::unloaded(zone)),
        }
    }

    /// A view that was never loaded: its clients get SERVFAIL (invariant I10).
    fn unloaded(zone: Zone) -> Self {
        let names = Names::new(Arc::clone(zone.names.key()));
        let facts = ZoneFacts { loaded: false, ..zone.facts };
        Self { zone, facts, own: None, names, hashes: [0; 2].into() }
    }

    #[inline]
    fn has(&self, hash: u64) -> bool {
        let last = self.hashes.len() - 1;
        let mut slot = hash as usize & last;
        loop {
            match self.hashes.get(slot) {
                None | Some(0) => return false,
                Some(known) if *known == hash => return true,
                Some(_) => slot = (slot + 1) & last,
            }
        }
    }
}

impl LaidView<Zone> for ViewZone {
    fn lay_over(&self, zone: &Zone, changed: ChangedNames<'_>) -> Option<Arc<dyn LaidView<Zone>>> {
        let laid = match (&self.own, changed) {
            (Some(own), Some(changed)) => self.changed(zone.clone(), own.clone(), changed),
            (own, _) => Self::lay(zone.clone(), own.clone()),
        };
        Some(Arc::new(laid.ok()?))
    }

    fn as_zone(&self) -> &dyn image::Zone {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl image::Zone for ViewZone {
    #[inline]
    fn origin(&self) -> Name<'_> {
        self.zone.origin.as_name()
    }

    #[inline]
    fn facts(&self) -> &ZoneFacts {
        &self.facts
    }

    /// Only proofs need the order of names, and a signed zone has no views.
    fn names(&self) -> &dyn Tree {
        &self.zone.names
    }

    fn hashed(&self) -> &dyn Tree {
        &self.zone.hashed
    }

    #[inline]
    fn leaf(&self, hash: u64) -> &[u8] {
        if self.has(hash) { self.names.leaf(hash) } else { self.zone.names.leaf(hash) }
    }
}

/// A packed node with what is answered of the sets that a view has itself, and the other sets of
/// the zone's node. A set of which nothing is answered hides that of the zone, too.
///
/// # Errors
/// They are too large together.
fn merge(below: Option<Node<'_>>, own: Node<'_>, answered: Node<'_>) -> Result<Vec<u8>, String> {
    let mut packed = Vec::new();
    pack::node_head(&mut packed, own.name(), 0);
    pack::set_declared(&mut packed, below.map(|node| node.declared()).unwrap_or_default());
    // Where addresses stand for an ALIAS record, those of the zone's are not answered.
    let hides_addresses = own.set(Rtype::ALIAS).is_some() && answered.set(Rtype::ALIAS).is_none();
    let is_hidden = |rtype| {
        own.set(rtype).is_some() || hides_addresses && matches!(rtype, Rtype::A | Rtype::AAAA)
    };
    let others = below.iter().flat_map(|node| node.sets());
    let mut sets: Vec<RecordSet<'_>> =
        others.filter(|set| !is_hidden(set.rtype())).chain(answered.sets()).collect();
    sets.sort_by_key(|set| set.rtype());
    sets.iter().for_each(|set| packed.extend_from_slice(set.as_bytes()));
    pack::close_node(&mut packed, 0)?;
    Ok(packed)
}

/// Adds what older facts say of names: they may say more than there is.
fn include(facts: &mut ZoneFacts, older: &ZoneFacts) {
    facts.depth_max = facts.depth_max.max(older.depth_max);
    facts.cuts.0 |= older.cuts.0;
    facts.wildcards.0 |= older.wildcards.0;
    facts.has_rules |= older.has_rules;
}

/// Other nodes of the zone with the hash of this name: a view that has the hash has them, too.
fn namesakes<'z>(zone: &'z Zone, name: &[u8]) -> impl Iterator<Item = Vec<u8>> + 'z {
    let key = zone.names.key();
    let hash = key.hash_of(name);
    let name = name.to_vec();
    Leaf::new(zone.names.leaf(hash))
        .bucket(hash)
        .filter(move |node| node.name() != name && key.hash_of(node.name()) == hash)
        .map(|node| node.as_bytes().to_vec())
}

/// A table of hashes, half full at most.
fn hash_table(hashes: impl Iterator<Item = u64>, len: usize) -> Result<Arc<[u64]>, String> {
    let mut table = vec![0; (2 * len).next_power_of_two().max(2)];
    put_hashes(&mut table, hashes)?;
    Ok(table.into())
}

/// A table with more hashes, half full at most.
fn with_hashes(table: &[u64], more: &[u64]) -> Result<Arc<[u64]>, String> {
    let old = table.iter().copied().filter(|hash| *hash != 0);
    let len = old.clone().count() + more.len();
    if 2 * len > table.len() {
        return hash_table(old.chain(more.iter().copied()), 2 * len);
    }
    let mut table = table.to_vec();
    put_hashes(&mut table, more.iter().copied())?;
    Ok(table.into())
}

fn put_hashes(table: &mut [u64], hashes: impl Iterator<Item = u64>) -> Result<(), String> {
    let last = table.len() - 1;
    for hash in hashes {
        if hash == 0 {
            return Err(CROWDED.into());
        }
        let mut slot = hash as usize & last;
        while table[slot] != 0 && table[slot] != hash {
            slot = (slot + 1) & last;
        }
        table[slot] = hash;
    }
    Ok(())
}

/// What is wrong with the sets of a view at one name, over the sets that the zone has there.
pub(crate) fn check(zone: &Zone, own: Node<'_>) -> Result<(), RuleViolation> {
    if let Some(set) = own.sets().find(|set| REFUSED.contains(&set.rtype())) {
        let what = format!("a view has no {} records: they are those of the zone", set.rtype());
        return Err(RuleViolation::new(BrokenRule::SET_RULES, what));
    }
    let packed = merge(zone.names.get(own.name()), own, own);
    let packed = packed.map_err(|what| RuleViolation::new(BrokenRule::LIMIT, what))?;
    check_node(Node::new(&packed))?;
    let mut above = std::iter::successors(parent(own.name()), |name| parent(name));
    let is_hidden =
        |name: &[u8]| zone.names.get(name).is_some_and(|node| node.set(Rtype::DNAME).is_some());
    match above.find(|name| !own.is_empty() && is_hidden(name)) {
        Some(name) => {
            let name = NameBuf::joined(name, zone.origin());
            let name = name.map(|name| name.as_name().to_string()).unwrap_or_default();
            let what = format!("it is below {name}, whose DNAME record answers for it");
            Err(RuleViolation::new(BrokenRule::BELOW_DNAME, what))
        }
        None => Ok(()),
    }
}

/// Whether no name of the view, or of the zone, is below a DNAME record of the other at a name, or
/// the other way around.
fn check_hidden(zone: &Zone, sets: &ViewSets, name: &[u8]) -> Result<(), RuleViolation> {
    let has_dname = |names: &Names, name: &[u8]| {
        names.get(name).is_some_and(|node| node.set(Rtype::DNAME).is_some())
    };
    let hides = |what: &str| Err(RuleViolation::new(BrokenRule::BELOW_DNAME, what));
    let has_below = zone.names.has_below(name) || sets.0.has_below(name);
    if has_below && has_dname(&sets.0, name)
        || sets.0.has_below(name) && has_dname(&zone.names, name)
    {
        return hides("its DNAME record answers for names that exist below it in a view");
    }
    let has_own = |names: &Names| names.get(name).is_some_and(|node| !node.is_empty());
    let mut above = std::iter::successors(parent(name), |name| parent(name));
    if (has_own(&zone.names) || has_own(&sets.0)) && above.any(|name| has_dname(&sets.0, name)) {
        return hides("it is below a DNAME record of a view, which answers for it");
    }
    Ok(())
}

/// The first name below a DNAME record that the view has itself.
pub(crate) fn hidden_by_own(zone: &Zone, own: &Names) -> Option<ZoneProblem> {
    let nodes = (0..own.len()).filter_map(|rank| own.at(rank));
    let mut dnames = nodes.filter(|node| node.set(Rtype::DNAME).is_some());
    let node =
        dnames.find(|node| own.has_below(node.name()) || zone.names.has_below(node.name()))?;
    let name = NameBuf::joined(node.name(), zone.origin()).ok()?;
    let what =
        format!("{}: its DNAME record answers for names that exist below it", name.as_name());
    Some(ZoneProblem { place: None, rule: BrokenRule::BELOW_DNAME, what })
}

impl Zone {
    /// This zone with these views, each once, in place of the ones that it has. One without sets
    /// was not loaded.
    ///
    /// # Errors
    /// Too many names share one hash.
    pub fn with_views(mut self, views: Vec<(View, Option<ViewSets>)>) -> Result<Self, String> {
        self.views = Arc::default();
        self.facts.has_views = !views.is_empty();
        let mut laid: Vec<ZoneView> = Vec::new();
        for (view, sets) in views {
            laid.push((view, Arc::new(ViewZone::lay(self.clone(), sets.map(OwnSets::from))?)));
        }
        self.set_views(laid);
        Ok(self)
    }

    /// Lays the views over what has become of the zone. One for which that fails stays as it was.
    pub(crate) fn lay_views_again(&mut self, changed: ChangedNames<'_>) {
        if self.views.is_empty() {
            return;
        }
        let bare = self.without_views();
        let lay = |(view, old): &ZoneView| {
            (*view, old.lay_over(&bare, changed).unwrap_or_else(|| Arc::clone(old)))
        };
        let laid = self.views.iter().map(lay).collect();
        self.set_views(laid);
    }

    /// These are its views. Rules of their sets are rules of the zone.
    fn set_views(&mut self, laid: Vec<ZoneView>) {
        self.facts.has_rules |= laid.iter().any(|(_, view)| view.as_zone().facts().has_rules);
        self.views = laid.into();
    }

    fn without_views(&self) -> Self {
        Self { views: Arc::default(), ..self.clone() }
    }

    /// Replaces the sets of a view. `changed`: the names at which they differ from its present
    /// ones.
    ///
    /// # Errors
    /// Too many names share one hash.
    pub fn put_view(
        &mut self,
        view: View,
        sets: &ViewSets,
        changed: &[&[u8]],
    ) -> Result<(), String> {
        self.facts.has_views = true;
        let bare = self.without_views();
        let old = self.laid(view).and_then(|old| old.as_any().downcast_ref::<ViewZone>());
        let laid = match old.filter(|old| old.own.is_some()) {
            Some(old) => old.changed(bare, sets.clone().into(), changed)?,
            None => ViewZone::new(bare, sets.clone().into())?,
        };
        let others = self.views.iter().filter(|(known, _)| *known != view).cloned();
        let views = others.chain([(view, Arc::new(laid) as _)]).collect();
        self.set_views(views);
        Ok(())
    }

    /// Whether this zone can have a view with these sets, of which those at some names are new, or
    /// those that it has itself there.
    ///
    /// # Errors
    /// What is wrong. The place is the index in `changed`.
    pub fn check_view(&self, sets: &ViewSets, changed: &[&[u8]]) -> Result<(), ZoneProblem> {
        let problem = |at: usize, name: &[u8], why: RuleViolation| {
            let name = NameBuf::joined(name, self.origin());
            let name = name.map(|name| name.as_name().to_string()).unwrap_or_default();
            let what = format!("{name}: {}", why.what);
            ZoneProblem { place: Some(at as u32), rule: why.rule, what }
        };
        if self.facts.signed && !sets.is_empty() {
            let what = "a signed zone has no views: its signatures are of its own sets".to_owned();
            return Err(ZoneProblem { place: None, rule: BrokenRule::SIGNED, what });
        }
        for (at, name) in changed.iter().enumerate() {
            if let Some(own) = sets.0.get(name) {
                check(self, own).map_err(|why| problem(at, name, why))?;
            }
            check_hidden(self, sets, name).map_err(|why| problem(at, name, why))?;
        }
        Ok(())
    }

    /// The zone as the clients of a view see it.
    #[inline]
    pub(crate) fn in_view(&self, view: View) -> &dyn image::Zone {
        if view != View::DEFAULT
            && let Some((_, zone)) = self.views.iter().find(|(known, _)| *known == view)
        {
            return zone.as_zone();
        }
        self
    }
}

mod layers;
#[cfg(test)]
mod tests;
