//! All parts that are known, and what changes with each.
use crate::limits::PARTS_MAX;
use crate::merge::{Conflict, Merged, Own, base_of, merge, name_of};
use crate::part::{Part, PartKey};
use model::SetValue;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Name, NameBuf, Rtype};
use zone_manager::Edit;

/// A set of a zone that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct SetChange {
    /// The number of the zone.
    pub zone: usize,
    /// The name.
    pub name: NameBuf,
    /// The type.
    pub rtype: Rtype,
    /// The new content; `None`: the set is gone.
    pub put: Option<SetValue>,
}

impl From<SetChange> for Edit {
    fn from(SetChange { name, rtype, put, .. }: SetChange) -> Self {
        match put {
            Some(value) => Self::put(name, rtype, value),
            None => Self::remove(name, rtype),
        }
    }
}

/// A name of a zone: the number of the zone, and the name in wire form.
type Base = (usize, Box<[u8]>);

/// The parts of all clusters, and what the zones themselves have.
#[derive(Debug)]
pub struct Parts {
    origins: Vec<NameBuf>,
    parts: BTreeMap<PartKey, Part>,
    by_base: BTreeMap<Base, BTreeSet<PartKey>>,
    own: BTreeMap<Base, Own>,
    conflicts: BTreeMap<Base, Vec<Conflict>>,
    /// Clusters whose parts are left out.
    gone: BTreeSet<Box<str>>,
}

