//! The puts of a full sync in packed form: a list has all of them at once, so each takes little
//! more than its own bytes, and all of them go back to the system together.
use crate::edits::declared_by;
use crate::validate::relative;
use compile::{Loader, SetChange, Zone, ZoneProblem};
use image::Declared;
use model::{Change, SetValue};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use wire::{Name, NameBuf, Rtype};

/// Bytes of a chunk. The allocator takes so large ones from the system, and gives them back.
const CHUNK_LEN: usize = 1 << 20;
/// Bytes of a put before its name: its number, its TTL or what it declares, its type, the number of
/// its records, the length of the name.
const HEAD_LEN: usize = 4 + 4 + 2 + 2 + 1;

/// Valid puts, each with its number among all puts.
#[derive(Default)]
pub(crate) struct Puts {
    chunks: Vec<Vec<u8>>,
    len: usize,
    /// Packed rules of the few sets that have any, by their places.
    rules: Vec<(u32, NameBuf, Rtype, Vec<u8>)>,
}

/// One put. Type 0: it declares its name.
struct Put<'p> {
    number: u32,
    ttl: u32,
    rtype: Rtype,
    name: Name<'p>,
    count: u16,
    /// Each record behind its length.
    records: &'p [u8],
}

impl Puts {
    /// The number of puts.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a put that was checked.
    pub fn push(&mut self, number: usize, change: &Change) {
        let name = change.name().as_name().as_bytes();
        let none = SetValue::UNKEPT;
        let (rtype, set) = match change {
            Change::Set(edit) | Change::Add(edit) => {
                (edit.rtype, edit.put.as_ref().unwrap_or(&none))
            }
            _ => (Rtype(0), &none),
        };
        let declared = declared_by(change).map(|declared| u32::from(declared as u8));
        let size: usize = set.data.iter().map(|record| 2 + record.len()).sum();
        let len = HEAD_LEN + name.len() + size;
        if self.chunks.last().is_none_or(|chunk| chunk.len() + len > chunk.capacity()) {
            self.chunks.push(Vec::with_capacity(CHUNK_LEN.max(len)));
        }
        let Some(chunk) = self.chunks.last_mut() else { return };
        chunk.extend_from_slice(&(number as u32).to_le_bytes());
        chunk.extend_from_slice(&declared.unwrap_or(set.ttl).to_le_bytes());
        chunk.extend_from_slice(&rtype.0.to_le_bytes());
        chunk.extend_from_slice(&(set.data.len() as u16).to_le_bytes());
        chunk.push(name.len() as u8);
        chunk.extend_from_slice(name);
        for record in &set.data {
            chunk.extend_from_slice(&(record.len() as u16).to_le_bytes());
            chunk.extend_from_slice(record);
        }
        if let rules @ [_, ..] = &set.policy.pack()[..] {
            let place = self.len as u32;
            self.rules.push((place, change.name().clone(), rtype, rules.into()));
        }
        self.len += 1;
    }

    /// The numbers that puts were added with, by their places among all that were added.
    pub fn numbers(&self, places: &HashSet<u32>) -> HashMap<u32, usize> {
        let named = (0..).zip(self.all()).filter(|(place, _)| places.contains(place));
        named.map(|(place, put)| (place, put.number as usize)).collect()
    }

    /// Whether a set of this name and type is put.
    pub fn has(&self, name: Name<'_>, rtype: Rtype) -> bool {
        self.all().any(|put| put.rtype == rtype && put.name == name)
    }

    fn all(&self) -> impl Iterator<Item = Put<'_>> {
        self.chunks.iter().flat_map(|chunk| {
            let mut rest = &chunk[..];
            std::iter::from_fn(move || Put::read(&mut rest))
        })
    }

    /// Adds all to a loader except these places. A `compile::ZoneProblem` has the place of its put.
    pub fn load(&self, loader: &mut Loader<'_>, without: &HashSet<u32>) {
        for (put, place) in self.all().zip(0..) {
            if without.contains(&place) {
                continue;
            }
            // The names of all puts are in the zone.
            if put.rtype == Rtype(0) {
                let all = [Declared::Name, Declared::Addresses, Declared::Nothing];
                let declared = all.into_iter().find(|one| u32::from(*one as u8) == put.ttl);
                drop(loader.declare(put.name, declared.unwrap_or_default(), place));
            }
            for record in put.records() {
                let _ = loader.add(put.name, put.rtype, put.ttl, record, place);
            }
        }
    }
}

impl Puts {
    /// Gives the sets of a loaded zone their rules. Each problem has the place of its put.
    pub fn add_rules(&self, zone: &mut Zone, without: &HashSet<u32>) -> Vec<ZoneProblem> {
        let origin = NameBuf::from(zone.origin());
        let mut problems = Vec::new();
        for (place, name, rtype, rules) in &self.rules {
            let set = zone.set(name.as_name(), *rtype).filter(|_| !without.contains(place));
            let Some(SetValue { ttl, data, .. }) = set.map(SetValue::from) else { continue };
            let change = SetChange {
                name: relative(name.as_name(), origin.as_name()),
                rtype: *rtype,
                set: Some((ttl, &data[..])),
                rules: rules.clone(),
            };
            if let Err(problem) = zone.change_all(&[change]) {
                problems.push(ZoneProblem { place: Some(*place), ..problem });
            }
        }
        problems
    }
}

impl<'p> Put<'p> {
    fn read(rest: &mut &'p [u8]) -> Option<Self> {
        let (head, behind) = rest.split_first_chunk::<HEAD_LEN>()?;
        let (name, mut behind) = behind.split_at_checked(head[12].into())?;
        let count = u16::from_le_bytes([head[10], head[11]]);
        let records = behind;
        for _ in 0..count {
            let (len, data) = behind.split_first_chunk()?;
            behind = data.get(usize::from(u16::from_le_bytes(*len))..)?;
        }
        *rest = behind;
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Some(Self {
            number: number(0),
            ttl: number(4),
            rtype: Rtype(u16::from_le_bytes([head[8], head[9]])),
            name: Name::parse(name).ok()?,
            count,
            records: &records[..records.len() - behind.len()],
        })
    }

    fn records(&self) -> impl Iterator<Item = &'p [u8]> {
        let mut rest = self.records;
        (0..self.count).map_while(move |_| {
            let (len, data) = rest.split_first_chunk()?;
            let (record, behind) = data.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = behind;
            Some(record)
        })
    }
}

/// The names and types of puts, as hashes of 128 bits by keys that no sender knows: two of 4
/// million are equal in one of 10^25 cases.
#[derive(Default)]
pub(crate) struct SeenSets {
    keys: (RandomState, RandomState),
    hashes: HashSet<[u64; 2]>,
}

impl SeenSets {
    /// Notes a name, in lower case, and a type. `false`: they were noted before.
    pub fn insert(&mut self, name: &[u8], rtype: Rtype) -> bool {
        let key = (name, rtype.0);
        self.hashes.insert([self.keys.0.hash_one(key), self.keys.1.hash_one(key)])
    }
}
