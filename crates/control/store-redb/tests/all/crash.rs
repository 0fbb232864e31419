//! Committed writes survive a crash at any moment, and a full disk. Uses a disk that loses unsynced
//! writes.

use crate::disk::Disk;
use crate::memory::MemoryStore;
use crate::service::{batch, name, put, serve, servers};
use fastrand::Rng;
use records::{
    Action, CommitError, Deletion, Policy, PreparedWrite, Revision, SetKey, SetValue, Store,
    StoreError, View, WrittenSet,
};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store_redb::RedbStore;
use test_support::wait;
use wire::{Name, NameBuf, Rtype};

fn zone(n: u64) -> NameBuf {
    NameBuf::from_text(format!("zone{n}.test.").as_bytes(), Name::ROOT).unwrap()
}

/// Some plausible writes.
fn writes(rng: &mut Rng, last: &mut u64, known: &mut [bool; 3]) -> Vec<PreparedWrite> {
    let count = 1 + rng.u64(..5);
    let write = |_| {
        *last += 1;
        let n = rng.u64(..3);
        let is_known = std::mem::replace(&mut known[n as usize], true);
        let changes = (0..rng.u64(..40)).map(|_| change(rng)).collect();
        let action = match is_known {
            false => Action::Create(changes),
            true if rng.u64(..12) == 0 => {
                known[n as usize] = false;
                Action::Delete(deletion(rng))
            }
            true => Action::Change(changes),
        };
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(*last);
        let (zone, revision) = (zone(n), Revision(*last));
        let raises = rng.u64(..4) == 0 && !matches!(action, Action::Delete(_));
        let offset = raises.then(|| rng.u64(..1 << 32) as u32);
        let reason = (rng.u64(..2) == 0).then(|| "rng".into());
        PreparedWrite { zone, revision, when, by: "rng".into(), offset, reason, action }
    };
    (0..count).map(write).collect()
}

fn deletion(rng: &mut Rng) -> Deletion {
    let count = rng.u64(..1 << 20);
    let changes = (0..rng.u64(..4)).map(|_| WrittenSet { after: None, ..change(rng) });
    Deletion { count, changes: changes.collect() }
}

fn change(rng: &mut Rng) -> WrittenSet {
    let label = format!("n{}", rng.u64(..400));
    let name = [&[label.len() as u8], label.as_bytes()].concat().into();
    let data = vec![vec![rng.u64(..256) as u8; rng.u64(..300) as usize].into()];
    let value = SetValue { ttl: 60, policy: Policy::All, data };
    let after = (rng.u64(..3) > 0).then_some(value);
    WrittenSet { name, rtype: Rtype::TXT, view: View::DEFAULT, before: None, after }
}

fn open(disk: &Disk) -> RedbStore {
    let disk = disk.clone();
    RedbStore::on(move || disk.files()).unwrap()
}

fn both(model: &mut MemoryStore, store: &mut RedbStore, group: Vec<PreparedWrite>) {
    model.commit_and_look_up(group.clone().into()).unwrap();
    store.commit_and_look_up(group.into()).unwrap();
}

fn dump(store: &dyn Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.reader().snapshot(&mut bytes).unwrap();
    bytes
}

