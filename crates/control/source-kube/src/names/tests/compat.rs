//! What services have with `compat = "coredns"`, in the shape of CoreDNS.
use super::*;

fn check(spec: Value, slices: &[Value], expected: &[&str]) {
    let naming = Naming { compat: Compat::CoreDns, ..naming() };
    let by = EndpointNaming { all_ports: true, ..EndpointNaming::default() };
    let mut records = text::all(&try_records(&naming, "web", spec, slices, by));
    let mut expected = expected.to_vec();
    records.sort_unstable();
    expected.sort_unstable();
    assert_eq!(records, expected);
}

#[test]
fn a_headless_service_has_srv_records_at_its_name_and_at_endpoints() {
    let ports = json!([{ "name": "http", "port": 8080 }, { "port": 9 }]);
    let endpoints = json!([{ "addresses": ["10.4.0.1"], "hostname": "pet" }]);
    check(
        json!({ "clusterIP": HEADLESS }),
        &[slice(ports, endpoints)],
        &[
            "web.shop.svc.cluster.local. 5 A 10.4.0.1",
            "web.shop.svc.cluster.local. 5 SRV 0 100 8080 pet.web.shop.svc.cluster.local.",
            "web.shop.svc.cluster.local. 5 SRV 0 100 9 pet.web.shop.svc.cluster.local.",
            "_http._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 8080 \
             pet.web.shop.svc.cluster.local.",
            "pet.web.shop.svc.cluster.local. 5 A 10.4.0.1",
            "pet.web.shop.svc.cluster.local. 5 SRV 0 100 8080 pet.web.shop.svc.cluster.local.",
            "pet.web.shop.svc.cluster.local. 5 SRV 0 100 9 pet.web.shop.svc.cluster.local.",
            "1.0.4.10.in-addr.arpa. 5 PTR pet.web.shop.svc.cluster.local.",
        ],
    );
}

#[test]
fn a_service_with_an_address_has_srv_records_at_its_name_and_names_of_its_endpoints() {
    let ports = json!([{ "port": 80 }]);
    let endpoints = json!([
        { "addresses": ["10.4.0.1"] },
        { "addresses": ["10.4.0.2"], "hostname": "Pet" },
        { "addresses": ["10.4.0.3"], "conditions": { "ready": false } },
    ]);
    check(
        json!({ "clusterIP": "10.3.0.1", "ports": ports }),
        &[slice(ports, endpoints)],
        &[
            "web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "web.shop.svc.cluster.local. 5 SRV 0 100 80 web.shop.svc.cluster.local.",
            "1.0.3.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.",
            "10-4-0-1.web.shop.svc.cluster.local. 5 A 10.4.0.1",
            "10-4-0-1.web.shop.svc.cluster.local. 5 SRV 0 100 80 \
             10-4-0-1.web.shop.svc.cluster.local.",
            "1.0.4.10.in-addr.arpa. 5 PTR 10-4-0-1.web.shop.svc.cluster.local.",
            "pet.web.shop.svc.cluster.local. 5 A 10.4.0.2",
            "pet.web.shop.svc.cluster.local. 5 SRV 0 100 80 pet.web.shop.svc.cluster.local.",
            "2.0.4.10.in-addr.arpa. 5 PTR pet.web.shop.svc.cluster.local.",
        ],
    );
}

/// As with CoreDNS: an SRV record needs a port.
#[test]
fn without_ports_there_are_no_srv_records() {
    let endpoints = json!([{ "addresses": ["10.4.0.1"], "hostname": "pet" }]);
    check(
        json!({ "clusterIP": HEADLESS }),
        &[slice(json!([]), endpoints)],
        &[
            "web.shop.svc.cluster.local. 5 A 10.4.0.1",
            "pet.web.shop.svc.cluster.local. 5 A 10.4.0.1",
            "1.0.4.10.in-addr.arpa. 5 PTR pet.web.shop.svc.cluster.local.",
        ],
    );
}

/// A state that was saved with `compat = "coredns"` has ports without a name.
#[test]
fn ports_without_a_name_have_no_records_by_the_specification() {
    let by = EndpointNaming { all_ports: true, ..EndpointNaming::default() };
    let spec = json!({ "clusterIP": "10.3.0.1", "ports": [{ "port": 80 }] });
    let records = text::all(&try_records(&naming(), "web", spec, &[], by));
    assert!(!records.iter().any(|line| line.contains("SRV")), "{records:#?}");
}
