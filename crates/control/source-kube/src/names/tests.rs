//! Each sentence of the Kubernetes DNS specification, version 1.1.0, about what exists. The tests
//! of `cluster` cover what changes.
use super::*;
use crate::objects::{EndpointNaming, Imports, Kind, Services, Slices};
use crate::text;
use serde_json::{Value, json};

mod compat;

pub(crate) fn naming() -> Naming {
    let origin = NameBuf::from_text(b"cluster.local.", Name::ROOT).expect("a name");
    Naming {
        zones: vec![ClusterZone { origin, is_multicluster: false, falls_through: false }],
        ttl: 5,
        negative_ttl: 5,
        pods: PodNames::Disabled,
        ignore_empty: false,
        zonal: false,
        endpoints: true,
        compat: Compat::Specification,
        location: Box::default(),
    }
}

/// The records of the service `web` in the namespace `shop`, as objects of the API describe it.
fn records(naming: &Naming, spec: Value, slices: &[Value]) -> Vec<String> {
    text::all(&try_records(naming, "web", spec, slices, EndpointNaming::default()))
}

fn try_records(
    naming: &Naming,
    name: &str,
    spec: Value,
    slices: &[Value],
    by: EndpointNaming,
) -> Records {
    let raw = serde_json::from_value(json!({ "spec": spec })).expect("a service");
    let service = Services::keep(raw, by).expect("a service with names").service;
    let kept = slices.iter().map(|slice| {
        let mut slice = slice.clone();
        slice["metadata"]["labels"] = json!({ "kubernetes.io/service-name": name });
        let raw = serde_json::from_value(slice).expect("a slice");
        Slices::keep(raw, by).expect("a slice of a service").slice
    });
    let kept: Vec<Slice> = kept.collect();
    let slices: Vec<&Slice> = kept.iter().collect();
    let ready = kept.iter().map(|slice| slice.endpoints.len() as u64).sum();
    let view = ServiceView {
        namespace: "shop",
        name,
        is_import: false,
        service: &service,
        slices: &slices,
        ready,
        check: None,
        locations: &BTreeMap::default(),
    };
    naming.service(view, Records::default())
}

fn check(spec: Value, slices: &[Value], expected: &[&str]) {
    let (mut records, mut expected) = (records(&naming(), spec, slices), expected.to_vec());
    records.sort_unstable();
    expected.sort_unstable();
    assert_eq!(records, expected);
}

const HEADLESS: &str = "None";

/// 2.2: "There must be a TXT record named dns-version.<zone>. that contains the semantic version of
/// the DNS schema in use in this cluster."
#[test]
fn the_schema_version_is_a_text_record() {
    let apex = text::all(&naming().apex(7, &["10.96.0.10".parse().expect("an address")]));
    let expected = [
        "dns-version.cluster.local. 28800 TXT \"1.1.0\"",
        "ns.dns.cluster.local. 5 A 10.96.0.10",
        "cluster.local. 5 NS ns.dns.cluster.local.",
        "ns.dns.cluster.local. exists",
        "pod.cluster.local. exists",
        "svc.cluster.local. exists",
    ];
    for line in expected {
        assert!(apex.iter().any(|found| found == line), "{line} is not in {apex:#?}");
    }
}

/// 2.3.1: "If the <cluster-ip> is an IPv4 address, an A record of the following form must exist",
/// "If the <cluster-ip> is an IPv6 address, an AAAA record".
/// 2.3.3: "Given an IPv4 Service ClusterIP <a>.<b>.<c>.<d>, a PTR record", "Given an IPv6 Service
/// ClusterIP represented in hexadecimal format without any simplification, a PTR record as a
/// sequence of nibbles in reverse order".
#[test]
fn a_service_has_its_addresses_and_they_lead_back() {
    let spec = json!({ "clusterIP": "10.3.0.1", "clusterIPs": ["10.3.0.1", "2001:db8::1"] });
    check(
        spec,
        &[],
        &[
            "web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "web.shop.svc.cluster.local. 5 AAAA 2001:db8::1",
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 5 PTR \
         web.shop.svc.cluster.local.",
            "1.0.3.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.",
        ],
    );
}

