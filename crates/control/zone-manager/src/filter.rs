//! Zones as workers read them: of sets with rules only the chosen members, and addresses instead of
//! ALIAS records.
//!
//! A source's zone has all members; the published one shares with it all leaves without such sets.
//! In a zone with a check of its own, all sets of addresses are such sets.
//! A new version of a zone costs what has changed in it. A verdict costs the sets that name its
//! target, which an index finds.
use crate::aliases::{Aliases, NameId, follow};
use crate::choose::{choose, left_out};
use crate::defaults::{DefaultCheck, DefaultChecks, chosen_sets};
use crate::health::{HealthTable, HealthTarget, Targets, ZoneKey};
use crate::judge::{Judge, member_classes};
use crate::ramps::{Ramps, SetId, WallClock};
use crate::shown::{AllZones, SourceSet, SourceZone, ZoneView};
use compile::{ChosenRecords, ChosenSet, Image, LeafIndex, View, Zone};
use image::{Node, RecordSet};
use model::{JudgedMember, JudgedSet, MemberClass, SetRules};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{Name, NameBuf, Rtype};

/// The names whose sets name one target.
type NamingSets = HashSet<NameId>;

/// Filters what is published.
pub(crate) struct HealthFilter {
    table: Arc<HealthTable>,
    classes: HashMap<HealthTarget, MemberClass>,
    views: HashMap<ZoneKey, ZoneView>,
    index: HashMap<HealthTarget, NamingSets>,
    defaults: DefaultChecks,
    /// Sets that answer members that are down.
    open: HashSet<SetId>,
    ramps: Ramps,
    aliases: Aliases,
}

/// The leaves of each zone that are chosen again.
type AffectedLeaves = HashMap<ZoneKey, HashSet<LeafIndex>>;

impl HealthFilter {
    pub fn new(table: Arc<HealthTable>, clock: WallClock) -> Self {
        let (classes, views, index) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (defaults, open) = (DefaultChecks::default(), HashSet::new());
        let (ramps, aliases) = (Ramps::new(clock), Aliases::default());
        Self { table, classes, views, index, defaults, open, ramps, aliases }
    }

    /// Replaces the checks of zones. Returns the zones that are to be shown again.
    pub fn set_defaults(&mut self, all: Vec<DefaultCheck>) -> Vec<NameBuf> {
        self.defaults.set(all)
    }

    /// The zone to publish for a source's zone. Members without a location are at this one.
    pub fn show(
        &mut self,
        image: &Image,
        key: &[u8],
        zone: Arc<Zone>,
        location: Option<Arc<str>>,
    ) -> Arc<Zone> {
        let default = self.defaults.of(key);
        if let Some(view) = self.views.get(key) {
            if view.default != default {
                self.forget(key);
            } else if Arc::ptr_eq(&view.content, &zone) {
                return Arc::clone(&view.chosen);
            }
        }
        if !zone.facts().has_rules && default.is_none() {
            self.forget(key);
            return zone;
        }
        let key = self.views.get_key_value(key).map_or_else(|| key.into(), |(key, _)| key.clone());
        let old = self.views.remove(&key);
        let leaves = zone.changed_leaves(old.as_ref().map(|old| &*old.content));
        let table = Arc::clone(&self.table);
        let mut targets = table.targets();
        if let Some(old) = &old {
            let leaves = old.content.changed_leaves(Some(&zone));
            self.unindex(&mut targets, (&key, false), old.source(), &leaves);
        }
        let (at, of_zone) = (location.as_deref(), default.as_deref());
        let source = SourceZone { zone: &zone, location: at, default: of_zone };
        for SourceSet { view, node, set } in source.sets(&leaves) {
            for target in source.targets_of((view, node), set) {
                targets.add_use(&target, &key);
                let sets = self.index.entry(target).or_default();
                sets.insert((Arc::clone(&key), view, node.name().into()));
            }
        }
        table.report_waiting(&targets);
        drop(targets);
        table.wake();
        let before = old.as_ref().map(|old| &*old.chosen);
        let chosen = self.choose(image, (&key, &zone), source, (before, &leaves));
        let view = ZoneView { content: zone, chosen: Arc::clone(&chosen), location, default };
        self.views.insert(key, view);
        self.count_open();
        chosen
    }

    /// A zone has no content any more, or no rules.
    pub fn forget(&mut self, key: &[u8]) {
        self.remove(key, false);
    }

    /// A zone does not exist any more.
    pub fn delete(&mut self, key: &[u8]) {
        self.remove(key, true);
    }

    fn remove(&mut self, key: &[u8], is_deleted: bool) {
        let Some((key, view)) = self.views.remove_entry(key) else { return };
        let table = Arc::clone(&self.table);
        let mut targets = table.targets();
        let leaves = view.content.changed_leaves(None);
        self.unindex(&mut targets, (&key, is_deleted), view.source(), &leaves);
        table.report_waiting(&targets);
        drop(targets);
        table.wake();
        self.count_open();
    }

