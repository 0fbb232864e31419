use super::*;
use crate::objects::{
    DnsEndpoints, EndpointNaming, Gateways, HttpRoutes, Ingresses, Kind, PartContent,
};
use serde_json::{Value, json};

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// `shop.example` for the namespace `shop`, `apps.example` for all.
fn zones() -> RecordZones {
    let zone = |origin: &str, namespaces: &[&str]| RecordZone {
        origin: name(origin),
        namespaces: namespaces.iter().map(|one| (*one).into()).collect(),
    };
    let zones = vec![zone("shop.example.", &["shop"]), zone("apps.example.", &[])];
    RecordZones { zones, ttl: 5, location: "eu/fra1".into() }
}

fn object<K: Kind<Entry = PartObject>>(mut raw: Value) -> PartObject {
    raw["metadata"]["creationTimestamp"] = json!("2026-11-28T07:00:00Z");
    K::keep(serde_json::from_value(raw).expect("an object"), EndpointNaming::default())
        .expect("it is kept")
}

/// A part as text: its sets, then its faults.
fn text(part: Option<Part>) -> Vec<String> {
    let Some(part) = part else { return Vec::new() };
    assert_eq!((part.created, &*part.location), (1_795_849_200, "eu/fra1"));
    let set = |set: &PartSet| {
        let value = model::SetValue::new(set.ttl, set.data.clone());
        let data = model::write_value(set.rtype, &value).data.join(" ");
        format!("{} {} {} {data}", set.name, set.ttl, set.rtype)
    };
    part.sets.iter().map(set).chain(part.faults.clone()).collect()
}

/// The part of a DNSEndpoint of a namespace.
fn records(namespace: &str, endpoints: Value) -> Vec<String> {
    let raw = json!({ "metadata": { "generation": 2 }, "spec": { "endpoints": endpoints } });
    let of = object::<DnsEndpoints>(raw);
    let PartContent::Records(given) = &of.content else { panic!("{of:?}") };
    let part = zones().records(namespace, &of, given);
    assert!(part.as_ref().is_none_or(|part| part.generation == 2));
    // What is written can be read.
    if let Some(part) = &part {
        let read = Part::read(&part.write()).expect("it is valid");
        assert_eq!(read.sets, part.sets);
    }
    text(part)
}

fn endpoint(name: &str, rtype: &str, targets: &[&str]) -> Value {
    json!({ "dnsName": name, "recordType": rtype, "targets": targets })
}

#[test]
fn dns_endpoint_has_the_records_that_it_lists() {
    for (rtype, targets, expected) in [
        ("A", &["192.0.2.2", "192.0.2.1", "192.0.2.2"][..], "A 192.0.2.1 192.0.2.2"),
        ("AAAA", &["2001:db8::1"], "AAAA 2001:db8::1"),
        ("", &["192.0.2.1"], "A 192.0.2.1"),
        ("CNAME", &["www.example.net"], "CNAME www.example.net."),
        ("TXT", &["v=spf1 -all"], "TXT \"v=spf1 -all\""),
        ("TXT", &["\"a\" \"b\""], "TXT \"a\" \"b\""),
        ("MX", &["10 mail.example.net"], "MX 10 mail.example.net."),
        ("SRV", &["0 5 443 a.example.net."], "SRV 0 5 443 a.example.net."),
    ] {
        let found = records("shop", json!([endpoint("Web.shop.example", rtype, targets)]));
        assert_eq!(found, [format!("web.shop.example. 5 {expected}")]);
    }
    let mut given = endpoint("*.apps.example.", "A", &["192.0.2.1"]);
    given["recordTTL"] = json!(60);
    let again = endpoint("*.apps.example", "A", &["192.0.2.2"]);
    let found = records("any", json!([given, again]));
    assert_eq!(found, ["*.apps.example. 60 A 192.0.2.1 192.0.2.2"]);
}

