//! Compares views with zones that have the merged sets themselves.
use crate::{Loader, SetChange, View, ViewSets, Zone};
use image::{HashKey, RelName};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::limits::PADDED_LEN;
use wire::{Name, NameBuf, Rtype};

const ORIGIN: &str = "zone.test.";
const LABELS: [&str; 4] = ["a", "b", "c", "*"];
const TYPES: [u16; 4] = [1, 2, 16, 28];

/// The data of sets.
type Sets = BTreeMap<(String, u16), Vec<u8>>;

fn key() -> Arc<HashKey> {
    let word = |n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    Arc::new(HashKey::new(std::array::from_fn(word)))
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// All names of up to three labels below the origin.
fn all_names() -> Vec<String> {
    let mut names = vec![String::new()];
    let mut last = names.clone();
    for _ in 0..3 {
        last =
            last.iter().flat_map(|below| LABELS.map(|label| format!("{label}.{below}"))).collect();
        names.extend(last.iter().cloned());
    }
    names.into_iter().map(|below| below + ORIGIN).collect()
}

fn random_sets(random: &mut fastrand::Rng, names: &[String], len: usize) -> Sets {
    let mut set = || {
        let owner = names[random.usize(1..names.len())].clone();
        let rtype = TYPES[random.usize(0..TYPES.len())];
        let data = match rtype {
            1 => vec![192, 0, 2, random.u8(..)],
            2 => b"\x02ns\x01x\0".to_vec(),
            16 => vec![1, random.u8(..)],
            _ => vec![random.u8(..); 16],
        };
        ((owner, rtype), data)
    };
    (0..len).map(|_| set()).collect()
}

fn loader(sets: &Sets) -> Loader<'static> {
    let mut loader = Loader::new(key(), name(ORIGIN).as_name(), None);
    for ((owner, rtype), data) in sets {
        loader.add(name(owner).as_name(), Rtype(*rtype), 60, data, 0).expect("in the zone");
    }
    loader
}

fn load(sets: &Sets) -> Zone {
    try_load(sets).expect("a zone")
}

fn try_load(sets: &Sets) -> Option<Zone> {
    let mut loader = loader(sets);
    let soa = [b"\x02ns\0\x04root\0".as_slice(), &[0; 20]].concat();
    loader.add(name(ORIGIN).as_name(), Rtype::SOA, 60, &soa, 0).expect("in the zone");
    loader.add(name(ORIGIN).as_name(), Rtype::NS, 60, b"\x02ns\x01x\0", 0).expect("in the zone");
    loader.finish().ok()
}

/// The sets at each name, empty names included.
fn found(zone: &dyn image::Zone, names: &[String]) -> Vec<Option<Vec<Vec<u8>>>> {
    let find = |text: &String| {
        let (name, mut buffer) = (name(text), [0; PADDED_LEN]);
        let len = name.as_name().len() - zone.origin().len();
        buffer[..len].copy_from_slice(&name.as_name().as_bytes()[..len]);
        let node = zone.find(&key(), RelName::new(&buffer, 0, len))?;
        Some(node.sets().map(|set| set.as_bytes().to_vec()).collect())
    };
    names.iter().map(find).collect()
}

fn check(zone: &Zone, merged: &Zone, names: &[String]) {
    let (seen, merged): (&dyn image::Zone, &dyn image::Zone) = (zone.in_view(View(3)), merged);
    assert_eq!(found(seen, names), found(merged, names));
    let (facts, wanted) = (seen.facts(), merged.facts());
    assert_eq!(facts.cuts.0 & wanted.cuts.0, wanted.cuts.0);
    assert_eq!(facts.wildcards.0 & wanted.wildcards.0, wanted.wildcards.0);
    assert!(facts.loaded && facts.depth_max >= wanted.depth_max);
}

