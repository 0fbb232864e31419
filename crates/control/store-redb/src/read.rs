//! Reads of the tree: each sees one moment.
use crate::limits::FREE_BYTES_MIN;
use crate::tables::{DELETED, JOURNAL, META, SETS, ZONES, ZoneRow, set_key};
use crate::wal::StoreKey;
use crate::{RedbReader, checkpointer, failed, store_error};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use std::io::Write;
use std::ops::{Bound, ControlFlow};
use store::codec::{self, zone_key};
use store::limits::JOURNAL_PAGE_BYTES_MAX;
use store::snapshot::SnapshotWriter;
use store::{
    ChangeKind, JournalPart, RawSet, Reader, Revision, SetKey, SetValue, StoreError, StoreSize,
    StoredZone,
};
use wire::Name;

impl RedbReader {
    /// Reads after all earlier writes.
    fn begin(&self) -> Result<ReadTransaction, StoreError> {
        checkpointer::settle(&self.0)?;
        self.begin_as_it_is()
    }

    fn begin_as_it_is(&self) -> Result<ReadTransaction, StoreError> {
        self.0.with(|opened| Ok(opened.database.begin_read()?))
    }
}

fn row(read: &ReadTransaction, origin: Name<'_>) -> Result<Option<ZoneRow>, StoreError> {
    let find = || -> Result<Option<Vec<u8>>, redb::Error> {
        let zones = read.open_table(ZONES)?;
        Ok(zones.get(&zone_key(origin)[..])?.map(|row| row.value().to_vec()))
    };
    let found = find().map_err(store_error)?;
    Ok(found.map(|bytes| ZoneRow::read(&bytes)).transpose()?)
}

fn rows(read: &ReadTransaction) -> Result<Vec<ZoneRow>, StoreError> {
    let find = || -> Result<Vec<Vec<u8>>, redb::Error> {
        let zones = read.open_table(ZONES)?;
        zones.iter()?.map(|row| Ok(row?.1.value().to_vec())).collect()
    };
    let found = find().map_err(store_error)?;
    Ok(found.iter().map(|bytes| ZoneRow::read(bytes)).collect::<Result<_, _>>()?)
}

/// Deleted zones of this name whose journals are kept, the oldest first.
fn deleted(read: &ReadTransaction, origin: Name<'_>) -> Result<Vec<ZoneRow>, StoreError> {
    let find = || -> Result<Vec<Vec<u8>>, redb::Error> {
        let key = zone_key(origin);
        let deleted = read.open_table(DELETED)?;
        let found = deleted.range((&key[..], 0)..=(&key[..], u64::MAX))?;
        found.map(|row| Ok(row?.1.value().to_vec())).collect()
    };
    let found = find().map_err(store_error)?;
    Ok(found.iter().map(|bytes| ZoneRow::read(bytes)).collect::<Result<_, _>>()?)
}

/// Journal entries of a zone from a revision on, up to a number, and up to the bytes of a page
/// except for the last.
fn entries(
    read: &ReadTransaction,
    number: u32,
    from: u64,
    limit: usize,
) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
    let find = || -> Result<Vec<(u64, Vec<u8>)>, redb::Error> {
        let journal = read.open_table(JOURNAL)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        for entry in journal.range((number, from)..=(number, u64::MAX))?.take(limit) {
            let (key, entry) = entry?;
            bytes += entry.value().len();
            found.push((key.value().1, entry.value().to_vec()));
            if bytes > JOURNAL_PAGE_BYTES_MAX {
                break;
            }
        }
        Ok(found)
    };
    find().map_err(store_error)
}

fn number(read: &ReadTransaction, name: &str) -> Result<u64, StoreError> {
    let find = || -> Result<u64, redb::Error> {
        let meta = read.open_table(META)?;
        Ok(meta.get(name)?.map_or(0, |number| number.value()))
    };
    find().map_err(store_error)
}

fn revision(read: &ReadTransaction) -> Result<Revision, StoreError> {
    number(read, "revision").map(Revision)
}

/// The newest revision in the tree, and the store's key.
pub fn log_of(database: &Database) -> Result<(Revision, StoreKey), StoreError> {
    let read = database.begin_read().map_err(|error| store_error(error.into()))?;
    Ok((revision(&read)?, [number(&read, "log 0")?, number(&read, "log 1")?]))
}

/// Receives the key and value of a set; returns whether to continue.
type SetVisitor<'s> = &'s mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>;

/// Passes key and value of each set of a zone to `each`, until it stops.
fn each_set(
    read: &ReadTransaction,
    number: u32,
    after: Option<&[u8]>,
    each: SetVisitor<'_>,
) -> Result<(), StoreError> {
    let first = set_key(number, after.unwrap_or_default());
    let from = match after {
        Some(_) => Bound::Excluded(&first[..]),
        None => Bound::Included(&first[..]),
    };
    let end = set_key(number + 1, &[]);
    let sets = read.open_table(SETS).map_err(|error| store_error(error.into()))?;
    let range = sets.range::<&[u8]>((from, Bound::Excluded(&end[..])));
    for set in range.map_err(|error| store_error(error.into()))? {
        let (key, value) = set.map_err(|error| store_error(error.into()))?;
        let key = key.value().get(4..).unwrap_or_default();
        if each(key, value.value())?.is_break() {
            break;
        }
    }
    Ok(())
}

