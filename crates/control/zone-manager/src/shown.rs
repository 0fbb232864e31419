//! Zones as their sources have them, beside what workers read of them.
use crate::aliases::Contents;
use crate::defaults::{DefaultCheck, chosen_sets, rules_of};
use crate::health::{HealthTarget, ZoneKey};
use compile::{Image, LeafIndex, View, Zone};
use image::{Node, ORDERED_MAX, RecordSet};
use model::{Choice, SetRules};
use std::collections::HashMap;
use std::sync::Arc;
use wire::Name;

/// A zone with rules, ALIAS records or a check of its own.
pub(crate) struct ZoneView {
    /// As its source has it.
    pub content: Arc<Zone>,
    /// As workers read it.
    pub chosen: Arc<Zone>,
    /// Where members are that name no location.
    pub location: Option<Arc<str>>,
    /// The check of its sets that name none.
    pub default: Option<Arc<DefaultCheck>>,
}

impl ZoneView {
    pub fn source(&self) -> SourceZone<'_> {
        let (location, default) = (self.location.as_deref(), self.default.as_deref());
        SourceZone { zone: &self.content, location, default }
    }
}

/// A zone as its source has it, and what holds for all of its sets.
#[derive(Clone, Copy)]
pub(crate) struct SourceZone<'z> {
    pub zone: &'z Zone,
    pub location: Option<&'z str>,
    pub default: Option<&'z DefaultCheck>,
}

/// A set in a zone as its source has it.
#[derive(Clone, Copy)]
pub(crate) struct SourceSet<'z> {
    /// The view that has it.
    pub view: View,
    pub node: Node<'z>,
    pub set: RecordSet<'z>,
}

impl<'z> SourceZone<'z> {
    fn rules_of(self, node: (View, Node<'_>), set: RecordSet<'_>) -> Option<SetRules> {
        rules_of(self.zone, self.default, node, set)
    }

    /// The rules of a set at a node of a view, with the locations of all members.
    pub fn placed(self, node: (View, Node<'_>), set: RecordSet<'_>) -> Option<SetRules> {
        Some(placed(self.rules_of(node, set)?, set.count(), self.location))
    }

    pub fn targets_of(self, node: (View, Node<'_>), set: RecordSet<'_>) -> Vec<HealthTarget> {
        let rules = self.rules_of(node, set).filter(|rules| !rules.check.is_empty());
        let Some(rules) = rules else { return Vec::new() };
        // The targets of a set share the name of their check.
        let check = Arc::from(rules.check);
        set.records().filter_map(|data| target_of(&check, data)).collect()
    }

    /// The sets in these leaves from whose members is chosen.
    pub fn sets(self, leaves: &'z [LeafIndex]) -> impl Iterator<Item = SourceSet<'z>> {
        let which = chosen_sets(self.default);
        leaves.iter().flat_map(move |leaf| {
            let sets = self.zone.sets_of(*leaf, which);
            sets.map(|(node, set)| SourceSet { view: leaf.view, node, set })
        })
    }
}

/// All zones: those that workers read otherwise, the image, and one that is being shown.
pub(crate) struct AllZones<'a> {
    pub views: &'a HashMap<ZoneKey, ZoneView>,
    pub image: &'a Image,
    pub shown: (&'a ZoneKey, &'a Arc<Zone>),
    /// As `shown`.
    pub source: SourceZone<'a>,
}

impl Contents for AllZones<'_> {
    fn zone(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        let key = origin.as_bytes().to_ascii_lowercase();
        if *key == **self.shown.0 {
            return Some(Arc::clone(self.shown.1));
        }
        let view = self.views.get(&key[..]).map(|view| &view.content);
        view.or_else(|| self.image.zone(origin)).cloned()
    }
}

impl AllZones<'_> {
    /// A zone that an ALIAS record led to.
    pub fn source<'z>(&'z self, zone: &'z Zone) -> SourceZone<'z> {
        let key = zone.origin().as_bytes();
        match self.views.get(key) {
            _ if *key == **self.shown.0 => self.source,
            Some(view) => view.source(),
            None => SourceZone { zone, location: None, default: None },
        }
    }
}

/// The rules of a set of so many members; those that name no location are at this one.
pub(crate) fn placed(mut rules: SetRules, members: usize, location: Option<&str>) -> SetRules {
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
pub(crate) fn target_of(check: &Arc<str>, data: &[u8]) -> Option<HealthTarget> {
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