#[test]
fn view_is_the_merged_zone_also_after_changes() {
    let mut random = fastrand::Rng::with_seed(7);
    let names = all_names();
    for _ in 0..300 {
        let len = random.usize(0..40);
        let mut sets = random_sets(&mut random, &names, len);
        let len = random.usize(0..12);
        let own = random_sets(&mut random, &names, len);
        let mut zone = load(&sets);
        let (of_view, _) = loader(&own).finish_view(&zone).expect("they fit");
        zone = zone.with_views(vec![(View(3), Some(of_view))]).expect("a view");
        for _ in 0..4 {
            let merged: Sets = sets.clone().into_iter().chain(own.clone()).collect();
            check(&zone, &load(&merged), &names);
            assert_eq!(found(zone.in_view(View(4)), &names), found(&load(&sets), &names));
            let changed = random_sets(&mut random, &names, 1);
            let ((owner, rtype), data) = changed.into_iter().next().expect("one");
            let records = [&data[..]];
            let set = random.bool().then_some((60, &records[..]));
            zone.change(name(&owner).as_name(), Rtype(rtype), set).expect("it fits");
            match set {
                Some(_) => sets.insert((owner, rtype), data),
                None => sets.remove(&(owner, rtype)),
            };
        }
    }
}

/// Changes of the zone and of the view, one at a time: what cannot be is refused for the reason
/// for which the merged zone could not be, and changes nothing.
#[test]
fn view_that_is_changed_is_the_merged_zone() {
    let mut random = fastrand::Rng::with_seed(8);
    let names = all_names();
    let mut refused = 0;
    for _ in 0..60 {
        let len = random.usize(0..20);
        let (mut sets, mut own) = (random_sets(&mut random, &names, len), Sets::new());
        let (mut zone, mut of_view) = (load(&sets), ViewSets::none(key()));
        for _ in 0..60 {
            let changed = random_sets(&mut random, &names, 1);
            let ((owner, mut rtype), mut data) = changed.into_iter().next().expect("one");
            if random.u8(..) < 20 {
                (rtype, data) = (5, b"\x01x\0".to_vec());
            }
            let relative = zone.relative(name(&owner).as_name()).expect("in the zone");
            let records = [&data[..]];
            let set = (random.u8(..) < 160).then_some((60, &records[..]));
            let change = SetChange { name: &relative, rtype: Rtype(rtype), set, rules: vec![] };
            let (before, of_view_before) = (zone.clone(), of_view.clone());
            let is_own = random.bool();
            let done = match is_own {
                true => of_view.change_all(zone.origin(), &[change]),
                false => zone.change_all(&[change]),
            };
            let done = done.and_then(|()| zone.check_view(&of_view, &[&relative]));
            let into = if is_own { &mut own } else { &mut sets };
            let held = match set {
                Some(_) => into.insert((owner.clone(), rtype), data.clone()),
                None => into.remove(&(owner.clone(), rtype)),
            };
            let merged: Sets = sets.clone().into_iter().chain(own.clone()).collect();
            let wanted = try_load(&merged);
            assert_eq!(done.is_ok(), wanted.is_some(), "{done:?}");
            let Some(wanted) = wanted else {
                let into = if is_own { &mut own } else { &mut sets };
                into.remove(&(owner.clone(), rtype));
                into.extend(held.map(|held| ((owner, rtype), held)));
                (zone, of_view) = (before, of_view_before);
                refused += 1;
                continue;
            };
            zone.put_view(View(3), &of_view, &[&relative]).expect("no crowd");
            check(&zone, &wanted, &names);
            assert_eq!(of_view.is_empty(), own.is_empty());
        }
    }
    assert!(refused > 50, "{refused}");
}

#[test]
fn view_without_sets_of_its_own_is_the_zone_and_one_that_was_not_loaded_fails() {
    let names = all_names();
    let sets = random_sets(&mut fastrand::Rng::with_seed(1), &names, 9);
    let zone = load(&sets);
    let (none, _) = loader(&Sets::new()).finish_view(&zone).expect("nothing");
    let zone = zone.with_views(vec![(View(3), Some(none)), (View(5), None)]).expect("two views");
    check(&zone, &load(&sets), &names);
    assert!(!zone.in_view(View(5)).facts().loaded);
    let origin = zone.in_view(View(5)).origin();
    assert_eq!(origin, name(ORIGIN).as_name());
}
