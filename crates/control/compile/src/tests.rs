//! Compares changes and loads of zones with a naive list of record sets.
use crate::names::is_below;
use crate::{Image, Loader, OrderedLoader, RecordChange, RecordWalk, Zone};
use image::{Declared, HashKey, Tree, ZoneTable};
use model::BrokenRule;
use packet::View;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{Name, NameBuf, QName, Rtype, canonical_cmp};

fn key() -> Arc<HashKey> {
    let word = |n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    Arc::new(HashKey::new(std::array::from_fn(word)))
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

const ORIGIN: &str = "zone.test.";

fn soa(serial: u32) -> Vec<u8> {
    let mut data = b"\x02ns\0\x04root\0".to_vec();
    data.extend([serial, 1, 1, 1, 30].iter().flat_map(|number| number.to_be_bytes()));
    data
}

type Sets = BTreeMap<(String, u16), Vec<Vec<u8>>>;

/// Loads the sets as one zone.
fn load(sets: &Sets, old: Option<&Zone>) -> Zone {
    let key = old.map_or_else(key, |old| Arc::clone(old.names().key()));
    let mut loader = Loader::new(key, name(ORIGIN).as_name(), old);
    loader.add(name(ORIGIN).as_name(), Rtype::SOA, 60, &soa(1), 0).unwrap();
    loader.add(name(ORIGIN).as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
    for ((owner, rtype), records) in sets {
        for data in records {
            loader.add(name(owner).as_name(), Rtype(*rtype), 60, data, 0).unwrap();
        }
    }
    loader.finish().unwrap()
}

/// Asserts that the zone has exactly these sets and their parents, in order.
fn check(zone: &Zone, sets: &Sets) {
    let mut wanted: Vec<Vec<u8>> = vec![vec![]];
    for (owner, _) in sets.keys() {
        let relative = zone.relative(name(owner).as_name()).unwrap();
        let mut rest = &relative[..];
        while !rest.is_empty() {
            wanted.push(rest.to_vec());
            rest = &rest[1 + usize::from(rest[0])..];
        }
    }
    wanted.sort_by(|a, b| canonical_cmp(a, b));
    wanted.dedup();
    let names = zone.names();
    assert_eq!(names.len(), wanted.len());
    for (rank, wanted) in wanted.iter().enumerate() {
        assert_eq!(names.at(rank).unwrap().name(), wanted);
        assert_eq!(names.rank(wanted), rank);
        assert!(names.get(wanted).is_some());
    }
    let mut records = 2;
    for ((owner, rtype), set) in sets {
        let found = zone.set(name(owner).as_name(), Rtype(*rtype)).expect(owner);
        let mut sorted = set.clone();
        sorted.sort();
        assert_eq!(found.records().map(<[u8]>::to_vec).collect::<Vec<_>>(), sorted, "{owner}");
        records += set.len();
    }
    assert_eq!(zone.count().1, records);
}

/// RFC 4592 §2.2.3: it matches, and has no data.
#[test]
fn wildcard_that_only_names_below_it_make_is_known_after_a_change() {
    let mut zone = load(&Sets::new(), None);
    zone.change(name("a.*.zone.test.").as_name(), Rtype::TXT, Some((60, &[b"\x01x"]))).unwrap();
    assert!(zone.facts().wildcards.contains(0));
    let mut zone = load(&Sets::new(), None);
    zone.declare(b"\x01a\x01*\x01b", Declared::Name).unwrap();
    assert!(zone.facts().wildcards.contains(1));
}

#[test]
fn changes_equal_a_load_of_the_result() {
    let mut rng = fastrand::Rng::with_seed(99);
    let mut sets = Sets::new();
    let mut zone = load(&sets, None);
    for round in 0..6000 {
        let labels = ["a", "b", "*", "svc-1", "x.y", "deep.er.still"];
        let owner = format!(
            "n{}.{}.{}.{ORIGIN}",
            rng.usize(..40),
            labels[rng.usize(..labels.len())],
            labels[rng.usize(..labels.len())]
        );
        let rtype = [Rtype::A, Rtype::TXT][rng.usize(..2)];
        let grows = round % 3000 < 1500;
        if rng.usize(..10) < if grows { 7 } else { 2 } {
            let data: Vec<Vec<u8>> = (0..1 + rng.usize(..3))
                .map(|n| vec![3, n as u8, rng.usize(..256) as u8, round as u8])
                .collect();
            let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            zone.change(name(&owner).as_name(), rtype, Some((60, &slices))).unwrap();
            sets.insert((owner, rtype.0), data);
        } else {
            zone.change(name(&owner).as_name(), rtype, None).unwrap();
            sets.remove(&(owner, rtype.0));
        }
        if round % 500 == 499 {
            check(&zone, &sets);
            check(&load(&sets, None), &sets);
            check(&load(&sets, Some(&zone)), &sets);
        }
    }
}

/// Loads the sets in canonical order, as a store does.
fn load_ordered(sets: &Sets) -> Result<Zone, crate::ZoneProblem> {
    let mut all = Vec::new();
    let owner = |owner: &str| {
        let bytes = name(owner).as_name().as_bytes().to_ascii_lowercase();
        bytes[..bytes.len() - name(ORIGIN).as_name().len()].to_vec()
    };
    all.push((vec![], Rtype::NS, vec![b"\x02ns\0".to_vec()]));
    all.push((vec![], Rtype::SOA, vec![soa(1)]));
    for ((at, rtype), records) in sets {
        let mut records = records.clone();
        records.sort();
        all.push((owner(at), Rtype(*rtype), records));
    }
    all.sort_by(|a, b| canonical_cmp(&a.0, &b.0).then(a.1.cmp(&b.1)));
    let mut loader = OrderedLoader::new(key(), name(ORIGIN).as_name());
    for (at, rtype, records) in &all {
        loader.add(at, *rtype, 60, records.iter().map(Vec::as_slice), &[])?;
    }
    loader.finish()
}

#[test]
fn bulk_changes_equal_a_load_of_the_result() {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut sets = Sets::new();
    let mut zone = load(&sets, None);
    for round in 0..40 {
        let labels = ["a", "b", "*", "svc-1", "x.y", "deep.er.still"];
        let mut batch = Sets::new();
        for n in 0..rng.usize(..if round % 10 == 0 { 700 } else { 60 }) {
            let (above, middle) = (labels[rng.usize(..6)], labels[rng.usize(..6)]);
            let owner = format!("n{}.{middle}.{above}.{ORIGIN}", rng.usize(..60 + n));
            let goes = rng.usize(..10) < if round < 20 { 3 } else { 8 };
            let data = (0..1 + rng.usize(..3)).map(|k| vec![3, k as u8, round as u8, n as u8]);
            let rtype = [Rtype::A, Rtype::TXT][rng.usize(..2)].0;
            batch.insert((owner, rtype), if goes { vec![] } else { data.collect() });
        }
        let relative = |owner: &str| zone.relative(name(owner).as_name()).unwrap();
        let mut named: Vec<_> =
            batch.iter().map(|(set, data)| (relative(&set.0), set, data)).collect();
        named.sort_by(|a, b| canonical_cmp(&a.0, &b.0));
        let changes: Vec<_> = named
            .iter()
            .map(|(name, set, data)| {
                let put = (!data.is_empty()).then_some((60, &data[..]));
                crate::SetChange { name, rtype: Rtype(set.1), set: put, rules: Vec::new() }
            })
            .collect();
        let before = (zone.clone(), zone.count());
        zone.change_all(&changes).unwrap();
        assert_eq!(before.0.count(), before.1, "an old zone is not touched");
        for (set, data) in batch {
            match data.is_empty() {
                true => drop(sets.remove(&set)),
                false => drop(sets.insert(set, data)),
            }
        }
        if round % 5 == 4 {
            check(&zone, &sets);
        }
    }
    check(&load_ordered(&sets).unwrap(), &sets);
}

#[test]
fn conflicting_changes_are_all_refused() {
    let sets: Sets = [((format!("www.{ORIGIN}"), 1), vec![vec![10, 0, 0, 1]])].into();
    let mut zone = load(&sets, None);
    let (address, alias) = ([[10, 0, 0, 2]], [b"\x01a\0"]);
    let (address, alias): ([&[u8]; 1], [&[u8]; 1]) = ([&address[0]], [&alias[0][..]]);
    let put = |name, rtype, set| crate::SetChange { name, rtype, set, rules: Vec::new() };
    let new = put(b"\x03new", Rtype::A, Some((60, &address[..])));
    let beside = put(b"\x03www", Rtype::CNAME, Some((60, &alias[..])));
    let goes = put(b"\x03www", Rtype::A, None);
    let refused = zone.change_all(&[new.clone(), beside.clone()]).unwrap_err();
    assert_eq!((refused.place, refused.rule), (Some(1), BrokenRule::CNAME_ALONE));
    assert!(refused.what.starts_with("www.zone.test."), "{refused}");
    check(&zone, &sets);
    // Removals make room for additions in any order.
    zone.change_all(&[new, beside, goes]).unwrap();
    let sets = [((format!("www.{ORIGIN}"), 5), vec![b"\x01a\0".to_vec()])];
    let new = ((format!("new.{ORIGIN}"), 1), vec![vec![10, 0, 0, 2]]);
    check(&zone, &sets.into_iter().chain([new]).collect());
}

#[test]
fn unordered_sets_are_refused() {
    let origin = name(ORIGIN);
    let record: &[u8] = &[10, 0, 0, 1];
    let add = |loader: &mut OrderedLoader, at: &[u8], rtype| {
        loader.add(at, rtype, 60, [record].into_iter(), &[])
    };
    for (first, second) in [
        ((&b"\x01b"[..], Rtype::A), (&b"\x01a"[..], Rtype::A)),
        ((b"\x01a\x01b", Rtype::A), (b"\x01b", Rtype::A)),
        ((b"\x01b", Rtype::TXT), (b"\x01b", Rtype::A)),
        ((b"\x01b", Rtype::A), (b"\x01b", Rtype::A)),
    ] {
        let mut loader = OrderedLoader::new(key(), origin.as_name());
        add(&mut loader, first.0, first.1).unwrap();
        let refused = add(&mut loader, second.0, second.1).unwrap_err();
        assert!(refused.what.contains("damaged"), "{refused}");
    }
    let none = OrderedLoader::new(key(), origin.as_name()).finish().map(drop).unwrap_err();
    assert_eq!(none.rule, BrokenRule::SOA);
    let mut loader = OrderedLoader::new(key(), origin.as_name());
    add(&mut loader, b"\x01b", Rtype::CNAME).unwrap();
    add(&mut loader, b"\x01b", Rtype::TXT).unwrap();
    assert_eq!(loader.finish().map(drop).unwrap_err().rule, BrokenRule::CNAME_ALONE);
}

#[test]
fn load_shares_unchanged_leaves() {
    let services = |changed: u8| -> Sets {
        let record = |n: u32| vec![10, if n == 777 { changed } else { 0 }, (n >> 8) as u8, n as u8];
        (0..5000).map(|n| ((format!("svc-{n}.ns.{ORIGIN}"), 1), vec![record(n)])).collect()
    };
    let old = load(&services(0), None);
    let new = load(&services(1), Some(&old));
    let pairs = old.names().leaves().iter().zip(new.names().leaves().iter());
    let differ = pairs.filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
    assert_eq!(differ, 1, "of {} leaves", old.names().leaves().len());
    let mut more = services(1);
    more.insert((format!("one-more.ns.{ORIGIN}"), 1), vec![vec![10, 9, 9, 9]]);
    more.remove(&(format!("svc-3.ns.{ORIGIN}"), 1));
    check(&load(&more, Some(&new)), &more);
}

#[test]
fn changes_leave_the_old_zone_alone() {
    let sets: Sets =
        (0..300).map(|n| ((format!("n{n}.{ORIGIN}"), 1), vec![vec![n as u8; 4]])).collect();
    let old = load(&sets, None);
    let mut new = old.clone();
    for n in 0..300 {
        new.change(name(&format!("n{n}.{ORIGIN}")).as_name(), Rtype::A, None).unwrap();
        new.change(name(&format!("m{n}.{ORIGIN}")).as_name(), Rtype::A, Some((1, &[&[9; 4]])))
            .unwrap();
    }
    check(&old, &sets);
    assert_eq!(new.names().len(), 301);
}

#[test]
fn refused_change_leaves_the_zone_alone() {
    let sets: Sets = [((format!("www.{ORIGIN}"), 1), vec![vec![10, 0, 0, 1]])].into();
    let mut zone = load(&sets, None);
    for (owner, rtype, data) in [
        ("www.zone.test.", Rtype::CNAME, &b"\x01a\0"[..]),
        ("www.elsewhere.test.", Rtype::A, &[0; 4]),
        ("below.zone.test.", Rtype::SOA, &soa(2)),
        ("zone.test.", Rtype::CNAME, b"\x01a\0"),
    ] {
        let refused = zone.change(name(owner).as_name(), rtype, Some((60, &[data])));
        assert!(refused.is_err(), "{owner} {rtype}");
        check(&zone, &sets);
    }
    let two: [&[u8]; 2] = [b"\x01a\0", b"\x01b\0"];
    assert!(zone.change(name("c.zone.test.").as_name(), Rtype::CNAME, Some((60, &two))).is_err());
    check(&zone, &sets);
}

#[test]
fn load_reports_every_problem_with_its_place() {
    let mut loader = Loader::new(key(), name(ORIGIN).as_name(), None);
    let mut add = |owner: &str, rtype, data: &[u8], place| {
        loader.add(name(owner).as_name(), rtype, 60, data, place).unwrap();
    };
    add(ORIGIN, Rtype::SOA, &soa(1), 1);
    add("www.zone.test.", Rtype::A, &[10, 0, 0, 1], 2);
    add("www.zone.test.", Rtype::CNAME, b"\x01a\0", 3);
    add("two.zone.test.", Rtype::CNAME, b"\x01a\0", 4);
    add("two.zone.test.", Rtype::CNAME, b"\x01b\0", 5);
    let problems = loader.finish().map(drop).unwrap_err();
    let places: Vec<_> = problems.iter().map(|problem| problem.place).collect();
    assert_eq!(places, [Some(3), Some(5), None], "{problems:?}");
    assert!(problems[2].what.contains("no NS record"), "{}", problems[2]);
    let rules: Vec<_> = problems.iter().map(|problem| problem.rule).collect();
    assert_eq!(rules, [BrokenRule::CNAME_ALONE, BrokenRule::SINGLE, BrokenRule::NS]);
}

#[test]
fn longest_origin_is_found_after_every_change() {
    let mut image = Image::new(key());
    let mut rng = fastrand::Rng::with_seed(7);
    let origins: Vec<String> = ["", "test.", "a.test.", "b.a.test.", "deep.er.test.", "org."]
        .iter()
        .map(|text| if text.is_empty() { ".".into() } else { (*text).to_owned() })
        .chain((0..60).map(|n| format!("n{n}.tenant.org.")))
        .collect();
    let mut there: Vec<String> = Vec::new();
    for _ in 0..3000 {
        let origin = &origins[rng.usize(..origins.len())];
        if rng.usize(..2) == 0 {
            image.put_zone(Arc::new(Zone::unloaded(
                Arc::clone(image.key()),
                name(origin).as_name(),
            )));
            there.retain(|other| other != origin);
            there.push(origin.clone());
        } else {
            image.remove_zone(name(origin).as_name());
            there.retain(|other| other != origin);
        }
        assert_eq!(image.zones().count(), there.len());
        let asked =
            name(&format!("x.{}", origins[rng.usize(..origins.len())].trim_start_matches('.')));
        let mut qname = QName::new();
        qname.set(asked.as_name());
        let world: &dyn ZoneTable = &image;
        let routed =
            world.route(View::DEFAULT, &qname, false).map(|route| route.zone.origin().to_string());
        let longest = there
            .iter()
            .filter(|origin| asked.as_name().is_within(name(origin).as_name()))
            .max_by_key(|origin| name(origin).as_name().len());
        assert_eq!(routed.as_ref(), longest, "{asked}");
    }
}

#[test]
fn below_respects_label_borders() {
    assert!(is_below(b"\x01a\x01b", b"\x01b") && is_below(b"\x01b", b""));
    assert!(!is_below(b"\x01b", b"\x01b") && !is_below(b"\x03a\x01b", b"\x01b"));
}

#[test]
fn declared_name_is_kept_by_loader_and_changes() {
    let relative = b"\x01b\x01a";
    let exists = |zone: &Zone| zone.names().get(relative).map(|node| node.is_declared());
    let mut changed = load(&Sets::new(), None);
    changed.declare(relative, Declared::Name).unwrap();
    let mut loader = Loader::new(key(), name(ORIGIN).as_name(), None);
    loader.add(name(ORIGIN).as_name(), Rtype::SOA, 60, &soa(1), 0).unwrap();
    loader.add(name(ORIGIN).as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
    loader.declare(name("b.a.zone.test.").as_name(), Declared::Name, 1).unwrap();
    let other = name("b.a.other.test.");
    assert!(loader.declare(other.as_name(), Declared::Name, 1).is_err());
    let mut loaded = loader.finish().unwrap();
    let at = name("b.a.zone.test.");
    for zone in [&mut changed, &mut loaded] {
        assert_eq!(exists(zone), Some(true));
        assert!(zone.names().get(b"\x01a").is_some_and(|node| !node.is_declared()));
        zone.change(at.as_name(), Rtype::A, Some((5, &[&[10, 0, 0, 1][..]]))).unwrap();
        assert_eq!(exists(zone), Some(true), "it is declared beside its records");
        zone.change(at.as_name(), Rtype::A, None).unwrap();
        assert_eq!(exists(zone), Some(true), "it outlives them");
        zone.declare(relative, Declared::Nothing).unwrap();
        assert_eq!((exists(zone), zone.names().len()), (None, 1), "its parent is gone, too");
    }
}

/// All records of a zone but its SOA: owner, type, TTL and data.
type Records = BTreeMap<(Vec<u8>, u16, u32, Vec<u8>), usize>;

fn records(zone: &Zone) -> Records {
    let mut all = Records::new();
    RecordWalk::new(Arc::new(zone.clone())).advance(|record| {
        if record.rtype != Rtype::SOA {
            let key = (record.name.to_vec(), record.rtype.0, record.ttl, record.data.to_vec());
            *all.entry(key).or_default() += 1;
        }
        true
    });
    all
}

#[test]
fn differences_make_the_newer_version_of_the_older_one() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sets = Sets::new();
    let mut zone = load(&sets, None);
    for round in 0..60 {
        let (before, changes) = (zone.clone(), random.usize(0..40));
        for _ in 0..changes {
            let owner = format!("n{}.{ORIGIN}", random.u16(0..300));
            let rtype = *random.choice(&[Rtype::A, Rtype::AAAA]).expect("a type");
            let ttl = random.u32(60..62);
            let data: Vec<Vec<u8>> = (0..random.u8(0..4)).map(|n| vec![n; 4]).collect();
            let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let set = (!data.is_empty()).then_some((ttl, &data[..]));
            zone.change(name(&owner).as_name(), rtype, set).expect("a change");
            sets.clear();
        }
        let mut all = records(&before);
        let mut changed = 0;
        assert!(before.compare(&zone, |change, record| {
            let key = (record.name.to_vec(), record.rtype.0, record.ttl, record.data.to_vec());
            changed += 1;
            match change {
                RecordChange::Removed => assert!(all.remove(&key).is_some(), "seed {seed}"),
                RecordChange::Added => assert_eq!(all.insert(key, 1), None, "seed {seed}"),
            }
            true
        }));
        assert_eq!(all, records(&zone), "seed {seed}, round {round}");
        assert!(zone.compare(&zone.clone(), |_, _| unreachable!("both are the same")));
        assert_eq!(before.compare(&zone, |_, _| false), changed == 0, "it ends early");
    }
}
