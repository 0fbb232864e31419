//! Answers leave out members that are down.
use super::*;
use crate::choose::choose;
use fastrand::Rng;
use image::Order;
use model::{CHECK_OFF, Choice, MemberRules, MinUp, ORDERS, Policy, SetRules};
use std::collections::{BTreeMap, HashMap, HashSet};

const WWW: &str = "www.example.org.";

fn checked() -> SetRules {
    SetRules { check: "web".into(), ..SetRules::default() }
}

fn members(at: &str, rules: SetRules, addresses: &[[u8; 4]]) -> Change {
    let data = addresses.iter().map(|data| Box::from(&data[..])).collect();
    Edit::put(name(at), Rtype::A, SetValue { ttl: 300, policy: Policy::new(rules), data }).into()
}

fn target(check: &str, address: [u8; 4]) -> HealthTarget {
    HealthTarget { check: check.into(), address: address.into() }
}

/// Sets of example.org name a target.
fn by_example() -> TargetUse {
    TargetUse::Zones(vec![b"\x07example\x03org\0"[..].into()])
}

impl Fixture {
    /// The TTL of a set in the image, and its addresses by their last byte.
    fn answered(&self, at: &str) -> Option<(u32, Vec<u8>)> {
        let image = self.publisher.image();
        let set = image.zone(name("example.org.").as_name())?.set(name(at).as_name(), Rtype::A)?;
        assert!(!set.has_rules() || set.selection().is_some(), "workers read no rules");
        Some((set.ttl(), set.records().map(|data| data[3]).collect()))
    }

    /// Whether not each answer has all records of a set.
    fn is_selected(&self, at: &str) -> bool {
        let image = self.publisher.image();
        let zone = image.zone(name("example.org.").as_name()).unwrap();
        zone.set(name(at).as_name(), Rtype::A).is_some_and(|set| set.selection().is_some())
    }

    fn judge(&self, check: &str, address: [u8; 4], class: MemberClass) {
        self.publisher.report_health(vec![(target(check, address), Some(class))]).wait().unwrap();
    }
}

impl Fixture {
    /// Gives the zone a default check; empty: none.
    fn check_all(&self, check: &str, except: &[&str]) {
        let except: Vec<NameBuf> = except.iter().map(|text| name(text)).collect();
        let of_zone = DefaultCheck::new(name("example.org."), check, &except);
        let all = if check.is_empty() { Vec::new() } else { vec![of_zone] };
        self.publisher.set_default_checks(all);
        self.publisher.report_health(Vec::new()).wait().unwrap();
    }
}

