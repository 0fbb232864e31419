//! The tables of the tree.
//!
//! ```text
//! meta     "form" (`store::Form`), "revision", "zones" (the number of the next zone), "log 0",
//!          "log 1" (the store's key, also in its log), "log" (the sequence number of the newest
//!          group of the log that is in the tree)
//! zones    key of the zone → number, revision, sets, journal, name, and the offset of its serials
//!          (4) unless that is 0
//! sets     number of the zone (4, big-endian), key of the set → value of the set
//! journal  number of the zone, revision → entry
//! gone     number of a removed zone, while its sets and journal are swept
//! deleted  key of a zone, revision of its deletion → row, while its journal is kept
//! ```
//! Keys of zones, keys and values of sets, and entries are those of `store::codec`.
use redb::TableDefinition;
use store::codec::DamagedRecord;
use store::serial::SerialStamp;
use store::{Revision, StoredZone};
use wire::{Name, NameBuf};

pub const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub const ZONES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("zones");
pub const SETS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("sets");
pub const JOURNAL: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("journal");
pub const GONE: TableDefinition<u32, ()> = TableDefinition::new("gone");
pub const DELETED: TableDefinition<(&[u8], u64), &[u8]> = TableDefinition::new("deleted");

/// A stored zone.
#[derive(Clone, Debug)]
pub struct ZoneRow {
    /// Identifies its sets and journal; never reused.
    pub number: u32,
    pub origin: NameBuf,
    /// Its last revision, and the offset of its serials.
    pub stamp: SerialStamp,
    pub sets: u64,
    pub journal: JournalInfo,
}

/// The size of a zone's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalInfo {
    pub entries: u64,
    pub bytes: u64,
    /// The journal is complete after this revision.
    pub whole_after: Revision,
}

impl ZoneRow {
    pub fn new(number: u32, origin: &NameBuf, revision: Revision) -> Self {
        let journal = JournalInfo {
            whole_after: Revision(revision.0.saturating_sub(1)),
            ..JournalInfo::default()
        };
        let stamp = SerialStamp { revision, offset: 0 };
        Self { number, origin: origin.clone(), stamp, sets: 0, journal }
    }

    pub fn write(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        let JournalInfo { entries, bytes: journal_bytes, whole_after } = self.journal;
        for number in [self.stamp.revision.0, self.sets, entries, journal_bytes, whole_after.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(self.origin.as_name().as_bytes());
        if self.stamp.offset != 0 {
            bytes.extend_from_slice(&self.stamp.offset.to_le_bytes());
        }
        bytes
    }

    pub fn read(bytes: &[u8]) -> Result<Self, DamagedRecord> {
        let (number, rest) = bytes.split_first_chunk().ok_or(DamagedRecord)?;
        let (numbers, rest) = rest.split_first_chunk::<40>().ok_or(DamagedRecord)?;
        let at = |n: usize| {
            let chunk = numbers[8 * n..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(chunk)
        };
        let origin = Name::parse(rest).map_err(|_| DamagedRecord)?;
        let offset = match &rest[origin.len()..] {
            [] => 0,
            offset => u32::from_le_bytes(offset.try_into().map_err(|_| DamagedRecord)?),
        };
        let journal = JournalInfo { entries: at(2), bytes: at(3), whole_after: Revision(at(4)) };
        let (number, origin) = (u32::from_le_bytes(*number), origin.into());
        let stamp = SerialStamp { revision: Revision(at(0)), offset };
        Ok(Self { number, origin, stamp, sets: at(1), journal })
    }

    pub fn stored(&self) -> StoredZone {
        StoredZone { origin: self.origin.clone(), stamp: self.stamp, sets: self.sets }
    }
}

/// The key of a set; `of` is from `store::codec`, or empty for the first of all.
pub fn set_key(number: u32, of: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes(), of].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_read_with_and_without_an_offset() {
        let origin = NameBuf::from_text(b"example.org.", Name::ROOT).unwrap();
        let mut row = ZoneRow::new(3, &origin, Revision(7));
        let without = row.write();
        assert_eq!(ZoneRow::read(&without).unwrap().stamp, row.stamp);
        row.stamp.offset = 2_026_112_295;
        let with = row.write();
        assert_eq!(with.len(), without.len() + 4, "a row of before there were offsets is the same");
        let read = ZoneRow::read(&with).unwrap();
        assert_eq!((read.stamp.serial(), read.origin), (2_026_112_302, origin));
        for len in (0..with.len()).filter(|len| *len != without.len()) {
            assert!(ZoneRow::read(&with[..len]).is_err(), "{len}");
        }
        assert!(ZoneRow::read(&[&with[..], &[0]].concat()).is_err());
    }
}