    /// Takes in verdicts; `None` forgets a target. Returns the zones whose answers changed.
    pub fn judge(
        &mut self,
        image: &Image,
        verdicts: Vec<(HealthTarget, Option<MemberClass>)>,
    ) -> Vec<Arc<Zone>> {
        let mut affected = AffectedLeaves::new();
        for (target, class) in verdicts {
            let before = match class {
                Some(class) => self.classes.insert(target.clone(), class),
                None => self.classes.remove(&target),
            };
            if before == class {
                continue;
            }
            let named = self.index.get(&target).into_iter().flatten();
            named.for_each(|name| self.add_leaf(&mut affected, name));
        }
        self.choose_again(image, affected)
    }

    /// Follows ALIAS records again that may lead elsewhere, now that a zone has this content.
    /// `was_there`: it had content before. Returns the zones whose answers may have changed.
    pub fn follow(
        &mut self,
        image: &Image,
        origin: Name<'_>,
        content: Option<&Arc<Zone>>,
        was_there: bool,
    ) -> Vec<Arc<Zone>> {
        let mut affected = AffectedLeaves::new();
        let followed = self.aliases.affected(origin, content, was_there);
        followed.iter().for_each(|alias| self.add_leaf(&mut affected, alias));
        self.choose_again(image, affected)
    }

    /// How long until weights may change with time; `None`: none does.
    pub fn until_step(&self) -> Option<Duration> {
        self.ramps.pause()
    }

    /// Gives sets the weights of now. Returns the zones whose answers changed.
    pub fn step(&mut self, image: &Image) -> Vec<Arc<Zone>> {
        let mut affected = AffectedLeaves::new();
        let due = self.ramps.take_due();
        due.iter().for_each(|(name, _)| self.add_leaf(&mut affected, name));
        self.choose_again(image, affected)
    }

    /// Adds the leaf of a name.
    fn add_leaf(&self, affected: &mut AffectedLeaves, (zone, view, name): &NameId) {
        let Some(shown) = self.views.get(zone) else { return };
        let leaf = shown.content.leaf_of(*view, name);
        affected.entry(Arc::clone(zone)).or_default().insert(leaf);
    }

    fn choose_again(&mut self, image: &Image, mut affected: AffectedLeaves) -> Vec<Arc<Zone>> {
        self.add_readers(&mut affected);
        let mut changed = Vec::with_capacity(affected.len());
        for (key, leaves) in affected {
            let Some(mut view) = self.views.remove(&key) else { continue };
            let leaves: Vec<LeafIndex> = leaves.into_iter().collect();
            let before = (Some(&*view.chosen), &leaves[..]);
            let chosen = self.choose(image, (&key, &view.content), view.source(), before);
            view.chosen = Arc::clone(&chosen);
            self.views.insert(key, view);
            changed.push(chosen);
        }
        self.count_open();
        changed
    }

    /// Adds the leaves of ALIAS records that have read these.
    fn add_readers(&self, affected: &mut AffectedLeaves) {
        if self.aliases.is_empty() {
            return;
        }
        let of_zone = |(zone, leaves): (&ZoneKey, &HashSet<LeafIndex>)| {
            leaves.iter().map(|leaf| (Arc::clone(zone), *leaf)).collect::<Vec<_>>()
        };
        let read: Vec<_> = affected.iter().flat_map(of_zone).collect();
        let readers = read.iter().flat_map(|leaf| self.aliases.readers(leaf));
        readers.for_each(|alias| self.add_leaf(affected, alias));
    }

    /// What became of the members of a set with rules that clients of a view get; `None`: there is
    /// none.
    pub fn judged(
        &self,
        image: &Image,
        zone: &[u8],
        (view, name): (View, &[u8]),
        rtype: Rtype,
    ) -> Option<JudgedSet> {
        let (key, shown) = self.views.get_key_value(zone)?;
        let (content, source) = (&shown.content, shown.source());
        let zones = AllZones { views: &self.views, image, shown: (key, content), source };
        let node = content.node_in(view, name)?;
        // An ALIAS record has the members of its target.
        let alias = node.set(Rtype::ALIAS).filter(|_| matches!(rtype, Rtype::A | Rtype::AAAA));
        let end = alias.and_then(|alias| {
            let own = content.names_of(view).and_then(|names| names.get(name));
            // One of the zone leads to what all clients get.
            let is_own = own.is_some_and(|own| own.set(Rtype::ALIAS).is_some());
            let view = if is_own { view } else { View::DEFAULT };
            Some((view, follow(&zones, view, alias).end?))
        });
        let (source, view, node) = match &end {
            Some((view, (zone, name))) => (zones.source(zone), *view, zone.node_in(*view, name)?),
            None => (source, view, node),
        };
        let set = node.set(rtype)?;
        let placed = source.placed((view, node), set);
        // A target without rules has members, too.
        let stored = placed.or_else(|| end.as_ref().map(|_| SetRules::default()))?;
        let owner = |(_, (zone, name)): &(View, (Arc<Zone>, Box<[u8]>))| {
            NameBuf::joined(name, zone.origin()).ok()
        };
        let alias = end.as_ref().and_then(owner);
        let rules = stored.clone().at(self.ramps.now());
        let classes = member_classes(&self.classes, set, &rules);
        let chosen = choose(&rules, &classes);
        let members = set.records().enumerate().map(|(number, data)| JudgedMember {
            data: data.into(),
            class: Some(classes[number]).filter(|_| !rules.check.is_empty()),
            rules: rules.member(number),
            stored: stored.member(number),
            left_out: left_out(&rules, &classes, &chosen, number),
        });
        Some(JudgedSet { alias, members: members.collect(), rules })
    }

