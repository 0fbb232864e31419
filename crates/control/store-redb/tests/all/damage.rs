//! Files with flipped bits, truncated, rolled back, or missing. No answered write is lost silently:
//! it is there, or an error names the file and nothing on disk has changed.
use crate::memory::MemoryStore;
use fastrand::Rng;
use records::{
    Action, Policy, PreparedWrite, Revision, SetValue, Store, StoreError, View, WrittenSet,
};
use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use store_redb::RedbStore;
#[allow(dead_code, reason = "the rng alone are used here")]
use test_support::folder::Folder;
use wire::{Name, NameBuf, Rtype};

/// The content of a file. Clones share it.
#[derive(Clone, Debug, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl File {
    fn of(bytes: &[u8]) -> Self {
        Self(Arc::new(Mutex::new(bytes.to_vec())))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl StorageBackend for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, at) = (self.0.lock().unwrap(), at as usize);
        let found = bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let (mut bytes, at) = (self.0.lock().unwrap(), at as usize);
        let end = bytes.len().max(at + data.len());
        bytes.resize(end, 0);
        bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// The tree and the log of a store.
type Files = [Vec<u8>; 2];

fn open(files: &[File; 2]) -> Result<RedbStore, StoreError> {
    let files = files.clone();
    RedbStore::on(move || {
        let [tree, log] = files.clone();
        (tree, log)
    })
}

fn dump(store: &dyn Store) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.reader().snapshot(&mut bytes)?;
    Ok(bytes)
}

fn write(rng: &mut Rng, revision: u64) -> PreparedWrite {
    let zone = NameBuf::from_text(b"zone.test.", Name::ROOT).unwrap();
    let changes = (0..1 + rng.u64(..6)).map(|_| {
        let name = format!("\x04n{:03}", rng.u64(..900)).into_bytes().into();
        let data = vec![vec![rng.u64(..256) as u8; rng.u64(..300) as usize].into()];
        let after = Some(SetValue { ttl: 60, policy: Policy::All, data });
        WrittenSet { name, rtype: Rtype::TXT, view: View::DEFAULT, before: None, after }
    });
    let changes = changes.collect();
    let action = if revision == 1 { Action::Create(changes) } else { Action::Change(changes) };
    let (when, revision) = (SystemTime::UNIX_EPOCH, Revision(revision));
    PreparedWrite { zone, revision, when, by: "rng".into(), offset: None, reason: None, action }
}

/// A store after some groups of writes, and its content.
struct Written {
    store: RedbStore,
    files: [File; 2],
    model: MemoryStore,
    last: u64,
    rng: Rng,
}

impl Written {
    fn new(groups: u64) -> Self {
        let files: [File; 2] = Default::default();
        let (store, model) = (open(&files).unwrap(), MemoryStore::default());
        let mut written = Self { store, files, model, last: 0, rng: Rng::with_seed(3) };
        written.more(groups);
        written
    }

    fn more(&mut self, groups: u64) {
        for _ in 0..groups {
            self.last += 1;
            let write = write(&mut self.rng, self.last);
            self.model.commit_and_look_up(vec![write.clone()].into()).unwrap();
            self.store.commit_and_look_up(vec![write].into()).unwrap();
        }
    }

    /// The files as a crash leaves them.
    fn files(&self) -> Files {
        self.files.clone().map(|file| file.bytes())
    }

    fn held(&self) -> Vec<u8> {
        dump(&self.model).unwrap()
    }

    /// Checkpoints all writes.
    fn settle(&self) {
        self.store.reader().revision().unwrap();
    }
}

/// The result for damaged files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All writes are there.
    Whole,
    /// An error names one of the files, which are unchanged.
    Refused,
}

/// # Errors
/// Something is lost, or changed.
fn outcome(files: &Files, expected: &[u8]) -> Result<Outcome, String> {
    let at = files.clone().map(|bytes| File::of(&bytes));
    let found = open(&at).and_then(|store| dump(&store));
    match found {
        Ok(found) if found == expected => Ok(Outcome::Whole),
        Ok(_) => Err("the content differs, without an error".into()),
        Err(StoreError::Damaged(why)) if !why.contains("records.") => Err(why),
        Err(StoreError::Damaged(why)) if !why.contains("dunlin zones restore") => Err(why),
        Err(StoreError::Damaged(_)) if at.map(|file| file.bytes()) == *files => {
            Ok(Outcome::Refused)
        }
        Err(StoreError::Damaged(why)) => Err(format!("the files changed, and: {why}")),
        Err(why) => Err(format!("{why:?}")),
    }
}

