//! What changes the tree: each call is one transaction.
use crate::limits::SWEEP_SETS;
use crate::tables::{GONE, JOURNAL, Kept, META, Row, SETS, ZONES, set_key};
use records::codec::{self, zone_key};
use records::limits::{JOURNAL_ENTRIES_MAX, JOURNAL_OCTETS_MAX};
use records::snapshot::{self, Item};
use records::{Action, Kind, Prepared, Restoring, Revision, SetChange, SetValue, StoreError};
use redb::{Database, ReadableDatabase, ReadableTable, Table, WriteTransaction};
use std::collections::BTreeMap;
use std::io::Read;
use wire::NameBuf;

/// Octets that a write brings, roughly.
pub fn octets(write: &Prepared) -> u64 {
    let held = |change: &SetChange| {
        let values = [&change.before, &change.after].into_iter().flatten();
        let data = values.flat_map(|value| &value.data);
        3 * change.name.len() + data.map(|data| 16 + data.len()).sum::<usize>() + 64
    };
    changes(write).iter().map(held).sum::<usize>() as u64
}

/// What becomes of sets by a write.
pub fn changes(write: &Prepared) -> &[SetChange] {
    write.changes().map(|(_, changes)| changes).unwrap_or_default()
}

/// The tables of a transaction, and the zones that it touches.
struct Tables<'t, 'w> {
    meta: Table<'t, &'static str, u64>,
    zones: Table<'t, &'static [u8], &'static [u8]>,
    sets: Table<'t, &'static [u8], &'static [u8]>,
    journal: Table<'t, (u32, u64), &'static [u8]>,
    gone: Table<'t, u32, ()>,
    /// Written back at the end.
    rows: BTreeMap<Vec<u8>, Row>,
    /// Sets by their keys, when they were written and what they hold then, in the order of writing:
    /// done at the end, too.
    changed: Vec<(Vec<u8>, Revision, Option<&'w SetValue>)>,
    value: Vec<u8>,
}

impl<'t, 'w> Tables<'t, 'w> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            meta: transaction.open_table(META)?,
            zones: transaction.open_table(ZONES)?,
            sets: transaction.open_table(SETS)?,
            journal: transaction.open_table(JOURNAL)?,
            gone: transaction.open_table(GONE)?,
            rows: BTreeMap::new(),
            changed: Vec::new(),
            value: Vec::new(),
        })
    }

    /// A number that no zone has had.
    fn next_number(&mut self) -> Result<u32, redb::Error> {
        let number = self.meta.get("zones")?.map_or(0, |number| number.value());
        self.meta.insert("zones", number + 1)?;
        u32::try_from(number).map_err(|_| redb::Error::Corrupted("no numbers are left".into()))
    }

    fn take(&mut self, write: &'w Prepared) -> Result<(), redb::Error> {
        let at = zone_key(write.zone.as_name());
        let mut row = match self.rows.remove(&at) {
            Some(row) => Some(row),
            None => self
                .zones
                .get(&at[..])?
                .map(|row| Row::read(row.value()))
                .transpose()
                .map_err(|_| redb::Error::Corrupted("the row of a zone".into()))?,
        };
        if let Action::Delete = write.action {
            self.zones.remove(&at[..])?;
            if let Some(row) = row {
                self.gone.insert(row.number, ())?;
            }
            return Ok(());
        }
        if matches!(write.action, Action::Create(_)) || row.is_none() {
            row = Some(Row::new(self.next_number()?, &write.zone, write.revision));
        }
        let Some(mut row) = row else { return Ok(()) };
        self.change(&mut row, write)?;
        self.rows.insert(at, row);
        Ok(())
    }

    fn change(&mut self, row: &mut Row, write: &'w Prepared) -> Result<(), redb::Error> {
        for SetChange { name, rtype, view, after, .. } in changes(write) {
            let mut key = set_key(row.number, &[]);
            codec::set_key(&mut key, name, *view, *rtype);
            self.changed.push((key, write.revision, after.as_ref()));
        }
        self.value.clear();
        codec::entry(&mut self.value, write);
        row.revision = write.revision;
        self.note(row)
    }

    /// Puts what is in `value` into the journal, and lets go of the oldest that are too many.
    fn note(&mut self, row: &mut Row) -> Result<(), redb::Error> {
        let at = (row.number, row.revision.0);
        self.journal.insert(at, &self.value[..])?;
        row.journal.entries += 1;
        row.journal.octets += self.value.len() as u64;
        while row.journal.entries > JOURNAL_ENTRIES_MAX || row.journal.octets > JOURNAL_OCTETS_MAX {
            let first = self.journal.range((row.number, 0)..at)?.next().transpose()?;
            let Some((revision, octets)) =
                first.map(|(key, entry)| (Revision(key.value().1), entry.value().len() as u64))
            else {
                break;
            };
            self.journal.remove((row.number, revision.0))?;
            let Kept { entries, octets: all, whole_after } = &mut row.journal;
            (*entries, *all, *whole_after) = (*entries - 1, *all - octets, revision);
        }
        Ok(())
    }

    /// Has the sets written in their order: those that lie on the same page come together. Of zones
    /// that are gone by now there are none.
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

