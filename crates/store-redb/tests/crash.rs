//! What was committed survives a machine that goes down at any moment, and a disk that fills up:
//! on a disk that forgets what it was not told to keep.
mod desk;
mod disk;

use desk::{batch, name, put, serve, servers};
use disk::{Dice, Disk};
use records::{
    Action, Memory, Policy, Prepared, Revision, SetChange, SetKey, SetValue, Store, StoreError,
    View,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use store_redb::RedbStore;
use wire::{Name, NameBuf, Rtype};

fn zone(n: u64) -> NameBuf {
    NameBuf::from_text(format!("zone{n}.test.").as_bytes(), Name::ROOT).unwrap()
}

/// Some writes that nobody could tell from those of a desk.
fn writes(dice: &mut Dice, last: &mut u64, known: &mut [bool; 3]) -> Vec<Prepared> {
    let count = 1 + dice.below(5);
    let write = |_| {
        *last += 1;
        let n = dice.below(3);
        let is_known = std::mem::replace(&mut known[n as usize], true);
        let changes = (0..dice.below(40)).map(|_| change(dice)).collect();
        let action = match is_known {
            false => Action::Create(changes),
            true if dice.below(12) == 0 => {
                known[n as usize] = false;
                Action::Delete
            }
            true => Action::Change(changes),
        };
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(*last);
        let (zone, revision) = (zone(n), Revision(*last));
        Prepared { zone, revision, when, by: "dice".into(), action }
    };
    (0..count).map(write).collect()
}

fn change(dice: &mut Dice) -> SetChange {
    let label = format!("n{}", dice.below(400));
    let name = [&[label.len() as u8], label.as_bytes()].concat().into();
    let data = vec![vec![dice.below(256) as u8; dice.below(300) as usize].into()];
    let value = SetValue { ttl: 60, policy: Policy::All, data };
    let after = (dice.below(3) > 0).then_some(value);
    SetChange { name, rtype: Rtype::TXT, view: View::Default, before: None, after }
}

fn open(disk: &Disk) -> RedbStore {
    let disk = disk.clone();
    RedbStore::on(move || disk.files()).unwrap()
}

fn both(model: &mut Memory, store: &mut RedbStore, group: Vec<Prepared>) {
    model.commit(group.clone()).unwrap();
    store.commit(group).unwrap();
}

fn dump(store: &dyn Store) -> Vec<u8> {
    let mut octets = Vec::new();
    store.reader().snapshot(&mut octets).unwrap();
    octets
}

/// Writes until the machine goes down, then looks at what the disk still has: the last group that
/// was answered, or the one behind it as a whole. Says whether it went down in the middle.
///
/// # Errors
/// What was answered is not there. So it has to be of a disk that `lies`, which is what a store
/// would make of any that does not tell it to keep what it wrote.
fn survive(seed: u64, lies: bool) -> Result<bool, String> {
    let mut dice = Dice(seed);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut model = Memory::default();
    let mut states = vec![dump(&model)];
    let mut store = open(&disk);
    if lies {
        disk.lie();
    }
    disk.crash_after(dice.below(300));
    let mut answered = 0;
    for _ in 0..40 {
        let group = writes(&mut dice, &mut last, &mut known);
        model.commit(group.clone()).unwrap();
        states.push(dump(&model));
        if store.commit(group).is_err() || store.tidy().is_err() {
            break;
        }
        // Who reads has what is in the log brought into the tree.
        if dice.below(4) == 0 && store.reader().revision().is_err() {
            break;
        }
        answered = states.len() - 1;
    }
    let has_crashed = disk.has_crashed();
    let left = disk.reboot(&mut dice);
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
fn what_was_answered_survives_a_disk_that_forgets_what_was_not_synced() {
    let rounds: u64 =
        std::env::var("DUNLIN_CRASHES").map_or(100, |rounds| rounds.parse().expect("a number"));
    let crashes: Result<Vec<bool>, String> = (0..rounds).map(|seed| survive(seed, false)).collect();
    let crashes = crashes.unwrap().into_iter().filter(|crashed| *crashed).count() as u64;
    assert!(crashes * 2 > rounds, "{crashes} of {rounds} went down in the middle");
}

/// What this test finds where nothing is told to be kept: the same rounds, of which most lose what
/// was answered.
#[test]
fn a_store_that_does_not_sync_would_be_found_out() {
    let lost: Vec<String> = (0..30).filter_map(|seed| survive(seed, true).err()).collect();
    assert!(lost.len() > 15, "{} of 30 were found: {lost:?}", lost.len());
    assert!(lost.iter().any(|why| why.contains("was answered")), "{lost:?}");
}

#[test]
fn a_full_disk_refuses_writes_and_is_read_and_written_again_once_there_is_room() {
    // The log is made longer, and that is laid out, before the first group is laid down.
    for writes_left in 0..3 {
        let mut dice = Dice(7);
        let disk = Disk::default();
        let (mut last, mut known) = (0, [false; 3]);
        let mut model = Memory::default();
        let mut store = open(&disk);
        let reader = store.reader();
        for _ in 0..2 {
            disk.fill_after(writes_left * u64::from(last == 0));
            let group = writes(&mut dice, &mut last.clone(), &mut known.clone());
            let refused = store.commit(group);
            assert!(matches!(refused, Err(StoreError::Full)), "{refused:?}");
            disk.has_room();
            // Nothing of it is there, whatever was begun.
            store.newest().unwrap();
            assert_eq!(dump(&store), dump(&model));
            assert_eq!(reader.revision().unwrap(), Revision(last));
            let group = writes(&mut dice, &mut last, &mut known);
            both(&mut model, &mut store, group);
        }
        assert_eq!(dump(&store), dump(&model));
    }
}

/// The disk fills up between a write and its way from the log into the tree.
#[test]
fn a_disk_that_is_too_full_for_the_tree_has_all_in_the_log() {
    let mut dice = Dice(9);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut model = Memory::default();
    let mut store = open(&disk);
    let reader = store.reader();
    for _ in 0..5 {
        let group = writes(&mut dice, &mut last, &mut known);
        both(&mut model, &mut store, group);
    }
    disk.fill_after(0);
    assert!(matches!(reader.revision(), Err(StoreError::Full)));
    let group = writes(&mut dice, &mut last.clone(), &mut known.clone());
    assert!(store.commit(group).is_err());
    disk.has_room();
    assert_eq!(store.newest().unwrap(), Revision(last));
    assert_eq!(dump(&store), dump(&model));
    let group = writes(&mut dice, &mut last, &mut known);
    both(&mut model, &mut store, group);
    assert_eq!(dump(&store), dump(&model));
}

/// Nobody asked for the checkpoint that fails, and only reads and writes with conditions come.
#[test]
fn a_tree_that_failed_by_itself_is_mended_by_whoever_writes_next() {
    let mut dice = Dice(4);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut store = open(&disk);
    let reader = store.reader();
    disk.fill_after(5);
    store.commit(writes(&mut dice, &mut last, &mut known)).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while reader.held().is_ok() {
        assert!(Instant::now() < until, "what waits goes into the tree after a while");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(matches!(reader.revision(), Err(StoreError::Full)));
    disk.has_room();
    // What comes with any request.
    store.tidy().unwrap();
    assert_eq!(reader.revision().unwrap(), Revision(last));
    store.commit(writes(&mut dice, &mut last, &mut known)).unwrap();
    assert_eq!(reader.revision().unwrap(), Revision(last));
}

#[test]
fn who_reads_is_told_something_whatever_the_disk_does() {
    let mut dice = Dice(6);
    let disk = Disk::default();
    let (mut last, mut known) = (0, [false; 3]);
    let mut store = open(&disk);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let reader = store.reader();
            scope.spawn(|| {
                let reader = reader;
                while !is_over.load(Ordering::Relaxed) {
                    let _ = (reader.revision(), reader.held());
                }
            });
        }
        for _ in 0..300 {
            disk.crash_after(dice.below(30));
            let (mut then, mut known_then) = (last, known);
            let done = store.commit(writes(&mut dice, &mut then, &mut known_then));
            disk.is_back();
            let newest = store.newest().unwrap();
            assert!(newest == Revision(then) || done.is_err() && newest == Revision(last));
            if newest == Revision(then) {
                (last, known) = (then, known_then);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// So much is written that both halves of the log are in use, over and over; then the power goes.
#[test]
fn what_is_in_either_half_of_the_log_is_there_after_a_crash() {
    let (disk, mut model) = (Disk::default(), Memory::default());
    let mut store = open(&disk);
    for n in 1..=100u64 {
        // Some of a size that is not put into the log at all.
        let size = if n % 30 == 7 { 40 } else { 14 };
        let changes = (0..size).map(|k| {
            let name = format!("\x04n{:03}", (n * 7 + k) % 500).into_bytes().into();
            let data = vec![vec![n as u8; 60_000].into()];
            let after = Some(SetValue { ttl: 60, policy: Policy::All, data });
            SetChange { name, rtype: Rtype::TXT, view: View::Default, before: None, after }
        });
        let changes: Vec<_> = changes.collect();
        let action = if n == 1 { Action::Create(changes) } else { Action::Change(changes) };
        let (when, revision) = (SystemTime::UNIX_EPOCH, Revision(n));
        let write = Prepared { zone: zone(0), revision, when, by: "x".into(), action };
        both(&mut model, &mut store, vec![write]);
    }
    let left = disk.reboot(&mut Dice(3));
    drop(store);
    let again = open(&left);
    assert!(dump(&again) == dump(&model));
}

/// A disk that fails in the middle of a write and is back later: whatever it has of that write is
/// what is answered once somebody writes again.
#[test]
fn what_a_disk_has_of_a_write_that_it_failed_is_answered_once_it_is_back() {
    let mut there_all_the_same = 0;
    for operations in 0..100 {
        let disk = Disk::default();
        let (desk, control, _running) = serve(open(&disk));
        desk.create_zone(batch(vec![servers()])).wait().unwrap();
        // Once it is in the tree nothing is under way.
        desk.revision().unwrap();
        disk.crash_after(operations);
        let refused = desk.write(batch(vec![put("a.kill.test", Rtype::A, &[10, 0, 0, 1])])).wait();
        let Err(refused) = refused else { break };
        disk.is_back();
        let written = desk.write(batch(vec![put("b.kill.test", Rtype::A, &[10, 0, 0, 2])])).wait();
        control.wait(written.unwrap().ticket).unwrap();
        let zone = Arc::clone(control.image().zone(name("kill.test").as_name()).unwrap());
        for at in ["a.kill.test", "b.kill.test"] {
            let (zone_name, view) = (name("kill.test"), View::Default);
            let key = SetKey { zone: zone_name, name: name(at), rtype: Rtype::A, view };
            let is_there = desk.set(&key).unwrap().is_some();
            let is_answered = zone.set(name(at).as_name(), Rtype::A).is_some();
            assert_eq!(is_answered, is_there, "{at} after {operations} operations");
            if at.starts_with('a') && is_there {
                assert!(refused.to_string().contains("all the same"), "{refused}");
                there_all_the_same += 1;
            }
        }
    }
    assert!(there_all_the_same > 0, "none was there though it was refused");
}

/// So it is with a restore: it is there or not, and the write behind it is none that was before.
#[test]
fn a_restore_that_a_disk_fails_is_there_or_not_and_the_next_write_is_done() {
    let mut failed = 0;
    for operations in 0..200 {
        let mut dice = Dice(5);
        let disk = Disk::default();
        let (mut last, mut known) = (0, [false; 3]);
        let mut store = open(&disk);
        store.commit(writes(&mut dice, &mut last, &mut known)).unwrap();
        let octets = dump(&store);
        let (revision, when) = (Revision(last + 1), SystemTime::UNIX_EPOCH);
        let restoring = records::Restoring { revision, when, by: "x".into() };
        disk.crash_after(operations);
        if store.restore(&mut &octets[..], &restoring).is_ok() {
            break;
        }
        failed += 1;
        disk.is_back();
        let newest = store.newest().unwrap();
        assert!([Revision(last), revision].contains(&newest), "{newest} of {revision}");
        last = newest.0;
        store.commit(writes(&mut dice, &mut last, &mut known)).unwrap();
        assert_eq!(store.reader().revision().unwrap(), Revision(last));
    }
    assert!((1..200).contains(&failed), "{failed}: it fails, and is done in the end");
}

/// The store in memory and this one are told the same, and say the same.
#[test]
fn it_does_what_the_store_in_memory_does() {
    let mut dice = Dice(11);
    let (mut last, mut known) = (0, [false; 3]);
    let (mut model, disk) = (Memory::default(), Disk::default());
    let mut store = open(&disk);
    for _ in 0..60 {
        let group = writes(&mut dice, &mut last, &mut known);
        both(&mut model, &mut store, group);
        while store.tidy().unwrap() {}
        assert_eq!(dump(&store), dump(&model));
        let (ours, theirs) = (store.reader(), model.reader());
        let told = |zones: Vec<records::StoredZone>| -> Vec<_> {
            let line = |zone: &records::StoredZone| (zone.revision, zone.sets);
            zones.iter().map(line).collect()
        };
        assert_eq!(told(ours.zones().unwrap()), told(theirs.zones().unwrap()));
        for n in 0..3 {
            let journal = |reader: &Arc<dyn records::Reader>| {
                reader.journal(zone(n).as_name(), Revision(3), 50).unwrap().map(|found| found.0)
            };
            assert_eq!(journal(&ours), journal(&theirs));
        }
    }
    let octets = dump(&model);
    let when = SystemTime::UNIX_EPOCH;
    let restoring = records::Restoring { revision: Revision(last + 1), when, by: "x".into() };
    for damaged in [&octets[..octets.len() - 1], &octets[..octets.len() / 2]] {
        assert!(store.restore(&mut &*damaged, &restoring).is_err());
        assert_eq!(dump(&store), octets);
    }
    store.restore(&mut &octets[..], &restoring).unwrap();
    model.restore(&mut &octets[..], &restoring).unwrap();
    assert_eq!(dump(&store), dump(&model));
}