/// Files in three states: all groups in the log, some in the tree, and after the store was closed.
fn states() -> Vec<(&'static str, Files, Vec<u8>)> {
    let mut written = Written::new(12);
    let in_log = ("in the log", written.files(), written.held());
    written.settle();
    written.more(25);
    let in_both = ("in both", written.files(), written.held());
    written.settle();
    let in_tree = ("in the tree", written.files(), written.held());
    written.store.close();
    let closed = ("closed", written.files(), written.held());
    vec![in_log, in_both, in_tree, closed]
}

/// Damages each file in each state, several times.
fn damage(rounds: u64, which: usize, change: impl Fn(&mut Rng, &mut Vec<u8>) + Sync) -> [usize; 2] {
    let states = states();
    let counts = std::thread::scope(|scope| {
        let threads = states.iter().map(|(name, files, expected)| {
            let change = &change;
            scope.spawn(move || {
                let mut counts = [0; 2];
                for seed in 0..rounds {
                    let (mut rng, mut files) =
                        (Rng::with_seed(seed * 77 + which as u64), files.clone());
                    change(&mut rng, &mut files[which]);
                    match outcome(&files, expected) {
                        Ok(outcome) => counts[outcome as usize] += 1,
                        Err(why) => panic!("{name}, file {which}, seed {seed}: {why}"),
                    }
                }
                counts
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    counts.into_iter().fold([0; 2], |sum, count| [sum[0] + count[0], sum[1] + count[1]])
}

/// Flips mostly bits of used bytes.
fn flip(rng: &mut Rng, bytes: &mut [u8]) {
    let used: Vec<usize> = (0..bytes.len()).step_by(256).collect();
    let used: Vec<usize> = used
        .into_iter()
        .filter(|at| bytes[*at..].iter().take(256).any(|byte| *byte != 0))
        .collect();
    let at = match rng.u64(..4) {
        0 => rng.u64(..bytes.len() as u64) as usize,
        1 => rng.u64(..320) as usize,
        _ => used[rng.u64(..used.len() as u64) as usize] + rng.u64(..256) as usize,
    };
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 1 << rng.u64(..8);
}

#[test]
fn flipped_bit_in_the_tree_loses_nothing_silently() {
    let [whole, refused] = damage(120, 0, |rng, bytes| flip(rng, bytes));
    assert!(whole > 20 && refused > 50, "{whole} whole, {refused} refused");
}

#[test]
fn flipped_bit_in_the_log_loses_nothing_silently() {
    let [whole, refused] = damage(120, 1, |rng, bytes| flip(rng, bytes));
    assert!(whole > 100 && refused > 20, "{whole} whole, {refused} refused");
}

fn cut(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let len = bytes.len() as u64;
    let left = if rng.u64(..2) == 0 { rng.u64(..len) } else { len - 1 - rng.u64(..len / 50) };
    bytes.truncate(left as usize);
}

#[test]
fn truncated_tree_loses_nothing_silently() {
    let [_, refused] = damage(125, 0, cut);
    assert!(refused > 400, "{refused} refused");
}

#[test]
fn truncated_log_is_refused() {
    assert_eq!(damage(125, 1, cut), [0, 500]);
}

/// Blocks of random or zero bytes, as disks and copies produce.
#[test]
fn random_or_zero_blocks_lose_nothing_silently() {
    for which in 0..2 {
        let [_, refused] = damage(30, which, |rng, bytes| {
            for _ in 0..1 + rng.u64(..20) {
                let at = (rng.u64(..bytes.len() as u64) as usize) / 512 * 512;
                let (end, is_zero) = ((at + 4096).min(bytes.len()), rng.u64(..2) == 0);
                bytes[at..end].fill_with(|| if is_zero { 0 } else { rng.u64(..256) as u8 });
            }
        });
        assert!(refused > 10, "{refused} refused");
    }
}

/// A file from another time, of another store, or a new one.
#[test]
fn files_of_different_stores_or_times_are_refused() {
    let mut written = Written::new(5);
    let early = written.files();
    written.settle();
    written.more(30);
    written.settle();
    written.more(3);
    let (late, expected) = (written.files(), written.held());
    let new = Written::new(0).files();
    let other = Written::new(38).files();
    let [tree, log] = &late;
    let refused = |tree: &Vec<u8>, log: &Vec<u8>| {
        outcome(&[tree.clone(), log.clone()], &expected) == Ok(Outcome::Refused)
    };
    assert!(refused(tree, &early[1]), "the log is older");
    assert!(refused(&new[0], log), "the tree is new");
    assert!(refused(tree, &new[1]), "the log is new");
    assert!(refused(&other[0], log) && refused(tree, &other[1]), "of another store");
    assert!(refused(&Vec::new(), log) && refused(tree, &Vec::new()), "one of them is empty");
    assert!(refused(&early[1], &early[0]), "they are swapped");
    // An older tree gets missing writes from the log, or is refused.
    assert!(outcome(&[early[0].clone(), log.clone()], &expected).is_ok());
}

/// The tree is rolled back, and the log has no later writes, because large groups are not in it.
#[test]
fn rolled_back_tree_is_refused_without_log_groups() {
    let mut written = Written::new(3);
    written.settle();
    let early = written.files();
    let changes = (0..60).map(|n| {
        let (name, data) = (format!("\x03l{n:02}").into_bytes().into(), vec![7; 60_000].into());
        let after = Some(SetValue { ttl: 60, policy: Policy::All, data: vec![data] });
        WrittenSet { name, rtype: Rtype::TXT, view: View::DEFAULT, before: None, after }
    });
    let mut large = write(&mut written.rng, 4);
    large.action = Action::Change(changes.collect());
    written.model.commit_and_look_up(vec![large.clone()].into()).unwrap();
    written.store.commit_and_look_up(vec![large].into()).unwrap();
    let [tree, log] = written.files();
    let expected = written.held();
    assert_eq!(outcome(&[tree, log.clone()], &expected), Ok(Outcome::Whole));
    assert_eq!(outcome(&[early[0].clone(), log], &expected), Ok(Outcome::Refused));
}

/// Both files of a store are gone, and the list of its zones is still there.
#[test]
fn missing_files_beside_a_list_of_zones_are_damage_and_nothing_is_created() {
    let folder = Folder::new("missing");
    let list = folder.join(store::ZONE_LIST);
    let opened = || RedbStore::open(&folder, false).map(drop);
    std::fs::write(&list, "no list").unwrap();
    let Err(StoreError::Damaged(why)) = opened() else { panic!("it is taken for empty") };
    for part in ["records.redb and ", "records.wal are missing", "records.zones", "zones restore"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let names = || std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(names(), 1, "nothing is created");
    std::fs::remove_file(&list).unwrap();
    opened().unwrap();
    assert_eq!(names(), 2, "without a list it is a new store");
}

/// A bit that flips while the store is open is detected; reads work again once it is restored.
#[test]
fn bit_flipped_while_open_is_detected() {
    let mut written = Written::new(400);
    written.settle();
    written.store.close();
    let whole = written.files.clone().map(|file| file.bytes());
    let expected = written.held();
    let mut found = 0;
    for page in (1..whole[0].len() / 4096).step_by(3) {
        let files = whole.clone().map(|bytes| File::of(&bytes));
        let mut store = open(&files).unwrap();
        files[0].0.lock().unwrap()[page * 4096 + 900] ^= 8;
        match dump(&store) {
            Ok(bytes) => assert!(bytes == expected, "page {page}"),
            Err(StoreError::Damaged(_)) => {
                found += 1;
                assert!(matches!(store.reader().revision(), Err(StoreError::Damaged(_))));
                if store.newest().is_err() {
                    files[0].0.lock().unwrap()[page * 4096 + 900] ^= 8;
                    store.newest().unwrap();
                }
                // Otherwise the page is unused there, or the previous state is as good.
                assert!(dump(&store).unwrap() == expected, "page {page}");
            }
            Err(why) => panic!("{why:?}"),
        }
    }
    assert!(found > 5, "{found} were found");
}
