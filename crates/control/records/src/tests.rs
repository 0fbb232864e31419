//! The record service on a store in memory.
mod bounded;
mod comments;
mod given;
mod journal;
pub(crate) mod memory;
mod outage;
mod pages;
mod planned;
mod serials;
mod shadows;
mod slow_disk;
mod unchanged;
mod unloaded;
mod unsure;
mod wildcards;

use super::*;
use compile::{Image, Loader, Zone};
use image::HashKey;
use memory::MemoryStore;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wire::{Name, NameBuf, Rtype};
use zone_manager::{
    HoldPolicy, Lane, PublisherThread, SourceKind, SourceSettings, UpdateSender, ZonePublisher,
    answer, block_on,
};

mod bulk;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

struct TestService {
    service: RecordService,
    publisher: ZonePublisher,
    store: MemoryStore,
    /// The source of zone files.
    files: UpdateSender,
    _serving: ServiceThreads,
    _running: PublisherThread,
}

fn scene(store: MemoryStore) -> TestService {
    scene_on(Box::new(store.clone()), store)
}

/// As `scene`, with a wrapper of the store.
fn scene_on(front: Box<dyn Store>, store: MemoryStore) -> TestService {
    let opening = StoreSource {
        store: front,
        fleet: None,
        waits: false,
        list: None,
        may_write: true,
        mirror: None,
        views: KnownViews::default(),
    };
    TestService { store, ..scene_opened(opening) }
}

fn scene_opened(opening: StoreSource) -> TestService {
    let key = HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5));
    let (publisher, running) = ZonePublisher::start(Image::new(Arc::new(key))).unwrap();
    let (kind, lane, hold) = (SourceKind::File, Lane::Normal, HoldPolicy::Never);
    let files = SourceSettings { name: "files".into(), kind, lane, hold };
    let files = publisher.start_source(files);
    let (service, serving) = publisher.start_source(opening).unwrap();
    let store = MemoryStore::default();
    TestService { service, publisher, store, files, _serving: serving, _running: running }
}

/// A service with the zone example.org.
fn with_zone() -> TestService {
    let scene = scene(MemoryStore::default());
    scene.create("example.org.").unwrap();
    scene
}

/// A zone of a file, with an address of its `www`.
fn zone_of(scene: &TestService, origin: &str) -> Zone {
    let (key, www) = (Arc::clone(scene.publisher.image().key()), name(&format!("www.{origin}")));
    let origin = name(origin);
    let mut loader = Loader::new(key, origin.as_name(), None);
    let soa = [&b"\0\0"[..], &[9; 20]].concat();
    loader.add(origin.as_name(), Rtype::SOA, 60, &soa, 0).unwrap();
    loader.add(origin.as_name(), Rtype::NS, 60, b"\0", 0).unwrap();
    loader.add(www.as_name(), Rtype::A, 60, &[10, 0, 0, 1], 0).unwrap();
    loader.finish().unwrap()
}

fn data(rtype: Rtype, text: &str) -> Box<[u8]> {
    match rtype {
        Rtype::A => text.parse::<std::net::Ipv4Addr>().unwrap().octets().into(),
        Rtype::TXT => [&[text.len() as u8], text.as_bytes()].concat().into(),
        _ => name(text).as_name().as_bytes().into(),
    }
}

fn put(at: &str, rtype: Rtype, text: &str) -> Edit {
    let value = SetValue { ttl: 60, policy: Policy::All, data: vec![data(rtype, text)] };
    Edit { put: Some(value), ..remove(at, rtype) }
}

fn remove(at: &str, rtype: Rtype) -> Edit {
    Edit::remove(name(at), rtype)
}

fn batch(zone: &str, edits: Vec<Edit>) -> Batch {
    Batch { zone: name(zone), edits, context: WriteContext::by("someone") }
}

fn key(at: &str, rtype: Rtype) -> SetKey {
    SetKey { zone: name("example.org."), name: name(at), rtype, view: View::DEFAULT }
}

impl TestService {
    fn create(&self, zone: &str) -> Result<WriteResult, Refused> {
        let server = format!("ns.{zone}");
        let edits = vec![put(zone, Rtype::NS, &server)];
        let written = self.service.create_zone(batch(zone, edits)).wait()?;
        self.publisher.wait(written.sequence).unwrap();
        Ok(written)
    }