/// 2.3.2: "For each port in the Service with name <port> and number <port-number> using protocol
/// <proto>, an SRV record of the following form must exist." "Unnamed ports do not have an SRV
/// record."
#[test]
fn each_named_port_of_a_service_has_an_srv_record() {
    let ports = json!([
        { "name": "https", "port": 443, "protocol": "TCP" },
        { "name": "dns", "port": 53, "protocol": "UDP" },
        { "port": 80 },
    ]);
    let records = records(&naming(), json!({ "clusterIP": "10.3.0.1", "ports": ports }), &[]);
    let srv: Vec<&String> = records.iter().filter(|line| line.contains(" SRV ")).collect();
    assert_eq!(
        srv,
        [
            "_dns._udp.web.shop.svc.cluster.local. 5 SRV 0 100 53 web.shop.svc.cluster.local.",
            "_https._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 443 web.shop.svc.cluster.local.",
        ]
    );
}

fn slice(ports: Value, endpoints: Value) -> Value {
    json!({ "metadata": {}, "addressType": "IPv4", "ports": ports, "endpoints": endpoints })
}

/// 2.4.1: "There must be an A record for each ready endpoint of the headless Service with IPv4
/// address <endpoint-ip>", the same for AAAA and IPv6, and "of the following form for each ready
/// endpoint with hostname of <hostname>".
/// 2.1: "In order of precedence, the hostname of an endpoint is: the value of the endpoint's
/// hostname field", "a unique, system-assigned identifier for the endpoint": its address.
/// 2.4.3: "Given a ready endpoint with hostname of <hostname> and IPv4 address, a PTR record", and
/// the same for IPv6.
#[test]
fn a_headless_service_has_each_ready_endpoint() {
    let v4 = slice(
        json!([]),
        json!([
            { "addresses": ["10.3.0.1"], "conditions": { "ready": true } },
            { "addresses": ["10.3.0.100"], "hostname": "My-Pet" },
            { "addresses": ["10.3.0.9"], "conditions": { "ready": false } },
        ]),
    );
    let v6 = slice(json!([]), json!([{ "addresses": ["2001:db8::1"] }]));
    check(
        json!({ "clusterIP": HEADLESS }),
        &[v4, v6],
        &[
            "my-pet.web.shop.svc.cluster.local. 5 A 10.3.0.100",
            "10-3-0-1.web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "2001-db8--1.web.shop.svc.cluster.local. 5 AAAA 2001:db8::1",
            "web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "web.shop.svc.cluster.local. 5 A 10.3.0.100",
            "web.shop.svc.cluster.local. 5 AAAA 2001:db8::1",
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 5 PTR \
         2001-db8--1.web.shop.svc.cluster.local.",
            "1.0.3.10.in-addr.arpa. 5 PTR 10-3-0-1.web.shop.svc.cluster.local.",
            "100.0.3.10.in-addr.arpa. 5 PTR my-pet.web.shop.svc.cluster.local.",
        ],
    );
}

/// 2.4.1: "If there are no ready endpoints for the headless Service, the answer should be
/// NXDOMAIN."
#[test]
fn a_headless_service_without_ready_endpoints_does_not_exist() {
    let unready = json!([{ "addresses": ["10.3.0.9"], "conditions": { "ready": false } }]);
    check(json!({ "clusterIP": HEADLESS }), &[slice(json!([]), unready)], &[]);
}

/// 2.4.1: "If there are multiple IPv4 addresses for a given hostname, then there must be one such A
/// record returned for each IP", the same for IPv6 and AAAA.
#[test]
fn a_hostname_has_all_its_addresses() {
    let twins = json!([
        { "addresses": ["10.3.0.1"], "hostname": "pet" },
        { "addresses": ["10.3.0.2"], "hostname": "pet" },
    ]);
    let six = json!([
        { "addresses": ["2001:db8::1"], "hostname": "pet" },
        { "addresses": ["2001:db8::2"], "hostname": "pet" },
    ]);
    let slices = [slice(json!([]), twins), slice(json!([]), six)];
    let records = records(&naming(), json!({ "clusterIP": HEADLESS }), &slices);
    let pets: Vec<&String> = records.iter().filter(|line| line.starts_with("pet.")).collect();
    assert_eq!(
        pets,
        [
            "pet.web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "pet.web.shop.svc.cluster.local. 5 A 10.3.0.2",
            "pet.web.shop.svc.cluster.local. 5 AAAA 2001:db8::1",
            "pet.web.shop.svc.cluster.local. 5 AAAA 2001:db8::2",
        ]
    );
}

