//! The write-ahead log: groups of writes that are durable, and not yet in the tree.
//!
//! ```text
//! file   two halves of HALF_OCTETS, of which one is written from its start while what the other
//!        holds is brought into the tree
//! group  at a multiple of BLOCK: octets of its writes (4), checksum of these octets (8), checksum
//!        of its writes (8), writes as in `records::codec`
//! ```
//! What a half holds behind its last group is older, and known by its revisions. All of this is of
//! the form that `tables` numbers.
use crate::limits::{GROWN_BY, HALF_OCTETS};
use crate::{failed, told};
use records::codec::{self, Damaged};
use records::{Prepared, Revision, StoreError};
use redb::StorageBackend;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io;

/// Octets before the writes of a group.
const HEAD: usize = 20;
/// Groups share no block: a write that is cut off harms none that was there.
const BLOCK: usize = 4096;

/// The file.
#[derive(Debug)]
pub struct Wal {
    file: Box<dyn StorageBackend>,
    /// Known to its store alone: no data that somebody writes is taken for a group.
    key: Key,
}

/// What checksums are made with.
pub type Key = [u64; 2];

/// A group as it is laid down.
pub struct Group(Vec<u8>);

impl Group {
    /// Octets it takes.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

fn unread(error: io::Error) -> StoreError {
    told(error.into())
}

impl Wal {
    pub fn new(file: impl StorageBackend, key: Key) -> Self {
        Self { file: Box::new(file), key }
    }

    fn checksum(&self, body: &[u8]) -> u64 {
        let mut sum = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        sum.write(body);
        sum.finish()
    }

    /// Writes as they are laid down together.
    pub fn group(&self, writes: &[Prepared]) -> Group {
        let mut octets = vec![0; HEAD];
        writes.iter().for_each(|write| codec::write(&mut octets, write));
        let (head, body) = octets.split_at_mut(HEAD);
        let len = (body.len() as u32).to_le_bytes();
        head[..4].copy_from_slice(&len);
        head[4..12].copy_from_slice(&self.checksum(&len).to_le_bytes());
        head[12..].copy_from_slice(&self.checksum(body).to_le_bytes());
        octets.resize(octets.len().next_multiple_of(BLOCK), 0);
        Group(octets)
    }

    /// Lays a group down in a half, behind `at` octets, and has it brought to the disk.
    pub fn append(&self, half: u64, at: u64, group: &Group) -> io::Result<()> {
        let at = half * HALF_OCTETS + at;
        let (len, end) = (self.file.len()?, at + group.len());
        if len < end {
            // Of what was written once the disk need not be told where it lies: that takes longer
            // than to write it.
            let grown = end.next_multiple_of(GROWN_BY);
            self.file.set_len(grown)?;
            self.file.write(len, &vec![0; (grown - len) as usize])?;
        }
        self.file.write(at, &group.0)?;
        self.file.sync_data()
    }

    /// All writes behind a revision, in their order.
    ///
    /// # Errors
    /// It cannot be read, or what it holds cannot be all there was.
    pub fn behind(&self, revision: Revision) -> Result<Vec<Prepared>, StoreError> {
        let mut octets = vec![0; self.file.len().map_err(unread)? as usize];
        self.file.read(0, &mut octets).map_err(unread)?;
        let mut writes = Vec::new();
        for half in octets.chunks(HALF_OCTETS as usize) {
            writes.extend(self.of_half(half, revision).map_err(|Damaged| {
                failed(&format!(
                    "it is damaged, and holds more behind that: move both files of the store \
                     aside, start, and restore a snapshot; or move this one aside, to go on with \
                     what there was at revision {revision}"
                ))
            })?);
        }
        writes.sort_by_key(|write| write.revision);
        let revisions = std::iter::once(revision).chain(writes.iter().map(|write| write.revision));
        let gap = revisions.clone().zip(revisions.skip(1)).find(|(one, next)| *next != one.next());
        gap.map_or(Ok(writes), |(one, next)| {
            Err(failed(&format!(
                "the writes between the revisions {one} and {next} are missing: this file and the \
                 tree beside it are not of the same moment; put both back as they were, or move \
                 both aside, start, and restore a snapshot"
            )))
        })
    }