#[test]
fn check_of_a_zone_is_for_all_addresses_that_name_none_and_are_no_glue() {
    let fixture = start();
    let both = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let with = |check: &str| SetRules { check: check.into(), ..SetRules::default() };
    let changes = vec![
        members("plain.example.org.", with(""), &both),
        members("other.example.org.", with("other"), &both),
        members("off.example.org.", with(CHECK_OFF), &both),
        members("ns.example.org.", with(""), &both),
        members("x.static.example.org.", with(""), &both),
        put("sub.example.org.", Rtype::NS, &[b"\x02ns\x03sub\x07example\x03org\0"]),
        members("ns.sub.example.org.", with(""), &both),
        put("text.example.org.", Rtype::TXT, &[b"\x01a", b"\x01b"]),
    ];
    let results = fixture.apply(of_zone(), changes);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let others = ["off", "ns", "x.static", "ns.sub"];
    let answered = |at: &str| fixture.answered(&format!("{at}.example.org."));
    fixture.judge("web", both[0], MemberClass::DownOnceUp);
    assert_eq!(answered("plain"), Some((300, vec![1, 2])));

    fixture.check_all("web", &["ns.example.org.", "*.static.example.org."]);
    assert_eq!(answered("plain"), Some((30, vec![2])));
    assert_eq!(answered("other"), Some((30, vec![1, 2])));
    for at in others {
        assert_eq!(answered(at), Some((300, vec![1, 2])), "{at}");
    }
    let sets = |check, address| fixture.publisher.health().sets(&target(check, address));
    assert_eq!((sets("web", both[0]), sets("other", both[0])), (1, 1));
    let judged = |at| {
        let (zone, at) = (name("example.org."), name(at));
        let at = (View::DEFAULT, at.as_name());
        let answer = fixture.publisher.judged(zone.as_name(), at, Rtype::A);
        answer.wait().unwrap().map(|set| set.rules.check)
    };
    assert_eq!(judged("plain.example.org."), Some("web".into()));
    assert_eq!(judged("ns.example.org."), None);

    // New names have it, too.
    let new = members("new.example.org.", with(""), &both);
    assert_eq!(fixture.apply(of_zone(), vec![new]), [Ok(())]);
    assert_eq!((answered("new"), sets("web", both[0])), (Some((30, vec![2])), 2));
    fixture.judge("web", both[0], MemberClass::Up);
    fixture.judge("web", both[1], MemberClass::Down);
    assert_eq!(answered("new"), Some((30, vec![1])));

    fixture.check_all("", &[]);
    assert_eq!(answered("plain"), Some((300, vec![1, 2])));
    assert_eq!((sets("web", both[0]), sets("other", both[0])), (0, 1));
}

#[test]
fn signed_sets_have_no_check_of_their_zone() {
    let fixture = start();
    let signature: &[u8] = b"\0\x01\x08\x03\0\0\0\x1e\0\0\0\0\0\0\0\0\0\x01\0sig";
    let (origin, www, plain) = (name("example.org."), name(WWW), name("a.example.org."));
    let mut loader = Loader::new(fixture.publisher.key(), origin.as_name(), None);
    for (at, rtype, data) in [
        (&origin, Rtype::SOA, &soa()[..]),
        (&origin, Rtype::NS, b"\x02ns\0"),
        (&www, Rtype::A, &[10, 0, 0, 1]),
        (&www, Rtype::RRSIG, signature),
        (&plain, Rtype::A, &[10, 0, 0, 1]),
    ] {
        loader.add(at.as_name(), rtype, 300, data, 0).unwrap();
    }
    fixture.updates.sync_zone(loader.finish().unwrap(), None).wait().unwrap();
    fixture.check_all("web", &[]);
    assert_eq!(fixture.answered(WWW), Some((300, vec![1])));
    assert_eq!(fixture.answered("a.example.org."), Some((30, vec![1])));
    assert_eq!(fixture.publisher.health().sets(&target("web", [10, 0, 0, 1])), 1);
}

#[test]
fn dead_member_is_left_out_and_comes_back() {
    let fixture = start();
    let change = members(WWW, checked(), &[[10, 0, 0, 1], [10, 0, 0, 2]]);
    assert_eq!(fixture.apply(of_zone(), vec![change]), [Ok(())]);
    assert_eq!(fixture.answered(WWW), Some((30, vec![1, 2])), "nothing is known yet");
    let named: HashMap<_, _> = fixture.publisher.health().take_changed().into_iter().collect();
    let web = |last| (target("web", [10, 0, 0, last]), by_example());
    assert_eq!(named, HashMap::from([web(1), web(2)]));
    fixture.judge("web", [10, 0, 0, 1], MemberClass::Up);
    assert_eq!(fixture.answered(WWW), Some((30, vec![1])), "a new address has to pass first");
    fixture.judge("web", [10, 0, 0, 2], MemberClass::Up);
    assert_eq!(fixture.answered(WWW), Some((30, vec![1, 2])));
    fixture.judge("web", [10, 0, 0, 1], MemberClass::DownOnceUp);
    assert_eq!(
        (fixture.answered(WWW), fixture.publisher.health().open()),
        (Some((30, vec![2])), 0)
    );
    fixture.judge("web", [10, 0, 0, 2], MemberClass::DownOnceUp);
    assert_eq!(fixture.answered(WWW), Some((30, vec![1, 2])), "fail-open");
    assert_eq!(fixture.publisher.health().open(), 1);
    fixture.judge("web", [10, 0, 0, 1], MemberClass::Up);
    assert_eq!(
        (fixture.answered(WWW), fixture.publisher.health().open()),
        (Some((30, vec![1])), 0)
    );
}

