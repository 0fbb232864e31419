//! Changes of the tree: each call is one transaction.
use crate::limits::SWEEP_SETS;
use crate::tables::{DELETED, GONE, JOURNAL, JournalInfo, META, SETS, ZONES, ZoneRow, set_key};
use crate::wal::StoreKey;
use redb::{Database, ReadableDatabase, ReadableTable, Table, WriteTransaction};
use std::collections::BTreeMap;
use std::io::Read;
use store::codec::{self, zone_key};
use store::limits::{DELETED_BYTES_MAX, DELETED_ZONES_MAX, JOURNAL_BYTES_MAX, JOURNAL_ENTRIES_MAX};
use store::serial::SerialStamp;
use store::snapshot::{self, SnapshotItem};
use store::{
    Action, ChangeKind, Form, PreparedWrite, RestoreInfo, Revision, SetValue, StoreError,
    WrittenSet,
};
use wire::NameBuf;

/// Approximate bytes of a write.
pub fn bytes(write: &PreparedWrite) -> u64 {
    let held = |change: &WrittenSet| {
        let values = [&change.before, &change.after].into_iter().flatten();
        let data = values.flat_map(|value| &value.data);
        3 * change.name.len() + data.map(|data| 16 + data.len()).sum::<usize>() + 64
    };
    write.journaled().2.iter().map(held).sum::<usize>() as u64
}

/// The tables of a transaction, and its zones.
struct WriteTables<'t, 'w> {
    meta: Table<'t, &'static str, u64>,
    zones: Table<'t, &'static [u8], &'static [u8]>,
    sets: Table<'t, &'static [u8], &'static [u8]>,
    journal: Table<'t, (u32, u64), &'static [u8]>,
    gone: Table<'t, u32, ()>,
    deleted: Table<'t, (&'static [u8], u64), &'static [u8]>,
    /// Written at the end.
    rows: BTreeMap<Vec<u8>, ZoneRow>,
    /// Sets by key, with revision and new content, in write order; written at the end.
    changed: Vec<(Vec<u8>, Revision, Option<&'w SetValue>)>,
    value: Vec<u8>,
}

