//! Several sources: who owns a zone, full syncs, holds and layers.
use super::*;
use crate::hold::{Acceptance, Arrival, Evidence};
use ::image::ZoneTable;
use server_status::HeldZone;
use std::time::Duration;

/// The apex records of a zone, then addresses of this many names.
fn put_all(epoch: &mut Epoch<'_>, names: u8) {
    epoch.put(put("example.org.", Rtype::SOA, &[&soa()])).unwrap();
    epoch.put(put("example.org.", Rtype::NS, &[b"\x02ns\0"])).unwrap();
    for n in 0..names {
        epoch.put(address(&format!("n{n}.example.org."), [10, 0, 0, n])).unwrap();
    }
}

impl Fixture {
    fn sync(&mut self, names: u8) -> SyncOutcome {
        let mut epoch = self.updates.full_sync(of_zone());
        put_all(&mut epoch, names);
        epoch.commit_blocking().unwrap().outcome
    }

    /// The number of addresses in the zone.
    fn addresses(&self) -> usize {
        let image = self.publisher.image();
        image.zone(name("example.org.").as_name()).map_or(0, |zone| zone.count().0 - 1)
    }
}

#[test]
fn full_sync_removes_what_it_did_not_see() {
    let mut fixture = start();
    fixture.apply(of_zone(), vec![address("old.example.org.", [10, 0, 0, 1])]);
    let mut cut = fixture.updates.full_sync(of_zone());
    put_all(&mut cut, 3);
    drop(cut);
    assert!(fixture.exists("old.example.org."), "a full sync cut short changes nothing");
    assert_eq!(fixture.sync(5), SyncOutcome::Published);
    assert_eq!((fixture.addresses(), fixture.exists("old.example.org.")), (5, false));
}

#[test]
fn full_sync_reports_each_refused_put() {
    let mut fixture = start();
    let mut epoch = fixture.updates.full_sync(of_zone());
    put_all(&mut epoch, 1);
    assert!(epoch.put(address("n0.example.org.", [1; 4])).is_err(), "it occurs twice");
    assert!(epoch.put(address("a.example.com.", [1; 4])).is_err(), "it is outside of the zone");
    epoch.put(put("n0.example.org.", Rtype::CNAME, &[b"\0"])).unwrap();
    epoch.put(Change::AddName(name("empty.example.org."))).unwrap();
    let synced = epoch.commit_blocking().unwrap();
    let refused: Vec<usize> = synced.refused.iter().map(|(number, _)| *number).collect();
    assert_eq!((refused, synced.outcome), (vec![3, 4, 5], SyncOutcome::Published));
    assert!(fixture.exists("empty.example.org.") && fixture.exists("n0.example.org."));
    let bare = fixture.updates.full_sync(of_zone()).commit_blocking().unwrap();
    assert!(matches!(bare.outcome, SyncOutcome::Refused(_)), "a zone needs an SOA: {bare:?}");
    assert_eq!(fixture.addresses(), 1);
}

#[test]
fn content_that_lost_most_is_held_until_it_is_accepted_or_whole_again() {
    let mut fixture = start();
    assert_eq!(fixture.sync(60), SyncOutcome::Published);
    let SyncOutcome::Held(held) = fixture.sync(9) else { panic!("it lost most") };
    assert_eq!((held.had, held.has), (61, 10));
    fixture.apply(of_zone(), vec![address("new.example.org.", [10, 0, 0, 1])]);
    assert_eq!(fixture.addresses(), 61, "changes go on meanwhile");
    assert_eq!(fixture.sync(50), SyncOutcome::Published, "it is whole again");
    assert_eq!(fixture.addresses(), 50);
    assert!(matches!(fixture.sync(2), SyncOutcome::Held(_)));
    let gone: Vec<Change> = (2..50)
        .map(|n| Edit::remove(name(&format!("n{n}.example.org.")), Rtype::A).into())
        .collect();
    fixture.apply(of_zone(), gone);
    assert_eq!(fixture.addresses(), 2, "explicit removals are believed, and end the hold");
    assert!(fixture.publisher.holds().all().is_empty());
    assert_eq!(fixture.sync(60), SyncOutcome::Published);
    assert!(matches!(fixture.sync(3), SyncOutcome::Held(_)));
    let accepted = fixture.accept("example.org.");
    assert_eq!(accepted.map(|held| (held.had, held.has)), Some((61, 4)));
    assert_eq!((fixture.addresses(), fixture.publisher.holds().all().len()), (3, 0));
    assert!(fixture.accept("example.org.").is_none(), "nothing is held");
}