    /// The writes of a half behind a revision, at which no half is part in the tree: of each group
    /// that is newer than the one before. Behind the last there is one that was cut off, or there
    /// are older ones.
    fn of_half(&self, half: &[u8], revision: Revision) -> Result<Vec<Prepared>, Damaged> {
        let (mut found, mut last, mut at, mut is_over) = (Vec::new(), revision, 0, false);
        while at < half.len() {
            match self.read(&half[at..]).filter(|(writes, _)| writes[0].revision > last) {
                None => {
                    is_over = true;
                    at += BLOCK;
                }
                Some(_) if is_over => return Err(Damaged),
                Some((mut writes, len)) => {
                    last = writes.last().map_or(last, |write| write.revision);
                    found.append(&mut writes);
                    at += len.next_multiple_of(BLOCK);
                }
            }
        }
        Ok(found)
    }

    /// The group at the front, of one write at least, and its octets.
    fn read(&self, octets: &[u8]) -> Option<(Vec<Prepared>, usize)> {
        let (len, rest) = octets.split_first_chunk::<4>()?;
        let (mark, rest) = rest.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        // What is no group is not looked at, however long it says it is.
        if u64::from_le_bytes(*mark) != self.checksum(len) {
            return None;
        }
        let mut body = rest.get(..u32::from_le_bytes(*len) as usize)?;
        if u64::from_le_bytes(*sum) != self.checksum(body) {
            return None;
        }
        let (mut writes, len) = (Vec::new(), HEAD + body.len());
        while !body.is_empty() {
            writes.push(codec::read_write(&mut body).ok()?);
        }
        (!writes.is_empty()).then_some((writes, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{Action, Policy, SetChange, SetValue, View};
    use redb::backends::InMemoryBackend;
    use std::time::{Duration, SystemTime};
    use wire::{Name, NameBuf, Rtype};

    const KEY: Key = [7, 9];

    fn write(revision: u64, action: Action) -> Prepared {
        let zone = NameBuf::from_text(b"zone.test.", Name::ROOT).unwrap();
        let when = SystemTime::UNIX_EPOCH + Duration::from_millis(revision);
        Prepared { zone, revision: Revision(revision), when, by: "who".into(), action }
    }

    /// A write of a set with these octets.
    fn set(revision: u64, data: &[u8]) -> Prepared {
        let name = b"\x03www"[..].into();
        let value = SetValue { ttl: 60, policy: Policy::All, data: vec![data.into()] };
        let (rtype, view) = (Rtype::TXT, View::Default);
        let change = SetChange { name, rtype, view, before: None, after: Some(value) };
        write(revision, Action::Change(vec![change]))
    }

    fn wal(octets: &[u8]) -> Wal {
        let file = InMemoryBackend::new();
        file.set_len(octets.len() as u64).unwrap();
        file.write(0, octets).unwrap();
        Wal::new(file, KEY)
    }

    fn octets(wal: &Wal) -> Vec<u8> {
        let mut octets = vec![0; wal.file.len().unwrap() as usize];
        wal.file.read(0, &mut octets).unwrap();
        octets
    }

    /// Groups of these writes, one behind the other.
    fn laid_down(wal: &Wal, half: u64, groups: &[&[Prepared]]) -> u64 {
        groups.iter().fold(0, |at, writes| {
            let group = wal.group(writes);
            wal.append(half, at, &group).unwrap();
            at + group.len()
        })
    }

    fn behind(wal: &Wal, revision: u64) -> Result<Vec<u64>, String> {
        let writes = wal.behind(Revision(revision)).map_err(|why| why.to_string())?;
        Ok(writes.iter().map(|write| write.revision.0).collect())
    }

    #[test]
    fn what_was_laid_down_is_read_again() {
        let wal = wal(&[]);
        assert_eq!(behind(&wal, 0), Ok(vec![]));
        let created = write(1, Action::Create(Vec::new()));
        let writes = [created, set(2, b"two"), write(3, Action::Delete)];
        laid_down(&wal, 0, &[&writes]);
        let read = wal.behind(Revision::NONE).unwrap();
        assert_eq!(format!("{read:?}"), format!("{writes:?}"));
    }

    #[test]
    fn halves_are_read_by_revisions_and_what_is_old_is_left() {
        let wal = wal(&[]);
        laid_down(&wal, 0, &[&[set(1, b"")], &[set(2, b""), set(3, b"")], &[set(4, b"")]]);
        laid_down(&wal, 1, &[&[set(5, b"")]]);
        laid_down(&wal, 0, &[&[set(6, b"")]]);
        assert_eq!(behind(&wal, 4), Ok(vec![5, 6]));
        assert_eq!(behind(&wal, 5), Ok(vec![6]));
        assert_eq!(behind(&wal, 6), Ok(vec![]));
    }

    #[test]
    fn a_group_that_was_cut_off_is_none_wherever_it_was() {
        let wal = wal(&[]);
        let first = laid_down(&wal, 0, &[&[set(1, b"one")]]) as usize;
        laid_down(&wal, 0, &[&[set(1, b"one")], &[set(2, &[1; 9000])]]);
        let whole = octets(&wal);
        for lost in [first, first + 9, first + HEAD, first + BLOCK, first + 2 * BLOCK + 700] {
            let mut cut = whole.clone();
            cut[lost..(lost + 512).min(first + 3 * BLOCK)].fill(0);
            assert_eq!(behind(&self::wal(&cut), 0), Ok(vec![1]), "{lost}");
        }
    }

    #[test]
    fn a_group_that_was_cut_off_before_older_ones_is_none() {
        let wal = wal(&[]);
        laid_down(&wal, 0, &[&[set(1, b"")], &[set(2, b"")], &[set(3, b"")]]);
        let mut cut = octets(&wal);
        cut[..BLOCK].fill(0);
        assert_eq!(behind(&self::wal(&cut), 3), Ok(vec![]));
    }

    /// It is not known then what was answered.
    #[test]
    fn a_group_that_is_damaged_before_others_is_refused() {
        let wal = wal(&[]);
        laid_down(&wal, 0, &[&[set(1, b"")], &[set(2, b"")], &[set(3, b"")]]);
        let mut damaged = octets(&wal);
        damaged[BLOCK + HEAD + 8] ^= 1;
        assert!(behind(&self::wal(&damaged), 0).unwrap_err().contains("damaged"));
    }

    #[test]
    fn a_log_that_is_not_of_its_store_is_refused() {
        let wal = wal(&[]);
        laid_down(&wal, 0, &[&[set(8, b"")]]);
        let told = behind(&wal, 5).unwrap_err();
        assert!(told.contains("between the revisions 5 and 8"), "{told}");
        let other = Wal { key: [7, 10], file: wal.file };
        assert_eq!(behind(&other, 7), Ok(vec![]), "nor is another's taken for one of ours");
    }

    /// Behind the last group lies what an older one held, and that is whatever somebody wrote.
    #[test]
    fn no_data_is_taken_for_a_group() {
        let forger = Wal::new(InMemoryBackend::new(), [0, 0]);
        let forged = forger.group(&[set(2, b"forged")]);
        let wal = wal(&[]);
        // So many octets before it that it begins with a block.
        let before = codec_len(&set(1, b"")) + HEAD;
        let data = [&vec![0; BLOCK - before][..], &forged.0].concat();
        laid_down(&wal, 0, &[&[set(1, &data)]]);
        assert_eq!(octets(&wal)[BLOCK..][..HEAD], forged.0[..HEAD]);
        laid_down(&wal, 0, &[&[set(1, b"")]]);
        assert_eq!(behind(&wal, 0), Ok(vec![1]));
        // Had it the key, it would be one.
        let data = [&vec![0; BLOCK - before][..], &wal.group(&[set(2, b"forged")]).0].concat();
        laid_down(&wal, 0, &[&[set(1, &data)]]);
        laid_down(&wal, 0, &[&[set(1, b"")]]);
        assert_eq!(behind(&wal, 0), Ok(vec![1, 2]));
    }

    fn codec_len(write: &Prepared) -> usize {
        let mut octets = Vec::new();
        codec::write(&mut octets, write);
        octets.len()
    }
}
