//! Zones as workers read them: of sets with rules only the chosen members.
//!
//! A source's zone has all members; the published one shares with it all leaves without such sets.
//! In a zone with a check of its own, all sets of addresses are such sets.
//! A new version of a zone costs what has changed in it. A verdict costs the sets that name its
//! target, which an index finds.
use crate::choose::{LeftOut, choose, left_out};
use crate::defaults::{DefaultCheck, DefaultChecks, chosen_sets, rules_of};
use crate::health::{HealthTable, HealthTarget, MemberClass, Targets, ZoneKey};
use crate::ramps::{Ramps, SetId, WallClock};
use compile::{ChosenRecords, LeafIndex, Zone};
use image::{Node, ORDERED_MAX, RecordSet};
use model::{Choice, MemberRules, SetRules};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::{NameBuf, Rtype};

/// A set with rules, and what became of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedSet {
    /// Its rules, with the weights of now.
    pub rules: SetRules,
    /// Its members.
    pub members: Vec<JudgedMember>,
}

/// A member of a set with rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedMember {
    /// The data of its record.
    pub data: Box<[u8]>,
    /// Its health; `None`: the set has no check.
    pub class: Option<MemberClass>,
    /// What the rules say of it now.
    pub rules: MemberRules,
    /// What is stored of it: also how its weight changes.
    pub stored: MemberRules,
    /// Why no answer has it; `None`: answers are chosen among it and others.
    pub left_out: Option<LeftOut>,
}

/// A zone with rules.
struct ZoneView {
    /// As its source has it.
    content: Arc<Zone>,
    /// As workers read it.
    chosen: Arc<Zone>,
    /// Where members are that name no location.
    location: Option<Arc<str>>,
    /// The check of its sets that name none.
    default: Option<Arc<DefaultCheck>>,
}

impl ZoneView {
    fn source(&self) -> SourceZone<'_> {
        let (location, default) = (self.location.as_deref(), self.default.as_deref());
        SourceZone { zone: &self.content, location, default }
    }
}

/// A zone as its source has it, and what holds for all of its sets.
#[derive(Clone, Copy)]
struct SourceZone<'z> {
    zone: &'z Zone,
    location: Option<&'z str>,
    default: Option<&'z DefaultCheck>,
}

impl<'z> SourceZone<'z> {
    fn rules_of(self, node: Node<'_>, set: RecordSet<'_>) -> Option<SetRules> {
        rules_of(self.zone, self.default, node, set)
    }

    /// The rules of a set, with the locations of all members.
    fn placed(self, node: Node<'_>, set: RecordSet<'_>) -> Option<SetRules> {
        Some(placed(self.rules_of(node, set)?, set.count(), self.location))
    }

    fn targets_of(self, node: Node<'_>, set: RecordSet<'_>) -> Vec<HealthTarget> {
        let rules = self.rules_of(node, set).filter(|rules| !rules.check.is_empty());
        let Some(rules) = rules else { return Vec::new() };
        // The targets of a set share the name of their check.
        let check = Arc::from(rules.check);
        set.records().filter_map(|data| target_of(&check, data)).collect()
    }

    /// The sets in these leaves from whose members is chosen.
    fn sets(self, leaves: &'z [LeafIndex]) -> impl Iterator<Item = (Node<'z>, RecordSet<'z>)> {
        let which = chosen_sets(self.default);
        leaves.iter().flat_map(move |leaf| self.zone.sets_of(*leaf, which))
    }
}

/// The zones and names whose sets name one target.
type NamingSets = HashSet<(ZoneKey, Box<[u8]>)>;

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
}

/// The leaves of each zone that are chosen again.
type AffectedLeaves = HashMap<ZoneKey, HashSet<LeafIndex>>;

impl HealthFilter {
    pub fn new(table: Arc<HealthTable>, clock: WallClock) -> Self {
        let (classes, views, index) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (defaults, open) = (DefaultChecks::default(), HashSet::new());
        Self { table, classes, views, index, defaults, open, ramps: Ramps::new(clock) }
    }

    /// Replaces the checks of zones. Returns the zones that are to be shown again.
    pub fn set_defaults(&mut self, all: Vec<DefaultCheck>) -> Vec<NameBuf> {
        self.defaults.set(all)
    }

