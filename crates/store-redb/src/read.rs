//! What reads the tree: each call sees it as it was at one moment.
use crate::tables::{JOURNAL, META, Row, SETS, ZONES, set_key};
use crate::wal::Key;
use crate::{Redb, checkpoint, failed, told};
use records::codec::{self, zone_key};
use records::limits::JOURNAL_PAGE_OCTETS_MAX;
use records::snapshot::Writer;
use records::{
    Held, JournalEntry, RawSet, Reader, Revision, SetKey, SetValue, StoreError, StoredZone,
};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use std::io::Write;
use std::ops::{Bound, ControlFlow};
use wire::Name;

impl Redb {
    /// All that was written before is there.
    fn begin(&self) -> Result<ReadTransaction, StoreError> {
        checkpoint::settle(&self.0)?;
        self.begin_as_it_is()
    }

    fn begin_as_it_is(&self) -> Result<ReadTransaction, StoreError> {
        self.0.with(|opened| Ok(opened.database.begin_read()?))
    }
}

fn row(read: &ReadTransaction, origin: Name<'_>) -> Result<Option<Row>, StoreError> {
    let find = || -> Result<Option<Vec<u8>>, redb::Error> {
        let zones = read.open_table(ZONES)?;
        Ok(zones.get(&zone_key(origin)[..])?.map(|row| row.value().to_vec()))
    };
    let found = find().map_err(told)?;
    Ok(found.map(|octets| Row::read(&octets)).transpose()?)
}

fn rows(read: &ReadTransaction) -> Result<Vec<Row>, StoreError> {
    let find = || -> Result<Vec<Vec<u8>>, redb::Error> {
        let zones = read.open_table(ZONES)?;
        zones.iter()?.map(|row| Ok(row?.1.value().to_vec())).collect()
    };
    let found = find().map_err(told)?;
    Ok(found.iter().map(|octets| Row::read(octets)).collect::<Result<_, _>>()?)
}

fn number(read: &ReadTransaction, name: &str) -> Result<u64, StoreError> {
    let find = || -> Result<u64, redb::Error> {
        let meta = read.open_table(META)?;
        Ok(meta.get(name)?.map_or(0, |number| number.value()))
    };
    find().map_err(told)
}

fn revision(read: &ReadTransaction) -> Result<Revision, StoreError> {
    number(read, "revision").map(Revision)
}

/// The newest revision that is in the tree, and the key of its log.
pub fn log_of(database: &Database) -> Result<(Revision, Key), StoreError> {
    let read = database.begin_read().map_err(|error| told(error.into()))?;
    Ok((revision(&read)?, [number(&read, "log 0")?, number(&read, "log 1")?]))
}

/// What is shown the key and value of a set, and says whether it wants more.
type Show<'s> = &'s mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>;

/// Shows key and value of each set of a zone, until it is told to stop.
fn each_set(
    read: &ReadTransaction,
    number: u32,
    after: Option<&[u8]>,
    each: Show<'_>,
) -> Result<(), StoreError> {
    let first = set_key(number, after.unwrap_or_default());
    let from = match after {
        Some(_) => Bound::Excluded(&first[..]),
        None => Bound::Included(&first[..]),
    };
    let end = set_key(number + 1, &[]);
    let sets = read.open_table(SETS).map_err(|error| told(error.into()))?;
    let range = sets.range::<&[u8]>((from, Bound::Excluded(&end[..])));
    for set in range.map_err(|error| told(error.into()))? {
        let (key, value) = set.map_err(|error| told(error.into()))?;
        let key = key.value().get(4..).unwrap_or_default();
        if each(key, value.value())?.is_break() {
            break;
        }
    }
    Ok(())
}

impl Reader for Redb {
    fn held(&self) -> Result<Held, StoreError> {
        let read = self.begin_as_it_is()?;
        let zones = rows(&read)?;
        let sets = zones.iter().map(|row| row.sets).sum();
        Ok(Held { revision: revision(&read)?, zones: zones.len() as u64, sets })
    }

    fn revision(&self) -> Result<Revision, StoreError> {
        revision(&self.begin()?)
    }

    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError> {
        Ok(row(&self.begin()?, origin)?.map(|row| row.stored()))
    }

    fn zones(&self) -> Result<Vec<StoredZone>, StoreError> {
        Ok(rows(&self.begin()?)?.iter().map(Row::stored).collect())
    }

    fn set(&self, set: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError> {
        let read = self.begin()?;
        let Some(row) = row(&read, set.zone.as_name())? else { return Ok(None) };
        let Some(of) = codec::key_of(set) else { return Ok(None) };
        let find = || -> Result<Option<Vec<u8>>, redb::Error> {
            let sets = read.open_table(SETS)?;
            Ok(sets.get(&set_key(row.number, &of)[..])?.map(|value| value.value().to_vec()))
        };
        let found = find().map_err(told)?;
        let found = found.as_deref().map(codec::read_value).transpose()?;
        Ok(found.map(|(revision, held)| (revision, held.to_value())))
    }

    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError> {
        let read = self.begin()?;
        let Some(row) = row(&read, origin)? else { return Ok(None) };
        let after = after.and_then(codec::key_of);
        let mut name = Vec::new();
        each_set(&read, row.number, after.as_deref(), &mut |key, value| {
            Ok(codec::show(key, value, &mut name, each)?)
        })?;
        Ok(Some(row.stored()))
    }

    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<(Vec<JournalEntry>, Revision)>, StoreError> {
        let read = self.begin()?;
        let Some(row) = row(&read, origin)? else { return Ok(None) };
        let find = || -> Result<Vec<(u64, Vec<u8>)>, redb::Error> {
            let journal = read.open_table(JOURNAL)?;
            let from = (row.number, after.0.saturating_add(1));
            let (mut found, mut octets) = (Vec::new(), 0);
            for entry in journal.range(from..=(row.number, u64::MAX))?.take(limit) {
                let (key, entry) = entry?;
                octets += entry.value().len();
                if octets > JOURNAL_PAGE_OCTETS_MAX && !found.is_empty() {
                    break;
                }
                found.push((key.value().1, entry.value().to_vec()));
            }
            Ok(found)
        };
        let found = find().map_err(told)?;
        let entries = found.iter().map(|(at, entry)| codec::read_entry(Revision(*at), entry));
        let entries: Result<_, _> = entries.collect();
        Ok(Some((entries?, row.journal.whole_after)))
    }

    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError> {
        let read = self.begin()?;
        let revision = revision(&read)?;
        let unwritten = |error: std::io::Error| failed(&format!("the snapshot: {error}"));
        let mut writer = Writer::new(to, revision).map_err(unwritten)?;
        for row in rows(&read)? {
            writer.zone(row.origin.as_name(), row.revision).map_err(unwritten)?;
            each_set(&read, row.number, None, &mut |key, value| {
                writer.set(key, value).map_err(unwritten)?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
        writer.finish().map_err(unwritten)?;
        Ok(revision)
    }
}
