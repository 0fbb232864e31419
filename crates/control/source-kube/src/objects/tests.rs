//! The stored fields of objects as the API server sends them.
use super::*;
use serde_json::{Value, json};

fn keep<K: Kind>(object: serde_json::Value) -> Option<K::Entry> {
    K::keep(serde_json::from_value(object).expect("an object"), EndpointNaming::default())
}

#[test]
fn a_service_is_kept_by_its_kind() {
    let service = |spec| keep::<Services>(json!({ "metadata": { "name": "a" }, "spec": spec }));
    let kind = |spec| service(spec).map(|kept| kept.service.kind);
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let both = json!({ "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"] });
    let expected = ServiceKind::ClusterIp([address("10.0.0.1"), address("fd00::1")].into());
    assert_eq!(kind(both), Some(expected));
    assert_eq!(kind(json!({ "clusterIP": "None" })), Some(ServiceKind::Headless));
    let alias = json!({ "type": "ExternalName", "externalName": "a.example" });
    assert_eq!(kind(alias), Some(ServiceKind::External("a.example".into())));
    assert_eq!(kind(json!({ "clusterIP": "" })), Some(ServiceKind::ClusterIp(Box::default())));
    assert_eq!(keep::<Services>(json!({})), None);
}

#[test]
fn only_ready_endpoints_with_addresses_are_kept() {
    let slice = |address_type, endpoints| {
        keep::<Slices>(json!({
            "metadata": { "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": address_type, "endpoints": endpoints, "ports": null,
        }))
    };
    let endpoints = json!([
        { "addresses": ["10.0.0.2"], "conditions": {} },
        { "addresses": ["10.0.0.1"], "conditions": { "ready": true }, "zone": "a" },
        { "addresses": ["10.0.0.3"], "conditions": { "ready": false, "serving": true } },
        { "addresses": ["not an address"] },
    ]);
    let kept = slice("IPv4", endpoints).expect("a slice").slice.endpoints;
    let kept: Vec<String> = kept.iter().map(|each| each.address.to_string()).collect();
    assert_eq!(kept, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(slice("FQDN", json!([{ "addresses": ["a.example"] }])), None);
    assert!(slice("IPv6", json!(null)).is_some_and(|of| of.slice.endpoints.is_empty()));
    assert_eq!(keep::<Slices>(json!({ "metadata": {}, "endpoints": [] })), None, "of no service");
}

#[test]
fn annotation_of_a_service_names_its_check() {
    let service = |annotations| {
        let metadata = json!({ "name": "a", "annotations": annotations });
        keep::<Services>(json!({ "metadata": metadata, "spec": { "clusterIP": "None" } }))
    };
    let check = |annotations| service(annotations).and_then(|kept| kept.check);
    assert_eq!(check(json!({ "dunlin.io/check": "web", "other": "x" })).as_deref(), Some("web"));
    assert_eq!(check(json!({ "other": "x" })), None);
}

/// An endpoint that ends is not ready (KEP-1672), whatever `serving` says.
#[test]
fn endpoints_that_serve_while_they_end_are_kept_apart() {
    let of = |ready: Option<bool>, serving: Option<bool>, terminating: Option<bool>| {
        let conditions = json!({ "ready": ready, "serving": serving, "terminating": terminating });
        let kept = keep::<Slices>(json!({
            "metadata": { "labels": { "kubernetes.io/service-name": "web" } },
            "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": conditions }],
        }));
        let SliceOf { slice, terminating, .. } = kept.expect("a slice");
        (slice.endpoints.len(), terminating.map_or(0, |slice| slice.endpoints.len()))
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(of(yes, yes, no), (1, 0));
    assert_eq!(of(yes, yes, yes), (1, 0), "publishNotReadyAddresses");
    assert_eq!(of(no, yes, yes), (0, 1));
    assert_eq!(of(no, no, yes), (0, 0), "it does not serve any more");
    assert_eq!(of(no, yes, no), (0, 0), "it is not ready");
    assert_eq!(of(no, None, yes), (0, 0));
    assert_eq!(of(None, None, None), (1, 0));
}

#[test]
fn addresses_of_pods_that_ended_are_not_kept() {
    let pod = |phase| {
        let ips = json!([{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }]);
        keep::<Pods>(json!({ "status": { "phase": phase, "podIPs": ips } }))
    };
    assert_eq!(pod("Running").map(|ips| ips.len()), Some(2));
    assert_eq!(pod("Succeeded"), None);
    assert_eq!(keep::<Pods>(json!({ "status": { "phase": "Pending" } })), None);
}

#[test]
fn an_import_has_the_addresses_of_its_set_or_none() {
    let import = |spec| keep::<Imports>(json!({ "spec": spec })).map(|service| service.kind);
    let ips = json!({ "type": "ClusterSetIP", "ips": ["10.0.0.1"] });
    assert!(matches!(import(ips), Some(ServiceKind::ClusterIp(ips)) if ips.len() == 1));
    assert_eq!(import(json!({ "type": "Headless" })), Some(ServiceKind::Headless));
}

/// As in kube-proxy: hints count only if each ready endpoint has one.
#[test]
fn hints_of_a_slice_name_one_location_for_each_ready_endpoint() {
    let of = |hints: &[Value]| {
        let endpoint = |(at, hints): (usize, &Value)| {
            let addresses = [format!("10.0.0.{at}")];
            json!({ "addresses": addresses, "zone": "Own", "hints": hints })
        };
        let mut endpoints: Vec<Value> = hints.iter().enumerate().map(endpoint).collect();
        let conditions = json!({ "ready": false });
        endpoints.push(json!({ "addresses": ["10.0.0.9"], "conditions": conditions }));
        let kept = keep::<Slices>(json!({
            "metadata": { "labels": { "kubernetes.io/service-name": "web" } },
            "endpoints": endpoints,
        }));
        let hints = kept.expect("a slice").hints?;
        let paths: Vec<String> = hints.iter().map(|(_, path)| path.to_string()).collect();
        Some(paths.join(" "))
    };
    let zone = |name: &str| json!({ "forZones": [{ "name": name }] });
    let both = json!({ "forZones": [{ "name": "a" }], "forNodes": [{ "name": "N1" }] });
    let node = json!({ "forNodes": [{ "name": "n1" }] });
    let two = json!({ "forZones": [{ "name": "a" }, { "name": "b" }] });
    let expected = Some("a a/n1 own/n1".to_owned());
    assert_eq!(of(&[zone("A"), both, node]), expected);
    for none in [json!(null), json!({}), two, zone("")] {
        assert_eq!(of(&[zone("a"), none.clone()]), None, "{none}");
    }
    assert_eq!(of(&[]), None);
}