impl<'t, 'w> WriteTables<'t, 'w> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            meta: transaction.open_table(META)?,
            zones: transaction.open_table(ZONES)?,
            sets: transaction.open_table(SETS)?,
            journal: transaction.open_table(JOURNAL)?,
            gone: transaction.open_table(GONE)?,
            deleted: transaction.open_table(DELETED)?,
            rows: BTreeMap::new(),
            changed: Vec::new(),
            value: Vec::new(),
        })
    }

    /// A number that was never used.
    fn next_number(&mut self) -> Result<u32, redb::Error> {
        let number = self.meta.get("zones")?.map_or(0, |number| number.value());
        self.meta.insert("zones", number + 1)?;
        u32::try_from(number).map_err(|_| redb::Error::Corrupted("no numbers are left".into()))
    }

    fn take(&mut self, write: &'w PreparedWrite) -> Result<(), redb::Error> {
        let at = zone_key(write.zone.as_name());
        let mut row = match self.rows.remove(&at) {
            Some(row) => Some(row),
            None => self
                .zones
                .get(&at[..])?
                .map(|row| ZoneRow::read(row.value()))
                .transpose()
                .map_err(|_| redb::Error::Corrupted("the row of a zone".into()))?,
        };
        if write.is_deletion() {
            self.zones.remove(&at[..])?;
            if let Some(mut row) = row {
                self.gone.insert(row.number, ())?;
                self.journal(&mut row, write)?;
                self.deleted.insert((&at[..], write.revision.0), &row.write()[..])?;
            }
            return Ok(());
        }
        if matches!(write.action, Action::Create(_)) || row.is_none() {
            row = Some(ZoneRow::new(self.next_number()?, &write.zone, write.revision));
        }
        let Some(mut row) = row else { return Ok(()) };
        self.change(&mut row, write)?;
        self.rows.insert(at, row);
        Ok(())
    }

    fn change(&mut self, row: &mut ZoneRow, write: &'w PreparedWrite) -> Result<(), redb::Error> {
        for WrittenSet { name, rtype, view, after, .. } in write.changes() {
            let mut key = set_key(row.number, &[]);
            codec::set_key(&mut key, name, *view, *rtype);
            self.changed.push((key, write.revision, after.as_ref()));
        }
        self.journal(row, write)
    }

    fn journal(&mut self, row: &mut ZoneRow, write: &PreparedWrite) -> Result<(), redb::Error> {
        self.value.clear();
        codec::entry(&mut self.value, write);
        row.stamp.revision = write.revision;
        row.stamp.offset = write.offset.unwrap_or(row.stamp.offset);
        self.note(row)
    }

    /// Removes the journals of the oldest deleted zones above the limits. The newest keeps a part,
    /// however large.
    fn forget_deleted(&mut self) -> Result<(), redb::Error> {
        let mut rows = Vec::new();
        for deleted in self.deleted.iter()? {
            let (key, row) = deleted?;
            let (at, revision) = key.value();
            let row = ZoneRow::read(row.value())
                .map_err(|_| redb::Error::Corrupted("the row of a deleted zone".into()))?;
            rows.push((revision, at.to_vec(), row.number, row.journal.bytes));
        }
        rows.sort_unstable();
        let (mut count, mut bytes) = (rows.len(), rows.iter().map(|row| row.3).sum::<u64>());
        for (revision, at, number, of_this) in rows {
            let is_too_much = bytes > DELETED_BYTES_MAX && count > 1;
            if count <= DELETED_ZONES_MAX && !is_too_much {
                break;
            }
            self.deleted.remove((&at[..], revision))?;
            self.gone.insert(number, ())?;
            (count, bytes) = (count - 1, bytes - of_this);
        }
        Ok(())
    }

    /// Appends `value` to the journal, and removes the oldest entries above the limits.
    fn note(&mut self, row: &mut ZoneRow) -> Result<(), redb::Error> {
        let at = (row.number, row.stamp.revision.0);
        self.journal.insert(at, &self.value[..])?;
        row.journal.entries += 1;
        row.journal.bytes += self.value.len() as u64;
        while row.journal.entries > JOURNAL_ENTRIES_MAX || row.journal.bytes > JOURNAL_BYTES_MAX {
            let first = self.journal.range((row.number, 0)..at)?.next().transpose()?;
            let Some((revision, bytes)) =
                first.map(|(key, entry)| (Revision(key.value().1), entry.value().len() as u64))
            else {
                break;
            };
            self.journal.remove((row.number, revision.0))?;
            let JournalInfo { entries, bytes: all, whole_after } = &mut row.journal;
            (*entries, *all, *whole_after) = (*entries - 1, *all - bytes, revision);
        }
        Ok(())
    }

    /// Writes the sets in key order, so that sets of one page come together. Skips removed zones.
    fn put_sets(&mut self) -> Result<(), redb::Error> {
        let rows = self.rows.values_mut();
        let mut rows: BTreeMap<_, _> = rows.map(|row| (row.number.to_be_bytes(), row)).collect();
        self.changed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for of_one in self.changed.chunk_by(|(one, ..), (next, ..)| one == next) {
            let Some((key, revision, after)) = of_one.last() else { continue };
            let number = key.first_chunk().and_then(|number| rows.get_mut(number));
            let Some(row) = number else { continue };
            match after {
                None => row.sets -= u64::from(self.sets.remove(&key[..])?.is_some()),
                Some(value) => {
                    self.value.clear();
                    codec::set_value(&mut self.value, *revision, value);
                    let before = self.sets.insert(&key[..], &self.value[..])?;
                    row.sets += u64::from(before.is_none());
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, revision: Revision) -> Result<(), redb::Error> {
        self.put_sets()?;
        for (at, row) in std::mem::take(&mut self.rows) {
            self.zones.insert(&at[..], &row.write()[..])?;
        }
        self.meta.insert("revision", revision.0)?;
        Ok(())
    }
}

/// Commits all writes or none. The tree then has the log up to `sequence`; 0: these writes are not
/// from the log.
pub fn commit(
    database: &Database,
    writes: &[PreparedWrite],
    sequence: u64,
) -> Result<(), redb::Error> {
    let Some(last) = writes.last() else { return Ok(()) };
    let transaction = database.begin_write()?;
    let mut tables = WriteTables::open(&transaction)?;
    writes.iter().try_for_each(|write| tables.take(write))?;
    if sequence > 0 {
        tables.meta.insert("log", sequence)?;
    }
    if writes.iter().any(PreparedWrite::is_deletion) {
        tables.forget_deleted()?;
    }
    tables.finish(last.revision)?;
    transaction.commit()?;
    Ok(())
}

/// Creates the tables in an empty file, in this form.
pub fn create(database: &Database, store: StoreKey, form: Form) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut tables = WriteTables::open(&transaction)?;
        tables.meta.insert("form", u64::from(form.0))?;
        tables.meta.insert("log 0", store[0])?;
        tables.meta.insert("log 1", store[1])?;
    }
    transaction.commit()?;
    Ok(())
}

/// Makes this form that of the store. If a new form stores anything in another way, it is converted
/// here, in the same transaction.
pub fn raise(database: &Database, form: Form) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("form", u64::from(form.0))?;
    transaction.commit()?;
    Ok(())
}

