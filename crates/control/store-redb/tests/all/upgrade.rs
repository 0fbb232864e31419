//! Upgrade and go back, with files that older versions wrote.
use crate::service::{name, serve};
use flate2::read::GzDecoder;
use records::{
    Edit, Form, RecordService, Revision, SetKey, SetValue, Store, StoreError, View, WriteContext,
};
use std::fs;
use std::io::{Cursor, Read};
use store::snapshot::{self, SnapshotItem};
use store_redb::{RedbStore, paths};
use test_support::folder::Folder;
use wire::Rtype;

const TREE: &[u8] = include_bytes!("../form-5/records.redb.gz");
const LOG: &[u8] = include_bytes!("../form-5/records.wal.gz");
/// As the version that wrote the files took it.
const SNAPSHOT: &[u8] = include_bytes!("../form-5/snapshot.records");
/// A snapshot of the version before comments.
const SNAPSHOT_3: &[u8] = include_bytes!("../form-5/snapshot-3.records");
/// Its format.
const BEFORE_COMMENTS: u8 = 3;

/// The files of the older version in a folder.
fn older_store(test: &str) -> Folder {
    let folder = Folder::new(test);
    for (file, packed) in paths(&folder).iter().zip([TREE, LOG]) {
        let mut bytes = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        fs::write(file, bytes).unwrap();
    }
    folder
}

fn www() -> SetKey {
    let (zone, name) = (name("example.org."), name("www.example.org."));
    SetKey { zone, name, rtype: Rtype::A, view: View::DEFAULT }
}

fn value(service: &RecordService) -> SetValue {
    service.set(&www()).unwrap().unwrap().value
}

fn write(service: &RecordService, value: SetValue) {
    let SetKey { zone, name, rtype, .. } = www();
    let edits = vec![Edit::put(name, rtype, value)];
    let batch = records::Batch { zone, edits, context: WriteContext::by("test") };
    service.write(batch).wait().unwrap();
}

fn snapshot_of(store: &RedbStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.reader().snapshot(&mut bytes).unwrap();
    bytes
}

/// A snapshot in an older format, and what it loses.
fn converted(newest: &[u8], revision: Revision, format: u8) -> (Vec<u8>, Vec<String>) {
    let mut older = Vec::new();
    let lost = snapshot::convert(&mut &newest[..], &mut older, revision, format).unwrap();
    (older, lost.iter().map(ToString::to_string).collect())
}

/// The revisions and reasons in the journal of a zone.
fn journal(store: &RedbStore, zone: &str) -> Vec<(u64, Option<String>)> {
    let part = store.reader().journal(name(zone).as_name(), Revision::NONE, 100).unwrap().unwrap();
    assert_eq!(part.whole_after, Revision::NONE, "nothing is missing");
    let entries = part.entries.into_iter();
    entries.map(|entry| (entry.revision.0, entry.reason)).collect()
}

#[test]
fn store_of_50b22d4_opens_with_all_it_has_and_keeps_its_form() {
    let folder = older_store("form-5");
    let store = RedbStore::open(&folder, false).unwrap();
    assert_eq!(store.form(), Form::OLDEST);
    assert!(snapshot_of(&store) == SNAPSHOT, "the older version wrote other bytes");
    let reason = |text: &str| Some(text.to_owned());
    let of_zone = [(1, None), (5, None), (6, None), (7, None), (8, None), (9, reason("moved"))];
    assert_eq!(journal(&store, "example.org."), of_zone);
    assert_eq!(journal(&store, "gone.example."), [(2, None), (3, reason("a test")), (4, None)]);
    let (service, _control, serving) = serve(store);
    let old = value(&service);
    let rules = old.policy.rules().cloned().unwrap();
    assert_eq!((&*rules.check, &*rules.tiers, &*rules.comment), ("web", &[0, 1][..], "rack 7"));
    write(&service, SetValue { ttl: 60, ..old });
    drop((service, serving));
    // The same files, in the same form: the older version can continue with them.
    let store = RedbStore::open(&folder, false).unwrap();
    assert_eq!(store.form(), Form::OLDEST);
    assert_eq!(journal(&store, "example.org.").last(), Some(&(10, None)));
    let names = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
    let stores = names.filter(|name| name.to_string_lossy().starts_with("records.")).count();
    assert_eq!(stores, 2, "no other files of the store");
}

