//! Writes that change nothing, and writes with conditions on a zone.
use super::*;

fn context(expect: Precondition) -> WriteContext {
    WriteContext { expect, ..WriteContext::by("someone") }
}

impl TestService {
    fn write_if(&self, expect: Precondition, edits: Vec<Edit>) -> Result<WriteResult, Refused> {
        let (zone, context) = (name("example.org."), context(expect));
        self.service.write(Batch { zone, edits, context }).wait()
    }

    fn newest(&self) -> Revision {
        self.service.revision().unwrap()
    }

    fn entries(&self) -> usize {
        self.service.journal(name("example.org.").as_name(), None, 1_000).unwrap().entries.len()
    }
}

#[test]
fn identical_put_changes_no_revision_and_no_journal() {
    let scene = with_zone();
    let www = || put("www.example.org.", Rtype::A, "10.0.0.1");
    let first = scene.write(vec![www()]).unwrap();
    let other = scene.write(vec![put("b.example.org.", Rtype::A, "10.0.0.2")]).unwrap();
    let before = (scene.newest(), scene.serial(), scene.entries());
    let again = scene.write_if(Precondition::Anything, vec![www()]).unwrap();
    assert_eq!((again.revision, again.zone), (first, other), "its tag is that of the set");
    // Order and duplicates of records do not matter.
    let value = |addresses: &[&str]| SetValue {
        ttl: 60,
        policy: Policy::All,
        data: addresses.iter().map(|address| data(Rtype::A, address)).collect(),
    };
    let many = |addresses: &[&str]| Edit { put: Some(value(addresses)), ..www() };
    let two = scene.write(vec![many(&["10.0.0.9", "10.0.0.1"])]).unwrap();
    assert_eq!(scene.write(vec![many(&["10.0.0.1", "10.0.0.9", "10.0.0.1"])]), Ok(two));
    let longer = SetValue { ttl: 61, ..value(&["10.0.0.1", "10.0.0.9"]) };
    assert_eq!(
        scene.write(vec![Edit { put: Some(longer), ..www() }]),
        Ok(two.next()),
        "another TTL is a change"
    );
    assert_eq!((before.0.0 + 2, before.2 + 2), (scene.newest().0, scene.entries()));
}

#[test]
fn deleting_an_absent_set_changes_nothing() {
    let scene = with_zone();
    let before = (scene.newest(), scene.serial(), scene.entries());
    assert_eq!(scene.write(vec![remove("gone.example.org.", Rtype::A)]), Ok(before.0));
    let both = vec![
        remove("gone.example.org.", Rtype::A),
        put("example.org.", Rtype::NS, "ns.example.org."),
    ];
    assert_eq!(scene.write(both), Ok(before.0), "what is so already beside what is not there");
    assert_eq!((scene.newest(), scene.serial(), scene.entries()), before);
}

#[test]
fn only_changed_sets_of_a_batch_get_its_revision() {
    let scene = with_zone();
    let a = || put("a.example.org.", Rtype::A, "10.0.0.1");
    let first = scene.write(vec![a()]).unwrap();
    let second = scene.write(vec![a(), put("b.example.org.", Rtype::A, "10.0.0.2")]).unwrap();
    let revision = |at| scene.service.set(&key(at, Rtype::A)).unwrap().unwrap().revision;
    assert_eq!((revision("a.example.org."), revision("b.example.org.")), (first, second));
    let journal = scene.service.journal(name("example.org.").as_name(), Some(first), 9).unwrap();
    assert_eq!((journal.entries[0].count, journal.entries[0].changes.len()), (1, 1));
}

#[test]
fn identical_put_after_a_write_of_its_group_has_its_revision() {
    let scene = with_zone();
    let batches = (0..400).map(|n| {
        let www = put("www.example.org.", Rtype::A, &format!("10.0.0.{}", n / 2 % 256));
        scene.service.write(batch("example.org.", vec![www]))
    });
    for (n, pending) in batches.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(pending.wait().unwrap().revision, Revision(n as u64 / 2 + 2), "{n}");
    }
}

#[test]
fn put_of_an_soa_changes_the_zone_only_if_its_serial_is_newer() {
    let scene = with_zone();
    let soa = scene.service.set(&key("example.org.", Rtype::SOA)).unwrap().unwrap();
    let with_serial = |serial: u32| {
        let mut value = soa.value.clone();
        let serial_at = value.data[0].len() - 20;
        value.data[0][serial_at..serial_at + 4].copy_from_slice(&serial.to_be_bytes());
        vec![Edit { put: Some(value), ..remove("example.org.", Rtype::SOA) }]
    };
    assert_eq!(soa.revision, Revision(1));
    for (serial, what) in [(1, "it is served"), (0, "0 says nothing"), (u32::MAX, "it is older")] {
        assert_eq!(scene.write(with_serial(serial)), Ok(Revision(1)), "{what}");
    }
    assert_eq!(scene.write(with_serial(7)), Ok(Revision(2)), "the served one must come after it");
    assert_eq!(scene.write(with_serial(7)), Ok(Revision(2)), "it does");
}

