use super::*;
use redb::backends::InMemoryBackend;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use store::{Action, Deletion, Policy, SetValue, View, WrittenSet};
use wire::{Name, NameBuf, Rtype};

const KEY: StoreKey = [7, 9];

fn write(revision: u64, action: Action) -> PreparedWrite {
    let zone = NameBuf::from_text(b"zone.test.", Name::ROOT).unwrap();
    let when = SystemTime::UNIX_EPOCH + Duration::from_millis(revision);
    let (revision, by) = (Revision(revision), "who".into());
    PreparedWrite { zone, revision, when, by, offset: None, reason: None, action }
}

/// A write of a set with these bytes.
fn set(revision: u64, data: &[u8]) -> PreparedWrite {
    let name = b"\x03www"[..].into();
    let value = SetValue { ttl: 60, policy: Policy::All, data: vec![data.into()] };
    let (rtype, view) = (Rtype::TXT, View::DEFAULT);
    let change = WrittenSet { name, rtype, view, before: None, after: Some(value) };
    write(revision, Action::Change(vec![change]))
}

fn new() -> Wal {
    Wal::create(Box::new(InMemoryBackend::new()), KEY, Revision::NONE).unwrap()
}

fn file(bytes: &[u8]) -> Box<InMemoryBackend> {
    let file = InMemoryBackend::new();
    file.set_len(bytes.len() as u64).unwrap();
    file.write(0, bytes).unwrap();
    Box::new(file)
}

fn bytes(wal: &Wal) -> Vec<u8> {
    let mut bytes = vec![0; wal.file.len().unwrap() as usize];
    wal.file.read(0, &mut bytes).unwrap();
    bytes
}

/// Writes groups one after the other; returns the end.
fn laid_down(wal: &Wal, half: u64, groups: &[&[PreparedWrite]]) -> u64 {
    groups.iter().fold(0, |at, writes| {
        let group = WalGroup::new(writes);
        wal.append(half, at, &group).unwrap();
        at + group.len()
    })
}

/// The revisions in a log after the given one.
fn behind(bytes: &[u8], revision: u64) -> Result<Vec<u64>, String> {
    let message = |why: StoreError| match why {
        StoreError::Damaged(why) => why,
        why => panic!("{why:?} is not damage"),
    };
    let wal = Wal::open(file(bytes), Some(KEY)).map_err(message)?;
    let tree = TreeProgress { revision: Revision(revision), sequence: 0 };
    let found = wal.behind(tree).map_err(message)?;
    Ok(found.writes.iter().map(|write| write.revision.0).collect())
}

#[test]
fn groups_round_trip() {
    let wal = new();
    assert_eq!(behind(&bytes(&wal), 0), Ok(vec![]));
    assert!(wal.is_new());
    let created = write(1, Action::Create(Vec::new()));
    let writes = [created, set(2, &[5; 3000]), write(3, Action::Delete(Deletion::default()))];
    laid_down(&wal, 0, &[&writes]);
    let read = wal.behind(TreeProgress::default()).unwrap().writes;
    assert_eq!(format!("{read:?}"), format!("{writes:?}"));
    assert!(!wal.is_new());
}

#[test]
fn groups_that_span_segments_are_read_in_both_halves() {
    let wal = new();
    let large: Vec<_> = (1..9).map(|n| set(n, &[n as u8; 60_000])).collect();
    let more: Vec<_> = (9..20).map(|n| set(n, &[n as u8; 60_000])).collect();
    laid_down(&wal, 0, &[&large[..3], &large[3..]]);
    laid_down(&wal, 1, &[&more]);
    assert_eq!(behind(&bytes(&wal), 0), Ok((1..20).collect()));
    assert_eq!(behind(&bytes(&wal), 8), Ok((9..20).collect()));
}

#[test]
fn older_groups_after_the_last_are_ignored() {
    let wal = new();
    laid_down(&wal, 0, &[&[set(1, b"")], &[set(2, b""), set(3, b"")], &[set(4, b"")]]);
    laid_down(&wal, 1, &[&[set(5, b"")]]);
    laid_down(&wal, 0, &[&[set(6, b"")]]);
    assert_eq!(behind(&bytes(&wal), 4), Ok(vec![5, 6]));
    assert_eq!(behind(&bytes(&wal), 5), Ok(vec![6]));
    assert_eq!(behind(&bytes(&wal), 6), Ok(vec![]));
}

/// Any sectors of a group may be missing and have their old content.
#[test]
fn incomplete_group_is_ignored() {
    for was_used in [false, true] {
        let wal = new();
        if was_used {
            laid_down(&wal, 0, &[&[set(1, &[9; 30_000])]]);
        }
        let first = u64::from(was_used) + 1;
        let one = [set(first, b"one")];
        laid_down(&wal, 0, &[&one]);
        let before = bytes(&wal);
        let end = place(0, BLOCK as u64) as usize;
        wal.append(0, BLOCK as u64, &WalGroup::new(&[set(first + 1, &[1; 9000])])).unwrap();
        let after = bytes(&wal);
        for lost in 0..18 {
            for len in [1, 3, 18 - lost] {
                let mut cut = after.clone();
                let (from, to) = (end + lost * SECTOR, end + (lost + len).min(18) * SECTOR);
                cut[from..to].copy_from_slice(&before[from..to]);
                assert_eq!(behind(&cut, first - 1), Ok(vec![first]), "{lost} {len}");
            }
        }
    }
}

