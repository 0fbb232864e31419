//! Upgrade and go back, with files that an older version wrote.

use crate::service::{name, serve};
use flate2::read::GzDecoder;
use records::snapshot::{self, SnapshotItem};
use records::{Edit, Policy, RecordService, SetKey, SetValue, Store, View, WriteContext};
use std::fs;
use std::io::{Cursor, Read};
use std::path::PathBuf;
use store_redb::RedbStore;
use wire::Rtype;

const TREE: &[u8] = include_bytes!("../format-4/records.redb.gz");
const LOG: &[u8] = include_bytes!("../format-4/records.wal.gz");
/// As the older version wrote it.
const SNAPSHOT: &[u8] = include_bytes!("../format-4/snapshot.records");
const OLDER: u8 = 3;

fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The files of the older version in a folder.
fn older_store(test: &str) -> PathBuf {
    let folder = folder(test);
    for (file, packed) in [("records.redb", TREE), ("records.wal", LOG)] {
        let mut bytes = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        fs::write(folder.join(file), bytes).unwrap();
    }
    folder
}

fn www() -> SetKey {
    let (zone, name) = (name("example.org."), name("www.example.org."));
    SetKey { zone, name, rtype: Rtype::A, view: View::Default }
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

/// The snapshot of a service in the format of the older version, and what it loses.
fn older_snapshot(service: &RecordService) -> (Vec<u8>, Vec<String>) {
    let (mut newest, mut older) = (Vec::new(), Vec::new());
    let revision = service.snapshot(&mut newest).unwrap();
    let lost = snapshot::convert(&mut &newest[..], &mut older, revision, OLDER).unwrap();
    (older, lost.iter().map(ToString::to_string).collect())
}

#[test]
fn store_of_the_older_version_is_upgraded_and_its_snapshot_is_written_as_by_that() {
    let folder = older_store("upgrade");
    let (service, _control, serving) = serve(RedbStore::open(&folder, false).unwrap());
    let rules = value(&service).policy.rules().cloned().unwrap();
    assert_eq!((&*rules.check, &*rules.tiers, &*rules.comment), ("web", &[0, 1][..], ""));
    let (older, lost) = older_snapshot(&service);
    assert!(older == SNAPSHOT, "the older version wrote other bytes");
    assert_eq!(lost, Vec::<String>::new());
    drop((service, serving));
    // It opens again, in the newest format.
    assert_eq!(RedbStore::open(&folder, false).unwrap().reader().zones().unwrap().len(), 1);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_the_older_version_cannot_hold_is_listed_and_the_rest_goes_back() {
    let folder = older_store("go-back");
    let (service, _control, serving) = serve(RedbStore::open(&folder, false).unwrap());
    let old = value(&service);
    let commented = old.policy.clone().with_comment("rack 7");
    write(&service, SetValue { policy: commented, ttl: 60, ..old.clone() });
    let (older, lost) = older_snapshot(&service);
    assert_eq!(lost, ["www.example.org. A: its comment"]);
    drop((service, serving));
    fs::remove_dir_all(folder).unwrap();
    // The older version verifies a snapshot as this does for its format: no set has a comment.
    assert!(older.starts_with(b"DUNLIN RECORDS 3\n"));
    let mut sets = 0;
    let read = snapshot::read(&mut &older[..], &mut |item| {
        sets += usize::from(matches!(item, SnapshotItem::Set(..)));
        Ok(())
    });
    assert_eq!((read.unwrap().0, sets), (4, 4), "SOA, NS, www, mail");
    let other = self::folder("went-back");
    let (service, _control, serving) = serve(RedbStore::open(&other, false).unwrap());
    let restored = service.restore(Box::new(Cursor::new(older)), WriteContext::by("test")).wait();
    restored.unwrap();
    assert_eq!(value(&service), SetValue { ttl: 60, ..old });
    drop((service, serving));
    fs::remove_dir_all(other).unwrap();
}

#[test]
fn snapshot_of_the_older_version_is_restored() {
    let folder = folder("older-snapshot");
    let (service, _control, serving) = serve(RedbStore::open(&folder, false).unwrap());
    service.restore(Box::new(Cursor::new(SNAPSHOT)), WriteContext::by("test")).wait().unwrap();
    assert_ne!(value(&service).policy, Policy::All);
    drop((service, serving));
    fs::remove_dir_all(folder).unwrap();
}
