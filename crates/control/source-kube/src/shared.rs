//! Reverse names that more services share than a message can carry.
//!
//! The zone manager has the records of all other sets, so services join and leave a set of
//! reverse names by [`RecordChange::Add`] and [`RecordChange::Take`]. It cannot have such a set
//! whole: it is kept here, and a sample of it is served.
use crate::records::{Place, RecordChange, Set};
use crate::sample::fits;
use std::collections::{BTreeMap, BTreeSet};
use wire::Rtype;

/// The name of a set, and its type.
type Key = (Box<[u8]>, Rtype);
/// The TTL of a set, and all its records.
type Whole = (u32, BTreeSet<Box<[u8]>>);

/// The sets that do not fit.
#[derive(Debug, Default)]
pub struct SharedSets(BTreeMap<Key, Whole>);

impl SharedSets {
    /// The change for a set of a full sync, and keeps the set if it does not fit.
    pub fn put(&mut self, name: &[u8], rtype: Rtype, (ttl, mut data): Set) -> RecordChange {
        data.sort_unstable();
        data.dedup();
        if !fits(&data) {
            let whole = (ttl, data.iter().cloned().collect());
            self.0.insert((name.into(), rtype), whole);
        }
        RecordChange::Set((Place::Reverse, name.into(), rtype), Some((ttl, data)))
    }

    /// The changes, but whole sets in place of what joins or leaves a set that does not fit, or did
    /// not. `served` is the set of a name as it is now.
    pub fn whole(
        &mut self,
        changes: Vec<RecordChange>,
        served: impl Fn(&[u8], Rtype) -> Option<Vec<Box<[u8]>>>,
    ) -> Vec<RecordChange> {
        for key in self.outgrown(&changes, &served) {
            let all = served(&key.0, key.1).unwrap_or_default().into_iter().collect();
            // The TTL is that of the records that join it below.
            self.0.insert(key, (0, all));
        }
        if self.0.is_empty() {
            return changes;
        }
        let (mut others, mut touched) = (Vec::new(), BTreeSet::new());
        for change in changes {
            let (key, set, joins) = match &change {
                RecordChange::Add(key, set) => (key, set, true),
                RecordChange::Take(key, set) => (key, set, false),
                _ => {
                    others.push(change);
                    continue;
                }
            };
            let key = (key.1.clone(), key.2);
            let Some((ttl, all)) = self.0.get_mut(&key) else {
                others.push(change);
                continue;
            };
            *ttl = set.0;
            for record in &set.1 {
                match joins {
                    true => drop(all.insert(record.clone())),
                    false => drop(all.remove(record)),
                }
            }
            touched.insert(key);
        }
        others.extend(touched.into_iter().filter_map(|key| self.change(key)));
        others
    }

    /// The whole set of a key; it is not kept any more once it fits.
    fn change(&mut self, key: Key) -> Option<RecordChange> {
        let (ttl, all) = self.0.get(&key)?;
        let (ttl, data) = (*ttl, all.iter().cloned().collect::<Vec<_>>());
        if fits(&data) {
            self.0.remove(&key);
        }
        let set = (!data.is_empty()).then_some((ttl, data));
        Some(RecordChange::Set((Place::Reverse, key.0, key.1), set))
    }

    /// The sets that do not fit once these records have joined them.
    fn outgrown(
        &self,
        changes: &[RecordChange],
        served: &impl Fn(&[u8], Rtype) -> Option<Vec<Box<[u8]>>>,
    ) -> Vec<Key> {
        let mut joining: BTreeMap<Key, Vec<Box<[u8]>>> = BTreeMap::new();
        for change in changes {
            if let RecordChange::Add((_, name, rtype), (_, data)) = change {
                joining.entry((name.clone(), *rtype)).or_default().extend(data.iter().cloned());
            }
        }
        let outgrown = joining.into_iter().filter_map(|(key, mut data)| {
            if self.0.contains_key(&key) {
                return None;
            }
            data.extend(served(&key.0, key.1).unwrap_or_default());
            (!fits(&data)).then_some(key)
        });
        outgrown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::SetKey;

    fn key() -> SetKey {
        (Place::Reverse, b"\x011\x0210\x07in-addr\x04arpa\0"[..].into(), Rtype::PTR)
    }

    /// The name of a service.
    fn target(number: u32) -> Box<[u8]> {
        [&b"\x3c"[..], format!("{number:060}").as_bytes(), b"\0"].concat().into()
    }

    /// Applies changes to a set, as the zone manager does.
    fn apply(set: &mut BTreeSet<Box<[u8]>>, changes: Vec<RecordChange>) {
        for change in changes {
            match change {
                RecordChange::Add(_, (_, data)) => set.extend(data),
                RecordChange::Take(_, (_, data)) => set.retain(|one| !data.contains(one)),
                RecordChange::Set(_, new) => {
                    *set = new.map(|(_, data)| data.into_iter().collect()).unwrap_or_default();
                }
                other => panic!("not of a set: {other:?}"),
            }
        }
    }

    #[test]
    fn a_set_that_outgrows_a_message_is_whole_until_it_fits_again() {
        let mut shared = SharedSets::default();
        let mut served = BTreeSet::new();
        let mut wanted = BTreeSet::new();
        let mut step = |change: RecordChange, wanted: &BTreeSet<Box<[u8]>>| {
            let now: Vec<Box<[u8]>> = served.iter().cloned().collect();
            let changes = shared.whole(vec![change], |_, _| Some(now.clone()));
            let is_whole = matches!(changes[..], [RecordChange::Set(..)]);
            apply(&mut served, changes);
            assert_eq!(served, *wanted, "the sampler cuts it afterwards");
            is_whole
        };
        let mut whole = 0;
        for number in 0..1_000 {
            wanted.insert(target(number));
            let add = RecordChange::Add(key(), (5, vec![target(number)]));
            whole += usize::from(step(add, &wanted));
        }
        assert!((50..500).contains(&whole), "about 880 fit: {whole}");
        for number in 0..1_000 {
            wanted.remove(&target(number));
            let take = RecordChange::Take(key(), (5, vec![target(number)]));
            step(take, &wanted);
        }
        assert!(shared.0.is_empty());
    }

    #[test]
    fn other_sets_are_changed_as_before() {
        let mut shared = SharedSets::default();
        let add = vec![RecordChange::Add(key(), (5, vec![target(1)]))];
        assert_eq!(shared.whole(add.clone(), |_, _| None), add);
        let many: Vec<Box<[u8]>> = (0..1_000).map(target).collect();
        shared.put(&key().1, Rtype::PTR, (5, many));
        let mut other = key();
        other.1 = b"\x012\0"[..].into();
        let add = vec![RecordChange::Add(other, (5, vec![target(1)]))];
        assert_eq!(shared.whole(add.clone(), |_, _| None), add);
    }
}
