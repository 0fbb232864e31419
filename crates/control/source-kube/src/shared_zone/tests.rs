use super::*;
use crate::objects::{EndpointNaming, Kind, Services, Slices};
use serde_json::{Value, json};

fn zone(addresses: &[AddressKind]) -> SharedZone {
    SharedZone {
        origin: Some(NameBuf::from_text(b"svc.example.", Name::ROOT).expect("a name")),
        exports: Vec::new(),
        addresses: addresses.to_vec(),
        selector: Vec::new(),
        ttl: 5,
        location: "eu/fra1".into(),
    }
}

const DEFAULT: [AddressKind; 2] = [AddressKind::LoadBalancer, AddressKind::Endpoints];

/// The part of a service `shop/web` with one slice, as text: its sets, then its faults.
fn part(zone: &SharedZone, annotations: Value, spec: Value, status: Value) -> Vec<String> {
    let naming = EndpointNaming { shared: true, ..EndpointNaming::default() };
    let metadata = json!({
        "name": "web", "uid": "u", "creationTimestamp": "2026-11-28T07:00:00Z",
        "annotations": annotations,
    });
    let raw = json!({ "metadata": metadata, "spec": spec, "status": status });
    let kept = Services::keep(serde_json::from_value(raw).expect("a service"), naming);
    let kept = kept.expect("a service");
    let endpoints = json!([{ "addresses": ["10.7.0.2"] }, { "addresses": ["10.7.0.1"] }]);
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "web" } },
        "endpoints": endpoints, "ports": [{ "name": "http", "port": 8080 }],
    });
    let slice = Slices::keep(serde_json::from_value(slice).expect("a slice"), naming);
    let shared = kept.shared.expect("it is asked for").0;
    let slices = [slice.expect("a slice").slice];
    let part = zone.part(("shop", "web"), &kept.service, &shared, &slices);
    let Some(part) = part else { return Vec::new() };
    assert_eq!((part.created, &*part.location), (1_795_849_200, "eu/fra1"));
    let set = |set: &PartSet| {
        let value = model::SetValue::new(set.ttl, set.data.clone());
        let data = model::write_value(set.rtype, &value).data.join(" ");
        format!("{} {} {} {data}", set.name, set.ttl, set.rtype)
    };
    let Part { policy, weight, tier, check, .. } = &part;
    let rules = format!("{policy:?} {weight} {tier} {check}");
    let rules = Some(rules).filter(|rules| rules != "None 1 0 ");
    part.sets.iter().map(set).chain(rules).chain(part.faults.clone()).collect()
}

fn ip() -> Value {
    json!({ "clusterIP": "10.96.0.1", "ports": [{ "name": "http", "port": 80 }] })
}

#[test]
fn part_has_the_addresses_of_the_load_balancer_else_of_endpoints() {
    let zone = zone(&DEFAULT);
    let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    let srv = "_http._tcp.web.shop.svc.example. 5 SRV 0 100 80 web.shop.svc.example.";
    let of = |status| part(&zone, json!({}), ip(), status);
    assert_eq!(of(ingress), ["web.shop.svc.example. 5 A 192.0.2.1", srv]);
    assert_eq!(of(json!({})), ["web.shop.svc.example. 5 A 10.7.0.1 10.7.0.2", srv]);
    let named = json!({ "loadBalancer": { "ingress": [{ "hostname": "lb.example" }] } });
    assert_eq!(of(named), ["web.shop.svc.example. 5 CNAME lb.example."]);
    let headless = part(&zone, json!({}), json!({ "clusterIP": "None" }), json!({}));
    assert_eq!(headless[1], srv.replace(" 80 ", " 8080 "), "the port of the endpoints");
}

#[test]
fn other_addresses_are_a_choice() {
    let spec = json!({ "clusterIP": "10.96.0.1", "externalIPs": ["192.0.2.7"] });
    let of = |kinds: &[AddressKind]| part(&zone(kinds), json!({}), spec.clone(), json!({}));
    assert_eq!(of(&[AddressKind::ClusterIp]), ["web.shop.svc.example. 5 A 10.96.0.1"]);
    assert_eq!(of(&[AddressKind::ExternalIps]), ["web.shop.svc.example. 5 A 192.0.2.7"]);
    assert_eq!(of(&[AddressKind::LoadBalancer]), [""; 0]);
    let external = json!({ "type": "ExternalName", "externalName": "db.example" });
    let alias = part(&zone(&DEFAULT), json!({}), external, json!({}));
    assert_eq!(alias, ["web.shop.svc.example. 5 CNAME db.example."]);
    let address = json!({ "type": "ExternalName", "externalName": "192.0.2.1" });
    let fault = part(&zone(&DEFAULT), json!({}), address, json!({}));
    assert_eq!(fault, ["\"192.0.2.1\" is not the target of an alias"]);
}

