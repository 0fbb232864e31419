//! Record sets, and what changes from some to others.
use image::ORDERED_MAX;
use model::{Choice, SetRules};
use std::collections::{BTreeMap, BTreeSet};
use wire::Rtype;

/// Where a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the zone of this index.
    Zone(u8),
    /// Among the reverse names, which other services may share.
    Reverse,
}

/// The key of a record set: its place, the name in wire form and lower case, and the type.
pub type SetKey = (Place, Box<[u8]>, Rtype);
/// A TTL in seconds, and the data of each record in ascending order.
pub type Set = (u32, Vec<Box<[u8]>>);

/// Record sets, and names that exist without records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    sets: BTreeMap<SetKey, Set>,
    /// The checks of sets that have one.
    checks: BTreeMap<SetKey, Box<str>>,
    /// Where the clients of single records are.
    locations: BTreeMap<SetKey, BTreeMap<Box<[u8]>, Box<str>>>,
    /// With whether they stand for addresses.
    names: BTreeSet<(u8, Box<[u8]>, bool)>,
    /// Names that were left out because they are too long.
    pub left_out: usize,
    /// Sets of other places are not noted.
    only: Option<Place>,
}

/// A change from some records to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// The whole set, which belongs to one object; `None` removes it.
    Set(SetKey, Option<Set>),
    /// The same for a set with rules.
    Ruled(SetKey, Set, Box<SetRules>),
    /// These records join a set of reverse names.
    Add(SetKey, Set),
    /// These records leave a set of reverse names.
    Take(SetKey, Set),
    /// A name of this zone exists from now on, whatever records it has.
    AddName(u8, Box<[u8]>),
    /// The same for a wildcard that stands for all addresses.
    AddAddresses(u8, Box<[u8]>),
    /// It needs records to exist.
    RemoveName(u8, Box<[u8]>),
}

impl Records {
    /// No records; those of other places are not noted.
    pub fn only(place: Place) -> Self {
        Self { only: Some(place), ..Self::default() }
    }

    /// Adds a record to a set.
    pub fn add(&mut self, place: Place, name: &[u8], rtype: Rtype, ttl: u32, data: Box<[u8]>) {
        if self.only.is_some_and(|only| only != place) {
            return;
        }
        let (_, records) =
            self.sets.entry((place, name.into(), rtype)).or_insert_with(|| (ttl, Vec::new()));
        if let Err(at) = records.binary_search(&data) {
            records.insert(at, data);
        }
    }

    /// Gives the sets of addresses at a name this check.
    pub fn add_check(&mut self, place: Place, name: &[u8], check: &str) {
        for rtype in [Rtype::A, Rtype::AAAA] {
            let key = (place, name.into(), rtype);
            if self.sets.contains_key(&key) {
                self.checks.insert(key, check.into());
            }
        }
    }

    /// Notes where the clients of a record are. Endpoints with one host name share an SRV record,
    /// which has the first of their locations, in whatever order a server got them.
    pub fn locate(&mut self, place: Place, name: &[u8], rtype: Rtype, data: &[u8], path: &str) {
        if self.only.is_none_or(|only| only == place) {
            let of_set = self.locations.entry((place, name.into(), rtype)).or_default();
            let noted = of_set.entry(data.into()).or_insert_with(|| path.into());
            if path < &**noted {
                *noted = path.into();
            }
        }
    }

    /// The rules of a set; `None`: it has none.
    pub fn rules(&self, key: &SetKey) -> Option<SetRules> {
        let (_, data) = self.sets.get(key)?;
        let mut rules = SetRules {
            check: self.checks.get(key).cloned().unwrap_or_default(),
            ..SetRules::default()
        };
        let of_set = self.locations.get(key).filter(|_| data.len() <= ORDERED_MAX);
        let locations = data.iter().map(|data| of_set.and_then(|of| of.get(data)).cloned());
        // With one location for all, each client gets all.
        if let Some(locations) = locations.collect::<Option<Box<[_]>>>()
            && locations.iter().any(|one| *one != locations[0])
        {
            (rules.choice, rules.locations) = (Choice::Nearest, locations);
        }
        rules.has_choice().then_some(rules)
    }

    /// Notes that a name exists.
    pub fn add_name(&mut self, zone: u8, name: &[u8]) {
        self.names.insert((zone, name.into(), false));
    }

    /// Notes that a wildcard stands for all addresses.
    pub fn add_addresses(&mut self, zone: u8, name: &[u8]) {
        self.names.insert((zone, name.into(), true));
    }

    /// Each set, in order of its key.
    pub fn sets(&self) -> impl Iterator<Item = (&SetKey, &Set)> {
        self.sets.iter()
    }