/// An answered group: no bit may be wrong anywhere.
#[test]
fn damaged_last_group_is_refused() {
    let wal = new();
    laid_down(&wal, 0, &[&[set(1, b"one")], &[set(2, &[1; 9000])]]);
    let whole = bytes(&wal);
    let end = place(0, WalGroup::new(&[set(2, &[1; 9000])]).len() + BLOCK as u64) as usize;
    for at in (HEADER_LEN as usize..end).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let why = behind(&damaged, 0).unwrap_err();
        assert!(why.contains("damaged near byte"), "{at}: {why}");
        assert_eq!(behind(&damaged, 2), Ok(vec![]), "what is in the tree is not needed: {at}");
    }
    let mut blank = whole.clone();
    blank[HEADER_LEN as usize + BLOCK..][..BLOCK].fill(0);
    assert!(behind(&blank, 0).is_err(), "nothing that was ever in use is zero");
    let mut damaged = whole;
    damaged[end + 700] ^= 1;
    assert_eq!(behind(&damaged, 0), Ok(vec![1, 2]), "nothing was ever written there");
}

#[test]
fn truncated_log_is_refused_and_longer_log_accepted() {
    let wal = new();
    laid_down(&wal, 0, &[&[set(1, b"")]]);
    let whole = bytes(&wal);
    for len in (0..whole.len()).step_by(4001) {
        assert!(behind(&whole[..len], 0).is_err(), "{len}");
    }
    let longer = [&whole[..], &[0; 5000]].concat();
    assert_eq!(behind(&longer, 0), Ok(vec![1]));
}

#[test]
fn header_is_read_from_either_copy() {
    let wal = new();
    laid_down(&wal, 0, &[&[set(1, b"")]]);
    let whole = bytes(&wal);
    for copy in [0, BLOCK] {
        for at in 0..72 {
            let mut damaged = whole.clone();
            damaged[copy + at] ^= 16;
            assert_eq!(behind(&damaged, 0), Ok(vec![1]), "{copy} {at}");
            damaged[BLOCK - copy + 33] ^= 1;
            assert!(behind(&damaged, 0).unwrap_err().contains("header"), "{copy} {at}");
        }
    }
}

#[test]
fn log_of_another_tree_is_refused() {
    let wal = new();
    laid_down(&wal, 0, &[&[set(8, b"")]]);
    let why = behind(&bytes(&wal), 5).unwrap_err();
    assert!(why.contains("between the revisions 5 and 8"), "{why}");
    let other = Wal::open(file(&bytes(&wal)), Some([7, 10])).unwrap_err().to_string();
    assert!(other.contains("another store"), "{other}");
    let newer = TreeProgress { revision: Revision(9), sequence: 4 };
    let why = wal.behind(newer).unwrap_err().to_string();
    assert!(why.contains("older than records.redb"), "{why}");
    wal.note(Revision(20)).unwrap();
    let why = behind(&bytes(&wal), 8).unwrap_err();
    assert!(why.contains("ends at revision 8, but had revision 20"), "{why}");
}

/// Data is in the payload of sectors, wherever it would look like one.
#[test]
fn data_like_a_group_is_not_a_group() {
    let forger = new();
    forger.state().sequence = 50;
    laid_down(&forger, 0, &[&[set(2, b"forged")]]);
    let forged = &bytes(&forger)[HEADER_LEN as usize..][..BLOCK];
    for shift in 0..SECTOR {
        let wal = new();
        let data = [&vec![0; shift][..], forged, forged].concat();
        laid_down(&wal, 0, &[&[set(1, &data)]]);
        laid_down(&wal, 0, &[&[set(1, b"")]]);
        assert_eq!(behind(&bytes(&wal), 0), Ok(vec![1]), "{shift}");
    }
}

/// A file that may have no room.
#[derive(Debug, Default)]
struct LimitedFile(InMemoryBackend, Arc<AtomicBool>, Arc<AtomicU32>);

impl StorageBackend for LimitedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(at, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.2.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.0.write(at, data),
        }
    }
}

#[test]
fn log_frees_unused_space() {
    let file = LimitedFile::default();
    let is_full = Arc::clone(&file.1);
    let wal = Wal::create(Box::new(file), KEY, Revision::NONE).unwrap();
    let before = bytes(&wal);
    assert_eq!(before.len() as u64, HEADER_LEN);
    is_full.store(true, Ordering::Relaxed);
    assert!(wal.append(0, 0, &WalGroup::new(&[set(1, b"")])).is_err());
    assert_eq!(bytes(&wal), before);
    is_full.store(false, Ordering::Relaxed);
    laid_down(&wal, 0, &[&[set(1, b"")]]);
    assert_eq!(bytes(&wal).len() as u64, HEADER_LEN + SEGMENT_BYTES);
    assert_eq!(behind(&bytes(&wal), 0), Ok(vec![1]));
}

/// Except when the log grows.
#[test]
fn group_needs_one_sync() {
    let file = LimitedFile::default();
    let orders = Arc::clone(&file.2);
    let wal = Wal::create(Box::new(file), KEY, Revision::NONE).unwrap();
    let mut at = laid_down(&wal, 0, &[&[set(1, b"")]]);
    let before = orders.load(Ordering::Relaxed);
    for n in 2..40 {
        let group = WalGroup::new(&[set(n, &[3; 700])]);
        wal.append(0, at, &group).unwrap();
        at += group.len();
    }
    assert_eq!(orders.load(Ordering::Relaxed), before + 38);
}