#[test]
fn held_layer_is_accepted_by_its_name_or_with_a_zone_of_its_source() {
    let mut fixture = start();
    let layer = |fixture: &mut Fixture, names: u8| {
        let mut epoch = fixture.updates.full_sync(Target::Layer(0));
        for n in 0..names {
            let at = format!("{n}.0.0.10.in-addr.arpa.");
            epoch.put(put(&at, Rtype::PTR, &[b"\x01a\0"])).unwrap();
        }
        epoch.commit_blocking().unwrap().outcome
    };
    let held = |fixture: &Fixture| -> Vec<String> {
        let holds = fixture.publisher.holds().all();
        assert_eq!(fixture.updates.is_held(&Target::Layer(0)), holds.contains_key("test/0."));
        holds.into_keys().collect()
    };
    assert_eq!((layer(&mut fixture, 60), fixture.sync(60)), {
        (SyncOutcome::Published, SyncOutcome::Published)
    });
    layer(&mut fixture, 3);
    assert_eq!(held(&fixture), ["test/0."]);
    // The API and the command take names alone.
    let key = name("test/0").to_string();
    assert!(fixture.accept(&key).is_some());
    assert!(held(&fixture).is_empty());
    layer(&mut fixture, 60);
    layer(&mut fixture, 3);
    fixture.sync(3);
    assert_eq!(held(&fixture), ["example.org.", "test/0."]);
    assert!(fixture.accept("example.org.").is_some());
    assert!(held(&fixture).is_empty(), "both are of one list");
}

#[test]
fn held_content_is_served_after_its_time() {
    let mut fixture = start();
    let hold = HoldPolicy::Until(Duration::from_millis(20));
    let of_time = SourceSettings { hold, ..settings(SourceKind::File) };
    fixture.updates = fixture.publisher.start_source(of_time);
    assert_eq!(fixture.sync(60), SyncOutcome::Published);
    assert!(matches!(fixture.sync(0), SyncOutcome::Held(_)));
    test_support::wait::until_eq("addresses", || fixture.addresses(), 0);
    assert!(fixture.publisher.holds().all().is_empty());
}

#[test]
fn greater_kind_owns_a_zone_and_hides_the_other() {
    let fixture = start();
    let origin = name("example.org.");
    let catalog = || fixture.publisher.catalog().zones().pop().unwrap();
    let kubernetes = ZoneOwner::Source("test".into());
    assert_eq!((catalog().owner, catalog().hidden.len()), (kubernetes.clone(), 0));
    let file = fixture.publisher.start_source(settings(SourceKind::File));
    let path = std::path::PathBuf::from("/etc/dunlin/example.zone");
    let changes = || vec![address("a.example.org.", [10, 0, 0, 1])];
    fixture.apply(of_zone(), changes());
    fixture.publisher.wait(file.claim(origin.clone(), Some(path.clone()))).unwrap();
    assert!(fixture.exists("a.example.org."), "a zone is served until its owner has content");
    assert_eq!((catalog().owner, catalog().is_loaded), (ZoneOwner::File(path), false));
    let empty = zone(&fixture.publisher.image(), "example.org.");
    file.sync_zone(empty, None).wait().unwrap();
    assert_eq!((fixture.addresses(), catalog().hidden), (0, vec![kubernetes.clone()]));
    fixture.apply(of_zone(), changes());
    assert_eq!(fixture.addresses(), 0, "changes of a hidden zone are kept, not served");
    fixture.publisher.wait(file.remove_zone(origin.as_name())).unwrap();
    assert_eq!((fixture.addresses(), catalog().owner), (1, kubernetes));
    fixture.publisher.wait(fixture.updates.remove(of_zone())).unwrap();
    assert!(fixture.publisher.catalog().zones().is_empty());
    assert_eq!(fixture.publisher.image().zones().count(), 0);
}