    /// A set.
    pub fn set(&self, key: &SetKey) -> Option<&Set> {
        self.sets.get(key)
    }

    /// The changes that make nothing into these records.
    pub fn all(self) -> Vec<RecordChange> {
        changes(Self::default(), self)
    }
}

/// The changes from some records to others.
pub fn changes(mut old: Records, mut new: Records) -> Vec<RecordChange> {
    let mut changes = Vec::new();
    for key in new.sets.keys().cloned().collect::<Vec<_>>() {
        let (had, rules) = (old.rules(&key), new.rules(&key));
        let Some(set) = new.sets.remove(&key) else { continue };
        match (key.0, old.sets.remove(&key)) {
            (_, Some(old)) if old == set && had == rules => {}
            (Place::Zone(_), _) => changes.push(match rules {
                Some(rules) => RecordChange::Ruled(key, set, rules.into()),
                None => RecordChange::Set(key, Some(set)),
            }),
            (Place::Reverse, None) => changes.push(RecordChange::Add(key, set)),
            (Place::Reverse, Some((ttl, old))) => {
                let without = |records: &[Box<[u8]>], others: &[Box<[u8]>]| {
                    let kept = records.iter().filter(|data| others.binary_search(data).is_err());
                    kept.cloned().collect::<Vec<_>>()
                };
                let (gone, come) = (without(&old, &set.1), without(&set.1, &old));
                if !gone.is_empty() {
                    changes.push(RecordChange::Take(key.clone(), (ttl, gone)));
                }
                if !come.is_empty() || ttl != set.0 {
                    let come = if come.is_empty() { set.1 } else { come };
                    changes.push(RecordChange::Add(key, (set.0, come)));
                }
            }
        }
    }
    for (key, set) in old.sets {
        changes.push(match key.0 {
            Place::Zone(_) => RecordChange::Set(key, None),
            Place::Reverse => RecordChange::Take(key, set),
        });
    }
    let come = new.names.difference(&old.names).cloned();
    changes.extend(come.map(|(zone, name, is_computed)| match is_computed {
        true => RecordChange::AddAddresses(zone, name),
        false => RecordChange::AddName(zone, name),
    }));
    let gone = old.names.difference(&new.names).cloned();
    changes.extend(gone.map(|(zone, name, _)| RecordChange::RemoveName(zone, name)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(of: &[(Place, &str, &[&[u8]])], names: &[&str]) -> Records {
        let mut records = Records::default();
        for (place, name, data) in of {
            for data in *data {
                records.add(*place, name.as_bytes(), Rtype::A, 5, (*data).into());
            }
        }
        names.iter().for_each(|name| records.add_name(0, name.as_bytes()));
        records
    }

    #[test]
    fn only_what_differs_is_changed() {
        let zone = Place::Zone(0);
        let old = records(&[(zone, "a", &[b"1"]), (zone, "b", &[b"1"]), (zone, "c", &[b"1"])], &[]);
        let new = records(&[(zone, "a", &[b"1"]), (zone, "b", &[b"2"]), (zone, "d", &[b"1"])], &[]);
        let key = |name: &str| (zone, Box::from(name.as_bytes()), Rtype::A);
        let expected = vec![
            RecordChange::Set(key("b"), Some((5, vec![Box::from(&b"2"[..])]))),
            RecordChange::Set(key("d"), Some((5, vec![Box::from(&b"1"[..])]))),
            RecordChange::Set(key("c"), None),
        ];
        assert_eq!(changes(old.clone(), new), expected);
        assert_eq!(changes(old.clone(), old), []);
    }

    #[test]
    fn records_of_other_services_stay_at_a_reverse_name() {
        let old = records(&[(Place::Reverse, "r", &[b"1", b"2"])], &[]);
        let new = records(&[(Place::Reverse, "r", &[b"2", b"3"])], &[]);
        let key = (Place::Reverse, Box::from(&b"r"[..]), Rtype::A);
        let set = |data: &[u8]| (5, vec![data.into()]);
        let expected = vec![
            RecordChange::Take(key.clone(), set(b"1")),
            RecordChange::Add(key.clone(), set(b"3")),
        ];
        assert_eq!(changes(old, new.clone()), expected);
        let gone = RecordChange::Take(key, (5, vec![b"2"[..].into(), b"3"[..].into()]));
        assert_eq!(changes(new, Records::default()), [gone]);
    }

    #[test]
    fn names_come_and_go() {
        let (old, new) = (records(&[], &["a", "b"]), records(&[], &["b", "c"]));
        let name = |name: &str| Box::from(name.as_bytes());
        let expected =
            [RecordChange::AddName(0, name("c")), RecordChange::RemoveName(0, name("a"))];
        assert_eq!(changes(old, new), expected);
    }
}
