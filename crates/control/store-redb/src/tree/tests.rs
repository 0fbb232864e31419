use super::*;
use crate::tables::{JOURNAL, META, SETS};
use redb::backends::InMemoryBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable};
use std::io;
use std::sync::Arc;

/// A file that outlives its database.
#[derive(Clone, Debug, Default)]
struct SharedBackend(Arc<InMemoryBackend>);

impl StorageBackend for SharedBackend {
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
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(at, data)
    }
}

impl SharedBackend {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len().unwrap() as usize];
        self.read(0, &mut bytes).unwrap();
        bytes
    }

    fn of(bytes: &[u8]) -> Self {
        let kept = Self::default();
        kept.set_len(bytes.len() as u64).unwrap();
        kept.write(0, bytes).unwrap();
        kept
    }
}

fn key(n: u32) -> Vec<u8> {
    [&n.to_be_bytes()[..], format!("name{n}").repeat(n as usize % 7).as_bytes()].concat()
}

/// A database with tables of several levels, and pages of several sizes.
fn filled() -> (SharedBackend, Database) {
    let file = SharedBackend::default();
    let database = Builder::new().create_with_backend(file.clone()).unwrap();
    for round in 0..3u32 {
        let transaction = database.begin_write().unwrap();
        {
            let mut meta = transaction.open_table(META).unwrap();
            meta.insert("form", 3).unwrap();
            meta.insert("revision", u64::from(round)).unwrap();
            meta.insert("log 1", 77).unwrap();
            let mut sets = transaction.open_table(SETS).unwrap();
            let mut journal = transaction.open_table(JOURNAL).unwrap();
            for n in (round..6000).step_by(1 + round as usize) {
                let value = vec![n as u8; if n % 500 == 0 { 30_000 } else { n as usize % 90 }];
                sets.insert(&key(n)[..], &value[..]).unwrap();
                journal.insert((n % 9, u64::from(n)), &value[..n as usize % 30]).unwrap();
            }
        }
        transaction.commit().unwrap();
    }
    (file, database)
}

/// Keys and values.
type TreeEntries = Vec<(Vec<u8>, Vec<u8>)>;

/// The entries of a range, and the number of lost pages.
fn walked(file: &SharedBackend, keys: Keys<'_>) -> (TreeEntries, usize) {
    let (mut entries, mut lost) = (Vec::new(), 0);
    let trees = Tree::of_damaged(file).unwrap();
    let (tables, _) = trees[0].store_tables().unwrap();
    let each = &mut |seen: TreeItem<'_>| match seen {
        TreeItem::Entry(key, value) => entries.push((key.to_vec(), value.to_vec())),
        TreeItem::Lost(_) => lost += 1,
    };
    trees[0].walk(&tables["sets"], keys, each).unwrap();
    (entries, lost)
}

#[test]
fn walk_equals_redb() {
    let (file, database) = filled();
    let read = database.begin_read().unwrap().open_table(SETS).unwrap();
    let entries = read.iter().unwrap().map(Result::unwrap);
    let entries = entries.map(|(key, value)| (key.value().to_vec(), value.value().to_vec()));
    let expected: Vec<_> = entries.collect();
    // While it is open, and after it was closed.
    assert_eq!(walked(&file, ALL), (expected.clone(), 0));
    drop((read, database));
    assert_eq!(walked(&file, ALL), (expected.clone(), 0));
    let about = inspect(&file).unwrap();
    assert_eq!((about.form, about.revision, about.store), (Some(Form(3)), Revision(2), [0, 77]));
    let (from, to) = (1234u32.to_be_bytes(), 4321u32.to_be_bytes());
    let within: Vec<_> =
        expected.into_iter().filter(|(key, _)| key[..] >= from[..] && key[..] < to[..]).collect();
    assert_eq!(walked(&file, (&from, Some(&to))), (within, 0));
}

/// Inspection returns the right content or an error, whatever is damaged.
#[test]
fn damaged_file_is_refused_or_unchanged() {
    let (file, database) = filled();
    let open = file.bytes();
    drop(database);
    let whole = file.bytes();
    let expected = walked(&file, ALL).0;
    for (state, is_closed) in [(&whole, true), (&open, false)] {
        let (mut refused, used) = (0, 1_500_000.min(state.len()));
        for n in 0..120usize {
            let at = if n < 60 { n * 6 } else { (n * 7919 * 4099) % used };
            let mut damaged = state.clone();
            damaged[at] ^= 1 << (n % 8);
            let damaged = SharedBackend::of(&damaged);
            match inspect(&damaged) {
                Err(StoreError::Damaged(_)) => refused += 1,
                Err(why) => panic!("{why:?}"),
                // A file that was not closed may fall back to the previous commit.
                Ok(about) if about.revision == Revision(1) => assert!(!is_closed || at < 512),
                Ok(about) => {
                    assert_eq!((about.form, about.revision), (Some(Form(3)), Revision(2)), "{at}");
                    assert_eq!(walked(&damaged, ALL), (expected.clone(), 0), "{at}");
                }
            }
        }
        assert!(refused > 15, "{refused} of 120");
    }
}
