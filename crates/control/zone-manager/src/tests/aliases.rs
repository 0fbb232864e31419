//! ALIAS records: names with the addresses of another name.
use super::*;
use fastrand::Rng;
use model::{Choice, Policy, SetRules};

const APEX: &str = "example.org.";
const WWW: &str = "www.example.org.";

/// A set as workers read it: its TTL, its records, and what selects answers from them.
type Published = Option<(u32, Vec<Vec<u8>>, Vec<u8>)>;

impl Fixture {
    fn published(&self, at: &str, rtype: Rtype) -> Published {
        let image = self.publisher.image();
        let at = name(at);
        let mut above = std::iter::successors(Some(at.as_name()), |name| name.parent());
        let set = above.find_map(|origin| image.zone(origin))?.set(at.as_name(), rtype)?;
        let records = set.records().map(<[u8]>::to_vec).collect();
        Some((set.ttl(), records, set.rules().to_vec()))
    }

    /// The last bytes of the addresses of a name; `None`: it has none.
    fn addresses_of(&self, at: &str) -> Option<Vec<u8>> {
        let (_, records, _) = self.published(at, Rtype::A)?;
        Some(records.iter().map(|data| data[3]).collect())
    }

    fn done(&self, changes: Vec<Change>) {
        let results = self.apply(of_zone(), changes);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    fn add_zone(&self, origin: &str, addresses: &[(&str, [u8; 4])]) {
        self.updates.sync_zone(zone(&self.publisher.image(), origin), None).wait().unwrap();
        let changes = addresses.iter().map(|(at, data)| address(at, *data)).collect();
        let results = self.apply(Target::Zone(name(origin)), changes);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

fn alias(at: &str, target: &str) -> Change {
    put(at, Rtype::ALIAS, &[name(target).as_name().as_bytes()])
}

fn remove(at: &str, rtype: Rtype) -> Change {
    Edit::remove(name(at), rtype).into()
}

fn with_rules(at: &str, rules: SetRules, last: &[u8]) -> Change {
    let data = last.iter().map(|last| Box::from(&[10, 0, 0, *last][..])).collect();
    Edit::put(name(at), Rtype::A, SetValue { ttl: 300, policy: Policy::new(rules), data }).into()
}

#[test]
fn alias_at_the_apex_has_the_addresses_of_its_target_as_they_change() {
    let fixture = start();
    fixture.done(vec![alias(APEX, WWW)]);
    assert_eq!(fixture.addresses_of(APEX), None, "the target does not exist");
    fixture.done(vec![
        address(WWW, [10, 0, 0, 1]),
        put(WWW, Rtype::AAAA, &[&[7; 16]]),
        put(WWW, Rtype::TXT, &[b"\x01a"]),
    ]);
    for rtype in [Rtype::A, Rtype::AAAA] {
        assert_eq!(fixture.published(APEX, rtype), fixture.published(WWW, rtype));
        assert!(fixture.published(APEX, rtype).is_some());
    }
    for rtype in [Rtype::TXT, Rtype::ALIAS] {
        assert_eq!(fixture.published(APEX, rtype), None, "{rtype}");
    }
    assert!(fixture.published(APEX, Rtype::NS).is_some(), "other sets stay");
    fixture.done(vec![address(WWW, [10, 0, 0, 2])]);
    assert_eq!(fixture.addresses_of(APEX), Some(vec![2]));
    fixture.done(vec![remove(WWW, Rtype::A)]);
    assert_eq!(fixture.addresses_of(APEX), None);
    assert!(fixture.published(APEX, Rtype::AAAA).is_some());
    fixture.done(vec![remove(APEX, Rtype::ALIAS), address(APEX, [10, 0, 0, 9])]);
    fixture.done(vec![address(WWW, [10, 0, 0, 3])]);
    assert_eq!(fixture.addresses_of(APEX), Some(vec![9]), "an address of its own");
}

#[test]
fn alias_follows_the_health_and_the_policy_of_its_target() {
    let fixture = start();
    let rules = SetRules { choice: Choice::Hash, check: "web".into(), ..SetRules::default() };
    fixture.done(vec![with_rules(WWW, rules, &[1, 2, 3]), alias(APEX, WWW)]);
    let judge = |last, class| {
        let target = HealthTarget { check: "web".into(), address: [10, 0, 0, last].into() };
        fixture.publisher.report_health(vec![(target, Some(class))]).wait().unwrap();
    };
    (1..=3).for_each(|last| judge(last, MemberClass::Up));
    assert_eq!(fixture.addresses_of(APEX), Some(vec![1, 2, 3]));
    judge(2, MemberClass::DownOnceUp);
    assert_eq!(fixture.addresses_of(APEX), Some(vec![1, 3]));
    let (ttl, records, selection) = fixture.published(WWW, Rtype::A).unwrap();
    assert!(!selection.is_empty(), "by hash");
    let wanted = Some((ttl.min(30), records, selection));
    assert_eq!(fixture.published(APEX, Rtype::A), wanted);
    let (zone, apex) = (name(APEX), name(APEX));
    let apex = (View::DEFAULT, apex.as_name());
    let judged = fixture.publisher.judged(zone.as_name(), apex, Rtype::A);
    let judged = judged.wait().unwrap().expect("the members of the target");
    assert_eq!(judged.members[1].class, Some(MemberClass::DownOnceUp));
}

#[test]
fn alias_to_another_zone_follows_that_zone_while_it_is_there() {
    let fixture = start();
    fixture.done(vec![alias(APEX, "www.example.net."), alias(WWW, "a.sub.example.net.")]);
    assert_eq!(fixture.addresses_of(APEX), None);
    let all = [("www.example.net.", [10, 0, 0, 1]), ("*.example.net.", [10, 0, 0, 7])];
    fixture.add_zone("example.net.", &all);
    assert_eq!(
        (fixture.addresses_of(APEX), fixture.addresses_of(WWW)),
        (Some(vec![1]), Some(vec![7]))
    );
    // A zone below it takes the name of the target.
    fixture.add_zone("sub.example.net.", &[("a.sub.example.net.", [10, 0, 0, 8])]);
    assert_eq!(
        (fixture.addresses_of(APEX), fixture.addresses_of(WWW)),
        (Some(vec![1]), Some(vec![8]))
    );
    for (origin, addresses) in
        [("sub.example.net.", (Some(vec![1]), Some(vec![7]))), ("example.net.", (None, None))]
    {
        let removed = fixture.updates.remove(Target::Zone(name(origin)));
        fixture.publisher.wait(removed).unwrap();
        assert_eq!((fixture.addresses_of(APEX), fixture.addresses_of(WWW)), addresses, "{origin}");
    }
    fixture.add_zone("example.net.", &all);
    assert_eq!(fixture.addresses_of(APEX), Some(vec![1]));
}

#[test]
fn chains_end_at_addresses_and_circles_and_cuts_at_none() {
    let fixture = start();
    let at = |label: &str| format!("{label}.example.org.");
    let data = |target: &str| name(&at(target)).as_name().as_bytes().to_vec();
    let cname = |from: &str, to: &str| put(&at(from), Rtype::CNAME, &[&data(to)]);
    fixture.done(vec![
        address(&at("a"), [10, 0, 0, 1]),
        address(&at("*.w"), [10, 0, 0, 2]),
        cname("c", "d"),
        cname("d", "a"),
        alias(&at("of-alias"), &at("of-chain")),
        alias(&at("of-chain"), &at("c")),
        alias(&at("of-wildcard"), &at("x.y.w")),
        alias(&at("*.all"), &at("a")),
        alias(&at("one"), &at("two")),
        alias(&at("two"), &at("one")),
        put(&at("cut"), Rtype::NS, &[b"\x02ns\0"]),
        address(&at("ns.cut"), [10, 0, 0, 3]),
        alias(&at("of-glue"), &at("ns.cut")),
        put(&at("dname"), Rtype::DNAME, &[&data("w")]),
        alias(&at("of-dname"), &at("x.dname")),
        alias(&at("of-parent"), &at("w")),
        alias(&at("of-others"), "www.elsewhere.example."),
    ]);
    for (label, addresses) in [
        ("of-alias", Some(vec![1])),
        ("of-chain", Some(vec![1])),
        ("of-wildcard", Some(vec![2])),
        ("*.all", Some(vec![1])),
        ("one", None),
        ("two", None),
        ("of-glue", None),
        ("of-dname", None),
        ("of-parent", None),
        ("of-others", None),
    ] {
        assert_eq!(fixture.addresses_of(&at(label)), addresses, "{label}");
        assert!(fixture.exists(&at(label)), "{label}: NODATA, not NXDOMAIN");
    }
    // The circle is broken, and a link of the chain moves.
    fixture.done(vec![remove(&at("two"), Rtype::ALIAS), address(&at("two"), [10, 0, 0, 5])]);
    fixture.done(vec![cname("d", "two")]);
    let found = ["one", "of-alias"].map(|label| fixture.addresses_of(&at(label)));
    assert_eq!(found, [Some(vec![5]), Some(vec![5])]);
    // A chain of nine names is too long.
    for number in 0..9 {
        fixture.done(vec![alias(&at(&format!("n{number}")), &at(&format!("n{}", number + 1)))]);
    }
    fixture.done(vec![address(&at("n9"), [10, 0, 0, 6])]);
    let found = ["n0", "n1"].map(|label| fixture.addresses_of(&at(label)));
    assert_eq!(found, [None, Some(vec![6])]);
}

#[test]
fn alias_is_refused_where_addresses_are_and_of_itself() {
    let fixture = start();
    fixture.done(vec![address(WWW, [10, 0, 0, 1]), alias(APEX, WWW)]);
    let cname = put(APEX, Rtype::CNAME, &[b"\x01a\0"]);
    let two = put("two.example.org.", Rtype::ALIAS, &[b"\x01a\0", b"\x01b\0"]);
    for (change, id) in [
        (address(APEX, [10, 0, 0, 2]), "alias-addresses"),
        (put(APEX, Rtype::AAAA, &[&[7; 16]]), "alias-addresses"),
        (alias(WWW, APEX), "alias-addresses"),
        (alias("x.example.org.", "X.Example.Org."), "alias-loop"),
        (cname, "cname-alone"),
        (two, "single"),
    ] {
        let results = fixture.apply(of_zone(), vec![change]);
        let [Err(Refusal::Invalid { rule, .. })] = &results[..] else { panic!("{results:?}") };
        assert_eq!(rule.id, id);
    }
    assert_eq!(fixture.addresses_of(APEX), Some(vec![1]));
}

/// Whatever changes, an ALIAS has what its target has.
#[test]
fn random_changes_leave_each_alias_with_the_addresses_of_its_target() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let fixture = start();
    fixture.add_zone("example.net.", &[]);
    let zones = ["example.org.", "example.net."];
    let target = |number: usize| format!("t{}.{}", number / 2, zones[number % 2]);
    // Aliases are of one zone, targets of both.
    let at = |number: usize| format!("a{number}.example.org.");
    let mut targets = vec![None; 40];
    for round in 0..300 {
        let to = rng.usize(..60);
        match rng.u8(..6) {
            0 => {
                let alias_at = rng.usize(..targets.len());
                fixture.done(vec![alias(&at(alias_at), &target(to))]);
                targets[alias_at] = Some(to);
            }
            1 => {
                let alias_at = rng.usize(..targets.len());
                fixture.done(vec![remove(&at(alias_at), Rtype::ALIAS)]);
                targets[alias_at] = None;
            }
            2 => {
                let target =
                    HealthTarget { check: "web".into(), address: [10, 0, 0, rng.u8(..9)].into() };
                let class = [MemberClass::Up, MemberClass::Down][rng.usize(..2)];
                fixture.publisher.report_health(vec![(target, Some(class))]).wait().unwrap();
            }
            3 => {
                let of = Target::Zone(name(zones[to % 2]));
                fixture.apply(of, vec![remove(&target(to), Rtype::A)]);
            }
            _ => {
                let choice = ["all", "hash", "weighted", "failover"][rng.usize(..4)];
                let choice = Choice::from_word(choice).unwrap();
                let check = ["", "web"][rng.usize(..2)].into();
                let rules = SetRules { choice, check, ..SetRules::default() };
                let mut last: Vec<u8> = (0..9).collect();
                rng.shuffle(&mut last);
                last.truncate(rng.usize(1..4));
                let of = Target::Zone(name(zones[to % 2]));
                let results = fixture.apply(of, vec![with_rules(&target(to), rules, &last)]);
                assert_eq!(results, [Ok(())]);
            }
        }
        if round % 10 > 0 {
            continue;
        }
        for (number, to) in targets.iter().enumerate() {
            let wanted = to.and_then(|to| fixture.published(&target(to), Rtype::A));
            // The key of a hash is that of the zone, after the order and the bounds.
            let plain = |set: Published| {
                set.map(|(ttl, records, mut selection)| {
                    selection.iter_mut().skip(6).take(8).for_each(|byte| *byte = 0);
                    (ttl.min(30), records, selection)
                })
            };
            let found = fixture.published(&at(number), Rtype::A);
            assert_eq!(plain(found), plain(wanted), "{number} to {to:?}");
        }
    }
}