/// Writes until the machine crashes, then checks the disk: it has the last answered group, or also
/// the complete next one. Returns whether it crashed in the middle.
///
/// # Errors
/// An answered write is missing. Expected on a disk that `lies`, like any disk for a store that
/// does not sync.
fn survive(seed: u64, lies: bool) -> Result<bool, String> {
    let mut rng = Rng::with_seed(seed);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut model = MemoryStore::default();
    let mut states = vec![dump(&model)];
    let mut store = open(&disk);
    if lies {
        disk.lie();
    }
    disk.crash_after(rng.u64(..300));
    let mut answered = 0;
    for _ in 0..40 {
        let group = writes(&mut rng, &mut last, &mut known);
        model.commit_and_look_up(group.clone().into()).unwrap();
        states.push(dump(&model));
        if store.commit_and_look_up(group.into()).is_err() || store.tidy().is_err() {
            break;
        }
        // A read checkpoints the log.
        if rng.u64(..4) == 0 && store.reader().revision().is_err() {
            break;
        }
        answered = states.len() - 1;
    }
    let has_crashed = disk.has_crashed();
    let left = disk.reboot(&mut rng);
    drop(store);
    let told = |why: String| format!("seed {seed}: {why}");
    let again = RedbStore::on(move || left.files()).map_err(|why| told(why.to_string()))?;
    let mut found = Vec::new();
    let read = again.reader().snapshot(&mut found);
    read.map_err(|why| told(why.to_string()))?;
    let at = states.iter().position(|state| *state == found);
    let at = at.ok_or_else(|| told("a state that never was".into()))?;
    match at >= answered {
        true => Ok(has_crashed),
        false => Err(told(format!("{at} is there, {answered} was answered"))),
    }
}

#[test]
fn answered_writes_survive_loss_of_unsynced_data() {
    let rounds: u64 =
        std::env::var("DUNLIN_CRASHES").map_or(100, |rounds| rounds.parse().expect("a number"));
    let crashes: Result<Vec<bool>, String> = (0..rounds).map(|seed| survive(seed, false)).collect();
    let crashes = crashes.unwrap().into_iter().filter(|crashed| *crashed).count() as u64;
    assert!(crashes * 2 > rounds, "{crashes} of {rounds} went down in the middle");
}

/// The same rounds without syncs; most lose answered writes.
#[test]
fn store_without_syncs_fails_the_crash_test() {
    let lost: Vec<String> = (0..30).filter_map(|seed| survive(seed, true).err()).collect();
    assert!(lost.len() > 15, "{} of 30 were found: {lost:?}", lost.len());
    assert!(lost.iter().any(|why| why.contains("was answered")), "{lost:?}");
}

#[test]
fn full_disk_refuses_writes_until_there_is_room() {
    // The log grows and is synced before its first group.
    for writes_left in 0..3 {
        let mut rng = Rng::with_seed(7);
        let disk = Disk::default();
        let (mut last, mut known) = (0, [false; 3]);
        let mut model = MemoryStore::default();
        let mut store = open(&disk);
        let reader = store.reader();
        for _ in 0..2 {
            disk.fill_after(writes_left * u64::from(last == 0));
            let group = writes(&mut rng, &mut last.clone(), &mut known.clone());
            let refused = store.commit_and_look_up(group.into());
            let Err(CommitError::Refused(why) | CommitError::Unknown(why)) = refused else {
                panic!("{refused:?}");
            };
            assert!(matches!(why, StoreError::Full), "{why}");
            disk.has_room();
            // Nothing of it is there.
            store.newest().unwrap();
            assert_eq!(dump(&store), dump(&model));
            assert_eq!(reader.revision().unwrap(), Revision(last));
            let group = writes(&mut rng, &mut last, &mut known);
            both(&mut model, &mut store, group);
        }
        assert_eq!(dump(&store), dump(&model));
    }
}

/// The disk fills up between a write and its checkpoint.
#[test]
fn disk_too_full_for_the_tree_keeps_all_in_the_log() {
    let mut rng = Rng::with_seed(9);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut model = MemoryStore::default();
    let mut store = open(&disk);
    let reader = store.reader();
    for _ in 0..5 {
        let group = writes(&mut rng, &mut last, &mut known);
        both(&mut model, &mut store, group);
    }
    disk.fill_after(0);
    assert!(matches!(reader.revision(), Err(StoreError::Full)));
    let group = writes(&mut rng, &mut last.clone(), &mut known.clone());
    assert!(store.commit_and_look_up(group.into()).is_err());
    disk.has_room();
    assert_eq!(store.newest().unwrap(), Revision(last));
    assert_eq!(dump(&store), dump(&model));
    let group = writes(&mut rng, &mut last, &mut known);
    both(&mut model, &mut store, group);
    assert_eq!(dump(&store), dump(&model));
}

