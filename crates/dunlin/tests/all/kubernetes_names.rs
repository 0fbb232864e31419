//! `dunlin serve` beside a real API server: the names of services and endpoints, and their changes.
use crate::clustered::{answer, expect, serve};
use crate::served::Served;
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use test_support::wait;
use wire::Rtype;

/// Services and endpoints of each kind.
fn fill(cluster: &Cluster) {
    for namespace in ["shop", "empty"] {
        cluster.create(&objects::namespace(namespace));
    }
    let http = ("http", "TCP", 80);
    let own = json!({ "clusterIP": "10.96.0.10" });
    cluster.create(&objects::service("kube-system", "kube-dns", &[("dns", "UDP", 53)], own));
    let both = json!({ "clusterIP": "10.96.7.7", "ipFamilyPolicy": "RequireDualStack",
                       "clusterIPs": ["10.96.7.7", "fd00:96::77"] });
    cluster.create(&objects::service("shop", "web", &[http], both));
    cluster.create(&objects::headless("shop", "db", &[http]));
    let mut named = objects::endpoint("10.1.0.2");
    named["hostname"] = json!("db-0");
    let unready = json!({ "addresses": ["10.1.0.9"], "conditions": { "ready": false } });
    let endpoints = [objects::endpoint("10.1.0.1"), named, unready];
    cluster.create(&objects::slice("shop", "db-a", "db", &[("http", "TCP", 8080)], &endpoints));
    let v6 = [objects::endpoint("fd01::1")];
    cluster.create(&objects::slice("shop", "db-b", "db", &[("http", "TCP", 8080)], &v6));
    cluster.create(&objects::headless("shop", "none", &[]));
    let external = json!({ "type": "ExternalName", "externalName": "www.example.com" });
    cluster.create(&objects::service("shop", "out", &[], external));
}

const NAMES: [(&str, Rtype, &str); 26] = [
    ("web.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.96.7.7"),
    ("WEB.Shop.svc.cluster.local", Rtype::AAAA, "NOERROR; AAAA fd00:96::77"),
    ("web.shop.svc.cluster.local", Rtype::TXT, "NOERROR"),
    (
        "_http._tcp.web.shop.svc.cluster.local",
        Rtype::SRV,
        "NOERROR; SRV 80 web.shop.svc.cluster.local.",
    ),
    ("7.7.96.10.in-addr.arpa", Rtype::PTR, "NOERROR; PTR web.shop.svc.cluster.local."),
    (
        "7.7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa",
        Rtype::PTR,
        "NOERROR; PTR web.shop.svc.cluster.local.",
    ),
    ("db.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.0.1; A 10.1.0.2"),
    ("db.shop.svc.cluster.local", Rtype::AAAA, "NOERROR; AAAA fd01::1"),
    ("10-1-0-1.db.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.0.1"),
    ("db-0.db.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.0.2"),
    ("db-0.db.shop.svc.cluster.local", Rtype::AAAA, "NOERROR"),
    (
        "_http._tcp.db.shop.svc.cluster.local",
        Rtype::SRV,
        "NOERROR; SRV 8080 10-1-0-1.db.shop.svc.cluster.local.; \
         SRV 8080 db-0.db.shop.svc.cluster.local.; SRV 8080 fd01--1.db.shop.svc.cluster.local.",
    ),
    ("2.0.1.10.in-addr.arpa", Rtype::PTR, "NOERROR; PTR db-0.db.shop.svc.cluster.local."),
    ("10-1-0-9.db.shop.svc.cluster.local", Rtype::A, "NXDOMAIN"),
    ("9.0.1.10.in-addr.arpa", Rtype::PTR, "NXDOMAIN"),
    ("none.shop.svc.cluster.local", Rtype::A, "NXDOMAIN"),
    ("out.shop.svc.cluster.local", Rtype::CNAME, "NOERROR; CNAME www.example.com."),
    ("out.shop.svc.cluster.local", Rtype::A, "NOERROR; CNAME www.example.com."),
    ("absent.shop.svc.cluster.local", Rtype::A, "NXDOMAIN"),
    ("empty.svc.cluster.local", Rtype::A, "NOERROR"),
    ("absent.svc.cluster.local", Rtype::A, "NXDOMAIN"),
    ("svc.cluster.local", Rtype::A, "NOERROR"),
    ("dns-version.cluster.local", Rtype::TXT, "NOERROR; TXT 1.1.0"),
    ("cluster.local", Rtype::NS, "NOERROR; NS ns.dns.cluster.local."),
    ("cluster.local", Rtype::SOA, "NOERROR; SOA ns.dns.cluster.local."),
    ("ns.dns.cluster.local", Rtype::A, "NOERROR; A 10.96.0.10"),
];

