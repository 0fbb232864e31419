//! Digests of zones: what is the same has the same digest, on all servers and whichever way it
//! came.
//!
//! The digest of a zone is the sum of the hashes of its records, so a change costs what changed.
//! The serial of the SOA is left out; the [`SerialStamp`] counts instead. A digest finds accidents
//! of the disk, the memory and the code. It does not protect against a person who chooses records:
//! the hash has no secret key, and sums of 64 bits can be made equal on purpose.
use crate::{Revision, View, limits::DIGESTS_KEPT};
use compile::{Names, SetChange, Zone};
use image::RecordSet;
use siphasher::sip::SipHasher13;
use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::serial::SerialStamp;
use wire::Rtype;

/// The hash of some parts, each after its length. All versions must agree.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut sum = SipHasher13::new();
    for part in parts {
        sum.write(&(part.len() as u64).to_le_bytes());
        sum.write(part);
    }
    sum.finish()
}

/// A short name of a zone with this origin in lower case, the same in all versions.
pub fn hash_of_origin(origin: &[u8]) -> u64 {
    hash(&[origin])
}

/// The sum over the records of a set with this relative name.
fn of_set(view: View, name: &[u8], set: RecordSet<'_>) -> u64 {
    let (rtype, ttl) = (set.rtype().0.to_le_bytes(), set.ttl().to_le_bytes());
    let of = |data: &[u8], end: &[u8]| {
        let parts = [name, &rtype, &ttl, set.rules(), data, end, view.as_bytes()];
        // Older versions know no views.
        hash(if view == View::DEFAULT { &parts[..6] } else { &parts })
    };
    let add = |sum: u64, data: &[u8]| {
        // RFC 1035 §3.3.13: the serial is before the last four numbers.
        let soa = data.split_last_chunk::<16>().filter(|_| set.rtype() == Rtype::SOA);
        sum.wrapping_add(match soa {
            Some((start, numbers)) => of(&start[..start.len().saturating_sub(4)], numbers),
            None => of(data, &[]),
        })
    };
    set.records().fold(0, add)
}

/// The sum over the records of a zone.
pub fn of_zone(zone: &Zone) -> u64 {
    let nodes = zone.names().leaves().iter().flat_map(|leaf| image::Leaf::new(leaf).nodes());
    let sets =
        nodes.flat_map(|node| node.sets().map(move |set| of_set(View::DEFAULT, node.name(), set)));
    sets.fold(0, u64::wrapping_add)
}

/// The sum over the records of those of a view's sets that these changes concern.
pub fn of_changed<R>(view: View, names: &Names, changes: &[SetChange<'_, R>]) -> u64 {
    let of = |change: &SetChange<'_, R>| {
        let set = names.get(change.name).and_then(|node| node.set(change.rtype));
        set.map_or(0, |set| of_set(view, change.name, set))
    };
    changes.iter().map(of).fold(0, u64::wrapping_add)
}

/// The digest of a zone at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDigest {
    /// The revision of the zone's last write.
    pub revision: Revision,
    /// The digest; `None`: the zone was never loaded.
    pub digest: Option<u64>,
}

impl ZoneDigest {
    /// That of the zone with this origin in lower case, and this sum over its records.
    pub(crate) fn new(origin: &[u8], stamp: SerialStamp, records: Option<u64>) -> Self {
        let (revision, offset) = (stamp.revision.0.to_le_bytes(), stamp.offset.to_le_bytes());
        let digest = records.map(|sum| sum.wrapping_add(hash(&[origin, &revision, &offset])));
        Self { revision: stamp.revision, digest }
    }
}

/// The digests of all zones by origin in lower case, and of all together.
#[derive(Default)]
struct State {
    zones: HashMap<Box<[u8]>, ZoneDigest>,
    /// The sum.
    total: u64,
    /// How many zones have none.
    unknown: usize,
    revision: Revision,
    /// The sums at the last revisions, in order.
    recent: VecDeque<(Revision, u64)>,
}

/// What a server has, to compare it with others.
#[derive(Default)]
pub struct ZoneDigests(Mutex<State>);