impl Reader for RedbReader {
    fn held(&self) -> Result<StoreSize, StoreError> {
        self.0.guarded(|| {
            let read = self.begin_as_it_is()?;
            let zones = rows(&read)?;
            let sets = zones.iter().map(|row| row.sets).sum();
            Ok(StoreSize { revision: revision(&read)?, zones: zones.len() as u64, sets })
        })
    }

    fn writable(&self) -> Result<(), StoreError> {
        self.0.condition.get().map_or(Ok(()), |condition| condition())?;
        if self.0.free_bytes() < FREE_BYTES_MIN { Err(StoreError::Full) } else { Ok(()) }
    }

    fn revision(&self) -> Result<Revision, StoreError> {
        self.0.guarded(|| revision(&self.begin()?))
    }

    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError> {
        self.0.guarded(|| Ok(row(&self.begin()?, origin)?.map(|row| row.stored())))
    }

    fn scan_zones(
        &self,
        after: Option<Name<'_>>,
        each: &mut dyn FnMut(StoredZone) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.0.guarded(|| {
            let read = self.begin()?;
            let zones = read.open_table(ZONES).map_err(|error| store_error(error.into()))?;
            let after = after.map(zone_key);
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let rows = zones.range::<&[u8]>((from, Bound::Unbounded));
            for row in rows.map_err(|error| store_error(error.into()))? {
                let (_, row) = row.map_err(|error| store_error(error.into()))?;
                if each(ZoneRow::read(row.value())?.stored()).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn set(&self, set: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError> {
        self.0.guarded(|| {
            let read = self.begin()?;
            let Some(row) = row(&read, set.zone.as_name())? else { return Ok(None) };
            let Some(of) = codec::key_of(set) else { return Ok(None) };
            let find = || -> Result<Option<Vec<u8>>, redb::Error> {
                let sets = read.open_table(SETS)?;
                Ok(sets.get(&set_key(row.number, &of)[..])?.map(|value| value.value().to_vec()))
            };
            let found = find().map_err(store_error)?;
            let found = found.as_deref().map(codec::read_value).transpose()?;
            Ok(found.map(|(revision, held)| (revision, held.to_value())))
        })
    }

    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(&StoredZone, RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError> {
        self.0.guarded(|| {
            let read = self.begin()?;
            let Some(row) = row(&read, origin)? else { return Ok(None) };
            let stored = row.stored();
            let after = after.and_then(codec::key_of);
            let mut name = Vec::new();
            each_set(&read, row.number, after.as_deref(), &mut |key, value| {
                Ok(codec::show(key, value, &mut name, &mut |set| each(&stored, set))?)
            })?;
            Ok(Some(stored))
        })
    }

    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<JournalPart>, StoreError> {
        self.0.guarded(|| {
            let read = self.begin()?;
            let mut rows = deleted(&read, origin)?;
            rows.extend(row(&read, origin)?);
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(None) };
            let is_whole = entries(&read, first.number, 0, 1)?
                .first()
                .map(|(at, entry)| codec::read_entry(Revision(*at), entry))
                .transpose()?
                .is_some_and(|entry| entry.kind == ChangeKind::Created);
            let whole_after = if is_whole { Revision::NONE } else { first.journal.whole_after };
            let (mut found, mut bytes) = (Vec::new(), 0);
            'all: for row in &rows {
                let from = after.0.saturating_add(1);
                for (at, entry) in entries(&read, row.number, from, limit - found.len())? {
                    bytes += entry.len();
                    if bytes > JOURNAL_PAGE_BYTES_MAX && !found.is_empty() {
                        break 'all;
                    }
                    found.push(codec::read_entry(Revision(at), &entry)?);
                }
            }
            let newest = last.stamp.revision;
            Ok(Some(JournalPart { entries: found, whole_after, newest }))
        })
    }

    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError> {
        self.0.guarded(|| {
            let read = self.begin()?;
            let revision = revision(&read)?;
            let unwritten = |error: std::io::Error| failed(&format!("the snapshot: {error}"));
            let mut writer = SnapshotWriter::new(to, revision, self.0.form()).map_err(unwritten)?;
            for row in rows(&read)? {
                writer.zone(row.origin.as_name(), row.stamp).map_err(unwritten)?;
                each_set(&read, row.number, None, &mut |key, value| {
                    writer.set(key, value).map_err(unwritten)?;
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            writer.finish().map_err(unwritten)?;
            Ok(revision)
        })
    }
}