fn check_all(server: SocketAddr) {
    for (name, rtype, expected) in NAMES {
        let found = answer(server, name, rtype);
        assert_eq!(found.as_deref(), Some(expected), "{name} {rtype}");
    }
}

/// Specification 2.1: endpoints count as ready if their service tolerates those that are not. The
/// API calls this `publishNotReadyAddresses` now.
fn check_not_ready(cluster: &Cluster, server: SocketAddr) {
    let selector = json!({ "clusterIP": "None", "selector": { "app": "early" },
                           "publishNotReadyAddresses": true });
    cluster.create(&objects::service("shop", "early", &[("http", "TCP", 80)], selector));
    cluster.create(&objects::pod("shop", "early-0", json!({ "app": "early" })));
    let status = "/api/v1/namespaces/shop/pods/early-0/status";
    let mut is_starting = objects::ready_status(&["10.1.5.6"]);
    is_starting["status"]["conditions"] = json!([{ "type": "Ready", "status": "False" }]);
    cluster.patch(status, &is_starting);
    expect(server, "early.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.5.6");
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn names_of_a_cluster_are_answered_and_follow_its_changes() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    let mut served = serve("kubernetes-names", &cluster, "");
    check_all(served.address);
    let server = served.address;

    cluster.create(&objects::namespace("new"));
    expect(server, "new.svc.cluster.local", Rtype::A, "NOERROR");
    let ip = json!({ "clusterIP": "10.96.8.8" });
    let late = cluster.create(&objects::service("new", "late", &[("http", "TCP", 80)], ip));
    expect(server, "late.new.svc.cluster.local", Rtype::A, "NOERROR; A 10.96.8.8");
    expect(
        server,
        "8.8.96.10.in-addr.arpa",
        Rtype::PTR,
        "NOERROR; PTR late.new.svc.cluster.local.",
    );
    cluster.delete(&late);
    expect(server, "late.new.svc.cluster.local", Rtype::A, "NXDOMAIN");
    expect(server, "8.8.96.10.in-addr.arpa", Rtype::PTR, "NXDOMAIN");

    // An endpoint moves from a slice to another; it is in both for a while.
    let http = [("http", "TCP", 8080)];
    let moving = objects::endpoint("10.1.0.1");
    cluster.create(&objects::slice("shop", "db-c", "db", &http, std::slice::from_ref(&moving)));
    let slice = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/db-a";
    cluster.patch(slice, &json!({ "endpoints": [objects::endpoint("10.1.0.3")] }));
    let db = "db.shop.svc.cluster.local";
    expect(server, db, Rtype::A, "NOERROR; A 10.1.0.1; A 10.1.0.3");
    expect(server, "db-0.db.shop.svc.cluster.local", Rtype::A, "NXDOMAIN");

    // A Pod that becomes ready, by the controller of slices.
    let selector = json!({ "clusterIP": "None", "selector": { "app": "api" } });
    cluster.create(&objects::service("shop", "api", &[("http", "TCP", 80)], selector));
    cluster.create(&objects::pod("shop", "api-0", json!({ "app": "api" })));
    let status = "/api/v1/namespaces/shop/pods/api-0/status";
    cluster.patch(status, &objects::ready_status(&["10.1.5.5"]));
    expect(server, "api.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.5.5");
    check_not_ready(&cluster, server);
    served.end();
    check_compat(&cluster);
}

