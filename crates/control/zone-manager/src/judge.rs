//! Which members of a set are answered, by its rules, the health of its members and the time.
use crate::aliases::Followed;
use crate::choose::choose;
use crate::health::HealthTarget;
use crate::shown::{AllZones, SourceZone, target_of};
use compile::{ChosenRecords, ComputedSet, View};
use image::{Node, RecordSet};
use model::{MemberClass, SetRules};
use std::collections::HashMap;
use std::sync::Arc;
use wire::Rtype;

/// What decides which members of a set are answered.
pub(crate) struct Judge<'a> {
    pub classes: &'a HashMap<HealthTarget, MemberClass>,
    pub ttl_max: u32,
    /// Seconds since 1970.
    pub now: u64,
}

impl Judge<'_> {
    /// What is answered of a set with these rules, and whether members that are down are.
    pub fn choose(&self, set: RecordSet<'_>, rules: SetRules) -> (ChosenRecords, bool) {
        let rules = rules.at(self.now);
        let chosen = choose(&rules, &member_classes(self.classes, set, &rules));
        let ttl = if rules.check.is_empty() { set.ttl() } else { set.ttl().min(self.ttl_max) };
        let (numbers, selection) = (chosen.members, chosen.selection);
        (ChosenRecords { ttl, numbers, selection }, chosen.is_open)
    }

    /// The addresses that stand for an ALIAS record: those that are answered at its target.
    pub fn computed(&self, zones: &AllZones<'_>, followed: &Followed) -> Vec<ComputedSet> {
        let Some((zone, name)) = &followed.end else { return Vec::new() };
        let Some(node) = zone.node_in(followed.view, name) else { return Vec::new() };
        let sets = [Rtype::A, Rtype::AAAA].into_iter().filter_map(|rtype| node.set(rtype));
        let computed = sets.map(|set| {
            let set = self.computed_set(zones.source(zone), (followed.view, node), set);
            ComputedSet { ttl: set.ttl.min(followed.ttl), ..set }
        });
        computed.filter(|set| !set.records.is_empty()).collect()
    }

    fn computed_set(
        &self,
        zone: SourceZone<'_>,
        node: (View, Node<'_>),
        set: RecordSet<'_>,
    ) -> ComputedSet {
        let rtype = set.rtype();
        let Some(rules) = zone.placed(node, set) else {
            let records = set.records().map(Box::from).collect();
            return ComputedSet { rtype, ttl: set.ttl(), records, selection: None };
        };
        let (ChosenRecords { ttl, numbers, selection }, _) = self.choose(set, rules);
        let all: Vec<&[u8]> = set.records().collect();
        let chosen = numbers.iter().filter_map(|number| all.get(*number));
        ComputedSet {
            rtype,
            ttl,
            records: chosen.map(|data| Box::from(*data)).collect(),
            selection,
        }
    }
}

/// The class of each member of a set with these rules.
pub(crate) fn member_classes(
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
