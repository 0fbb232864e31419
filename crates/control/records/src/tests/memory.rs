//! A store in memory. Its clones share the content, so several writers can use it.
//!
//! The tests of `api` and `store-redb` include this file.
use records::{
    ChangeKind, Commit, CommitError, CommitId, Form, JournalPart, PreparedWrite, RawSet, Reader,
    RestoreInfo, Revision, SetKey, SetValue, Store, StoreError, StoreSize, StoredZone, Watch,
    WatchLost, WatchWaker, WrittenSet,
};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;
use store::codec::{self, DamagedRecord, zone_key};
use store::limits::{COMMITS_KEPT, DELETED_ZONES_MAX, JOURNAL_ENTRIES_MAX, JOURNAL_PAGE_BYTES_MAX};
use store::serial::SerialStamp;
use store::snapshot::{self, SnapshotItem, SnapshotWriter};
use wire::{Name, NameBuf};

#[derive(Clone)]
struct MemoryZone {
    origin: NameBuf,
    stamp: SerialStamp,
    sets: BTreeMap<Vec<u8>, Vec<u8>>,
    journal: BTreeMap<u64, Vec<u8>>,
    /// The journal is complete after this revision.
    whole_after: Revision,
}

#[derive(Clone, Default)]
struct MemoryState {
    revision: Revision,
    /// The newest form that a write needed.
    form: Option<Form>,
    zones: BTreeMap<Vec<u8>, MemoryZone>,
    /// Journals of deleted zones, by key and revision of the deletion.
    deleted: BTreeMap<(Vec<u8>, Revision), MemoryZone>,
    /// The newest commits, for watches and outcomes.
    commits: VecDeque<Commit>,
    watches: Vec<Weak<dyn Fn() + Send + Sync>>,
    is_full: bool,
    is_closed: bool,
    /// How many of the next commits find that another writer was first.
    outrun: u64,
}

/// Follows the commits after a revision.
struct MemoryWatch {
    store: MemoryStore,
    after: Revision,
    /// Keeps the waker, which the store refers to.
    _waker: WatchWaker,
}

/// Keeps its content until all clones are dropped.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<RwLock<MemoryState>>);

impl MemoryStore {
    /// Sets whether writes fail as on a full disk.
    pub fn set_full(&self, is_full: bool) {
        self.write().is_full = is_full;
    }

    /// Lets this many of the next commits find that another writer was first.
    pub fn set_outrun(&self, commits: u64) {
        self.write().outrun = commits;
    }

    fn read(&self) -> RwLockReadGuard<'_, MemoryState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MemoryState> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn readable(&self) -> Result<RwLockReadGuard<'_, MemoryState>, StoreError> {
        let state = self.read();
        if state.is_closed { Err(StoreError::Closed) } else { Ok(state) }
    }
}

impl MemoryState {
    /// Those of the watches that still exist.
    fn wakers(&mut self) -> Vec<WatchWaker> {
        self.watches.retain(|waker| waker.strong_count() > 0);
        self.watches.iter().filter_map(Weak::upgrade).collect()
    }

    /// Deletes a zone, and keeps its journal within the limits.
    fn delete(&mut self, key: Vec<u8>, write: &PreparedWrite) {
        let Some(mut zone) = self.zones.remove(&key) else { return };
        zone.sets.clear();
        zone.take(write);
        self.deleted.insert((key, write.revision), zone);
        while self.deleted.len() > DELETED_ZONES_MAX {
            let oldest = self.deleted.keys().min_by_key(|(_, revision)| *revision).cloned();
            oldest.and_then(|oldest| self.deleted.remove(&oldest));
        }
    }
}

impl MemoryZone {
    fn new(origin: &NameBuf, stamp: SerialStamp) -> Self {
        Self {
            origin: origin.clone(),
            stamp,
            sets: BTreeMap::new(),
            journal: BTreeMap::new(),
            whole_after: Revision::NONE,
        }
    }