/// What CoreDNS has beyond the specification.
fn check_compat(cluster: &Cluster) {
    let mut named = objects::endpoint("10.1.9.1");
    named["hostname"] = json!("web-0");
    let endpoints = [named, objects::endpoint("10.1.9.2")];
    cluster.create(&objects::slice("shop", "web-a", "web", &[("http", "TCP", 8080)], &endpoints));
    let served = serve("kubernetes-compat", cluster, "compat = \"coredns\"");
    for (name, rtype, expected) in [
        (
            "db.shop.svc.cluster.local",
            Rtype::SRV,
            "NOERROR; SRV 8080 10-1-0-1.db.shop.svc.cluster.local.; \
             SRV 8080 10-1-0-3.db.shop.svc.cluster.local.; \
             SRV 8080 fd01--1.db.shop.svc.cluster.local.",
        ),
        ("web.shop.svc.cluster.local", Rtype::SRV, "NOERROR; SRV 80 web.shop.svc.cluster.local."),
        ("web-0.web.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.9.1"),
        ("web-0.web.shop.svc.cluster.local", Rtype::AAAA, "NOERROR"),
        ("10-1-9-2.web.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.9.2"),
        ("1.9.1.10.in-addr.arpa", Rtype::PTR, "NOERROR; PTR web-0.web.shop.svc.cluster.local."),
        ("web-1.web.shop.svc.cluster.local", Rtype::A, "NXDOMAIN"),
    ] {
        expect(served.address, name, rtype, expected);
    }
}

/// A message is full of addresses, and the status counts such sets.
fn check_sample(served: &Served, socket: &Path) {
    let reply = served.ask_over_tcp("many.shop.svc.cluster.local");
    assert_eq!(u16::from_be_bytes([reply[6], reply[7]]), 65_000 / 16);
    let sampled = || {
        let mut command = crate::served::binary();
        let output = command.args(["status", "-o", "json", "--socket"]).arg(socket).output();
        let status: Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
        status["kubernetes"]["sampled"].as_u64()
    };
    // That of the service, and that of its zonal name for all zones.
    wait::until_eq("sampled sets", sampled, Some(2));
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn names_of_verified_pods_zones_and_pod_named_endpoints_are_answered() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    fill(&cluster);
    cluster.create(&objects::pod("shop", "a", json!({})));
    let ready = objects::ready_status(&["10.1.6.6", "fd01::66"]);
    cluster.patch("/api/v1/namespaces/shop/pods/a/status", &ready);
    let mut pod = objects::endpoint("10.1.7.7");
    pod["targetRef"] = json!({ "kind": "Pod", "name": "mq-0" });
    pod["zone"] = json!("eu-1a");
    cluster.create(&objects::headless("shop", "mq", &[]));
    cluster.create(&objects::slice("shop", "mq", "mq", &[], &[pod, objects::endpoint("10.1.7.8")]));
    // More than a message can carry.
    cluster.create(&objects::headless("shop", "many", &[]));
    for part in 0..5 {
        let all: Vec<_> = (0..1_000)
            .map(|at| objects::endpoint(&format!("10.{}.{}.{}", 20 + part, at / 250, at % 250)))
            .collect();
        cluster.create(&objects::slice("shop", &format!("many-{part}"), "many", &[], &all));
    }
    let socket = std::env::temp_dir().join(format!("dunlin-names-{}", std::process::id()));
    let more = "pods = \"verified\"\nendpoint_pod_names = true\nzonal = true\n\
                ignore_empty_services = true";
    let more = format!("{more}\n[admin]\nsocket = \"{}\"", socket.display());
    let served = serve("kubernetes-options", &cluster, &more);
    check_sample(&served, &socket);
    for (name, rtype, expected) in [
        ("10-1-6-6.shop.pod.cluster.local", Rtype::A, "NOERROR; A 10.1.6.6"),
        ("fd01--66.shop.pod.cluster.local", Rtype::AAAA, "NOERROR; AAAA fd01::66"),
        ("10-1-6-6.empty.pod.cluster.local", Rtype::A, "NXDOMAIN"),
        ("shop.pod.cluster.local", Rtype::A, "NOERROR"),
        ("mq-0.mq.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.7.7"),
        ("10-1-7-7.mq.shop.svc.cluster.local", Rtype::A, "NXDOMAIN"),
        ("eu-1a.pin._zone.mq.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.7.7"),
        ("us-9z.pin._zone.mq.shop.svc.cluster.local", Rtype::A, "NOERROR"),
        (
            "us-9z.prefer._zone.mq.shop.svc.cluster.local",
            Rtype::A,
            "NOERROR; A 10.1.7.7; A 10.1.7.8",
        ),
        ("eu-1a.prefer._zone.mq.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.1.7.7"),
        ("web.shop.svc.cluster.local", Rtype::A, "NXDOMAIN"),
    ] {
        let found = answer(served.address, name, rtype);
        assert_eq!(found.as_deref(), Some(expected), "{name} {rtype}");
    }
}