/// A background checkpoint fails, and only reads and conditional writes follow.
#[test]
fn failed_checkpoint_is_repaired_by_the_next_write() {
    let mut rng = Rng::with_seed(4);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut store = open(&disk);
    let reader = store.reader();
    disk.fill_after(5);
    store.commit_and_look_up(writes(&mut rng, &mut last, &mut known).into()).unwrap();
    wait::until_true("what waits goes into the tree", || reader.held().is_err());
    assert!(matches!(reader.revision(), Err(StoreError::Full)));
    disk.has_room();
    // Part of any request.
    store.tidy().unwrap();
    assert_eq!(reader.revision().unwrap(), Revision(last));
    store.commit_and_look_up(writes(&mut rng, &mut last, &mut known).into()).unwrap();
    assert_eq!(reader.revision().unwrap(), Revision(last));
}

#[test]
fn reads_return_whatever_the_disk_does() {
    let mut rng = Rng::with_seed(6);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut store = open(&disk);
    // Readers end when it is dropped, also by a failed assertion.
    let is_going_on = Arc::new(());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (reader, is_going_on) = (store.reader(), Arc::downgrade(&is_going_on));
            scope.spawn(move || {
                while is_going_on.strong_count() > 0 {
                    let _ = (reader.revision(), reader.held());
                }
            });
        }
        let is_going_on = is_going_on;
        for _ in 0..300 {
            disk.crash_after(rng.u64(..30));
            let (mut then, mut known_then) = (last, known);
            let done =
                store.commit_and_look_up(writes(&mut rng, &mut then, &mut known_then).into());
            disk.is_back();
            // A checkpoint that a reader began before may fail now, and close the files.
            let newest = (0..5).find_map(|_| store.newest().ok()).expect("the disk is back");
            assert!(newest == Revision(then) || done.is_err() && newest == Revision(last));
            if newest == Revision(then) {
                (last, known) = (then, known_then);
            }
        }
        drop(is_going_on);
    });
}

/// Writes fill both halves of the log repeatedly; then the power fails.
#[test]
fn both_halves_of_the_log_survive_a_crash() {
    let (disk, mut model) = (Disk::default(), MemoryStore::default());
    let mut store = open(&disk);
    for n in 1..=100u64 {
        // Some are too large for the log.
        let size = if n % 30 == 7 { 40 } else { 14 };
        let changes = (0..size).map(|k| {
            let name = format!("\x04n{:03}", (n * 7 + k) % 500).into_bytes().into();
            let data = vec![vec![n as u8; 60_000].into()];
            let after = Some(SetValue { ttl: 60, policy: Policy::All, data });
            WrittenSet { name, rtype: Rtype::TXT, view: View::DEFAULT, before: None, after }
        });
        let changes: Vec<_> = changes.collect();
        let action = if n == 1 { Action::Create(changes) } else { Action::Change(changes) };
        let (when, revision) = (SystemTime::UNIX_EPOCH, Revision(n));
        let (zone, by) = (zone(0), "x".into());
        let write = PreparedWrite { zone, revision, when, by, offset: None, reason: None, action };
        both(&mut model, &mut store, vec![write]);
    }
    let left = disk.reboot(&mut Rng::with_seed(3));
    drop(store);
    let again = open(&left);
    assert!(dump(&again) == dump(&model));
}