/// 2.4.2: "For each combination of ready endpoint with hostname of <hostname>, and port in the
/// Service with name <port> and number <port-number> using protocol <proto>, an SRV record", "if
/// there are N ready endpoints and the Service defines M named ports, there will be N × M SRV RRs",
/// "Unnamed ports do not have an SRV record".
#[test]
fn each_endpoint_has_an_srv_record_for_each_named_port() {
    let ports = json!([
        { "name": "https", "port": 8443, "protocol": "TCP" },
        { "name": "quic", "port": 8443, "protocol": "UDP" },
        { "name": "", "port": 80, "protocol": "TCP" },
    ]);
    let two =
        json!([{ "addresses": ["10.3.0.1"] }, { "addresses": ["10.3.0.2"], "hostname": "pet" }]);
    let records = records(&naming(), json!({ "clusterIP": HEADLESS }), &[slice(ports, two)]);
    let srv: Vec<&String> = records.iter().filter(|line| line.contains(" SRV ")).collect();
    assert_eq!(
        srv,
        [
            "_quic._udp.web.shop.svc.cluster.local. 5 SRV 0 100 8443 \
             pet.web.shop.svc.cluster.local.",
            "_quic._udp.web.shop.svc.cluster.local. 5 SRV 0 100 8443 \
         10-3-0-1.web.shop.svc.cluster.local.",
            "_https._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 8443 \
             pet.web.shop.svc.cluster.local.",
            "_https._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 8443 \
         10-3-0-1.web.shop.svc.cluster.local.",
        ]
    );
}

/// 2.5: "Given a Service named <service> in Namespace <ns> with ExternalName <extname>, a CNAME
/// record named <service>.<ns>.svc.<zone> pointing to <extname> must exist."
#[test]
fn an_external_service_is_an_alias() {
    let spec = json!({ "type": "ExternalName", "externalName": "www.example.com" });
    check(spec, &[], &["web.shop.svc.cluster.local. 5 CNAME www.example.com."]);
    let address = json!({ "type": "ExternalName", "externalName": "192.0.2.1" });
    check(address, &[], &[]);
}

/// 2.1: "All comparisons between query data and data in Kubernetes are case-insensitive": names are
/// kept in lower case, as all of Dunlin's.
#[test]
fn names_are_in_lower_case() {
    let ports = json!([{ "name": "HTTPS", "port": 443 }]);
    let records = records(&naming(), json!({ "clusterIP": "10.3.0.1", "ports": ports }), &[]);
    assert!(records.iter().any(|line| line.starts_with("_https._tcp.web.")), "{records:?}");
}

/// Version 1.0.1, 2.6, not in 1.1.0: "an A record of the form below for any values of <a>, <b>,
/// <c>, and <d>", as CoreDNS does with `pods insecure`. Nothing is stored for an address.
#[test]
fn a_namespace_has_all_addresses_of_insecure_pods() {
    let naming = Naming { pods: PodNames::Insecure, ..naming() };
    assert_eq!(
        text::all(&naming.namespace("shop")),
        [
            "*.shop.pod.cluster.local. addresses",
            "shop.pod.cluster.local. exists",
            "shop.svc.cluster.local. exists",
        ]
    );
}

/// As CoreDNS does with `endpoint_pod_names`.
#[test]
fn endpoints_can_be_named_by_their_pods() {
    let endpoints = json!([
        { "addresses": ["10.3.0.1"], "targetRef": { "kind": "Pod", "name": "web-0" } },
        { "addresses": ["10.3.0.2"], "targetRef": { "name": "web-1" }, "hostname": "pet" },
        { "addresses": ["10.3.0.3"], "targetRef": { "name": "a".repeat(64) } },
    ]);
    let slices = [slice(json!([]), endpoints)];
    let by = EndpointNaming { pod_names: true, ..EndpointNaming::default() };
    let spec = json!({ "clusterIP": HEADLESS });
    let records = text::all(&try_records(&naming(), "web", spec, &slices, by));
    for host in ["web-0", "pet", "10-3-0-3"] {
        let start = format!("{host}.web.shop.svc.cluster.local. ");
        assert!(records.iter().any(|line| line.starts_with(&start)), "{host}: {records:#?}");
    }
}