#[test]
fn full_sync_keeps_the_rules_of_its_sets() {
    let mut fixture = start();
    let both = [[10, 0, 0, 1], [10, 0, 0, 2]];
    fixture.judge("web", both[0], MemberClass::Up);
    for _ in 0..2 {
        let mut epoch = fixture.updates.full_sync(of_zone());
        epoch.put(put("example.org.", Rtype::SOA, &[&soa()])).unwrap();
        epoch.put(put("example.org.", Rtype::NS, &[b"\x02ns\x07example\0"])).unwrap();
        epoch.put(members(WWW, checked(), &both)).unwrap();
        epoch.put(members("a.example.org.", SetRules::default(), &both)).unwrap();
        assert_eq!(epoch.commit_blocking().unwrap().outcome, SyncOutcome::Published);
        assert_eq!(fixture.answered(WWW), Some((30, vec![1])));
        assert_eq!(fixture.answered("a.example.org."), Some((300, vec![1, 2])));
    }
    assert_eq!(fixture.publisher.health().sets(&target("web", both[1])), 1);
}

/// Sets of all types can have comments: they choose nothing.
#[test]
fn workers_read_sets_with_comments_as_plain_ones() {
    let fixture = start();
    let with_comment = |at: &str, rtype, data: &[u8]| {
        let policy = Policy::All.with_comment("rack 7");
        let value = SetValue { ttl: 300, policy, data: vec![data.into()] };
        Change::from(Edit::put(name(at), rtype, value))
    };
    let changes = vec![
        with_comment(WWW, Rtype::A, &[10, 0, 0, 1]),
        with_comment("mail.example.org.", Rtype::MX, b"\0\x0a\x02mx\0"),
    ];
    assert_eq!(fixture.apply(of_zone(), changes), [Ok(()), Ok(())]);
    assert_eq!(fixture.answered(WWW), Some((300, vec![1])));
    let image = fixture.publisher.image();
    let zone = image.zone(name("example.org.").as_name()).unwrap();
    let mail = zone.set(name("mail.example.org.").as_name(), Rtype::MX).unwrap();
    assert!(!mail.has_rules() && mail.records().eq([&b"\0\x0a\x02mx\0"[..]]));
    assert_eq!(fixture.publisher.health().take_changed(), []);
}

#[test]
fn verdict_of_a_check_changes_only_its_sets() {
    let fixture = start();
    let other = SetRules { check: "other".into(), ..SetRules::default() };
    let both = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let changes = vec![
        members(WWW, checked(), &both),
        members("a.example.org.", other, &both),
        members("b.example.org.", SetRules::default(), &both),
    ];
    fixture.apply(of_zone(), changes);
    fixture.judge("web", both[1], MemberClass::Up);
    assert_eq!(fixture.answered(WWW), Some((30, vec![2])));
    assert_eq!(fixture.answered("a.example.org."), Some((30, vec![1, 2])));
    assert_eq!(fixture.answered("b.example.org."), Some((300, vec![1, 2])), "a plain set");
}