#[test]
fn second_source_of_a_kind_is_refused() {
    let fixture = start();
    let mut other = fixture.publisher.start_source(settings(SourceKind::Kubernetes));
    let mut epoch = other.full_sync(of_zone());
    put_all(&mut epoch, 1);
    let owner = ZoneOwner::Source("test".into());
    let refused = SyncOutcome::Refused(Refusal::NotTheOwner(owner));
    assert_eq!(epoch.commit_blocking().unwrap().outcome, refused);
    assert_eq!(fixture.addresses(), 0);
}

#[test]
fn claimed_zone_answers_servfail_until_it_is_loaded() {
    let mut fixture = start();
    let origin = name("late.example.");
    let claimed = fixture.updates.claim(origin.clone(), None);
    fixture.publisher.wait(claimed).unwrap();
    let is_loaded = || {
        let image = fixture.publisher.image();
        image.zone(origin.as_name()).map(|zone| zone.facts().loaded)
    };
    assert_eq!(is_loaded(), Some(false));
    let late = zone(&fixture.publisher.image(), "late.example.");
    fixture.updates.sync_zone(late, None).wait().unwrap();
    assert_eq!(is_loaded(), Some(true));
    assert_eq!(fixture.sync(1), SyncOutcome::Published);
}

#[test]
fn layer_is_made_by_its_first_change() {
    let fixture = start();
    let pointer = |at: &str| put(at, Rtype::PTR, &[b"\x01a\0"]);
    let layer = || Target::Layer(0);
    let at = "1.0.0.10.in-addr.arpa.";
    assert_eq!(fixture.apply(layer(), vec![pointer(at)]), [Ok(())]);
    let image = fixture.publisher.image();
    let hosts = image.hosts(View::DEFAULT, 0).expect("a layer");
    let relative = &name(at).as_name().as_bytes()[..name(at).as_name().len() - 1].to_vec();
    let hash = image.key().hash_of(relative);
    assert!(image::Leaf::new(hosts.leaf(hash)).find(hash, relative).is_some());
    fixture.publisher.wait(fixture.updates.remove(layer())).unwrap();
    assert!(fixture.publisher.image().hosts(View::DEFAULT, 0).is_none());
}

#[test]
fn removed_zone_can_be_added_again() {
    let fixture = start();
    let origin = name("example.org.");
    fixture.apply(of_zone(), vec![address("www.example.org.", [10, 0, 0, 1])]);
    fixture.publisher.wait(fixture.updates.remove_zone(origin.as_name())).unwrap();
    assert_eq!(fixture.publisher.image().zones().count(), 0);
    let again = zone(&fixture.publisher.image(), "example.org.");
    fixture.updates.remove_zone(origin.as_name());
    fixture.updates.sync_zone(again, None).wait().unwrap();
    assert_eq!(fixture.addresses(), 0, "its records stay removed");
    assert_eq!(fixture.publisher.image().zones().count(), 1);
}

/// A zone of names that its source has compiled, and how it came.
fn compiled(fixture: &Fixture, names: u8, arrival: Arrival) -> (Zone, Option<Evidence>) {
    let mut zone = zone(&fixture.publisher.image(), "example.org.");
    let changes = (0..names).map(|n| address(&format!("n{n}.example.org."), [10, 0, 0, n]));
    assert!(crate::edits::apply(&mut zone, changes.collect()).iter().all(Result::is_ok));
    let had = Some(fixture.addresses() as u64);
    (zone, Some(Evidence { arrival, is_cut: false, had, has: names.into() }))
}