#[test]
fn store_is_upgraded_once_and_everything_is_there() {
    let folder = older_store("form-raised");
    let mut store = RedbStore::open(&folder, false).unwrap();
    store.upgrade().unwrap();
    store.upgrade().unwrap();
    drop(store);
    let store = RedbStore::open(&folder, false).unwrap();
    assert_eq!(store.form(), Form::NEWEST);
    let (_, lost) = converted(&snapshot_of(&store), Revision(9), Form::OLDEST.of_snapshot());
    assert_eq!(lost, Vec::<String>::new());
}

/// A store that was written takes no snapshot that needs a newer form, and says what to do. A new
/// one takes its form.
#[test]
#[ignore = "campaign: make campaign-upgrade, in a build that knows one form more"]
fn snapshot_of_a_newer_form_is_refused_until_the_store_is_upgraded() {
    assert!(Form::NEWEST > Form::OLDEST, "a build with DUNLIN_NEXT_FORM");
    let folder = older_store("newer-snapshot");
    let mut store = RedbStore::open(&folder, false).unwrap();
    store.upgrade().unwrap();
    let newer = snapshot_of(&store);
    drop(store);
    let write = records::RestoreInfo {
        revision: Revision(20),
        when: std::time::SystemTime::UNIX_EPOCH,
        by: "test".into(),
        reason: None,
    };
    let older = older_store("older-form");
    let mut store = RedbStore::open(&older, false).unwrap();
    let refused = store.restore(&mut &newer[..], &write).unwrap_err();
    let StoreError::Form(why) = refused else { panic!("{refused}") };
    assert!(why.contains("dunlin store upgrade"), "{why}");
    assert!(snapshot_of(&store) == SNAPSHOT, "nothing has changed");
    let new = Folder::new("new-form");
    let mut store = RedbStore::open(&new, false).unwrap();
    store.restore(&mut &newer[..], &write).unwrap();
    assert_eq!(store.form(), Form::NEWEST);
}

#[test]
fn downgrade_lists_lost_content_and_restores_the_rest() {
    let folder = older_store("go-back");
    let (service, _control, serving) = serve(RedbStore::open(&folder, false).unwrap());
    let old = value(&service);
    let mut newest = Vec::new();
    let revision = service.snapshot(&mut newest).unwrap();
    let (older, lost) = converted(&newest, revision, BEFORE_COMMENTS);
    assert_eq!(lost, ["www.example.org. A: its comment"]);
    drop((service, serving));
    // The older version verifies a snapshot as this does for its format: no set has a comment.
    assert!(older.starts_with(b"DUNLIN RECORDS 3\n"));
    let mut sets = 0;
    let read = snapshot::read(&mut &older[..], &mut |item| {
        sets += usize::from(matches!(item, SnapshotItem::Set(..)));
        Ok(())
    });
    assert_eq!((read.unwrap().0, sets), (9, 5), "SOA, NS, www, mail, txt");
    let other = Folder::new("went-back");
    let (service, _control, serving) = serve(RedbStore::open(&other, false).unwrap());
    let restored = service.restore(Box::new(Cursor::new(older)), WriteContext::by("test")).wait();
    restored.unwrap();
    let policy = old.policy.clone().with_comment("");
    assert_eq!(value(&service), SetValue { policy, ..old });
    drop((service, serving));
}

#[test]
fn snapshot_of_an_older_version_is_read_and_written_again_as_by_that() {
    let folder = Folder::new("older-snapshot");
    let mut store = RedbStore::open(&folder, false).unwrap();
    store.replace_by(&mut &SNAPSHOT_3[..]).unwrap();
    let revision = store.newest().unwrap();
    let (older, lost) = converted(&snapshot_of(&store), revision, BEFORE_COMMENTS);
    assert!(older == SNAPSHOT_3, "the older version wrote other bytes");
    assert_eq!(lost, Vec::<String>::new());
}