    /// The zone to publish for a source's zone. Members without a location are at this one.
    pub fn show(&mut self, key: &[u8], zone: Arc<Zone>, location: Option<Arc<str>>) -> Arc<Zone> {
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
        for (node, set) in source.sets(&leaves) {
            for target in source.targets_of(node, set) {
                targets.add_use(&target, &key);
                let sets = self.index.entry(target).or_default();
                sets.insert((Arc::clone(&key), node.name().into()));
            }
        }
        table.report_waiting(&targets);
        drop(targets);
        table.wake();
        let before = old.as_ref().map(|old| &*old.chosen);
        let chosen = self.choose(&key, source, before, &leaves);
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
    pub fn judge(&mut self, verdicts: Vec<(HealthTarget, Option<MemberClass>)>) -> Vec<Arc<Zone>> {
        let mut affected = AffectedLeaves::new();
        for (target, class) in verdicts {
            let before = match class {
                Some(class) => self.classes.insert(target.clone(), class),
                None => self.classes.remove(&target),
            };
            if before == class {
                continue;
            }
            for (zone, name) in self.index.get(&target).into_iter().flatten() {
                let Some(view) = self.views.get(zone) else { continue };
                let leaf = view.content.leaf_of(name);
                affected.entry(Arc::clone(zone)).or_default().insert(leaf);
            }
        }
        self.choose_again(affected)
    }

    /// How long until weights may change with time; `None`: none does.
    pub fn until_step(&self) -> Option<Duration> {
        self.ramps.pause()
    }

    /// Gives sets the weights of now. Returns the zones whose answers changed.
    pub fn step(&mut self) -> Vec<Arc<Zone>> {
        let mut affected = AffectedLeaves::new();
        for (zone, name, _) in self.ramps.take_due() {
            let Some(view) = self.views.get(&zone) else { continue };
            let leaf = view.content.leaf_of(&name);
            affected.entry(zone).or_default().insert(leaf);
        }
        self.choose_again(affected)
    }

    fn choose_again(&mut self, affected: AffectedLeaves) -> Vec<Arc<Zone>> {
        let mut changed = Vec::with_capacity(affected.len());
        for (key, leaves) in affected {
            let Some(mut view) = self.views.remove(&key) else { continue };
            let leaves: Vec<LeafIndex> = leaves.into_iter().collect();
            let chosen = self.choose(&key, view.source(), Some(&view.chosen), &leaves);
            view.chosen = Arc::clone(&chosen);
            self.views.insert(key, view);
            changed.push(chosen);
        }
        self.count_open();
        changed
    }

    /// What became of the members of a set with rules; `None`: there is none.
    pub fn judged(&self, zone: &[u8], name: &[u8], rtype: Rtype) -> Option<JudgedSet> {
        let view = self.views.get(zone)?;
        let node = view.content.names().get(name)?;
        let set = node.set(rtype)?;
        let stored = view.source().placed(node, set)?;
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
        Some(JudgedSet { members: members.collect(), rules })
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
            for (zone, name) in sets {
                let Some(view) = self.views.get(zone) else { continue };
                let Some(node) = view.content.names().get(name) else { continue };
                for set in node.sets() {
                    let all = view.source().targets_of(node, set);
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

    fn choose(
        &mut self,
        key: &ZoneKey,
        source: SourceZone<'_>,
        before: Option<&Zone>,
        leaves: &[LeafIndex],
    ) -> Arc<Zone> {
        let (classes, open, ttl_max) = (&self.classes, &mut self.open, self.table.ttl_max());
        let now = self.ramps.now();
        let ramps = &mut self.ramps;
        let mut chooser = |node: Node<'_>, set: RecordSet<'_>| {
            let Some(rules) = source.placed(node, set) else {
                let numbers = (0..set.count()).collect();
                let all = ChosenRecords { ttl: set.ttl(), numbers, selection: None };
                return set.has_rules().then_some(all);
            };
            let id = (Arc::clone(key), node.name().into(), set.rtype());
            if !rules.ramps.is_empty() {
                ramps.put(id.clone(), rules.next_step(now));
            }
            let rules = rules.at(now);
            let chosen = choose(&rules, &member_classes(classes, set, &rules));
            match chosen.is_open {
                true => open.insert(id),
                false => open.remove(&id),
            };
            let ttl = if rules.check.is_empty() { set.ttl() } else { set.ttl().min(ttl_max) };
            let (numbers, selection) = (chosen.members, chosen.selection);
            Some(ChosenRecords { ttl, numbers, selection })
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
        for (node, set) in source.sets(leaves) {
            let id = (Arc::clone(key), node.name().into(), set.rtype());
            self.open.remove(&id);
            self.ramps.remove(&id);
            for target in source.targets_of(node, set) {
                targets.remove_use(&target, key, is_deleted);
                let Some(sets) = self.index.get_mut(&target) else { continue };
                sets.remove(&(Arc::clone(key), node.name().into()));
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

/// The class of each member of a set with these rules.
fn member_classes(
    classes: &HashMap<HealthTarget, MemberClass>,
    set: RecordSet<'_>,
    rules: &SetRules,
) -> Vec<MemberClass> {
    let check: Arc<str> = (&*rules.check).into();
    let of_member = |data| match target_of(&check, data).filter(|_| !check.is_empty()) {
        Some(target) => classes.get(&target).copied().unwrap_or(MemberClass::Unknown),
        None => MemberClass::Up,
    };
    set.records().map(of_member).collect()
}

/// The rules of a set of so many members; those that name no location are at this one.
fn placed(mut rules: SetRules, members: usize, location: Option<&str>) -> SetRules {
    if let (Some(location), Choice::Nearest) = (location, &rules.choice)
        && members <= ORDERED_MAX
    {
        let path = |at: usize| rules.locations.get(at).map_or("", |path| path);
        let paths = (0..members).map(|at| match path(at) {
            "" => location.into(),
            path => path.into(),
        });
        rules.locations = paths.collect();
    }
    rules
}

/// The target of a member; `None`: it has no address.
fn target_of(check: &Arc<str>, data: &[u8]) -> Option<HealthTarget> {
    Some(HealthTarget { check: Arc::clone(check), address: model::address_of(data)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_without_a_location_is_at_that_of_its_home() {
        let nearest = |locations: &[&str]| SetRules {
            choice: Choice::Nearest,
            locations: locations.iter().map(|path| Box::from(*path)).collect(),
            ..SetRules::default()
        };
        let home = Some("eu/fra1");
        assert_eq!(placed(nearest(&[]), 2, home), nearest(&["eu/fra1", "eu/fra1"]));
        assert_eq!(placed(nearest(&["us", ""]), 2, home), nearest(&["us", "eu/fra1"]));
        assert_eq!(placed(nearest(&["us", ""]), 2, None), nearest(&["us", ""]));
        assert_eq!(placed(SetRules::default(), 2, home), SetRules::default());
    }
}