    fn take(&mut self, write: &PreparedWrite) {
        for WrittenSet { name, rtype, view, after, .. } in write.changes() {
            let mut key = Vec::new();
            codec::set_key(&mut key, name, *view, *rtype);
            match after {
                None => drop(self.sets.remove(&key)),
                Some(value) => {
                    let mut bytes = Vec::new();
                    codec::set_value(&mut bytes, write.revision, value);
                    self.sets.insert(key, bytes);
                }
            }
        }
        self.stamp.offset = write.offset.unwrap_or(self.stamp.offset);
        let mut entry = Vec::new();
        codec::entry(&mut entry, write);
        self.note(write.revision, entry);
    }

    fn note(&mut self, revision: Revision, entry: Vec<u8>) {
        self.stamp.revision = revision;
        self.journal.insert(revision.0, entry);
        while self.journal.len() as u64 > JOURNAL_ENTRIES_MAX {
            let gone = self.journal.pop_first();
            self.whole_after = gone.map_or(revision, |(revision, _)| Revision(revision));
        }
    }

    fn stored(&self) -> StoredZone {
        let (origin, stamp) = (self.origin.clone(), self.stamp);
        StoredZone { origin, stamp, sets: self.sets.len() as u64 }
    }
}

impl Watch for MemoryWatch {
    fn next(&mut self, _: Duration) -> Result<Option<Commit>, WatchLost> {
        let state = self.store.read();
        if state.revision <= self.after {
            return if state.revision < self.after { Err(WatchLost::Ended) } else { Ok(None) };
        }
        let next = state.commits.iter().find(|commit| commit.base == self.after);
        let commit = next.cloned().ok_or(WatchLost::Ended)?;
        self.after = commit.revision();
        Ok(Some(commit))
    }
}

impl Store for MemoryStore {
    fn commit(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        let mut state = self.write();
        if state.is_closed {
            return Err(CommitError::Refused(StoreError::Closed));
        }
        if state.is_full {
            return Err(CommitError::Refused(StoreError::Full));
        }
        if state.outrun > 0 {
            state.outrun -= 1;
            return Err(CommitError::Conflict { newest: state.revision });
        }
        if state.revision != commit.base {
            return Err(CommitError::Conflict { newest: state.revision });
        }
        state.form = state.form.max(Some(commit.form()));
        for write in &commit.writes {
            let key = zone_key(write.zone.as_name());
            state.revision = write.revision;
            if write.is_deletion() {
                state.delete(key, write);
                continue;
            }
            let stamp = SerialStamp { revision: write.revision, offset: 0 };
            let zone = state.zones.entry(key);
            zone.or_insert_with(|| MemoryZone::new(&write.zone, stamp)).take(write);
        }
        state.commits.push_back(commit);
        if state.commits.len() > COMMITS_KEPT {
            state.commits.pop_front();
        }
        let (revision, wakers) = (state.revision, state.wakers());
        drop(state);
        wakers.iter().for_each(|wake| wake());
        Ok(revision)
    }

    fn outcome(&mut self, id: CommitId) -> Result<Option<Revision>, StoreError> {
        let state = self.readable()?;
        let commit = state.commits.iter().find(|commit| commit.id == id);
        Ok(commit.map(Commit::revision))
    }