#[test]
fn what_a_dns_endpoint_may_not_have_is_a_fault_and_the_rest_stays() {
    let good = endpoint("www.apps.example", "A", &["192.0.2.1"]);
    for (wrong, why) in [
        (endpoint("web.shop.example", "A", &["192.0.2.1"]), "the namespace web may not write"),
        (endpoint("a.elsewhere.example", "A", &["192.0.2.1"]), "1 of 2 records are in none"),
        (endpoint("a..apps.example", "A", &["192.0.2.1"]), "is not a name of letters"),
        (endpoint("a.*.apps.example", "A", &["192.0.2.1"]), "is not a name of letters"),
        (endpoint("b.apps.example", "NS", &["ns.example.net"]), "this type are not taken"),
        (endpoint("b.apps.example", "X", &["x"]), "there is no such type"),
        (endpoint("b.apps.example", "A", &["x"]), "b.apps.example A: data[0]"),
        (endpoint("b.apps.example", "A", &[]), "it has no targets"),
        (endpoint("b.apps.example", "CNAME", &["a.b", "c.d"]), "an alias has one target"),
        (endpoint("apps.example", "CNAME", &["a.b"]), "the top of a zone cannot be an alias"),
        (
            json!({ "dnsName": "b.apps.example", "recordType": "A", "targets": ["192.0.2.1"],
                    "recordTTL": -1 }),
            "its TTL is above",
        ),
    ] {
        let found = records("web", json!([good, wrong]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "www.apps.example. 5 A 192.0.2.1");
        assert!(found[1].contains(why), "{why}: {found:?}");
    }
    let outside = json!([endpoint("a.elsewhere.example", "A", &["192.0.2.1"])]);
    assert!(records("web", outside).is_empty(), "it is another program's");
    let many = |count: usize| -> Value {
        let each = |at| endpoint(&format!("n{at}.apps.example"), "A", &["192.0.2.1"]);
        (0..count).map(each).collect()
    };
    let found = records("web", many(SETS_MAX + 1));
    assert_eq!(found.len(), SETS_MAX + 1);
    assert!(found[SETS_MAX].contains("the others are left out"));
    let wrong: Value =
        (0..20).map(|at| endpoint(&format!("n{at}.apps.example"), "A", &[])).collect();
    let found = records("web", wrong);
    assert_eq!((found.len(), found[FAULTS_SHOWN].as_str()), (FAULTS_SHOWN + 1, "13 more faults"));
}

#[test]
fn ingress_gives_its_hosts_the_addresses_of_its_load_balancer() {
    let ingress = |hosts: &[&str], ingress: Value| {
        let rules: Vec<Value> = hosts.iter().map(|host| json!({ "host": host })).collect();
        let annotations = json!({ "dunlin.io/ttl": "60", "dunlin.io/policy": "best" });
        let of = object::<Ingresses>(json!({
            "metadata": { "annotations": annotations }, "spec": { "rules": rules },
            "status": { "loadBalancer": { "ingress": ingress } },
        }));
        let PartContent::Hosts(hosts, targets) = &of.content else { panic!("{of:?}") };
        text(zones().hosts("web", &of, hosts.iter().map(|host| (&**host, targets))))
    };
    let addresses = json!([{ "ip": "192.0.2.1" }, { "ip": "2001:db8::1" }]);
    let found = ingress(&["www.apps.example", "other.example"], addresses.clone());
    assert_eq!(
        found[..2],
        ["www.apps.example. 60 A 192.0.2.1", "www.apps.example. 60 AAAA 2001:db8::1"]
    );
    assert!(found[2].contains("dunlin.io/policy \"best\"") && found.len() == 3, "{found:?}");
    let named = ingress(&["*.apps.example"], json!([{ "hostname": "lb.example.net" }]));
    assert_eq!(named[0], "*.apps.example. 60 CNAME lb.example.net.");
    assert!(ingress(&["other.example"], addresses.clone()).is_empty(), "another program's");
    let refused = ingress(&["web.shop.example"], addresses);
    assert!(refused.iter().any(|why| why.contains("the namespace web may not")), "{refused:?}");
    let pending = ingress(&["www.apps.example"], json!([]));
    assert_eq!(pending.len(), 1, "without addresses there is no record: {pending:?}");
}

#[test]
fn gateway_and_route_keep_listeners_addresses_and_accepted_parents() {
    let gateway = object::<Gateways>(json!({
        "metadata": {},
        "spec": { "listeners": [
            { "name": "https", "hostname": "*.apps.example" }, { "name": "x" }] },
        "status": { "addresses": [{ "value": "192.0.2.1" },
            { "type": "Hostname", "value": "lb.example.net" }, { "type": "x/y", "value": "z" }] },
    }));
    let listener =
        |name: &str, hostname: &str| Listener { name: name.into(), hostname: hostname.into() };
    let targets =
        Targets { addresses: [[192, 0, 2, 1].into()].into(), name: "lb.example.net".into() };
    let listeners = [listener("https", "*.apps.example"), listener("x", "")];
    assert_eq!(gateway.content, PartContent::Listeners(listeners.into(), targets));
    let parent = |name: &str, kind: &str, status: &str| {
        json!({ "parentRef": { "name": name, "kind": kind },
                "conditions": [{ "type": "Accepted", "status": status }] })
    };
    let route = object::<HttpRoutes>(json!({
        "metadata": {}, "spec": { "hostnames": ["a.apps.example"] },
        "status": { "parents": [parent("one", "Gateway", "True"), parent("two", "Gateway", "False"),
            parent("three", "Service", "True")] },
    }));
    let PartContent::Route(hosts, parents) = &route.content else { panic!("{route:?}") };
    assert_eq!((&*hosts[0], parents.len(), &*parents[0].name), ("a.apps.example", 1, "one"));
    assert_eq!(parents[0].namespace("shop"), "shop");
}

#[test]
fn listener_takes_hostnames_that_meet_its_own() {
    for (listener, host, is_taken) in [
        ("", "a.example", true),
        ("a.example", "A.example", true),
        ("a.example", "b.example", false),
        ("*.example", "a.example", true),
        ("*.example", "a.b.example", true),
        ("*.example", "example", false),
        ("*.example", "aexample", false),
        ("a.example", "*.example", true),
        ("*.a.example", "*.example", true),
        ("*.example", "*.other", false),
    ] {
        let of = Listener { name: "x".into(), hostname: listener.into() };
        assert_eq!(takes(&of, host), is_taken, "{listener} {host}");
    }
}