    /// Sets, up to `max`, of which this address is the last living member, or the last one that is
    /// not drained.
    pub fn last_of(&self, address: IpAddr, check: Option<&str>, max: usize) -> Vec<String> {
        let is_it = |target: &HealthTarget| {
            target.address == address && check.is_none_or(|check| *target.check == *check)
        };
        let class = |target: &HealthTarget| {
            self.classes.get(target).copied().unwrap_or(MemberClass::Unknown)
        };
        let is_dead = |target: &HealthTarget| class(target) > MemberClass::Unknown;
        let mut last = Vec::new();
        for (target, sets) in self.index.iter().filter(|(target, _)| is_it(target)) {
            for (zone, of_view, name) in sets {
                let Some(view) = self.views.get(zone) else { continue };
                let node = view.content.names_of(*of_view).and_then(|names| names.get(name));
                let Some(node) = node else { continue };
                for set in node.sets() {
                    let all = view.source().targets_of((*of_view, node), set);
                    let mut others = all.iter().filter(|other| other.address != address);
                    // If it is dead itself, the others are answered as well as it is.
                    let is_last = match is_dead(target) {
                        true => others.all(|other| class(other) == MemberClass::Drained),
                        false => others.all(is_dead),
                    };
                    if all.contains(target) && is_last {
                        let owner = NameBuf::joined(name, view.content.origin());
                        last.extend(owner.map(|owner| format!("{owner} {}", set.rtype())));
                    }
                }
                if last.len() >= max {
                    return last;
                }
            }
        }
        last
    }

    /// `before`: what an older version of the zone became, and the leaves to choose again.
    fn choose(
        &mut self,
        image: &Image,
        shown: (&ZoneKey, &Arc<Zone>),
        source: SourceZone<'_>,
        (before, leaves): (Option<&Zone>, &[LeafIndex]),
    ) -> Arc<Zone> {
        let (key, now) = (shown.0, self.ramps.now());
        let (open, ramps, aliases) = (&mut self.open, &mut self.ramps, &mut self.aliases);
        let judge = Judge { classes: &self.classes, ttl_max: self.table.ttl_max(), now };
        let zones = AllZones { views: &self.views, image, shown, source };
        let mut chooser = |view: View, node: Node<'_>, set: RecordSet<'_>| {
            let id = (Arc::clone(key), view, node.name().into());
            if set.rtype() == Rtype::ALIAS {
                let followed = follow(&zones, view, set);
                let computed = judge.computed(&zones, &followed);
                aliases.put(id, followed);
                return Some(ChosenSet::Computed(computed));
            }
            let Some(rules) = source.placed((view, node), set) else {
                let numbers = (0..set.count()).collect();
                let all = ChosenRecords { ttl: set.ttl(), numbers, selection: None };
                return set.has_rules().then_some(all.into());
            };
            let id = (id, set.rtype());
            if !rules.ramps.is_empty() {
                ramps.put(id.clone(), rules.next_step(now));
            }
            let (chosen, is_open) = judge.choose(set, rules);
            match is_open {
                true => open.insert(id),
                false => open.remove(&id),
            };
            Some(chosen.into())
        };
        let which = chosen_sets(source.default);
        Arc::new(source.zone.chosen(before, leaves, which, &mut chooser))
    }

    fn unindex(
        &mut self,
        targets: &mut Targets,
        (key, is_deleted): (&ZoneKey, bool),
        source: SourceZone<'_>,
        leaves: &[LeafIndex],
    ) {
        for SourceSet { view, node, set } in source.sets(leaves) {
            let id = ((Arc::clone(key), view, node.name().into()), set.rtype());
            self.open.remove(&id);
            self.ramps.remove(&id);
            if set.rtype() == Rtype::ALIAS {
                self.aliases.remove(&id.0);
            }
            for target in source.targets_of((view, node), set) {
                targets.remove_use(&target, key, is_deleted);
                let Some(sets) = self.index.get_mut(&target) else { continue };
                sets.remove(&id.0);
                if sets.is_empty() {
                    self.index.remove(&target);
                }
            }
        }
    }

    fn count_open(&self) {
        let (before, now) = (self.table.open(), self.open.len());
        if before == 0 && now > 0 {
            tracing::warn!(
                sets = now,
                "sets have too few members that are up: members that are down are answered, too"
            );
        }
        self.table.set_open(now);
    }
}
