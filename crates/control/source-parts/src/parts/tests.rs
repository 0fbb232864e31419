use super::*;
use crate::merge::{EXPORTS, merge};
use crate::part::PartSet;
use model::{Choice, SetRules};
use std::collections::BTreeMap;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn origin() -> NameBuf {
    name("svc.example.")
}

fn key(cluster: &str, namespace: &str, service: &str) -> PartKey {
    let (cluster, kind) = (cluster.into(), "services".into());
    PartKey { cluster, kind, namespace: namespace.into(), name: service.into() }
}

fn set(owner: &str, rtype: Rtype, ttl: u32, data: &[&str]) -> PartSet {
    let texts: Vec<String> = data.iter().map(|text| (*text).to_owned()).collect();
    let data = model::read_data(&texts, rtype, "").expect("data");
    PartSet { name: name(&format!("{owner}.svc.example.")), rtype, ttl, data }
}

fn part(created: u64, location: &str, sets: Vec<PartSet>) -> Part {
    Part { created, location: location.into(), sets, ..Part::default() }
}

fn addresses(created: u64, location: &str, data: &[&str]) -> Part {
    part(created, location, vec![set("web.shop", Rtype::A, 5, data)])
}

/// A set of these parts: its data in presentation form, with the rules.
fn merged(parts: &Parts, owner: &str, rtype: Rtype) -> Option<(Vec<String>, SetRules)> {
    let owner = name(&format!("{owner}.svc.example."));
    let found = parts.all(0).find(|one| one.name == owner && one.rtype == rtype)?;
    let value = found.put.expect("content");
    let rules = value.policy.rules().cloned().unwrap_or_default();
    Some((model::write_value(rtype, &value).data, rules))
}

fn data(parts: &Parts, owner: &str, rtype: Rtype) -> Vec<String> {
    merged(parts, owner, rtype).map(|(data, _)| data).unwrap_or_default()
}

fn conflicts(parts: &Parts) -> Vec<String> {
    parts.conflicts().map(|one| one.to_string()).collect()
}

#[test]
fn service_of_two_clusters_is_one_set_whose_members_are_at_their_clusters() {
    let mut parts = Parts::new(vec![origin()]);
    parts.put(key("a", "shop", "web"), Some(addresses(2, "eu/fra1", &["10.0.0.1", "10.0.0.2"])));
    assert_eq!(
        merged(&parts, "web.shop", Rtype::A).map(|(_, rules)| rules.choice),
        Some(Choice::All)
    );
    parts.put(key("b", "shop", "web"), Some(addresses(1, "eu/ams1", &["10.1.0.1"])));
    let (data, rules) = merged(&parts, "web.shop", Rtype::A).expect("a set");
    assert_eq!(data, ["10.0.0.1", "10.0.0.2", "10.1.0.1"]);
    assert_eq!(rules.choice, Choice::Nearest);
    assert_eq!(&*rules.locations, ["eu/fra1", "eu/fra1", "eu/ams1"].map(Box::from));
    assert!(conflicts(&parts).is_empty());
    // The endpoints of one cluster vanish.
    let changes = parts.put(key("a", "shop", "web"), None);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        merged(&parts, "web.shop", Rtype::A),
        Some((vec!["10.1.0.1".into()], SetRules::default()))
    );
    assert_eq!(parts.put(key("b", "shop", "web"), None)[0].put, None);
}

#[test]
fn policy_weight_and_tier_of_annotations_hold_across_clusters() {
    let mut parts = Parts::new(vec![origin()]);
    let failover = Some(Choice::Failover);
    let first = Part { policy: failover, ..addresses(1, "eu/fra1", &["10.0.0.1"]) };
    let second = Part { tier: 1, weight: 3, ..addresses(2, "eu/ams1", &["10.1.0.1"]) };
    parts.put(key("a", "shop", "web"), Some(first));
    parts.put(key("b", "shop", "web"), Some(second));
    let (_, rules) = merged(&parts, "web.shop", Rtype::A).expect("a set");
    assert_eq!(
        (rules.choice, &*rules.tiers, &*rules.weights),
        (Choice::Failover, &[0, 1][..], &[1, 3][..])
    );
    assert!(rules.locations.is_empty());
    let other = Part { policy: Some(Choice::One), ..addresses(3, "", &["10.2.0.1"]) };
    parts.put(key("c", "shop", "web"), Some(other));
    let why = "services shop/web of c: web.shop.svc.example.: its policy is one, and that of \
               services shop/web of a is failover";
    assert_eq!(conflicts(&parts), [why]);
    assert_eq!(data(&parts, "web.shop", Rtype::A).len(), 3, "its members join all the same");
}