#[test]
fn content_of_a_source_that_gives_again_is_judged_by_its_evidence() {
    use SyncOutcome::{Doubted, Held, Published};
    let mut fixture = start();
    let again = SourceSettings { hold: HoldPolicy::Source, ..settings(SourceKind::File) };
    fixture.updates = fixture.publisher.start_source(again);
    let sync = |names, arrival| {
        let (zone, evidence) = compiled(&fixture, names, arrival);
        fixture.updates.sync_zone(zone, evidence).wait().unwrap().outcome
    };
    let accept = || fixture.publisher.accept("example.org.").wait().unwrap();
    assert_eq!((sync(60, Arrival::InPlace), fixture.addresses()), (Published, 60));
    assert!(matches!(sync(5, Arrival::InPlace), Held(HeldZone { had: 60, has: 5, .. })));
    assert_eq!(fixture.addresses(), 60, "what is held is neither served nor kept");
    assert!(fixture.updates.is_held(&of_zone()));
    let Acceptance::GiveAgain(held) = accept() else { panic!("its source has it") };
    assert_eq!((held.has, fixture.addresses()), (5, 60));
    assert_eq!((sync(5, Arrival::InPlace), fixture.addresses()), (Published, 5));
    assert_eq!(accept(), Acceptance::NotHeld);
    sync(60, Arrival::InPlace);
    sync(5, Arrival::InPlace);
    fixture.updates.drop_held(&of_zone());
    assert_eq!((accept(), fixture.addresses()), (Acceptance::NotHeld, 60));
    assert_eq!((sync(5, Arrival::Whole), fixture.addresses()), (Doubted, 5));
    let believed = compiled(&fixture, 0, Arrival::InPlace).0;
    let synced = fixture.updates.sync_zone(believed, None).wait().unwrap();
    assert_eq!((synced.outcome, fixture.addresses()), (Published, 0), "it is not judged");
}

#[test]
fn layers_keep_their_content_in_another_order_and_are_held_by_their_files() {
    let fixture = start();
    let hosts = SourceSettings { hold: HoldPolicy::Source, ..settings(SourceKind::Hosts) };
    let updates = fixture.publisher.start_source(hosts);
    let files = |names: &[&str]| {
        let last = updates.set_layers(names.iter().map(Into::into).collect());
        fixture.publisher.wait(last).unwrap();
    };
    let sync = |number, had, has| {
        let evidence = Evidence { arrival: Arrival::InPlace, is_cut: false, had, has };
        let zone = zone(&fixture.publisher.image(), ".");
        let given = updates.sync(Target::Layer(number), zone, Some(evidence));
        matches!(given.wait().unwrap().outcome, SyncOutcome::Held(_))
    };
    let content = |number| updates.content(&Target::Layer(number));
    let held = || fixture.publisher.holds().all().into_keys().collect::<Vec<_>>();
    files(&["/etc/A", "/etc/B"]);
    assert!(!sync(0, None, 60) && !sync(1, None, 60));
    let (a, b) = (content(0).unwrap(), content(1).unwrap());
    files(&["/etc/new", "/etc/B", "/etc/A"]);
    assert!(content(0).is_none());
    assert!(Arc::ptr_eq(&content(1).unwrap(), &b) && Arc::ptr_eq(&content(2).unwrap(), &a));
    assert!(sync(2, Some(60), 3) && Arc::ptr_eq(&content(2).unwrap(), &a));
    assert_eq!(held(), ["/etc/A"]);
    files(&["/etc/B"]);
    assert!(held().is_empty(), "it is gone with its file");
    assert!(fixture.publisher.image().hosts(View::DEFAULT, 1).is_none());
}