/// Does all of this, or nothing.
pub fn commit(database: &Database, writes: &[Prepared]) -> Result<(), redb::Error> {
    let Some(last) = writes.last() else { return Ok(()) };
    let transaction = database.begin_write()?;
    let mut tables = Tables::open(&transaction)?;
    writes.iter().try_for_each(|write| tables.take(write))?;
    tables.finish(last.revision)?;
    transaction.commit()?;
    Ok(())
}

/// Takes away some of what zones that are no more have left; says whether there is more.
pub fn sweep(database: &Database) -> Result<bool, redb::Error> {
    let first = database.begin_read()?.open_table(GONE)?.first()?.map(|(number, _)| number.value());
    let Some(number) = first else { return Ok(false) };
    let transaction = database.begin_write()?;
    let mut left = SWEEP_SETS;
    {
        let mut tables = Tables::open(&transaction)?;
        let (from, to) = (set_key(number, &[]), set_key(number + 1, &[]));
        let swept = tables.sets.extract_from_if(&from[..]..&to[..], |_, _| true)?.take(left);
        left -= swept.map(|swept| swept.map(drop)).collect::<Result<Vec<()>, _>>()?.len();
        let range = (number, 0)..=(number, u64::MAX);
        let swept = tables.journal.extract_from_if(range, |_, _| true)?.take(left);
        left -= swept.map(|swept| swept.map(drop)).collect::<Result<Vec<()>, _>>()?.len();
        if left > 0 {
            tables.gone.remove(number)?;
        }
    }
    transaction.commit()?;
    Ok(true)
}

/// Takes what a snapshot holds for all there is. What is wrong with the snapshot stands within
/// what is wrong with the disk.
pub fn restore(
    database: &Database,
    from: &mut dyn Read,
    write: &Restoring,
) -> Result<Result<(), StoreError>, redb::Error> {
    let transaction = database.begin_write()?;
    transaction.delete_table(ZONES)?;
    transaction.delete_table(SETS)?;
    transaction.delete_table(JOURNAL)?;
    transaction.delete_table(GONE)?;
    let mut tables = Tables::open(&transaction)?;
    let (mut row, mut failure) = (None, None);
    let read = snapshot::read(from, &mut |item| {
        let done = match item {
            Item::Zone(origin, _) => tables.begin_zone(&mut row, origin, write.revision),
            Item::Set(key, value) => tables.restore_set(row.as_mut(), key, value),
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
        (None, Ok(revision)) => write.revision.max(revision.next()),
    };
    tables.end_zone(row);
    for (at, mut row) in std::mem::take(&mut tables.rows) {
        (row.revision, row.journal.whole_after) = (revision, revision);
        tables.value.clear();
        let (when, by) = (write.when, &write.by);
        codec::entry_head(&mut tables.value, when, Kind::Restored, row.sets, by);
        tables.note(&mut row)?;
        tables.rows.insert(at, row);
    }
    tables.finish(revision)?;
    transaction.commit()?;
    Ok(Ok(()))
}

impl Tables<'_, '_> {
    fn begin_zone(
        &mut self,
        row: &mut Option<Row>,
        origin: &NameBuf,
        revision: Revision,
    ) -> Result<(), redb::Error> {
        self.end_zone(row.take());
        *row = Some(Row::new(self.next_number()?, origin, revision));
        Ok(())
    }

    /// Has the row of a zone written at the end.
    fn end_zone(&mut self, row: Option<Row>) {
        self.rows.extend(row.map(|row| (zone_key(row.origin.as_name()), row)));
    }

    fn restore_set(
        &mut self,
        row: Option<&mut Row>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), redb::Error> {
        let row = row.ok_or_else(|| redb::Error::Corrupted("a set without a zone".into()))?;
        let before = self.sets.insert(&set_key(row.number, key)[..], value)?;
        row.sets += u64::from(before.is_none());
        Ok(())
    }
}