/// As CoreDNS does with `ignore empty_service`.
#[test]
fn a_service_without_ready_endpoints_can_be_ignored() {
    let naming = Naming { ignore_empty: true, ..naming() };
    let spec = json!({ "clusterIP": "10.3.0.1" });
    assert_eq!(records(&naming, spec.clone(), &[]), [""; 0]);
    let one = [slice(json!([]), json!([{ "addresses": ["10.3.0.1"] }]))];
    assert_eq!(records(&naming, spec, &one).len(), 2);
}

/// As CoreDNS does with `zonal`: a zone that has no endpoint is NODATA for `pin`, and all endpoints
/// for `prefer`.
#[test]
fn a_headless_service_can_have_names_for_topology_zones() {
    let naming = Naming { zonal: true, ..naming() };
    let endpoints = json!([
        { "addresses": ["10.3.0.1"], "zone": "eu-1a" },
        { "addresses": ["10.3.0.2"], "zone": "corp.example" },
        { "addresses": ["10.3.0.3"] },
    ]);
    let ports = json!([{ "name": "http", "port": 8080 }, { "port": 9 }]);
    let slices = [slice(ports, endpoints)];
    let by = EndpointNaming { zonal: true, ..EndpointNaming::default() };
    let spec = json!({ "clusterIP": HEADLESS });
    let records = text::all(&try_records(&naming, "web", spec, &slices, by));
    let zonal = || records.iter().filter(|line| line.contains("_zone"));
    let srv: Vec<&String> =
        zonal().filter(|line| line.contains("SRV") && line.starts_with("eu-1a")).collect();
    assert_eq!(
        srv,
        [
            "eu-1a.pin._zone.web.shop.svc.cluster.local. 5 SRV 0 100 8080 \
             10-3-0-1.web.shop.svc.cluster.local.",
            "eu-1a.prefer._zone.web.shop.svc.cluster.local. 5 SRV 0 100 8080 \
             10-3-0-1.web.shop.svc.cluster.local.",
        ]
    );
    let addresses: Vec<&String> = zonal().filter(|line| !line.contains("SRV")).collect();
    assert_eq!(
        addresses,
        [
            "*.prefer._zone.web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "*.prefer._zone.web.shop.svc.cluster.local. 5 A 10.3.0.2",
            "*.prefer._zone.web.shop.svc.cluster.local. 5 A 10.3.0.3",
            "corp.example.pin._zone.web.shop.svc.cluster.local. 5 A 10.3.0.2",
            "corp.example.prefer._zone.web.shop.svc.cluster.local. 5 A 10.3.0.2",
            "eu-1a.pin._zone.web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "eu-1a.prefer._zone.web.shop.svc.cluster.local. 5 A 10.3.0.1",
            "*.pin._zone.web.shop.svc.cluster.local. exists",
        ]
        .map(String::from)
        .iter()
        .collect::<Vec<_>>()
    );
}

#[test]
fn text_of_an_object_never_becomes_a_wildcard() {
    let naming = Naming { zonal: true, pods: PodNames::Insecure, ..naming() };
    let ports = json!([{ "name": "*", "port": 80 }, { "name": "80", "port": 80 }]);
    let endpoint = |hostname: &str, zone: &str, last: u8| {
        let address = format!("10.3.0.{last}");
        json!({ "addresses": [address], "hostname": hostname, "zone": zone })
    };
    let endpoints = [endpoint("*", "*", 1), endpoint("1a", "1_b", 2), endpoint("\0", "", 3)];
    let slices = [slice(ports.clone(), json!(endpoints))];
    let by = EndpointNaming { zonal: true, ..EndpointNaming::default() };
    let of = |name: &str| {
        let spec = json!({ "clusterIP": HEADLESS, "ports": ports });
        text::all(&try_records(&naming, name, spec, &slices, by))
    };
    let records = of("1web");
    let wild = |line: &&String| line.contains('*') && !line.starts_with("*.p");
    assert_eq!(records.iter().find(wild), None, "{records:#?}");
    for expected in [
        "1web.shop.svc.cluster.local. 5 A 10.3.0.1",
        "10-3-0-1.1web.shop.svc.cluster.local. 5 A 10.3.0.1",
        "1a.1web.shop.svc.cluster.local. 5 A 10.3.0.2",
        "10-3-0-3.1web.shop.svc.cluster.local. 5 A 10.3.0.3",
        "1_b.pin._zone.1web.shop.svc.cluster.local. 5 A 10.3.0.2",
        "_80._tcp.1web.shop.svc.cluster.local. 5 SRV 0 100 80 1a.1web.shop.svc.cluster.local.",
    ] {
        assert!(records.iter().any(|line| line == expected), "{expected}: {records:#?}");
    }
    for name in ["*", "-a", "a-", "a.b", "a_b", "", "\u{e4}"] {
        assert_eq!(of(name), [""; 0], "{name}");
        assert_eq!(naming.namespace(name), Records::default(), "{name}");
        assert_eq!(naming.pod(name, "10.3.0.1".parse().expect("one")), Records::default());
    }
}