#[test]
fn what_cannot_be_merged_is_left_out_and_the_oldest_stays() {
    let alias =
        |created| part(created, "", vec![set("web.shop", Rtype::CNAME, 5, &["x.example."])]);
    let mut parts = Parts::new(vec![origin()]);
    parts.put(key("a", "shop", "web"), Some(alias(2)));
    parts.put(key("b", "shop", "web"), Some(addresses(3, "", &["10.1.0.1"])));
    assert_eq!(data(&parts, "web.shop", Rtype::CNAME), ["x.example."]);
    assert_eq!(data(&parts, "web.shop", Rtype::A), [""; 0]);
    assert!(conflicts(&parts)[0].contains("services shop/web of a makes the name an alias"));
    // Another alias, and the same one.
    let other = part(4, "", vec![set("web.shop", Rtype::CNAME, 5, &["y.example."])]);
    parts.put(key("c", "shop", "web"), Some(other));
    parts.put(key("d", "shop", "web"), Some(alias(5)));
    assert!(conflicts(&parts)[1].contains("an alias of another one"));
    assert_eq!(conflicts(&parts).len(), 2);
    // One that is older has the name from then on; the alias is removed first.
    let changes = parts.put(key("e", "shop", "web"), Some(addresses(1, "", &["10.4.0.1"])));
    assert_eq!((changes[0].rtype, changes[0].put.is_none()), (Rtype::CNAME, true));
    assert_eq!(data(&parts, "web.shop", Rtype::A), ["10.1.0.1", "10.4.0.1"]);
    // Two TTLs: that of the oldest holds.
    let longer = part(6, "", vec![set("web.shop", Rtype::A, 30, &["10.5.0.1"])]);
    parts.put(key("f", "shop", "web"), Some(longer));
    assert!(
        conflicts(&parts)
            .iter()
            .any(|why| why.contains("its TTL is 30 s, and that of the set 5 s"))
    );
    assert_eq!(data(&parts, "web.shop", Rtype::A).len(), 3);
}

#[test]
fn name_is_that_of_one_namespace() {
    let mut parts = Parts::new(vec![origin()]);
    let of = |created, address| {
        let port = set("_http._tcp.www", Rtype::SRV, 5, &["0 100 80 www.svc.example."]);
        part(created, "", vec![set("www", Rtype::A, 5, &[address]), port])
    };
    parts.put(key("a", "evil", "web"), Some(of(2, "10.6.6.6")));
    parts.put(key("b", "shop", "web"), Some(of(1, "10.0.0.1")));
    assert_eq!(data(&parts, "www", Rtype::A), ["10.0.0.1"]);
    assert_eq!(data(&parts, "_http._tcp.www", Rtype::SRV).len(), 1);
    assert!(conflicts(&parts)[0].contains("in another namespace"));
    parts.put(key("b", "shop", "web"), None);
    assert_eq!(data(&parts, "www", Rtype::A), ["10.6.6.6"]);
}

#[test]
fn records_of_the_zone_itself_come_first_and_their_rules_hold() {
    let mut parts = Parts::new(vec![origin()]);
    parts.put(key("a", "shop", "web"), Some(addresses(1, "eu/fra1", &["10.0.0.1"])));
    let own_key = |text: &str| -> Box<[u8]> { name(text).as_name().as_bytes().into() };
    let rules = SetRules { choice: Choice::Failover, tiers: [9].into(), ..SetRules::default() };
    let policy = model::Policy::new(rules);
    let value = SetValue { ttl: 5, policy, data: vec![[192, 0, 2, 1][..].into()] };
    let text = SetValue::new(60, vec![b"\x01x"[..].into()]);
    let own = BTreeMap::from([
        ((own_key("web.shop.svc.example."), Rtype::A), value),
        ((own_key("web.shop.svc.example."), Rtype::TXT), text),
    ]);
    let changes = parts.set_own(0, own.clone());
    assert_eq!(changes.len(), 2);
    let (data, rules) = merged(&parts, "web.shop", Rtype::A).expect("a set");
    assert_eq!(data, ["10.0.0.1", "192.0.2.1"]);
    assert_eq!((rules.choice, &*rules.tiers), (Choice::Failover, &[0, 9][..]));
    assert!(parts.set_own(0, own).is_empty(), "nothing changed");
    let alias = part(0, "", vec![set("web.shop", Rtype::CNAME, 5, &["x.example."])]);
    parts.put(key("b", "shop", "web"), Some(alias));
    assert!(conflicts(&parts)[0].contains("the zone itself has other records of the name"));
    parts.set_own(0, BTreeMap::new());
    assert_eq!(super::tests::data(&parts, "web.shop", Rtype::CNAME), ["x.example."]);
}