    fn watch(
        &mut self,
        after: Revision,
        waker: WatchWaker,
    ) -> Result<Option<Box<dyn Watch>>, StoreError> {
        self.write().watches.push(Arc::downgrade(&waker));
        Ok(Some(Box::new(MemoryWatch { store: self.clone(), after, _waker: waker })))
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.revision()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &RestoreInfo) -> Result<(), StoreError> {
        let mut restored = MemoryState::default();
        let mut last = Vec::new();
        let revision = snapshot::read(from, &mut |item| {
            match item {
                SnapshotItem::Form(form) => restored.form = Some(form),
                SnapshotItem::Zone(origin, stamp) => {
                    last = zone_key(origin.as_name());
                    restored.zones.insert(last.clone(), MemoryZone::new(origin, stamp));
                }
                SnapshotItem::Set(key, value) => {
                    let zone = restored.zones.get_mut(&last).ok_or(DamagedRecord)?;
                    zone.sets.insert(key.to_vec(), value.to_vec());
                }
            }
            Ok(())
        })?;
        restored.revision = write.revision.max(revision.next());
        for (key, zone) in &mut restored.zones {
            let before = self.read().zones.get(key).map(|zone| zone.stamp);
            zone.stamp = zone.stamp.restored(restored.revision, before);
            let mut entry = Vec::new();
            let count = zone.sets.len() as u64;
            let (when, kind, reason) = (write.when, ChangeKind::Restored, &write.reason);
            let head = codec::JournalHead { when, kind, count, by: &write.by, reason };
            codec::entry_head(&mut entry, &head);
            zone.whole_after = restored.revision;
            zone.note(restored.revision, entry);
        }
        let mut state = self.write();
        restored.watches = std::mem::take(&mut state.watches);
        *state = restored;
        let wakers = state.wakers();
        drop(state);
        wakers.iter().for_each(|wake| wake());
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

impl Reader for MemoryStore {
    fn held(&self) -> Result<StoreSize, StoreError> {
        let state = self.readable()?;
        let sets = state.zones.values().map(|zone| zone.sets.len() as u64).sum();
        Ok(StoreSize { revision: state.revision, zones: state.zones.len() as u64, sets })
    }

    fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.readable()?.revision)
    }

    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError> {
        Ok(self.readable()?.zones.get(&zone_key(origin)).map(MemoryZone::stored))
    }

    fn scan_zones(
        &self,
        after: Option<Name<'_>>,
        each: &mut dyn FnMut(StoredZone) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let from = after.map(zone_key).map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.readable()?;
        let behind = state.zones.range((from, Bound::Unbounded));
        let _ = behind.map(|(_, zone)| zone.stored()).try_for_each(each);
        Ok(())
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
        each: &mut dyn FnMut(&StoredZone, RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError> {
        // Use a copy, because `each` may take long.
        let found = self.readable()?.zones.get(&zone_key(origin)).cloned();
        let Some(zone) = found else { return Ok(None) };
        let stored = zone.stored();
        let from = after.and_then(codec::key_of).map_or(Bound::Unbounded, Bound::Excluded);
        let mut name = Vec::new();
        for (key, value) in zone.sets.range((from, Bound::Unbounded)) {
            if codec::show(key, value, &mut name, &mut |set| each(&stored, set))?.is_break() {
                break;
            }
        }
        Ok(Some(stored))
    }

    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<JournalPart>, StoreError> {
        let state = self.readable()?;
        let key = zone_key(origin);
        let deleted = (key.clone(), Revision::NONE)..=(key.clone(), Revision(u64::MAX));
        let deleted = state.deleted.range(deleted).map(|(_, zone)| zone);
        let zones: Vec<&MemoryZone> = deleted.chain(state.zones.get(&key)).collect();
        let (Some(first), Some(last)) = (zones.first(), zones.last()) else { return Ok(None) };
        let (whole_after, newest) = (first.whole_after, last.stamp.revision);
        let mut bytes = 0;
        let has_room = |(_, entry): &(&u64, &Vec<u8>)| {
            let is_first = bytes == 0;
            bytes += entry.len();
            is_first || bytes <= JOURNAL_PAGE_BYTES_MAX
        };
        let from = after.0.saturating_add(1);
        let entries = zones.iter().flat_map(|zone| zone.journal.range(from..)).take(limit);
        let entries = entries.take_while(has_room);
        let entries: Result<_, _> = entries
            .map(|(revision, entry)| codec::read_entry(Revision(*revision), entry))
            .collect();
        Ok(Some(JournalPart { entries: entries?, whole_after, newest }))
    }

    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError> {
        // Use a copy, because writing may take long.
        let state = self.readable()?.clone();
        let mut write = || {
            let form = state.form.unwrap_or(Form::OLDEST);
            let mut writer = SnapshotWriter::new(to, state.revision, form)?;
            for zone in state.zones.values() {
                writer.zone(zone.origin.as_name(), zone.stamp)?;
                zone.sets.iter().try_for_each(|(key, value)| writer.set(key, value))?;
            }
            writer.finish()
        };
        let written: std::io::Result<()> = write();
        written.map_err(|error| StoreError::Failed(format!("snapshot: {error}")))?;
        Ok(state.revision)
    }
}
