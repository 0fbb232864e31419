//! Journal entries of large writes and of deleted zones, and their limits.
use super::*;
use store::limits::{DELETED_ZONES_MAX, JOURNAL_DATA_MAX, JOURNAL_EDITS_MAX, REASON_LEN_MAX};

impl TestService {
    fn journal(&self, after: Option<u64>) -> Result<JournalPage, Refused> {
        self.service.journal(name("example.org.").as_name(), after.map(Revision), 1_000)
    }

    fn last_entry(&self) -> JournalEntry {
        let newest = self.service.zone(name("example.org.").as_name()).unwrap().unwrap().revision;
        self.journal(Some(newest.0 - 1)).unwrap().entries.pop().expect("an entry")
    }

    fn delete(&self) -> Revision {
        let gone = self.service.delete_zone(name("example.org."), WriteContext::by("remover"));
        gone.wait().unwrap().revision
    }
}

fn address(n: usize) -> Edit {
    put(&format!("n{n}.example.org."), Rtype::A, &format!("10.0.{}.{}", n >> 8, n & 255))
}

#[test]
fn large_write_is_journaled_by_names() {
    let scene = with_zone();
    scene.write(vec![address(7), put("old.example.org.", Rtype::A, "10.9.9.9")]).unwrap();
    let edits = (0..JOURNAL_EDITS_MAX).map(address).filter(|edit| edit.rtype == Rtype::A);
    // One is unchanged, and one is a removal: the most that are stored with data.
    let gone = remove("old.example.org.", Rtype::A);
    scene.write(edits.chain([gone]).collect()).unwrap();
    let entry = scene.last_entry();
    assert_eq!((entry.count as usize, entry.changes.len()), (JOURNAL_EDITS_MAX, JOURNAL_EDITS_MAX));
    let values = entry.changes.iter().flat_map(|change| [&change.before, &change.after]);
    assert!(values.flatten().all(SetValue::is_kept));
    // One more.
    let many = (2_000..=2_000 + JOURNAL_EDITS_MAX).map(address);
    scene.write(many.collect()).unwrap();
    let all = remove("n2000.example.org.", Rtype::A);
    let ownership = (2_001..=2_000 + JOURNAL_EDITS_MAX)
        .map(|n| Edit { put: Some(SetValue { ttl: 61, ..address(n).put.unwrap() }), ..address(n) });
    scene.write(ownership.chain([all]).collect()).unwrap();
    let JournalEntry { count, changes, .. } = scene.last_entry();
    assert_eq!((count as usize, changes.len()), (JOURNAL_EDITS_MAX + 1, JOURNAL_EDITS_MAX + 1));
    assert_eq!(&*changes[0].name, b"\x05n2000");
    let unkept = Some(SetValue::UNKEPT);
    assert_eq!((&changes[0].before, &changes[0].after), (&unkept, &None), "it went");
    assert!(changes[1..].iter().all(|c| (&c.before, &c.after) == (&unkept, &unkept)));
}

/// Few sets of many records count like many sets of few.
#[test]
fn write_of_much_data_is_journaled_by_names() {
    let scene = with_zone();
    let large = |n: usize, first: usize| {
        let text = |m: usize| data(Rtype::TXT, &format!("{:0>250}", first + m));
        let value = SetValue { ttl: 60, policy: Policy::All, data: (0..240).map(text).collect() };
        Edit { put: Some(value), ..remove(&format!("n{n}.example.org."), Rtype::TXT) }
    };
    let sets = JOURNAL_DATA_MAX / (240 * 251);
    scene.write((0..sets).map(|n| large(n, 0)).collect()).unwrap();
    assert!(scene.last_entry().changes.iter().all(|c| c.after.as_ref().unwrap().is_kept()));
    scene.write((0..sets).map(|n| large(n, 1)).collect()).unwrap();
    let changes = scene.last_entry().changes;
    assert_eq!(changes.len(), sets);
    let unkept = Some(SetValue::UNKEPT);
    assert!(changes.iter().all(|c| (&c.before, &c.after) == (&unkept, &unkept)));
}