#[test]
fn annotations_say_name_ttl_and_rules_and_wrong_ones_are_named() {
    let zone = zone(&[AddressKind::ClusterIp]);
    let of = |key: &str, value: &str| {
        let key = format!("dunlin.io/{key}");
        part(&zone, json!({ key: value }), json!({ "clusterIP": "10.96.0.1" }), json!({}))
    };
    for name in ["www", "WWW", "www.svc.example."] {
        assert_eq!(of("name", name), ["www.svc.example. 5 A 10.96.0.1"]);
    }
    assert_eq!(of("name", "a.shop"), ["a.shop.svc.example. 5 A 10.96.0.1"]);
    assert_eq!(of("ttl", "60"), ["web.shop.svc.example. 60 A 10.96.0.1"]);
    for (key, value, rules) in [
        ("policy", "failover", "Some(Failover) 1 0 "),
        ("weight", "0", "None 0 0 "),
        ("tier", "2", "None 1 2 "),
        ("check", "http", "None 1 0 http"),
    ] {
        assert_eq!(of(key, value)[1], rules);
    }
    let long = "a".repeat(64);
    for (key, value, why) in [
        ("name", "a.other", "end with the namespace shop"),
        ("name", "*", "not a name of letters"),
        ("name", &long, "not a name of letters"),
        ("name", "ns", "the name server"),
        ("name", "www.example.", "is not below svc.example."),
        ("ttl", "5s", "number of seconds"),
        ("policy", "best", "it is all, failover"),
        ("weight", "65536", "from 0 to 65535"),
        ("tier", "100", "from 0 to 99"),
        ("check", "a b", "not the name of a check"),
    ] {
        let found = of(key, value);
        assert!(found.last().is_some_and(|last| last.contains(why)), "{key} {value}: {found:?}");
        // Only without a name there is no record.
        assert_eq!(found.len(), if key == "name" { 1 } else { 2 }, "{found:?}");
    }
    let deep = "a.".repeat(120) + "shop";
    assert!(of("name", &deep)[0].contains("is too long below svc.example."));
}

#[test]
fn export_has_one_name_in_each_multicluster_zone_by_the_same_rule() {
    let exports = vec![NameBuf::from_text(b"clusterset.local.", Name::ROOT).expect("a name")];
    let zone = SharedZone { origin: None, exports, ..zone(&DEFAULT) };
    let service = |kind| Service { kind, ports: Box::default() };
    let of = |kind, addresses: &[[u8; 4]]| {
        let addresses = addresses.iter().map(|ip| (*ip).into()).collect();
        let load_balancer = crate::objects::Targets { addresses, name: Box::default() };
        let of = SharedService { load_balancer, ..SharedService::default() };
        let rules = PartRules { created: 7, ttl: "60".into(), ..PartRules::default() };
        let part = zone.export(("shop", "web"), &rules, &service(kind), &of, &[]);
        let part = part?;
        assert_eq!((part.created, &*part.location), (7, "eu/fra1"));
        let names = part.sets.iter().map(|set| format!("{} {} {}", set.name, set.ttl, set.rtype));
        Some(names.chain(part.faults.clone()).collect::<Vec<_>>())
    };
    let expected = Some(vec!["web.shop.svc.clusterset.local. 60 A".to_owned()]);
    assert_eq!(of(ServiceKind::Headless, &[[192, 0, 2, 1]]), expected);
    assert_eq!(of(ServiceKind::Headless, &[]), None, "nothing is ready");
    let refused = of(ServiceKind::External("db.example".into()), &[]).expect("a fault");
    assert_eq!(refused, ["a Service of type ExternalName cannot be exported"]);
    assert_eq!(
        zone.part(("shop", "web"), &service(ServiceKind::Headless), &SharedService::default(), &[]),
        None
    );
}

#[test]
fn labels_choose_services() {
    let labels = |text: &str| -> Labels {
        text.split(',')
            .filter_map(|one| one.split_once('='))
            .map(|(k, v)| (k.into(), v.into()))
            .collect()
    };
    let (key, value) = ("shared".to_owned(), "yes".to_owned());
    for (condition, chosen) in [
        (LabelCondition::Is(key.clone(), value.clone()), [true, false, false]),
        (LabelCondition::IsNot(key.clone(), value), [false, true, true]),
        (LabelCondition::Exists(key.clone()), [true, true, false]),
        (LabelCondition::Absent(key), [false, false, true]),
    ] {
        let zone = SharedZone { selector: vec![condition], ..zone(&DEFAULT) };
        let found = ["shared=yes,a=b", "shared=no", "a=b"].map(|text| zone.selects(&labels(text)));
        assert_eq!(found, chosen);
    }
}
