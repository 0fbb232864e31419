//! What lies in the tree.
//!
//! ```text
//! meta     "form", "revision", "zones" (the number of the next zone), "log 0", "log 1" (the key of
//!          the log's checksums)
//! zones    key of the zone → number, revision, sets, journal
//! sets     number of the zone (4, big-endian), key of the set → value of the set
//! journal  number of the zone, revision → entry
//! gone     number of a zone that is no more, while its sets and journal are swept
//! ```
//! Keys of zones, keys and values of sets, and entries are those of `records::codec`.
use records::codec::Damaged;
use records::{Revision, StoredZone};
use redb::TableDefinition;
use wire::{Name, NameBuf};

/// The form of all this. Another one gets another number, and a step in `migrate`.
pub const FORM: u64 = 2;

pub const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub const ZONES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("zones");
pub const SETS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("sets");
pub const JOURNAL: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("journal");
pub const GONE: TableDefinition<u32, ()> = TableDefinition::new("gone");

/// A zone as it lies there.
#[derive(Clone, Debug)]
pub struct Row {
    /// What its sets and journal are found by; none comes again.
    pub number: u32,
    pub origin: NameBuf,
    pub revision: Revision,
    pub sets: u64,
    pub journal: Kept,
}

/// What there is of a zone's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub entries: u64,
    pub octets: u64,
    /// From behind this revision nothing is missing.
    pub whole_after: Revision,
}

impl Row {
    pub fn new(number: u32, origin: &NameBuf, revision: Revision) -> Self {
        let journal =
            Kept { whole_after: Revision(revision.0.saturating_sub(1)), ..Kept::default() };
        Self { number, origin: origin.clone(), revision, sets: 0, journal }
    }

    pub fn write(&self) -> Vec<u8> {
        let mut octets = self.number.to_le_bytes().to_vec();
        let Kept { entries, octets: journal_octets, whole_after } = self.journal;
        for number in [self.revision.0, self.sets, entries, journal_octets, whole_after.0] {
            octets.extend_from_slice(&number.to_le_bytes());
        }
        octets.extend_from_slice(self.origin.as_name().octets());
        octets
    }

    pub fn read(octets: &[u8]) -> Result<Self, Damaged> {
        let (number, rest) = octets.split_first_chunk().ok_or(Damaged)?;
        let (numbers, origin) = rest.split_first_chunk::<40>().ok_or(Damaged)?;
        let at = |n: usize| {
            let chunk = numbers[8 * n..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(chunk)
        };
        let origin = Name::parse(origin).map_err(|_| Damaged)?.into();
        let journal = Kept { entries: at(2), octets: at(3), whole_after: Revision(at(4)) };
        let (number, revision) = (u32::from_le_bytes(*number), Revision(at(0)));
        Ok(Self { number, origin, revision, sets: at(1), journal })
    }

    pub fn stored(&self) -> StoredZone {
        StoredZone { origin: self.origin.clone(), revision: self.revision, sets: self.sets }
    }
}

/// The key of a set; `of` is what `records::codec` says, or nothing for the first of all.
pub fn set_key(number: u32, of: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes(), of].concat()
}