/// A name of more than 255 bytes cannot exist (RFC 1035 §2.3.4). The others of its service do.
#[test]
fn names_that_are_too_long_are_left_out_and_counted() {
    let long = ["a"; 61].map(|letter| letter.repeat(3)).join(".");
    let origin = NameBuf::from_text(long.as_bytes(), Name::ROOT).expect("a name");
    let zones = vec![ClusterZone { origin, is_multicluster: false, falls_through: false }];
    let naming = Naming { zones, ..naming() };
    let spec = json!({ "clusterIP": "10.3.0.1" });
    let records = try_records(&naming, "web", spec, &[], EndpointNaming::default());
    assert_eq!((text::all(&records).len(), records.left_out), (0, 1));
}

#[test]
fn addresses_as_labels_are_those_of_coredns() {
    let cases = [
        ("10.0.0.1", "10-0-0-1"),
        ("fd00::1", "fd00--1"),
        ("fd00:1::", "fd00-1--0"),
        ("::1", "--1"),
    ];
    for (address, expected) in cases {
        assert_eq!(dashed(address.parse().expect("an address")), expected);
    }
}

/// KEP-1645, "DNS": a service of type ClusterSetIP has A or AAAA and SRV records, a headless one
/// those of its endpoints, named by hostname and cluster; no PTR record.
#[test]
fn imported_services_have_the_names_of_their_clusters() {
    let origin = NameBuf::from_text(b"clusterset.local.", Name::ROOT).expect("a name");
    let set = ClusterZone { origin, is_multicluster: true, falls_through: false };
    let naming = Naming { zones: [naming().zones, vec![set]].concat(), ..naming() };
    let by = EndpointNaming::default();
    let slice = serde_json::from_value(json!({
        "metadata": { "labels": { "multicluster.kubernetes.io/service-name": "web",
                                  "multicluster.kubernetes.io/source-cluster": "east" } },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": [{ "addresses": ["10.3.0.1"], "hostname": "pet" }],
    }));
    let kept = Slices::keep(slice.expect("a slice"), by).expect("a slice of an import");
    assert!(kept.is_import && &*kept.service == "web");
    let records = |spec: Value| {
        let raw = serde_json::from_value(json!({ "spec": spec })).expect("an import");
        let service = Imports::keep(raw, by).expect("an import with names");
        let (namespace, name, slices) = ("shop", "web", &[&kept.slice][..]);
        let view = ServiceView {
            namespace,
            name,
            is_import: true,
            service: &service,
            slices,
            ready: 1,
            check: None,
            locations: &BTreeMap::default(),
        };
        text::all(&naming.service(view, Records::default()))
    };
    let ports = json!([{ "name": "http", "port": 80 }]);
    assert_eq!(
        records(json!({ "type": "ClusterSetIP", "ips": ["10.42.0.1"], "ports": ports })),
        [
            "web.shop.svc.clusterset.local. 5 A 10.42.0.1",
            "_http._tcp.web.shop.svc.clusterset.local. 5 SRV 0 100 80 \
             web.shop.svc.clusterset.local.",
        ]
    );
    assert_eq!(
        records(json!({ "type": "Headless", "ports": ports })),
        [
            "pet.east.web.shop.svc.clusterset.local. 5 A 10.3.0.1",
            "web.shop.svc.clusterset.local. 5 A 10.3.0.1",
            "_http._tcp.web.shop.svc.clusterset.local. 5 SRV 0 100 8080 \
             pet.east.web.shop.svc.clusterset.local.",
        ]
    );
}
