//! The sets that an update has changed so far.
use compile::Zone;
use image::Node;
use model::{Edit, SetValue};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Name, NameBuf, RdataField, Rtype, expanded};

/// A zone, and what an update has made of it so far.
pub struct WorkingZone<'z> {
    pub zone: &'z Zone,
    /// By name in lower case and type.
    sets: BTreeMap<(Box<[u8]>, u16), WorkingSet>,
}

/// A set as it was, and as it is now.
pub struct WorkingSet {
    name: NameBuf,
    rtype: Rtype,
    held: Option<SetValue>,
    /// The TTL of the record that was added last; `None`: none was.
    ttl: Option<u32>,
    /// The data of each record by its canonical form.
    records: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl<'z> WorkingZone<'z> {
    pub fn new(zone: &'z Zone) -> Self {
        Self { zone, sets: BTreeMap::new() }
    }

    /// The set of a name and type, which need not exist.
    pub fn set(&mut self, name: &NameBuf, rtype: Rtype) -> &mut WorkingSet {
        let Self { zone, sets } = self;
        sets.entry((name.as_name().as_bytes().into(), rtype.0)).or_insert_with(|| {
            let held = zone.set(name.as_name(), rtype).map(SetValue::from);
            let data = held.iter().flat_map(|value| &value.data);
            let records = data.map(|data| (canonical(rtype, data), data.clone())).collect();
            WorkingSet { name: name.clone(), rtype, held, ttl: None, records }
        })
    }

    /// The types that a name has now.
    pub fn types(&self, name: Name<'_>) -> BTreeSet<Rtype> {
        let from = (Box::from(name.as_bytes()), 0);
        let to = (Box::from(name.as_bytes()), u16::MAX);
        let changed: BTreeMap<u16, bool> =
            self.sets.range(from..=to).map(|((_, rtype), set)| (*rtype, set.exists())).collect();
        let held = node(self.zone, name);
        let held = held.iter().flat_map(|node| node.sets()).map(|set| set.rtype());
        let unchanged = held.filter(|rtype| !changed.contains_key(&rtype.0));
        let there = changed.iter().filter(|(_, exists)| **exists).map(|(rtype, _)| Rtype(*rtype));
        unchanged.chain(there).collect()
    }

    /// The changes, one for each set that is another one now.
    pub fn into_edits(self) -> Vec<Edit> {
        self.sets.into_values().filter_map(WorkingSet::into_edit).collect()
    }
}

impl WorkingSet {
    /// Whether it has a record.
    pub fn exists(&self) -> bool {
        !self.records.is_empty()
    }

    /// The number of its records.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Whether it has a record with this data.
    pub fn has(&self, data: &[u8]) -> bool {
        self.records.contains_key(&canonical(self.rtype, data))
    }

    /// The data of its first record.
    pub fn first(&self) -> Option<&[u8]> {
        self.records.values().next().map(|data| &**data)
    }

    /// Adds a record, whose TTL becomes that of the set (RFC 2181 §5.2). One that is there already
    /// is replaced.
    pub fn add(&mut self, ttl: u32, data: &[u8]) {
        let key = canonical(self.rtype, data);
        self.records.entry(key).or_insert_with(|| data.into());
        self.ttl = Some(ttl);
    }

    /// Removes a record.
    pub fn remove(&mut self, data: &[u8]) {
        self.records.remove(&canonical(self.rtype, data));
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    fn into_edit(self) -> Option<Edit> {
        let Self { name, rtype, held, ttl, records } = self;
        let Some(held) = held else {
            let value = SetValue::new(ttl?, records.into_values().collect());
            return value.is_kept().then(|| Edit::put(name, rtype, value));
        };
        if records.is_empty() {
            return Some(Edit::remove(name, rtype));
        }
        let before: BTreeSet<Box<[u8]>> =
            held.data.iter().map(|data| canonical(rtype, data)).collect();
        let is_there = |data: &[u8]| records.contains_key(&canonical(rtype, data));
        let gone = held.data.iter().filter(|data| !is_there(data));
        let removed: Vec<Box<[u8]>> = gone.cloned().collect();
        let new = records.iter().filter(|(key, _)| !before.contains(*key));
        let added: Vec<Box<[u8]>> = new.map(|(_, data)| data.clone()).collect();
        let ttl = ttl.unwrap_or(held.ttl);
        if removed.is_empty() && added.is_empty() && ttl == held.ttl {
            return None;
        }
        // Added first, so that a set whose records are all replaced keeps its rules.
        let mut value = held;
        value.add(SetValue::new(ttl, added));
        value.take(&removed);
        Some(Edit::put(name, rtype, value))
    }
}

/// The node of a name.
pub fn node<'z>(zone: &'z Zone, name: Name<'_>) -> Option<Node<'z>> {
    zone.names().get(&zone.relative(name)?)
}

/// The data with its names in lower case, which are equal in any case (RFC 2136 §1.1.1).
pub fn canonical(rtype: Rtype, data: &[u8]) -> Box<[u8]> {
    let mut canonical: Box<[u8]> = data.into();
    let mut at = 0;
    for field in expanded(rtype) {
        match field {
            RdataField::Bytes(count) => at += count,
            RdataField::Name => {
                while let Some(len) = canonical.get(at).copied().filter(|len| *len > 0) {
                    let end = at + 1 + usize::from(len);
                    let Some(label) = canonical.get_mut(at + 1..end) else { return canonical };
                    label.make_ascii_lowercase();
                    at = end;
                }
                at += 1;
            }
        }
    }
    canonical
}