impl ZoneDigests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has these zones at this revision, and no others.
    pub fn replace(&self, revision: Revision, all: impl Iterator<Item = (Box<[u8]>, ZoneDigest)>) {
        let mut state = self.state();
        *state = State::default();
        all.for_each(|(at, zone)| state.put(&at, Some(zone)));
        state.reach(revision);
    }

    /// These zones are so at this revision; `None`: they are gone.
    pub fn change<'z>(
        &self,
        revision: Revision,
        changed: impl Iterator<Item = (&'z [u8], Option<ZoneDigest>)>,
    ) {
        let mut state = self.state();
        changed.for_each(|(at, zone)| state.put(at, zone));
        state.reach(revision);
    }

    /// The digest of everything at a revision; `None`: it is not known, or not any more.
    pub fn at(&self, revision: Revision) -> Option<u64> {
        let state = self.state();
        let found = state.recent.binary_search_by_key(&revision, |(at, _)| *at).ok()?;
        state.recent.get(found).map(|(_, total)| *total)
    }

    /// The newest revision, and the digests of all zones then.
    pub fn zones(&self) -> (Revision, HashMap<Box<[u8]>, ZoneDigest>) {
        let state = self.state();
        (state.revision, state.zones.clone())
    }
}

impl State {
    fn put(&mut self, at: &[u8], zone: Option<ZoneDigest>) {
        let before = match zone {
            Some(zone) => {
                match zone.digest {
                    Some(digest) => self.total = self.total.wrapping_add(digest),
                    None => self.unknown += 1,
                }
                self.zones.insert(at.into(), zone)
            }
            None => self.zones.remove(at),
        };
        match before.map(|before| before.digest) {
            Some(Some(digest)) => self.total = self.total.wrapping_sub(digest),
            Some(None) => self.unknown -= 1,
            None => {}
        }
    }

    fn reach(&mut self, revision: Revision) {
        self.revision = revision;
        while self.recent.back().is_some_and(|(last, _)| *last >= revision) {
            self.recent.pop_back();
        }
        if self.unknown > 0 {
            return;
        }
        if self.recent.len() >= DIGESTS_KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back((revision, self.total));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(revision: u64, digest: u64) -> ZoneDigest {
        ZoneDigest { revision: Revision(revision), digest: Some(digest) }
    }

    /// All versions must agree, so these are fixed.
    #[test]
    fn hashes_are_the_same_in_all_versions() {
        assert_eq!(hash(&[b"a", b"bc"]), 18_139_956_459_179_832_509);
        assert_ne!(hash(&[b"a", b"bc"]), hash(&[b"ab", b"c"]));
    }

    #[test]
    fn total_depends_on_the_zones_and_not_on_the_way() {
        let (one, other) = (ZoneDigests::default(), ZoneDigests::default());
        one.replace(Revision(1), [(b"a"[..].into(), zone(1, 5))].into_iter());
        one.change(Revision(2), [(&b"b"[..], Some(zone(2, 7)))].into_iter());
        one.change(Revision(3), [(&b"a"[..], Some(zone(3, u64::MAX)))].into_iter());
        let all = [(b"b"[..].into(), zone(2, 7)), (b"a"[..].into(), zone(3, u64::MAX))];
        other.replace(Revision(3), all.into_iter());
        assert_eq!([1, 2, 3].map(|at| one.at(Revision(at))), [Some(5), Some(12), Some(6)]);
        assert_eq!([2, 3].map(|at| other.at(Revision(at))), [None, Some(6)]);
        one.change(Revision(4), [(&b"a"[..], None)].into_iter());
        assert_eq!(one.at(Revision(4)), Some(7));
    }

    #[test]
    fn no_total_is_known_while_a_zone_is_not() {
        let digests = ZoneDigests::default();
        let unknown = ZoneDigest { digest: None, ..zone(1, 0) };
        digests.replace(Revision(1), [(b"a"[..].into(), unknown)].into_iter());
        assert_eq!(digests.at(Revision(1)), None);
        digests.change(Revision(2), [(&b"a"[..], Some(zone(2, 9)))].into_iter());
        assert_eq!(digests.at(Revision(2)), Some(9));
    }

    #[test]
    fn number_of_totals_is_bounded() {
        let digests = ZoneDigests::default();
        for revision in 1..=DIGESTS_KEPT as u64 + 1 {
            digests.change(Revision(revision), std::iter::empty());
        }
        assert_eq!(digests.at(Revision(1)), None);
        assert_eq!(digests.at(Revision(2)), Some(0));
    }
}
