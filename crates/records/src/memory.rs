//! A store in memory, for tests of what stands on the desk.
use crate::codec::{self, Damaged, zone_key};
use crate::limits::{JOURNAL_ENTRIES_MAX, JOURNAL_PAGE_OCTETS_MAX};
use crate::snapshot::{self, Item, Writer};
use crate::{
    Held, JournalEntry, Kind, Prepared, RawSet, Reader, Restoring, Revision, SetChange, SetKey,
    SetValue, Store, StoreError, StoredZone,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use wire::{Name, NameBuf};

#[derive(Clone)]
struct Zone {
    origin: NameBuf,
    revision: Revision,
    sets: BTreeMap<Vec<u8>, Vec<u8>>,
    journal: BTreeMap<u64, Vec<u8>>,
    /// From behind which revision the journal is whole.
    whole_after: Revision,
}

#[derive(Clone, Default)]
struct State {
    revision: Revision,
    zones: BTreeMap<Vec<u8>, Zone>,
    is_full: bool,
    is_closed: bool,
}

/// Keeps everything until it is dropped. Clones are the same store.
#[derive(Clone, Default)]
pub struct Memory(Arc<RwLock<State>>);

impl Memory {
    /// Refuses writes as a full disk would, from now on or no longer.
    pub fn set_full(&self, is_full: bool) {
        self.write().is_full = is_full;
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn readable(&self) -> Result<RwLockReadGuard<'_, State>, StoreError> {
        let state = self.read();
        if state.is_closed { Err(StoreError::Closed) } else { Ok(state) }
    }
}

impl Zone {
    fn new(origin: &NameBuf, revision: Revision) -> Self {
        Self {
            origin: origin.clone(),
            revision,
            sets: BTreeMap::new(),
            journal: BTreeMap::new(),
            whole_after: revision,
        }
    }

    fn take(&mut self, write: &Prepared) {
        let changes = write.changes().map(|(_, changes)| changes).unwrap_or_default();
        for SetChange { name, rtype, view, after, .. } in changes {
            let mut key = Vec::new();
            codec::set_key(&mut key, name, *view, *rtype);
            match after {
                None => drop(self.sets.remove(&key)),
                Some(value) => {
                    let mut octets = Vec::new();
                    codec::set_value(&mut octets, write.revision, value);
                    self.sets.insert(key, octets);
                }
            }
        }
        let mut entry = Vec::new();
        codec::entry(&mut entry, write);
        self.note(write.revision, entry);
    }

    fn note(&mut self, revision: Revision, entry: Vec<u8>) {
        self.revision = revision;
        self.journal.insert(revision.0, entry);
        while self.journal.len() as u64 > JOURNAL_ENTRIES_MAX {
            let gone = self.journal.pop_first();
            self.whole_after = gone.map_or(revision, |(revision, _)| Revision(revision));
        }
    }

    fn stored(&self) -> StoredZone {
        let (origin, revision) = (self.origin.clone(), self.revision);
        StoredZone { origin, revision, sets: self.sets.len() as u64 }
    }
}

impl Store for Memory {
    fn commit(&mut self, writes: Vec<Prepared>) -> Result<(), StoreError> {
        let mut state = self.write();
        if state.is_closed {
            return Err(StoreError::Closed);
        }
        if state.is_full {
            return Err(StoreError::Full);
        }
        for write in writes {
            let key = zone_key(write.zone.as_name());
            state.revision = write.revision;
            if write.changes().is_none() {
                state.zones.remove(&key);
                continue;
            }
            let zone = state.zones.entry(key);
            zone.or_insert_with(|| Zone::new(&write.zone, write.revision)).take(&write);
        }
        Ok(())
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.revision()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &Restoring) -> Result<(), StoreError> {
        let mut restored = State::default();
        let mut last = Vec::new();
        let revision = snapshot::read(from, &mut |item| {
            match item {
                Item::Zone(origin, _) => {
                    last = zone_key(origin.as_name());
                    restored.zones.insert(last.clone(), Zone::new(origin, Revision::NONE));
                }
                Item::Set(key, value) => {
                    let zone = restored.zones.get_mut(&last).ok_or(Damaged)?;
                    zone.sets.insert(key.to_vec(), value.to_vec());
                }
            }
            Ok(())
        })?;
        restored.revision = write.revision.max(revision.next());
        for zone in restored.zones.values_mut() {
            let mut entry = Vec::new();
            let count = zone.sets.len() as u64;
            codec::entry_head(&mut entry, write.when, Kind::Restored, count, &write.by);
            zone.whole_after = restored.revision;
            zone.note(restored.revision, entry);
        }
        *self.write() = restored;
        Ok(())
    }

    fn close(&mut self) {
        self.write().is_closed = true;
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.write().is_closed = false;
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}

impl Reader for Memory {
    fn held(&self) -> Result<Held, StoreError> {
        let state = self.readable()?;
        let sets = state.zones.values().map(|zone| zone.sets.len() as u64).sum();
        Ok(Held { revision: state.revision, zones: state.zones.len() as u64, sets })
    }

    fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.readable()?.revision)
    }

    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError> {
        Ok(self.readable()?.zones.get(&zone_key(origin)).map(Zone::stored))
    }

    fn zones(&self) -> Result<Vec<StoredZone>, StoreError> {
        Ok(self.readable()?.zones.values().map(Zone::stored).collect())
    }

    fn set(&self, set: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError> {
        let state = self.readable()?;
        let Some(zone) = state.zones.get(&zone_key(set.zone.as_name())) else { return Ok(None) };
        let Some(key) = codec::key_of(set) else { return Ok(None) };
        let found = zone.sets.get(&key).map(|value| codec::read_value(value)).transpose();
        Ok(found?.map(|(revision, held)| (revision, held.to_value())))
    }

    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError> {
        let state = self.readable()?;
        let Some(zone) = state.zones.get(&zone_key(origin)) else { return Ok(None) };
        let from = after.and_then(codec::key_of).map_or(Bound::Unbounded, Bound::Excluded);
        let mut name = Vec::new();
        for (key, value) in zone.sets.range((from, Bound::Unbounded)) {
            if codec::show(key, value, &mut name, each)?.is_break() {
                break;
            }
        }
        Ok(Some(zone.stored()))
    }

    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<(Vec<JournalEntry>, Revision)>, StoreError> {
        let state = self.readable()?;
        let Some(zone) = state.zones.get(&zone_key(origin)) else { return Ok(None) };
        let mut octets = 0;
        let has_room = |(_, entry): &(&u64, &Vec<u8>)| {
            let is_first = octets == 0;
            octets += entry.len();
            is_first || octets <= JOURNAL_PAGE_OCTETS_MAX
        };
        let entries = zone.journal.range(after.0.saturating_add(1)..).take(limit);
        let entries = entries.take_while(has_room);
        let entries: Result<_, _> = entries
            .map(|(revision, entry)| codec::read_entry(Revision(*revision), entry))
            .collect();
        Ok(Some((entries?, zone.whole_after)))
    }

    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError> {
        // Writing may take long: it is done from a copy.
        let state = self.readable()?.clone();
        let mut write = || {
            let mut writer = Writer::new(to, state.revision)?;
            for zone in state.zones.values() {
                writer.zone(zone.origin.as_name(), zone.revision)?;
                zone.sets.iter().try_for_each(|(key, value)| writer.set(key, value))?;
            }
            writer.finish()
        };
        let written: std::io::Result<()> = write();
        written.map_err(|error| StoreError::Failed(format!("snapshot: {error}")))?;
        Ok(state.revision)
    }
}