#[test]
fn parts_of_a_cluster_without_a_heartbeat_are_left_out_until_it_has_one() {
    let mut parts = Parts::new(vec![origin()]);
    parts.put(key("a", "shop", "web"), Some(addresses(1, "eu/fra1", &["10.0.0.1"])));
    parts.put(key("b", "shop", "web"), Some(addresses(2, "eu/ams1", &["10.1.0.1"])));
    let beat = |at| Some(Part { created: at, ..Part::default() });
    parts.put(PartKey::heartbeat("a"), beat(100));
    assert!(parts.set_oldest(100, |_| true).is_empty());
    assert!(parts.set_oldest(101, |_| false).is_empty(), "its etcd is away");
    let changes = parts.set_oldest(101, |_| true);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        data(&parts, "web.shop", Rtype::A),
        ["10.1.0.1"],
        "b has never said that it is there"
    );
    // What it has changes meanwhile.
    parts.put(key("a", "shop", "web"), Some(addresses(1, "eu/fra1", &["10.0.0.2"])));
    assert_eq!(data(&parts, "web.shop", Rtype::A), ["10.1.0.1"]);
    parts.put(PartKey::heartbeat("a"), beat(150));
    parts.set_oldest(101, |_| true);
    assert_eq!(data(&parts, "web.shop", Rtype::A), ["10.0.0.2", "10.1.0.1"]);
    assert!(parts.gone().is_empty());
    let key = PartKey::read("a/objects/parts/heartbeat/-/-").expect("a key");
    assert_eq!((key.is_heartbeat(), key), (true, PartKey::heartbeat("a")));
}

/// KEP-1645 by a controller: what it imported stands alone, and other types of the name, too.
#[test]
fn export_gives_way_to_what_the_zone_itself_has_of_its_name() {
    let mut parts = Parts::new(vec![origin()]);
    let export = PartKey { kind: EXPORTS.into(), ..key("a", "shop", "web") };
    parts.put(export, Some(addresses(1, "eu/fra1", &["10.0.0.1"])));
    assert_eq!(data(&parts, "web.shop", Rtype::A), ["10.0.0.1"]);
    let imported = name("_http._tcp.web.shop.svc.example.").as_name().as_bytes().into();
    let own = BTreeMap::from([((imported, Rtype::SRV), SetValue::new(5, vec![[1][..].into()]))]);
    parts.set_own(0, own);
    assert_eq!(data(&parts, "web.shop", Rtype::A), [""; 0]);
    assert!(conflicts(&parts).is_empty(), "each exported service is imported");
    parts.set_own(0, BTreeMap::new());
    assert_eq!(data(&parts, "web.shop", Rtype::A), ["10.0.0.1"]);
}

#[test]
fn set_that_no_message_carries_or_no_policy_fits_is_bounded_and_reported() {
    let mut parts = Parts::new(vec![origin()]);
    let many = |net: u8, count: u32| -> Vec<Box<[u8]>> {
        (0..count).map(|at| [10, net, (at / 256) as u8, at as u8][..].into()).collect()
    };
    let of = |created, location: &str, data| {
        let set = PartSet { data, ..set("web.shop", Rtype::A, 5, &["10.0.0.1"]) };
        part(created, location, vec![set])
    };
    parts.put(key("a", "shop", "web"), Some(of(1, "eu/fra1", many(0, 200))));
    parts.put(key("b", "shop", "web"), Some(of(2, "eu/ams1", many(1, 200))));
    let (all, rules) = merged(&parts, "web.shop", Rtype::A).expect("a set");
    assert_eq!((all.len(), rules), (400, SetRules::default()));
    assert!(conflicts(&parts)[0].contains("A has no policy: members"));
    parts.put(key("c", "shop", "web"), Some(of(3, "", many(2, 4_500))));
    let (all, _) = merged(&parts, "web.shop", Rtype::A).expect("a set");
    assert_eq!(all.len(), crate::limits::SET_LEN_MAX / 16);
    assert!(conflicts(&parts).iter().any(|why| why.contains("no message carries all")));
}