#[test]
fn recreating_an_identical_zone_changes_nothing() {
    let scene = with_zone();
    let made = scene.create("example.org.").unwrap();
    assert_eq!((made.revision, made.zone, scene.newest()), (Revision(1), Revision(1), Revision(1)));
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(scene.create("example.org."), Err(Refused::ZoneExists), "it holds more");
    scene.write(vec![remove("www.example.org.", Rtype::A)]).unwrap();
    assert_eq!(scene.create("example.org.").map(|made| made.revision), Ok(Revision(3)));
}

#[test]
fn write_on_an_older_zone_is_a_conflict_and_changes_nothing() {
    let scene = with_zone();
    let www = |n: u8| vec![put("www.example.org.", Rtype::A, &format!("10.0.0.{n}"))];
    let conflict = |is| Err(Refused::ZoneConflict { is });
    let revision = |written: Result<WriteResult, Refused>| written.map(|written| written.revision);
    let first = scene.write_if(Precondition::At(Revision(1)), www(1)).unwrap().zone;
    assert_eq!(revision(scene.write_if(Precondition::At(Revision(1)), www(2))), conflict(first));
    assert_eq!(revision(scene.write_if(Precondition::Absent, www(2))), conflict(first));
    // Conditions are checked even if nothing would change.
    assert_eq!(revision(scene.write_if(Precondition::At(Revision(1)), www(1))), conflict(first));
    assert_eq!(revision(scene.write_if(Precondition::Present, www(1))), Ok(first));
    let delete =
        |expect| revision(scene.service.delete_zone(name("example.org."), context(expect)).wait());
    assert_eq!(delete(Precondition::At(Revision(1))), conflict(first));
    let create = |expect| {
        let edits = vec![put("example.net.", Rtype::NS, "ns.example.net.")];
        let batch = Batch { zone: name("example.net."), edits, context: context(expect) };
        revision(scene.service.create_zone(batch).wait())
    };
    assert_eq!(create(Precondition::Present), conflict(Revision::NONE));
    assert_eq!(create(Precondition::At(Revision(9))), conflict(Revision::NONE));
    assert_eq!(scene.newest(), first, "what was refused took no revision");
    let net = create(Precondition::Absent).unwrap();
    assert_eq!(create(Precondition::Absent), conflict(net));
    assert_eq!(create(Precondition::At(net)), Ok(net), "it is so already");
    assert_eq!(delete(Precondition::At(first)), Ok(net.next()));
    assert_eq!(delete(Precondition::At(first)), Err(Refused::NoSuchZone));
}

/// If many clients read a zone and write to it, each succeeds once, also within one group.
#[test]
fn one_of_concurrent_conditional_writes_succeeds() {
    let scene = with_zone();
    let add = |n: usize| loop {
        let seen = scene.service.zone(name("example.org.").as_name()).unwrap().unwrap().revision;
        let edits = vec![put(&format!("n{n}.example.org."), Rtype::A, "10.0.0.1")];
        match scene.write_if(Precondition::At(seen), edits) {
            Ok(written) => break assert_eq!(written.revision, written.zone),
            Err(Refused::ZoneConflict { is }) => assert!(is > seen),
            Err(other) => panic!("{other}"),
        }
    };
    std::thread::scope(|scope| {
        let add = &add;
        for thread in 0..4 {
            scope.spawn(move || (0..20).for_each(|n| add(thread * 100 + n)));
        }
    });
    assert_eq!(scene.newest(), Revision(81));
}

#[test]
fn restore_into_a_store_that_changed_meanwhile_is_a_conflict() {
    let scene = with_zone();
    let mut snapshot = Vec::new();
    let seen = scene.service.snapshot(&mut snapshot).unwrap();
    let later = scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    let restore = |expect| {
        let from = Box::new(std::io::Cursor::new(snapshot.clone()));
        scene.service.restore(from, context(expect)).wait().map(|written| written.revision)
    };
    let conflict = Err(Refused::ZoneConflict { is: later });
    assert_eq!(restore(Precondition::At(seen)), conflict);
    assert_eq!(restore(Precondition::Absent), conflict);
    assert_eq!(scene.sets().len(), 3, "nothing was restored");
    assert_eq!(restore(Precondition::At(later)), Ok(later.next()));
    let empty = self::scene(MemoryStore::default());
    let restored = empty
        .service
        .restore(Box::new(std::io::Cursor::new(b"")), context(Precondition::Present))
        .wait();
    assert_eq!(restored, Err(Refused::ZoneConflict { is: Revision::NONE }));
}