/// A disk fails in the middle of a write and recovers: the next write finds what the disk has.
#[test]
fn failed_write_found_on_disk_is_served() {
    let mut there_all_the_same = 0;
    for operations in 0..100 {
        let disk = Disk::default();
        let (service, control, _running) = serve(open(&disk));
        service.create_zone(batch(vec![servers()])).wait().unwrap();
        // Once it is in the tree, nothing is pending.
        service.revision().unwrap();
        disk.crash_after(operations);
        let refused =
            service.write(batch(vec![put("a.kill.test", Rtype::A, &[10, 0, 0, 1])])).wait();
        let Err(refused) = refused else { break };
        disk.is_back();
        let written =
            service.write(batch(vec![put("b.kill.test", Rtype::A, &[10, 0, 0, 2])])).wait();
        control.wait(written.unwrap().sequence).unwrap();
        let zone = Arc::clone(control.image().zone(name("kill.test").as_name()).unwrap());
        for at in ["a.kill.test", "b.kill.test"] {
            let (zone_name, view) = (name("kill.test"), View::DEFAULT);
            let key = SetKey { zone: zone_name, name: name(at), rtype: Rtype::A, view };
            let is_there = service.set(&key).unwrap().is_some();
            let is_answered = zone.set(name(at).as_name(), Rtype::A).is_some();
            assert_eq!(is_answered, is_there, "{at} after {operations} operations");
            if at.starts_with('a') && is_there {
                assert!(refused.to_string().contains("on the disk anyway"), "{refused}");
                there_all_the_same += 1;
            }
        }
    }
    assert!(there_all_the_same > 0, "none was there though it was refused");
}

/// The same for a restore: it is complete or missing, and the next write succeeds.
#[test]
fn failed_restore_is_atomic_and_the_next_write_succeeds() {
    let mut failed = 0;
    for operations in 0..200 {
        let mut rng = Rng::with_seed(5);
        let disk = Disk::default();
        let (mut last, mut known) = (0, [false; 3]);
        let mut store = open(&disk);
        store.commit_and_look_up(writes(&mut rng, &mut last, &mut known).into()).unwrap();
        let bytes = dump(&store);
        let (revision, when) = (Revision(last + 1), SystemTime::UNIX_EPOCH);
        let restoring = records::RestoreInfo { revision, when, by: "x".into(), reason: None };
        disk.crash_after(operations);
        if store.restore(&mut &bytes[..], &restoring).is_ok() {
            break;
        }
        failed += 1;
        disk.is_back();
        let newest = store.newest().unwrap();
        assert!([Revision(last), revision].contains(&newest), "{newest} of {revision}");
        last = newest.0;
        store.commit_and_look_up(writes(&mut rng, &mut last, &mut known).into()).unwrap();
        assert_eq!(store.reader().revision().unwrap(), Revision(last));
    }
    assert!((1..200).contains(&failed), "{failed}: it fails, and is done in the end");
}

/// Both stores receive the same operations and give the same results.
#[test]
fn redb_store_equals_memory_store() {
    let mut rng = Rng::with_seed(11);
    let (mut last, mut known) = (0, [false; 3]);
    let (mut model, disk) = (MemoryStore::default(), Disk::default());
    let mut store = open(&disk);
    for _ in 0..60 {
        let group = writes(&mut rng, &mut last, &mut known);
        both(&mut model, &mut store, group);
        while store.tidy().unwrap() {}
        assert_eq!(dump(&store), dump(&model));
        let (ours, theirs) = (store.reader(), model.reader());
        let told = |zones: Vec<records::StoredZone>| -> Vec<_> {
            let queue = |zone: &records::StoredZone| (zone.stamp, zone.sets);
            zones.iter().map(queue).collect()
        };
        assert_eq!(told(ours.zones().unwrap()), told(theirs.zones().unwrap()));
        for n in 0..3 {
            let journal = |reader: &Arc<dyn records::Reader>| {
                reader.journal(zone(n).as_name(), Revision(3), 50).unwrap()
            };
            assert_eq!(journal(&ours), journal(&theirs));
        }
    }
    let bytes = dump(&model);
    let when = SystemTime::UNIX_EPOCH;
    let restoring =
        records::RestoreInfo { revision: Revision(last + 1), when, by: "x".into(), reason: None };
    for damaged in [&bytes[..bytes.len() - 1], &bytes[..bytes.len() / 2]] {
        assert!(store.restore(&mut &*damaged, &restoring).is_err());
        assert_eq!(dump(&store), bytes);
    }
    store.restore(&mut &bytes[..], &restoring).unwrap();
    model.restore(&mut &bytes[..], &restoring).unwrap();
    assert_eq!(dump(&store), dump(&model));
}