    fn write(&self, edits: Vec<Edit>) -> Result<Revision, Refused> {
        let written = self.service.write(batch("example.org.", edits)).wait()?;
        self.publisher.wait(written.sequence).unwrap();
        Ok(written.revision)
    }

    /// The served content of a set.
    fn answered(&self, at: &str, rtype: Rtype) -> Option<Vec<u8>> {
        let image = self.publisher.image();
        let set = image.zone(name("example.org.").as_name())?.set(name(at).as_name(), rtype)?;
        set.records().next().map(<[u8]>::to_vec)
    }

    /// A file owns a zone from now on.
    fn claim_by_file(&self, zone: &str) {
        let claimed = self.files.claim(name(zone), Some("/etc/dunlin/example.zone".into()));
        self.publisher.wait(claimed).unwrap();
    }

    /// Publishes a zone of a file.
    fn publish_of_file(&self, zone: Zone) {
        self.claim_by_file(&zone.origin().to_string());
        self.files.sync_zone(zone, None).wait().unwrap();
    }

    fn serial(&self) -> Option<u32> {
        self.publisher.image().zone(name("example.org.").as_name())?.serial()
    }

    fn sets(&self) -> Vec<String> {
        let origin = name("example.org.");
        let page = self.service.page(origin.as_name(), None, &SetFilter::default(), 100).unwrap();
        let found = |set: &StoredSet| format!("{} {}", set.key.name.as_name(), set.key.rtype);
        page.sets.iter().map(found).collect()
    }
}