#[test]
fn journal_of_a_deleted_zone_has_principal_and_sets() {
    let scene = with_zone();
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    let gone = scene.delete();
    let journal = scene.journal(None).unwrap();
    let kinds: Vec<_> = journal.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [ChangeKind::Created, ChangeKind::Changed, ChangeKind::Deleted]);
    assert_eq!((journal.more, journal.whole_after), (false, Revision::NONE));
    let last = &journal.entries[2];
    assert_eq!((last.revision, &*last.by, last.count), (gone, "remover", 3));
    let www = last.changes.iter().find(|change| change.rtype == Rtype::A).unwrap();
    assert_eq!(www.before.as_ref().unwrap().data[0][..], [10, 0, 0, 1]);
    assert!(last.changes.iter().all(|change| change.after.is_none()));
    // A recreated zone continues it.
    let again = scene.create("example.org.").unwrap().revision;
    let journal = scene.journal(Some(gone.0 - 1)).unwrap();
    let found: Vec<_> = journal.entries.iter().map(|entry| (entry.revision, entry.kind)).collect();
    assert_eq!(found, [(gone, ChangeKind::Deleted), (again, ChangeKind::Created)]);
    assert_eq!(scene.sets().len(), 2, "of the sets before nothing came back");
}

#[test]
fn journals_of_deleted_zones_are_bounded_in_number() {
    let scene = scene(MemoryStore::default());
    for n in 0..=DELETED_ZONES_MAX {
        let zone = format!("z{n}.example.");
        scene.create(&zone).unwrap();
        scene.service.delete_zone(name(&zone), WriteContext::by("x")).wait().unwrap();
    }
    let journal =
        |n: usize| scene.service.journal(name(&format!("z{n}.example.")).as_name(), None, 9);
    assert_eq!(journal(0).unwrap_err(), Refused::NoSuchZone, "the oldest");
    assert_eq!(journal(1).unwrap().entries.len(), 2);
    assert_eq!(journal(DELETED_ZONES_MAX).unwrap().entries.len(), 2);
}

#[test]
fn reason_is_in_the_journal_and_bounded() {
    let scene = with_zone();
    let write = |n: u8, reason: &str| {
        let context = WriteContext { reason: Some(reason.into()), ..WriteContext::by("someone") };
        let edits = vec![put("www.example.org.", Rtype::A, &format!("10.0.0.{n}"))];
        scene.service.write(Batch { zone: name("example.org."), edits, context }).wait().unwrap();
        scene.last_entry().reason
    };
    assert_eq!(write(1, "move to the new rack"), Some("move to the new rack".into()));
    let long = write(2, &"ü".repeat(200)).unwrap();
    assert_eq!(long, "ü".repeat(REASON_LEN_MAX / 2), "whole characters");
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.3")]).unwrap();
    assert_eq!(scene.last_entry().reason, None);
}

#[test]
fn journal_outside_of_its_range_is_an_error() {
    let scene = with_zone();
    scene.create("example.net.").unwrap();
    scene.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(scene.journal(Some(0)).unwrap().entries.len(), 2, "from before there was any");
    assert_eq!(scene.journal(Some(3)).unwrap().entries.len(), 0);
    let ahead = scene.journal(Some(4)).unwrap_err();
    assert_eq!(ahead, Refused::JournalAhead { newest: Revision(3) });
    scene.create("example.com.").unwrap();
    assert_eq!(scene.journal(Some(4)).unwrap().entries.len(), 0, "a revision of another zone");
    let mut snapshot = Vec::new();
    scene.service.snapshot(&mut snapshot).unwrap();
    let from = Box::new(std::io::Cursor::new(snapshot));
    let restored = scene.service.restore(from, WriteContext::by("x")).wait().unwrap().revision;
    let cut = scene.journal(Some(3)).unwrap_err();
    assert_eq!(cut, Refused::JournalCut { whole_after: restored });
    assert!(cut.to_string().contains("read the whole zone"), "{cut}");
    assert_eq!(scene.journal(None).unwrap().entries[0].kind, ChangeKind::Restored);
    assert_eq!(scene.journal(Some(restored.0)).unwrap().entries.len(), 0);
}

#[test]
fn export_begins_with_the_soa_and_has_one_revision() {
    let scene = with_zone();
    scene.write(vec![put("example.org.", Rtype::A, "10.0.0.1"), address(1)]).unwrap();
    let mut found = Vec::new();
    let origin = name("example.org.");
    let each = &mut |revision: Revision, set: StoredSet| {
        if found.is_empty() {
            // A concurrent write is not part of the export.
            scene.write(vec![address(1), address(2)]).unwrap();
        }
        found.push((revision.0, set.key.rtype, set.revision.0));
        std::ops::ControlFlow::Continue(())
    };
    scene.service.export(origin.as_name(), each).unwrap();
    let expected = [(Rtype::SOA, 2), (Rtype::A, 2), (Rtype::NS, 1), (Rtype::A, 2)];
    assert_eq!(found, expected.map(|(rtype, revision)| (2, rtype, revision)));
    let missing = scene.service.export(name("example.net.").as_name(), &mut |_, _| panic!("none"));
    assert_eq!(missing, Err(Refused::NoSuchZone));
}