impl Parts {
    /// No parts, for these zones.
    pub fn new(origins: Vec<NameBuf>) -> Self {
        Self {
            origins,
            parts: BTreeMap::new(),
            by_base: BTreeMap::new(),
            own: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    /// All parts.
    pub fn parts(&self) -> &BTreeMap<PartKey, Part> {
        &self.parts
    }

    /// The number of names with parts.
    pub fn names(&self) -> usize {
        self.by_base.len()
    }

    /// The zone of a name: the closest above it.
    fn zone_of(&self, name: Name<'_>) -> Option<usize> {
        let zones = self.origins.iter().enumerate();
        let within = zones.filter(|(_, origin)| name.is_within(origin.as_name()));
        within.max_by_key(|(_, origin)| origin.as_name().len()).map(|(at, _)| at)
    }

    /// The names that a part has sets of.
    fn bases(&self, part: &Part) -> BTreeSet<Base> {
        let base = |name: Name<'_>| {
            let zone = self.zone_of(name)?;
            let base = base_of(name, self.origins[zone].as_name());
            Some((zone, base.as_bytes().into()))
        };
        part.sets.iter().filter_map(|set| base(set.name.as_name())).collect()
    }

    /// A part came, changed, or went (`None`); what changes.
    pub fn put(&mut self, key: PartKey, part: Option<Part>) -> Vec<SetChange> {
        let old = self.parts.get(&key);
        if old == part.as_ref() || (old.is_none() && self.parts.len() >= PARTS_MAX) {
            return Vec::new();
        }
        let before = old.map(|part| self.bases(part)).unwrap_or_default();
        let after = part.as_ref().map(|part| self.bases(part)).unwrap_or_default();
        let touched: Vec<Base> = before.union(&after).cloned().collect();
        let had: Vec<Merged> = touched.iter().map(|base| self.merged(base)).collect();
        for base in before.difference(&after) {
            if let Some(keys) = self.by_base.get_mut(base) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.by_base.remove(base);
                }
            }
        }
        for base in after {
            self.by_base.entry(base).or_default().insert(key.clone());
        }
        match part {
            Some(part) => self.parts.insert(key, part),
            None => self.parts.remove(&key),
        };
        self.changes(touched, had)
    }

    /// What a zone itself has, from now on; what changes.
    pub fn set_own(&mut self, zone: usize, sets: Own) -> Vec<SetChange> {
        let origin = self.origins[zone].clone();
        let mut new: BTreeMap<Base, Own> = BTreeMap::new();
        for ((name, rtype), value) in sets {
            let base = base_of(name_of(&name).as_name(), origin.as_name()).as_bytes().into();
            new.entry((zone, base)).or_default().insert((name, rtype), value);
        }
        let known = self.own.keys().filter(|(of, _)| *of == zone);
        let all: BTreeSet<Base> = known.chain(new.keys()).cloned().collect();
        let touched: Vec<Base> =
            all.into_iter().filter(|base| self.own.get(base) != new.get(base)).collect();
        let had: Vec<Merged> = touched.iter().map(|base| self.merged(base)).collect();
        for base in &touched {
            match new.remove(base) {
                Some(sets) => self.own.insert(base.clone(), sets),
                None => self.own.remove(base),
            };
        }
        self.changes(touched, had)
    }

    /// Clusters whose last heartbeat is before this time, in seconds since 1970, are gone: their
    /// parts are left out until there is a newer one. A cluster that is not followed stays as it
    /// is. Returns the sets that change.
    pub fn set_oldest(
        &mut self,
        oldest: u64,
        is_followed: impl Fn(&str) -> bool,
    ) -> Vec<SetChange> {
        let beats = self.parts.iter().filter(|(key, _)| key.is_heartbeat());
        let may_go = |cluster: &str| is_followed(cluster) || self.gone.contains(cluster);
        let gone = beats.filter(|(key, part)| part.created < oldest && may_go(&key.cluster));
        let gone: BTreeSet<Box<str>> = gone.map(|(key, _)| key.cluster.clone()).collect();
        if gone == self.gone {
            return Vec::new();
        }
        let changed: BTreeSet<&Box<str>> = gone.symmetric_difference(&self.gone).collect();
        let parts = self.parts.iter().filter(|(key, _)| changed.contains(&key.cluster));
        let touched: BTreeSet<Base> = parts.flat_map(|(_, part)| self.bases(part)).collect();
        let touched: Vec<Base> = touched.into_iter().collect();
        let had = touched.iter().map(|base| self.merged(base)).collect();
        self.gone = gone;
        self.changes(touched, had)
    }

    /// The clusters that are gone.
    pub fn gone(&self) -> &BTreeSet<Box<str>> {
        &self.gone
    }

    fn merged(&self, base: &Base) -> Merged {
        let keys = self.by_base.get(base).into_iter().flatten();
        let keys = keys.filter(|key| !self.gone.contains(&key.cluster));
        let parts = keys.filter_map(|key| self.parts.get_key_value(key)).collect();
        let (zone, name) = base;
        let (name, origin) = (name_of(name), self.origins[*zone].as_name());
        merge(name.as_name(), origin, self.own.get(base), parts)
    }

    /// The changes of these names, which had these sets. What is removed comes first: an alias has
    /// no records beside it.
    fn changes(&mut self, touched: Vec<Base>, had: Vec<Merged>) -> Vec<SetChange> {
        let (mut gone, mut put) = (Vec::new(), Vec::new());
        for (base, had) in touched.into_iter().zip(had) {
            let Merged { sets, conflicts } = self.merged(&base);
            let zone = base.0;
            for (name, rtype) in had.sets.keys().filter(|key| !sets.contains_key(*key)) {
                gone.push(SetChange { zone, name: name_of(name), rtype: *rtype, put: None });
            }
            for ((name, rtype), value) in sets {
                let key = (name, rtype);
                if had.sets.get(&key) != Some(&value) {
                    put.push(SetChange { zone, name: name_of(&key.0), rtype, put: Some(value) });
                }
            }
            match conflicts.is_empty() {
                true => self.conflicts.remove(&base),
                false => self.conflicts.insert(base, conflicts),
            };
        }
        gone.append(&mut put);
        gone
    }

    /// All sets of a zone.
    pub fn all(&self, zone: usize) -> impl Iterator<Item = SetChange> {
        let of_zone = |(of, _): &&Base| *of == zone;
        let parts = self.by_base.keys().filter(of_zone);
        let bases: BTreeSet<&Base> = parts.chain(self.own.keys().filter(of_zone)).collect();
        bases.into_iter().flat_map(move |base| {
            let sets = self.merged(base).sets.into_iter();
            sets.map(move |((name, rtype), value)| SetChange {
                zone,
                name: name_of(&name),
                rtype,
                put: Some(value),
            })
        })
    }

    /// What cannot be merged, and what of objects is no record.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict> {
        let faulty = self.parts.iter().filter(|(_, part)| !part.faults.is_empty());
        let faults = faulty
            .flat_map(|(key, part)| part.faults.iter().map(|why| Conflict::of_fault(key, why)));
        self.conflicts.values().flatten().cloned().chain(faults)
    }
}

#[cfg(test)]
mod tests;