/// A part of few names, so that many meet.
fn random_part(random: &mut fastrand::Rng) -> Part {
    let owner = ["web.shop", "www", "db.shop"][random.usize(..3)];
    let (ttl, data) = ([5, 5, 30][random.usize(..3)], format!("10.0.0.{}", random.u8(..6)));
    let mut sets = match random.u8(..6) {
        0 => {
            vec![set(owner, Rtype::CNAME, ttl, &[["x.example.", "y.example."][random.usize(..2)]])]
        }
        1 => vec![set(owner, Rtype::AAAA, ttl, &["fd00::1"]), set(owner, Rtype::A, ttl, &[&data])],
        _ => vec![set(owner, Rtype::A, ttl, &[&data])],
    };
    if random.bool() {
        let target = format!("0 100 80 {owner}.svc.example.");
        sets.push(set(&format!("_http._tcp.{owner}"), Rtype::SRV, ttl, &[&target]));
    }
    Part {
        created: random.u64(..4),
        location: ["", "eu/fra1", "eu/ams1"][random.usize(..3)].into(),
        policy: [None, None, Some(Choice::Failover), Some(Choice::One)][random.usize(..4)],
        check: ["", "", "http", "tcp"][random.usize(..4)].into(),
        weight: random.u16(..3),
        tier: random.u8(..2),
        sets,
        ..Part::default()
    }
}

fn apply(zone: &mut BTreeMap<(String, Rtype), SetValue>, changes: Vec<SetChange>) {
    for SetChange { name, rtype, put, .. } in changes {
        let key = (name.to_string(), rtype);
        match put {
            Some(value) => drop(zone.insert(key, value)),
            None => assert!(zone.remove(&key).is_some(), "{key:?} is removed in vain"),
        }
        // No moment has an alias beside other records.
        let types = |of: &str| zone.keys().filter(|(name, _)| name == of).count();
        let mut aliases = zone.keys().filter(|(_, rtype)| *rtype == Rtype::CNAME);
        assert!(aliases.all(|(name, _)| types(name) == 1));
    }
}

/// Three servers that learn of the same parts in different orders, one of them only at the end,
/// have the same zone and the same conflicts; and the zone follows from the parts alone.
#[test]
fn three_servers_have_the_same_records_in_each_of_1000_states() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let new = || (Parts::new(vec![origin()]), BTreeMap::new());
    let ((mut one, mut first), (mut two, mut second)) = (new(), new());
    let mut known: BTreeMap<PartKey, Part> = BTreeMap::new();
    for state in 0..1_000 {
        let mut events = BTreeMap::new();
        for _ in 0..random.usize(1..4) {
            let cluster = ["a", "b", "c"][random.usize(..3)];
            let namespace = ["shop", "shop", "evil"][random.usize(..3)];
            let service = ["web", "db"][random.usize(..2)];
            let put = random.bool().then(|| random_part(&mut random));
            events.insert(key(cluster, namespace, service), put);
        }
        for (key, part) in &events {
            match part {
                Some(part) => drop(known.insert(key.clone(), part.clone())),
                None => drop(known.remove(key)),
            }
            apply(&mut first, one.put(key.clone(), part.clone()));
        }
        for (key, part) in events.into_iter().rev() {
            apply(&mut second, two.put(key, part));
        }
        let (mut three, mut third) = new();
        let mut late: Vec<_> = known.clone().into_iter().collect();
        random.shuffle(&mut late);
        late.into_iter().for_each(|(key, part)| apply(&mut third, three.put(key, Some(part))));
        assert_eq!(first, second, "seed {seed}, state {state}");
        assert_eq!(first, third, "seed {seed}, state {state}");
        assert_eq!(conflicts(&one), conflicts(&two), "seed {seed}, state {state}");
        assert_eq!(conflicts(&one), conflicts(&three), "seed {seed}, state {state}");
        let all: BTreeMap<_, _> =
            one.all(0).map(|c| ((c.name.to_string(), c.rtype), c.put.expect("content"))).collect();
        assert_eq!(all, first, "seed {seed}, state {state}");
        // Each set is valid by itself.
        for ((name, rtype), value) in &first {
            let rules = value.policy.rules().cloned().unwrap_or_default();
            assert_eq!(rules.check(*rtype, value.data.len()), Ok(()), "{name} {rtype}");
        }
        let base = name("web.shop.svc.example.");
        let of_base = known.iter().filter(|(_, part)| part.sets.iter().any(|set| set.name == base));
        let again = merge(base.as_name(), origin().as_name(), None, of_base.collect());
        let web = first.iter().filter(|((name, _), _)| name == "web.shop.svc.example.");
        assert!(web.count() <= again.sets.len());
    }
}