#[test]
fn unserved_zone_names_no_targets() {
    let fixture = start();
    fixture.apply(of_zone(), vec![members(WWW, checked(), &[[10, 0, 0, 1]])]);
    let web = target("web", [10, 0, 0, 1]);
    assert_eq!(fixture.publisher.health().sets(&web), 1);
    fixture.apply(of_zone(), vec![members(WWW, SetRules::default(), &[[10, 0, 0, 1]])]);
    assert_eq!(fixture.publisher.health().sets(&web), 0);
    assert_eq!(fixture.publisher.health().take_changed(), [(web.clone(), TargetUse::Unused)]);
    fixture.apply(of_zone(), vec![members(WWW, checked(), &[[10, 0, 0, 1]])]);
    assert_eq!(fixture.publisher.health().take_changed(), [(web.clone(), by_example())]);
    fixture.publisher.wait(fixture.updates.remove(of_zone())).unwrap();
    assert_eq!(fixture.publisher.health().take_changed(), [(web, TargetUse::ZoneDeleted)]);
}

#[test]
fn verdicts_before_the_zone_hold_from_its_first_publication() {
    let fixture = start();
    fixture.judge("web", [10, 0, 0, 1], MemberClass::DownOnceUp);
    fixture.judge("web", [10, 0, 0, 2], MemberClass::Up);
    fixture.apply(of_zone(), vec![members(WWW, checked(), &[[10, 0, 0, 1], [10, 0, 0, 2]])]);
    assert_eq!(fixture.answered(WWW), Some((30, vec![2])));
}

#[test]
fn last_living_member_is_known() {
    let fixture = start();
    let both = [[10, 0, 0, 1], [10, 0, 0, 2]];
    fixture.apply(of_zone(), vec![members(WWW, checked(), &both)]);
    let last = |check| fixture.publisher.last_member_of(both[0].into(), check).wait().unwrap();
    assert_eq!(last(None), Vec::<String>::new());
    fixture.judge("web", both[1], MemberClass::Drained);
    assert_eq!(last(None), ["www.example.org. A"]);
    assert_eq!(last(Some("web")), ["www.example.org. A"]);
    assert_eq!(last(Some("other")), Vec::<String>::new());
    // Down counts as drained does, unless the address is down itself.
    for dead in [MemberClass::Down, MemberClass::DownOnceUp] {
        fixture.judge("web", both[1], dead);
        assert_eq!(last(None), ["www.example.org. A"], "{dead:?}");
        fixture.judge("web", both[0], MemberClass::Up);
        assert_eq!(last(None), ["www.example.org. A"], "{dead:?}");
        fixture.judge("web", both[0], MemberClass::Down);
        assert_eq!(last(None), Vec::<String>::new(), "{dead:?}");
        fixture.judge("web", both[0], MemberClass::Unknown);
    }
    fixture.judge("web", both[1], MemberClass::Unknown);
    assert_eq!(last(None), Vec::<String>::new());
}