/// Deletes some of the leftovers of removed zones; returns whether there are more.
pub fn sweep(database: &Database) -> Result<bool, redb::Error> {
    let first = database.begin_read()?.open_table(GONE)?.first()?.map(|(number, _)| number.value());
    let Some(number) = first else { return Ok(false) };
    let transaction = database.begin_write()?;
    let mut left = SWEEP_SETS;
    {
        let mut tables = WriteTables::open(&transaction)?;
        let (from, to) = (set_key(number, &[]), set_key(number + 1, &[]));
        let swept = tables.sets.extract_from_if(&from[..]..&to[..], |_, _| true)?.take(left);
        left -= swept.map(|swept| swept.map(drop)).collect::<Result<Vec<()>, _>>()?.len();
        // The journal of a deleted zone stays until `forget_deleted` puts its number here.
        let is_kept = |deleted: Result<(_, redb::AccessGuard<'_, &[u8]>), _>| {
            let row = deleted.map(|(_, row)| ZoneRow::read(row.value()));
            row.map(|row| row.is_ok_and(|row| row.number == number))
        };
        let kept = tables.deleted.iter()?.map(is_kept).collect::<Result<Vec<bool>, _>>()?;
        let first = if kept.contains(&true) { u64::MAX } else { 0 };
        let range = (number, first)..=(number, u64::MAX);
        let swept = tables.journal.extract_from_if(range, |_, _| true)?.take(left);
        left -= swept.map(|swept| swept.map(drop)).collect::<Result<Vec<()>, _>>()?.len();
        if left > 0 {
            tables.gone.remove(number)?;
        }
    }
    transaction.commit()?;
    Ok(true)
}

/// The stamps of all zones by key.
fn stamps(transaction: &WriteTransaction) -> Result<BTreeMap<Vec<u8>, SerialStamp>, redb::Error> {
    let (zones, mut stamps) = (transaction.open_table(ZONES)?, BTreeMap::new());
    for zone in zones.iter()? {
        let (key, row) = zone?;
        // A damaged zone was not served, so its serial does not matter.
        if let Ok(row) = ZoneRow::read(row.value()) {
            stamps.insert(key.value().to_vec(), row.stamp);
        }
    }
    Ok(stamps)
}

/// Replaces everything by a snapshot; returns the revision, and the form of the store, which was
/// `form`. Without a write, the store becomes a copy: with the revisions of the snapshot, and in a
/// form that holds it. So does the form of a store that was never written. The outer error is the
/// disk's, the inner one the snapshot's.
pub fn restore(
    database: &Database,
    from: &mut dyn Read,
    (write, mut form): (Option<&RestoreInfo>, Form),
) -> Result<Result<(Revision, Form), StoreError>, redb::Error> {
    let transaction = database.begin_write()?;
    let before = stamps(&transaction)?;
    transaction.delete_table(ZONES)?;
    transaction.delete_table(SETS)?;
    transaction.delete_table(JOURNAL)?;
    transaction.delete_table(GONE)?;
    transaction.delete_table(DELETED)?;
    let mut tables = WriteTables::open(&transaction)?;
    let is_copy = write.is_none() || tables.meta.get("revision")?.is_none();
    let (mut row, mut failure) = (None, None);
    let read = snapshot::read(from, &mut |item| {
        let done = match item {
            SnapshotItem::Form(needed) if is_copy => {
                form = form.max(needed);
                Ok(())
            }
            SnapshotItem::Form(needed) => {
                return form.check_need(needed).map_err(StoreError::Form);
            }
            SnapshotItem::Zone(origin, stamp) => tables.begin_zone(&mut row, origin, stamp),
            SnapshotItem::Set(key, value) => tables.restore_set(row.as_mut(), key, value),
        };
        done.map_err(|error| {
            let why = StoreError::Failed(error.to_string());
            failure = Some(error);
            why
        })
    });
    let revision = match (failure, read) {
        (Some(error), _) => return Err(error),
        (None, Err(why)) => return Ok(Err(why)),
        (None, Ok(revision)) => write.map_or(revision, |write| write.revision.max(revision.next())),
    };
    tables.end_zone(row);
    for (at, mut row) in std::mem::take(&mut tables.rows) {
        row.journal.whole_after = revision;
        if let Some(RestoreInfo { when, by, reason, .. }) = write {
            row.stamp = row.stamp.restored(revision, before.get(&at).copied());
            tables.value.clear();
            let (kind, count) = (ChangeKind::Restored, row.sets);
            let head = codec::JournalHead { when: *when, kind, count, by, reason };
            codec::entry_head(&mut tables.value, &head);
            tables.note(&mut row)?;
        }
        tables.rows.insert(at, row);
    }
    tables.meta.insert("form", u64::from(form.0))?;
    tables.finish(revision)?;
    transaction.commit()?;
    Ok(Ok((revision, form)))
}

impl WriteTables<'_, '_> {
    fn begin_zone(
        &mut self,
        row: &mut Option<ZoneRow>,
        origin: &NameBuf,
        stamp: SerialStamp,
    ) -> Result<(), redb::Error> {
        self.end_zone(row.take());
        let number = self.next_number()?;
        *row = Some(ZoneRow { stamp, ..ZoneRow::new(number, origin, stamp.revision) });
        Ok(())
    }

    /// Writes the row of a zone at the end.
    fn end_zone(&mut self, row: Option<ZoneRow>) {
        self.rows.extend(row.map(|row| (zone_key(row.origin.as_name()), row)));
    }

    fn restore_set(
        &mut self,
        row: Option<&mut ZoneRow>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), redb::Error> {
        let row = row.ok_or_else(|| redb::Error::Corrupted("a set without a zone".into()))?;
        let before = self.sets.insert(&set_key(row.number, key)[..], value)?;
        row.sets += u64::from(before.is_none());
        Ok(())
    }
}
