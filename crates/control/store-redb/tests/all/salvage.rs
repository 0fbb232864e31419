//! Damaged, missing or moved files on a real disk: errors, salvage and replacement.
use records::{
    Action, CommitError, Policy, PreparedWrite, RestoreInfo, Revision, SetValue, Store, StoreError,
    View, WrittenSet,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::SystemTime;
use store::snapshot;
use store_redb::{RedbStore, paths, salvage};
use test_support::folder::Folder;
use wire::{Name, NameBuf, Rtype};

fn copied(from: &Folder) -> Folder {
    let copy = Folder::new("salvage-copy");
    for (from, to) in paths(from).iter().zip(paths(&copy)) {
        fs::copy(from, to).unwrap();
    }
    copy
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

fn zone(n: u64) -> NameBuf {
    NameBuf::from_text(format!("zone{n}.test.").as_bytes(), Name::ROOT).unwrap()
}

fn write(of: u64, revision: u64, sets: std::ops::Range<u64>) -> PreparedWrite {
    let changes = sets.map(|n| {
        let name = format!("\x05n{n:04}").into_bytes().into();
        let data = vec![[&[200][..], &[(n + revision) as u8; 200]].concat().into()];
        let after = Some(SetValue { ttl: 60, policy: Policy::All, data });
        WrittenSet { name, rtype: Rtype::TXT, view: View::DEFAULT, before: None, after }
    });
    let changes = changes.collect();
    let action = if revision <= 3 { Action::Create(changes) } else { Action::Change(changes) };
    let (when, revision) = (SystemTime::UNIX_EPOCH, Revision(revision));
    let offset = (revision.0 != 3).then_some(7 * revision.0 as u32);
    PreparedWrite { zone: zone(of), revision, when, by: "x".into(), offset, reason: None, action }
}

/// A store with three zones of 300 sets, and some more writes only in the log.
fn filled(folder: &Path) -> RedbStore {
    let mut store = RedbStore::open(folder, false).unwrap();
    for n in 1..=3 {
        store.commit_and_look_up(vec![write(n, n, 0..300)].into()).unwrap();
    }
    store.reader().revision().unwrap();
    store.commit_and_look_up(vec![write(2, 4, 250..320), write(3, 5, 0..2)].into()).unwrap();
    store
}

fn dump(store: &dyn Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.reader().snapshot(&mut bytes).unwrap();
    bytes
}

/// The sets in a snapshot.
fn sets(mut bytes: &[u8]) -> BTreeMap<(String, Vec<u8>), Vec<u8>> {
    let (mut found, mut zone) = (BTreeMap::new(), String::new());
    snapshot::read(&mut bytes, &mut |item| {
        match item {
            snapshot::SnapshotItem::Form(_) => {}
            snapshot::SnapshotItem::Zone(origin, _) => zone = origin.to_string(),
            snapshot::SnapshotItem::Set(key, value) => {
                found.insert((zone.clone(), key.to_vec()), value.to_vec());
            }
        }
        Ok(())
    })
    .unwrap();
    found
}

fn restoring() -> RestoreInfo {
    let (revision, when) = (Revision(1), SystemTime::UNIX_EPOCH);
    RestoreInfo { revision, when, by: "x".into(), reason: None }
}

#[test]
fn salvage_of_an_intact_store_is_its_snapshot() {
    let folder = Folder::new("whole");
    let store = filled(&folder);
    let copy = copied(&folder);
    let told = salvage(&folder, &mut Vec::new()).unwrap_err().to_string();
    assert!(told.contains("another process uses it"), "{told}");
    let expected = dump(&store);
    let before = files(&copy);
    let mut bytes = Vec::new();
    let report = salvage(&copy, &mut bytes).unwrap();
    assert!(bytes == expected && files(&copy) == before);
    assert_eq!((report.revision, report.damage), (Revision(5), vec![]));
    let zones: Vec<_> = report.zones.iter().map(|zone| (zone.sets, zone.lost)).collect();
    assert_eq!(zones, [(300, 0), (320, 0), (300, 0)]);
}

/// Verified content is in the snapshot unchanged; lost sets are counted.
#[test]
fn damaged_files_are_salvaged_and_replaced() {
    let folder = Folder::new("blocks");
    let expected = {
        let mut store = filled(&folder);
        let expected = sets(&dump(&store));
        store.close();
        expected
    };
    let [tree, _] = paths(&folder);
    let whole = fs::read(&tree).unwrap();
    // Leaves with sets of the zones.
    let is_of_sets = |page: &[u8]| page[0] == 1 && page.windows(4).any(|part| part == b"n012");
    let pages: Vec<usize> =
        (1..whole.len() / 4096).filter(|n| is_of_sets(&whole[n * 4096..][..4096])).collect();
    assert!(!pages.is_empty());
    let mut damaged = whole.clone();
    pages.iter().take(3).for_each(|n| damaged[n * 4096 + 200..][..40].fill(0x5a));
    fs::write(&tree, &damaged).unwrap();
    let before = files(&folder);
    let why = RedbStore::open(&folder, false).map(drop).unwrap_err();
    let StoreError::Damaged(why) = why else { panic!("{why:?}") };
    assert!(why.contains("records.redb: it is damaged near byte"), "{why}");
    let mut bytes = Vec::new();
    let report = salvage(&folder, &mut bytes).unwrap();
    assert!(files(&folder) == before, "nothing is changed");
    let left = sets(&bytes);
    assert!(left.iter().all(|(key, value)| expected.get(key) == Some(value)));
    let lost: u64 = report.zones.iter().map(|zone| zone.lost).sum();
    assert_eq!(left.len() as u64 + lost, expected.len() as u64, "{report:?}");
    assert!(lost > 0 && !left.is_empty() && !report.damage.is_empty(), "{report:?}");
    // A truncated snapshot replaces nothing.
    let half = &bytes[..bytes.len() / 2];
    assert!(RedbStore::replace(&folder, &mut &*half, &restoring()).is_err());
    assert!(files(&folder) == before);
    let restored = RedbStore::replace(&folder, &mut &bytes[..], &restoring()).unwrap();
    assert!(restored.reader().revision().unwrap() > Revision(5), "no revision comes again");
    assert_eq!(sets(&dump(&restored)).len(), left.len());
    drop(restored);
    let after = files(&folder);
    let aside = |name: &str| after.iter().find(|(other, _)| other.starts_with(name)).unwrap().1;
    assert!(*aside("records.redb.damaged-") == damaged);
    assert!(*aside("records.wal.damaged-") == before["records.wal"]);
    assert_eq!(after.len(), 4, "{:?}", after.keys());
    RedbStore::open(&folder, false).unwrap().reader().revision().unwrap();
}

/// A server's store cannot be opened: it is retried, or restored.
#[test]
fn unopenable_store_is_restored() {
    let folder = Folder::new("closed");
    let bytes = dump(&filled(&folder));
    let [tree, log] = paths(&folder);
    let whole = fs::read(&tree).unwrap();
    fs::write(&tree, &whole[..whole.len() / 3]).unwrap();
    let mut store = RedbStore::closed(&folder).unwrap();
    let reader = store.reader();
    assert!(reader.revision().is_err());
    assert!(matches!(store.open(), Err(StoreError::Damaged(_))));
    assert!(matches!(reader.revision(), Err(StoreError::Damaged(_))));
    assert!(matches!(
        store.commit_and_look_up(vec![write(1, 6, 0..1)].into()),
        Err(CommitError::Refused(StoreError::Damaged(_)))
    ));
    // Putting the file back restores everything.
    fs::write(&tree, &whole).unwrap();
    store.open().unwrap();
    assert!(dump(&store) == bytes);
    store.close();
    fs::remove_file(&log).unwrap();
    let mut store = RedbStore::closed(&folder).unwrap();
    let told = store.open().unwrap_err().to_string();
    assert!(told.contains("records.wal: it is missing"), "{told}");
    store.restore(&mut &bytes[..], &restoring()).unwrap();
    assert_eq!(sets(&dump(&store)).len(), sets(&bytes).len());
    let newest = store.newest().unwrap();
    store.commit_and_look_up(vec![write(1, newest.0 + 1, 0..1)].into()).unwrap();
}

#[test]
fn missing_or_empty_files_are_not_recreated() {
    let folder = Folder::new("missing");
    drop(filled(&folder));
    for (n, path) in paths(&folder).iter().enumerate() {
        let name = path.file_name().unwrap().to_str().unwrap();
        for is_gone in [true, false] {
            let copy = copied(&folder);
            let path = &paths(&copy)[n];
            if is_gone {
                fs::remove_file(path).unwrap()
            } else {
                fs::write(path, b"").unwrap()
            }
            let before = files(&copy);
            let why = RedbStore::open(&copy, false).map(drop).unwrap_err();
            assert!(matches!(&why, StoreError::Damaged(why) if why.contains(name)), "{why:?}");
            assert!(files(&copy) == before, "{name}");
        }
    }
}

#[test]
fn interrupted_first_start_is_repeated() {
    let folder = Folder::new("first");
    drop(RedbStore::open(&folder, false).unwrap());
    let [tree, log] = paths(&folder);
    for path in [&tree, &log] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    fs::remove_file(&tree).unwrap();
    fs::write(tree.with_extension("redb.new"), b"half of it").unwrap();
    drop(filled(&folder));
    assert_eq!(files(&folder).len(), 2, "{:?}", files(&folder).keys());
}

#[test]
fn symbolic_links_are_not_followed() {
    for which in 0..2 {
        let (folder, elsewhere) = (Folder::new("link"), Folder::new("elsewhere"));
        drop(filled(&elsewhere));
        let before = files(&elsewhere);
        let (links, targets) = (paths(&folder), paths(&elsewhere));
        fs::copy(&targets[1 - which], &links[1 - which]).unwrap();
        symlink(&targets[which], &links[which]).unwrap();
        let told = RedbStore::open(&folder, false).map(drop).unwrap_err().to_string();
        assert!(told.contains("symbolic link"), "{told}");
        assert!(files(&elsewhere) == before);
    }
}