#[test]
fn rules_beside_signatures_are_refused_and_comments_are_not() {
    let fixture = start();
    let image = fixture.publisher.image();
    let origin = name("signed.");
    let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
    loader.add(origin.as_name(), Rtype::SOA, 60, &soa(), 0).unwrap();
    loader.add(origin.as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
    let signature = [&[0, 1, 8, 2, 0, 0, 0, 60][..], &[0; 11], &[0; 16]].concat();
    loader.add(name("www.signed.").as_name(), Rtype::RRSIG, 60, &signature, 0).unwrap();
    fixture.updates.sync_zone(loader.finish().unwrap(), None).wait().unwrap();
    let put = |rules| {
        let change = members("www.signed.", rules, &[[10, 0, 0, 1]]);
        fixture.apply(Target::Zone(name("signed.")), vec![change])
    };
    let comment = SetRules { comment: "rack 7".into(), ..SetRules::default() };
    assert_eq!(put(comment), [Ok(())]);
    let results = put(checked());
    let [Err(Refusal::Invalid { rule, .. })] = &results[..] else { panic!("{results:?}") };
    assert_eq!(rule.id, "signed");
}

#[test]
fn members_are_added_and_taken_with_their_tiers() {
    let fixture = start();
    let tiers = |tiers: &[u8]| SetRules {
        choice: Choice::Failover,
        tiers: tiers.into(),
        ..SetRules::default()
    };
    fixture.apply(of_zone(), vec![members(WWW, tiers(&[0, 1]), &[[10, 0, 0, 9], [10, 0, 0, 2]])]);
    assert_eq!(fixture.answered(WWW), Some((300, vec![9])));
    let Change::Set(edit) = members(WWW, SetRules::default(), &[[10, 0, 0, 9]]) else { panic!() };
    fixture.apply(of_zone(), vec![Change::Take(edit)]);
    assert_eq!(fixture.answered(WWW), Some((300, vec![2])));
    let Change::Set(edit) = members(WWW, SetRules::default(), &[[10, 0, 0, 1]]) else { panic!() };
    fixture.apply(of_zone(), vec![Change::Add(edit)]);
    assert_eq!(fixture.answered(WWW), Some((300, vec![1])), "it has tier 0");
}

#[test]
fn services_names_and_pointers_have_policies_and_texts_do_not() {
    let fixture = start();
    let put = |rtype, records: &[&[u8]], rules: SetRules| {
        let data = records.iter().map(|data| Box::from(*data)).collect();
        let value = SetValue { ttl: 300, policy: Policy::new(rules), data };
        fixture.apply(of_zone(), vec![Edit::put(name(WWW), rtype, value).into()])
    };
    let one = || SetRules { choice: Choice::One, ..SetRules::default() };
    let services: [&[u8]; 2] = [b"\0\x01\0\0\0\x50\x01a\0", b"\0\x01\0\0\0\x51\x01b\0"];
    for (rtype, records) in [
        (Rtype::SRV, services),
        (Rtype::HTTPS, [&b"\0\x01\0"[..], b"\0\x02\0"]),
        (Rtype::PTR, [b"\x01a\0", b"\x01b\0"]),
    ] {
        assert_eq!(put(rtype, &records, one()), [Ok(())], "{rtype}");
        let image = fixture.publisher.image();
        let zone = image.zone(name("example.org.").as_name()).unwrap();
        let set = zone.set(name(WWW).as_name(), rtype).unwrap();
        assert!(set.records().eq(records), "{rtype}");
        assert_eq!(set.selection().map(|one| (one.first, one.others)), Some((0, 1)), "{rtype}");
    }
    let results = put(Rtype::TXT, &[b"\x01a", b"\x01b"], one());
    assert!(matches!(&results[..], [Err(Refusal::Invalid { field: "policy", .. })]), "{results:?}");
}

fn random_rules(rng: &mut Rng, len: usize) -> SetRules {
    let check = ["", "web", "other", CHECK_OFF][rng.usize(..4)].into();
    let choices = ["all", "failover", "one", "weighted", "hash", "nearest"];
    let choice = Choice::from_word(choices[rng.usize(..choices.len())]).unwrap();
    let min_up = MinUp::Members(if choice == Choice::Nearest { 1 } else { rng.u16(1..3) });
    let comment = ["", "rack 7"][rng.usize(..2)].into();
    let is_closed = rng.u8(..4) == 0;
    let has_order = matches!(choice, Choice::One | Choice::Weighted | Choice::Hash);
    let then = if has_order { Order::Random } else { ORDERS[rng.usize(..ORDERS.len())].0 };
    let max = rng.u16(..3);
    let mut rules =
        SetRules { choice, then, max, check, min_up, is_closed, comment, ..SetRules::default() };
    let members: Vec<MemberRules> = (0..len)
        .map(|_| MemberRules {
            tier: rng.u8(..3),
            weight: rng.u16(..3),
            ramp: None,
            location: ["", "eu", "eu/fra1", "us"][rng.usize(..4)].into(),
        })
        .collect();
    rules.set_members(&members);
    rules
}

const CLASSES: [MemberClass; 5] = [
    MemberClass::Up,
    MemberClass::Unknown,
    MemberClass::DownOnceUp,
    MemberClass::Down,
    MemberClass::Drained,
];

/// The rules of a set in a zone with this check; empty: it has none.
fn with_check(rules: &SetRules, of_all: &str) -> SetRules {
    let check = match &*rules.check {
        "" => of_all.into(),
        CHECK_OFF => "".into(),
        own => own.into(),
    };
    SetRules { check, ..rules.clone() }
}

/// Whatever changes, each set has what its rules choose, and each target of a set is known.
#[test]
fn random_changes_and_verdicts_give_what_the_rules_choose() {
    let mut rng = Rng::with_seed(26);
    let fixture = start();
    let mut sets: BTreeMap<String, (SetRules, Vec<[u8; 4]>)> = BTreeMap::new();
    let mut classes: HashMap<HealthTarget, MemberClass> = HashMap::new();
    let mut named: HashSet<HealthTarget> = HashSet::new();
    let mut of_all = "";
    for round in 0..400 {
        let at = format!("n{}.example.org.", rng.u16(..400));
        match rng.u8(..4) {
            _ if round % 50 == 49 => {
                of_all = ["", "web", "other"][rng.usize(..3)];
                fixture.check_all(of_all, &[]);
            }
            0 => {
                fixture.apply(of_zone(), vec![Edit::remove(name(&at), Rtype::A).into()]);
                sets.remove(&at);
            }
            1 => {
                let class = CLASSES[rng.usize(..CLASSES.len())];
                let judged = target(["web", "other"][rng.usize(..2)], [10, 0, 0, rng.u8(..9)]);
                let verdicts = vec![(judged.clone(), Some(class))];
                fixture.publisher.report_health(verdicts).wait().unwrap();
                classes.insert(judged, class);
            }
            _ => {
                let mut addresses: Vec<_> = (0..9).map(|last| [10, 0, 0, last]).collect();
                rng.shuffle(&mut addresses);
                addresses.truncate(rng.usize(1..5));
                addresses.sort_unstable();
                let rules = random_rules(&mut rng, addresses.len());
                let change = members(&at, rules.clone(), &addresses);
                assert_eq!(fixture.apply(of_zone(), vec![change]), [Ok(())]);
                sets.insert(at, (rules, addresses));
            }
        }
        for (target, by) in fixture.publisher.health().take_changed() {
            // A target that went and came again counts as named.
            let is_named = matches!(by, TargetUse::Zones(_));
            let _ = if is_named { named.insert(target) } else { named.remove(&target) };
        }
        if round % 10 > 0 {
            continue;
        }
        let mut wanted = HashSet::new();
        let mut open = 0;
        for (at, (rules, addresses)) in &sets {
            let rules = with_check(rules, of_all);
            let of = |address: &[u8; 4]| match &*rules.check {
                "" => MemberClass::Up,
                check => {
                    let known = classes.get(&target(check, *address)).copied();
                    known.unwrap_or(MemberClass::Unknown)
                }
            };
            let chosen = choose(&rules, &addresses.iter().map(of).collect::<Vec<_>>());
            open += usize::from(chosen.is_open);
            let answered: Vec<u8> = chosen.members.iter().map(|m| addresses[*m][3]).collect();
            let ttl = if rules.check.is_empty() { 300 } else { 30 };
            let answered = Some((ttl, answered)).filter(|(_, members)| !members.is_empty());
            assert_eq!(fixture.answered(at), answered, "{at} {rules:?}");
            let is_selected = answered.is_some() && chosen.selection.is_some();
            assert_eq!(fixture.is_selected(at), is_selected, "{at} {rules:?}");
            if !rules.check.is_empty() {
                wanted.extend(addresses.iter().map(|address| target(&rules.check, *address)));
            }
        }
        assert_eq!(named, wanted);
        assert_eq!(fixture.publisher.health().open(), open);
    }
}