fn rule(refused: Result<Revision, Refused>) -> &'static str {
    match refused {
        Err(Refused::Invalid(invalid)) => invalid.rule.id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn write_is_durable_served_and_readable() {
    let scene = with_zone();
    let revision = scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(revision, Revision(2));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    let set = scene.service.set(&key("WWW.example.org.", Rtype::A)).unwrap().unwrap();
    assert_eq!((set.revision, set.value.ttl, set.value.data.len()), (revision, 60, 1));
    block_on(scene.service.wait_live(revision)).unwrap();
    assert_eq!(scene.sets(), ["example.org. NS", "example.org. SOA", "www.example.org. A"]);
    assert_eq!(scene.service.revision().unwrap(), revision);
    // Another process on the same store serves the same.
    let again = self::scene(scene.store.clone());
    assert_eq!(again.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    assert_eq!(again.serial(), Some(2));
    let revision = again.write(vec![remove("www.example.org.", Rtype::A)]).unwrap();
    assert_eq!((revision, again.answered("www.example.org.", Rtype::A)), (Revision(3), None));
}

#[test]
fn the_serial_is_the_revision_on_every_node() {
    let scene = with_zone();
    scene.create("example.net.").unwrap();
    assert_eq!(scene.serial(), Some(1), "another zone's write is not its own");
    let mut soa = put("example.org.", Rtype::SOA, "ns.example.org.");
    let with_numbers =
        |data: &[u8]| [data, b"\x04root\0\0\0\0\0", &[7; 16]].concat().into_boxed_slice();
    let value = soa.put.as_mut().unwrap();
    value.data[0] = with_numbers(&value.data[0]);
    let revision = scene.write(vec![soa.clone()]).unwrap();
    assert_eq!(scene.serial(), Some(revision.serial(0)));
    scene.write(vec![put("a.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(scene.serial(), Some(4));
    let set = scene.service.set(&key("example.org.", Rtype::SOA)).unwrap().unwrap();
    assert_eq!(set.revision, Revision(4), "its serial is of the last write to the zone");
    let stale = Edit { expect: Precondition::At(revision), ..soa };
    let conflict = Refused::Conflict { edit: 0, is: Revision(4) };
    assert_eq!(scene.write(vec![stale.clone()]), Err(conflict));
    let mut seen = Edit { expect: Precondition::At(set.revision), ..stale };
    seen.put.as_mut().unwrap().ttl = 61;
    assert_eq!(scene.write(vec![seen]), Ok(Revision(5)));
    let numbers = set.value.data[0].last_chunk::<20>().unwrap();
    assert_eq!((&numbers[..4], &numbers[4..8]), (&[0, 0, 0, 4][..], &[7; 4][..]));
    assert_eq!(self::scene(scene.store.clone()).serial(), Some(5));
}

#[test]
fn batch_is_applied_all_or_none() {
    let scene = with_zone();
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    let before = (scene.sets(), scene.serial(), scene.service.revision().unwrap());
    let edits = vec![
        put("a.b.example.org.", Rtype::A, "10.0.0.2"),
        remove("www.example.org.", Rtype::A),
        put("x.example.org.", Rtype::TXT, "text"),
        put("x.example.org.", Rtype::CNAME, "www.example.org."),
    ];
    assert_eq!(rule(scene.write(edits)), "cname-alone");
    assert_eq!((scene.sets(), scene.serial(), scene.service.revision().unwrap()), before);
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    // An alias replaces removed sets, in any order.
    let edits = vec![
        put("www.example.org.", Rtype::CNAME, "a.example.org."),
        remove("www.example.org.", Rtype::A),
    ];
    scene.write(edits).unwrap();
    assert_eq!(scene.sets()[2..], ["www.example.org. CNAME"]);
}

#[test]
fn each_rule_is_named_with_its_field() {
    let scene = with_zone();
    let long_ttl = |mut edit: Edit| {
        edit.put.as_mut().unwrap().ttl = u32::MAX;
        edit
    };
    let mut bad = put("www.example.org.", Rtype::A, "10.0.0.1");
    bad.put.as_mut().unwrap().data[0] = Box::from(&b"abc"[..]);
    for (edit, field, id) in [
        (put("www.example.com.", Rtype::A, "10.0.0.1"), "name", "out-of-zone"),
        (put("a.*.example.org.", Rtype::A, "10.0.0.1"), "name", "wildcard"),
        (put("www.example.org.", Rtype::ANY, "a."), "type", "meta-type"),
        (put("www.example.org.", Rtype::NSEC, "a."), "type", "signed"),
        (long_ttl(put("www.example.org.", Rtype::A, "10.0.0.1")), "ttl", "ttl"),
        (bad, "data", "data"),
        (put("a.example.org.", Rtype::SOA, "a."), "data", "data"),
        (put("example.org.", Rtype::CNAME, "a."), "edits", "cname-alone"),
        (remove("example.org.", Rtype::SOA), "type", "soa"),
        (remove("example.org.", Rtype::NS), "type", "ns"),
    ] {
        let fine = put("fine.example.org.", Rtype::A, "10.0.0.1");
        match scene.write(vec![fine, edit]) {
            Err(Refused::Invalid(why)) => {
                assert_eq!((why.edit, why.field, why.rule.id), (1, field, id), "{}", why.what);
            }
            other => panic!("{id}: {other:?}"),
        }
    }
    let twice = vec![
        put("www.example.org.", Rtype::A, "10.0.0.1"),
        put("WWW.example.org.", Rtype::A, "10.0.0.2"),
    ];
    assert_eq!(rule(scene.write(twice)), "duplicate");
    scene.write(vec![put("*.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(scene.sets().len(), 3);
}

#[test]
fn unmet_condition_is_a_conflict() {
    let scene = with_zone();
    // Each puts another value.
    let number = std::cell::Cell::new(0);
    let www = |expect| {
        number.set(number.get() + 1);
        let address = format!("10.0.0.{}", number.get());
        Edit { expect, ..put("www.example.org.", Rtype::A, &address) }
    };
    let conflict = |is| Err(Refused::Conflict { edit: 0, is });
    assert_eq!(scene.write(vec![www(Precondition::Present)]), conflict(Revision::NONE));
    assert_eq!(scene.write(vec![www(Precondition::At(Revision(1)))]), conflict(Revision::NONE));
    let first = scene.write(vec![www(Precondition::Absent)]).unwrap();
    assert_eq!(scene.write(vec![www(Precondition::Absent)]), conflict(first));
    let second = scene.write(vec![www(Precondition::At(first))]).unwrap();
    assert_eq!(scene.write(vec![www(Precondition::At(first))]), conflict(second));
    scene.write(vec![www(Precondition::Present)]).unwrap();
}

/// If many clients read a set and write it back, each succeeds once, also within one group.
#[test]
fn no_update_is_lost() {
    let scene = with_zone();
    let counter = |n: u32| put("n.example.org.", Rtype::TXT, &n.to_string());
    scene.write(vec![counter(0)]).unwrap();
    let add = || loop {
        let set = scene.service.set(&key("n.example.org.", Rtype::TXT)).unwrap().unwrap();
        let n: u32 = std::str::from_utf8(&set.value.data[0][1..]).unwrap().parse().unwrap();
        let edit = Edit { expect: Precondition::At(set.revision), ..counter(n + 1) };
        match scene.write(vec![edit]) {
            Ok(_) => break,
            Err(Refused::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| add()));
        }
    });
    assert_eq!(scene.answered("n.example.org.", Rtype::TXT), Some(b"\x03160".to_vec()));
}

#[test]
fn full_disk_refuses_writes_and_keeps_serving() {
    let scene = with_zone();
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    scene.store.set_full(true);
    let refused = scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.2")]);
    assert_eq!(refused, Err(Refused::Full));
    assert_eq!(scene.create("example.net."), Err(Refused::Full));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    scene.store.set_full(false);
    let revision = scene.write(vec![put("a.example.org.", Rtype::A, "10.0.0.3")]).unwrap();
    assert_eq!(revision, Revision(3), "what was refused took no revision");
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    scene.create("example.net.").unwrap();
}

#[test]
fn foreign_zones_are_read_only_and_name_their_owner() {
    let scene = scene(MemoryStore::default());
    let origin = name("example.org.");
    let zone = zone_of(&scene, "example.org.");
    scene.publish_of_file(zone);
    let refused = scene.write(vec![put("a.example.org.", Rtype::A, "10.0.0.1")]).unwrap_err();
    assert!(refused.to_string().contains("the file /etc/dunlin/example.zone"), "{refused}");
    assert!(matches!(scene.create("example.org."), Err(Refused::NotTheOwner { .. })));
    let gone = scene.service.delete_zone(origin.clone(), WriteContext::by("x")).wait();
    assert!(matches!(gone, Err(Refused::NotTheOwner { .. })));
    assert_eq!(scene.sets(), ["example.org. NS", "example.org. SOA", "www.example.org. A"]);
    let set = scene.service.set(&key("www.example.org.", Rtype::A)).unwrap().unwrap();
    assert_eq!(set.revision, Revision::NONE);
    let (zones, _) = scene.service.zones(None, 9, false, |_| true).unwrap();
    assert_eq!((zones.len(), zones[0].serial, zones[0].sets), (1, Some(0x0909_0909), None));
    assert!(scene.service.journal(origin.as_name(), None, 9).is_err());
}

/// A zone in the config belongs to its file; the store keeps its own until the config no longer
/// names it.
#[test]
fn zone_moves_to_a_file_and_back() {
    let scene = with_zone();
    scene.claim_by_file("example.org.");
    scene.service.settle().wait().unwrap();
    assert!(matches!(scene.write(Vec::new()), Err(Refused::NotTheOwner { .. })));
    scene.publisher.wait(scene.files.remove_zone(name("example.org.").as_name())).unwrap();
    scene.service.settle().wait().unwrap();
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
}

#[test]
fn zones_are_created_and_deleted() {
    let scene = with_zone();
    assert_eq!(scene.create("EXAMPLE.org."), Err(Refused::ZoneExists));
    let none = batch("example.net.", vec![put("www.example.net.", Rtype::A, "10.0.0.1")]);
    let refused = scene.service.create_zone(none).wait().map(|written| written.revision);
    assert_eq!(rule(refused), "soa", "neither an SOA nor name servers");
    let delete = || {
        let gone = scene.service.delete_zone(name("example.org."), WriteContext::by("x"));
        gone.wait().map(|written| scene.publisher.wait(written.sequence))
    };
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    delete().unwrap();
    assert_eq!(scene.publisher.image().zones().count(), 0);
    assert_eq!(delete(), Err(Refused::NoSuchZone));
    assert_eq!(scene.write(Vec::new()), Err(Refused::NoSuchZone));
    let again = scene.create("example.org.").unwrap();
    assert_eq!(again.revision, Revision(4), "revisions never come again");
    assert_eq!(scene.sets(), ["example.org. NS", "example.org. SOA"]);
}

#[test]
fn journal_has_principal_time_and_changes() {
    let scene = with_zone();
    let origin = name("example.org.");
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.2")]).unwrap();
    scene.write(vec![remove("www.example.org.", Rtype::A)]).unwrap();
    let journal = scene.service.journal(origin.as_name(), Some(Revision(1)), 10).unwrap();
    let found: Vec<_> =
        journal.entries.iter().map(|entry| (entry.revision.0, &*entry.by)).collect();
    assert_eq!(found, [(2, "someone"), (3, "someone"), (4, "someone")]);
    let change = &journal.entries[1].changes[0];
    let held = |value: &Option<SetValue>| value.as_ref().map(|value| value.data[0].to_vec());
    assert_eq!(held(&change.before), Some(vec![10, 0, 0, 1]));
    assert_eq!(held(&change.after), Some(vec![10, 0, 0, 2]));
    assert_eq!(journal.entries[2].changes[0].after, None);
    let age = SystemTime::now().duration_since(journal.entries[0].when).unwrap();
    assert!(age < Duration::from_secs(60), "{age:?}");
    let first = scene.service.journal(origin.as_name(), None, 1).unwrap();
    assert_eq!((first.entries[0].kind, first.entries.len()), (ChangeKind::Created, 1));
}

#[test]
fn snapshot_restores_everything() {
    let scene = with_zone();
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    let mut snapshot = Vec::new();
    let revision = scene.service.snapshot(&mut snapshot).unwrap();
    assert_eq!(revision, Revision(2));
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.2")]).unwrap();
    scene.create("example.net.").unwrap();
    let restore = |bytes: Vec<u8>| {
        let from = Box::new(std::io::Cursor::new(bytes));
        scene.service.restore(from, WriteContext::by("someone")).wait()
    };
    // Every truncation and damage is refused, and changes nothing.
    for len in 0..snapshot.len() {
        assert!(restore(snapshot[..len].to_vec()).is_err(), "{len}");
        let mut damaged = snapshot.clone();
        damaged[len] ^= 1;
        assert!(restore(damaged).is_err(), "{len}");
    }
    let mut newer = snapshot.clone();
    newer[15] = b'1' + store::snapshot::FORMAT;
    assert!(restore(newer).unwrap_err().to_string().contains("newer version"));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 2]));
    let written = restore(snapshot).unwrap();
    assert_eq!(written.revision, Revision(5), "revisions and serials never go back");
    scene.publisher.wait(written.sequence).unwrap();
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    assert_eq!((scene.serial(), scene.publisher.image().zones().count()), (Some(5), 1));
    assert_eq!(scene.write(vec![put("a.example.org.", Rtype::A, "10.0.0.1")]), Ok(Revision(6)));
}

#[test]
fn stopping_service_wakes_all_waiters() {
    let TestService { service, _serving: serving, .. } = with_zone();
    let waits = service.wait_live(Revision(99));
    let written = service.write(batch("example.org.", Vec::new()));
    serving.stop();
    assert!(written.wait().is_ok(), "what waits is done first");
    assert_eq!(block_on(waits), Err(Refused::Stopping));
    assert_eq!(block_on(service.wait_live(Revision(99))), Err(Refused::Stopping));
    let refused = service.write(batch("example.org.", Vec::new())).wait();
    assert!(matches!(refused, Err(Refused::Stopping)));
    assert!(service.zones(None, 9, false, |_| true).is_ok(), "it can still be read");
}

#[test]
fn closed_store_refuses_writes_until_opened() {
    let scene = with_zone();
    scene.service.close().wait().unwrap();
    let www = || vec![put("www.example.org.", Rtype::A, "10.0.0.1")];
    assert_eq!(scene.write(www()), Err(Refused::Stopping));
    assert!(scene.publisher.image().zone(name("example.org.").as_name()).is_some());
    scene.service.open().wait().unwrap();
    scene.write(www()).unwrap();
}
