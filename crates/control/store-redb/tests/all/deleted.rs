//! Journals of deleted zones.
use records::{
    Action, ChangeKind, Deletion, JournalPart, Policy, PreparedWrite, Revision, SetValue, Store,
    View, WrittenSet,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use store::limits::DELETED_ZONES_MAX;
use store_redb::RedbStore;
use wire::{Name, NameBuf, Rtype};

fn zone(n: u64) -> NameBuf {
    NameBuf::from_text(format!("zone{n}.test.").as_bytes(), Name::ROOT).unwrap()
}

fn write(n: u64, revision: u64, action: Action) -> PreparedWrite {
    let (zone, revision, when) = (zone(n), Revision(revision), SystemTime::UNIX_EPOCH);
    let (by, reason) = ("x".into(), Some("test".into()));
    PreparedWrite { zone, revision, when, by, offset: None, reason, action }
}

fn text(len: usize) -> Vec<WrittenSet> {
    let after = SetValue { ttl: 60, policy: Policy::All, data: vec![vec![7; len].into()] };
    let (name, view) = (Box::from(&b"\x03www"[..]), View::DEFAULT);
    vec![WrittenSet { name, rtype: Rtype::TXT, view, before: None, after: Some(after) }]
}

fn gone() -> Action {
    let changes = text(1).into_iter().map(|change| WrittenSet {
        before: change.after,
        after: None,
        ..change
    });
    Action::Delete(Deletion { count: 1, changes: changes.collect() })
}

fn journal(store: &RedbStore, n: u64, after: u64) -> Option<JournalPart> {
    store.reader().journal(zone(n).as_name(), Revision(after), 100).unwrap()
}

fn told(part: &JournalPart) -> Vec<(u64, ChangeKind)> {
    part.entries.iter().map(|entry| (entry.revision.0, entry.kind)).collect()
}

/// A folder of a test's own, empty.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("deleted-{test}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn open(folder: &Path) -> RedbStore {
    RedbStore::open(folder, false).unwrap()
}

#[test]
fn journal_of_a_deleted_zone_survives_sweep_restart_and_recreation() {
    let folder = folder("restart");
    let mut store = open(&folder);
    store.commit_and_look_up(vec![write(0, 1, Action::Create(text(9)))].into()).unwrap();
    store.commit_and_look_up(vec![write(0, 2, gone())].into()).unwrap();
    while store.tidy().unwrap() {}
    drop(store);
    let mut store = open(&folder);
    while store.tidy().unwrap() {}
    let part = journal(&store, 0, 0).unwrap();
    assert_eq!(told(&part), [(1, ChangeKind::Created), (2, ChangeKind::Deleted)]);
    assert_eq!((part.whole_after, part.newest), (Revision::NONE, Revision(2)));
    assert_eq!(part.entries[1].reason.as_deref(), Some("test"));
    assert_eq!(part.entries[1].changes[0].before.as_ref().unwrap().data[0][..], [7]);
    assert!(store.reader().zone(zone(0).as_name()).unwrap().is_none());
    store.commit_and_look_up(vec![write(0, 3, Action::Create(text(8)))].into()).unwrap();
    while store.tidy().unwrap() {}
    let part = journal(&store, 0, 1).unwrap();
    assert_eq!(told(&part), [(2, ChangeKind::Deleted), (3, ChangeKind::Created)]);
    assert_eq!(journal(&store, 1, 0), None);
}

#[test]
fn journals_of_deleted_zones_are_bounded() {
    let mut store = open(&folder("bounded"));
    let most = DELETED_ZONES_MAX as u64;
    let both = |n: u64| [write(n, 2 * n + 1, Action::Create(text(1))), write(n, 2 * n + 2, gone())];
    store.commit_and_look_up((0..=most).flat_map(both).collect::<Vec<_>>().into()).unwrap();
    while store.tidy().unwrap() {}
    assert_eq!(journal(&store, 0, 0), None, "the oldest was forgotten");
    for n in [1, most] {
        let found = journal(&store, n, 0).unwrap();
        assert_eq!(
            told(&found),
            [(2 * n + 1, ChangeKind::Created), (2 * n + 2, ChangeKind::Deleted)]
        );
    }
}
