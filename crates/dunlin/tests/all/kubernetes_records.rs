//! Records of objects beside a real API server: DNSEndpoints with their status, and the hostnames
//! of Ingresses, Gateways and HTTPRoutes.
use crate::clustered::{answer, exchange, expect, section};
use crate::served::Served;
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use test_support::wait;
use wire::Rtype;

/// The packaged objects; a test adds the rights that docs/kubernetes.md names.
const MANIFEST: &str = include_str!("../../../../packaging/kubernetes/base/cluster-dns.yaml");
const KEYS: &str = "records_from = [\"dns_endpoints\", \"ingresses\", \"gateways\"]\n\
    record_zones = { \"shop.example\" = [\"shop\"], \"apps.example\" = [\"*\"] }\n";
const GATEWAY: &str = "gateway.networking.k8s.io";
const ENDPOINTS: &str = "externaldns.k8s.io";

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn address(name: &str, ip: &str) -> Value {
    json!({ "dnsName": name, "recordType": "A", "recordTTL": 60, "targets": [ip] })
}

/// A server with the rights of the manifest and those that these keys need.
fn start(test: &str, cluster: &Cluster) -> Served {
    cluster.kubectl(&["apply", "-f", "-"], MANIFEST).expect("it is applied");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/dunlin-dns";
    let mut rules = cluster.get(path).expect("a role")["rules"].clone();
    rules.as_array_mut().expect("rules").extend([
        rule(ENDPOINTS, &["dnsendpoints"], &["list", "watch"]),
        rule(ENDPOINTS, &["dnsendpoints/status"], &["patch"]),
        rule("networking.k8s.io", &["ingresses"], &["list", "watch"]),
        rule(GATEWAY, &["gateways", "httproutes"], &["list", "watch"]),
    ]);
    cluster.patch(path, &json!({ "rules": rules }));
    let kubeconfig = cluster.kubeconfig_of("kube-system", "dunlin-dns", 600).expect("a token");
    Served::start(test, &section(&kubeconfig, KEYS), &[])
}

fn dns_endpoint(namespace: &str, name: &str, endpoints: Value) -> Value {
    json!({ "apiVersion": "externaldns.k8s.io/v1alpha1", "kind": "DNSEndpoint",
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "endpoints": endpoints } })
}

fn path(namespace: &str, name: &str) -> String {
    format!("/apis/{ENDPOINTS}/v1alpha1/namespaces/{namespace}/dnsendpoints/{name}")
}

/// The condition in the status, if it is of the newest generation: its status and its message.
fn condition(cluster: &Cluster, namespace: &str, name: &str) -> Option<(String, String)> {
    let object = cluster.get(&path(namespace, name)).expect("it is there");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (status, newest) = (&object["status"], &object["metadata"]["generation"]);
    let live = &status["conditions"][0];
    let is_newest =
        status["observedGeneration"] == *newest && live["observedGeneration"] == *newest;
    (is_newest && live["type"] == "Live").then(|| (text(&live["status"]), text(&live["message"])))
}

fn expect_condition(cluster: &Cluster, [namespace, name]: [&str; 2], live: &str, why: &str) {
    let found = || condition(cluster, namespace, name);
    let is_so = |found: &Option<(String, String)>| {
        found.as_ref().is_some_and(|(status, text)| status == live && text.contains(why))
    };
    wait::until_value(&format!("{name} is {live}: {why}"), found, is_so);
}

fn events(cluster: &Cluster, namespace: &str) -> Vec<(String, String)> {
    let events = cluster.get(&format!("/api/v1/namespaces/{namespace}/events")).expect("a list");
    let items = events["items"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |event: &Value| (text(&event["involvedObject"]["kind"]), text(&event["message"]));
    items.iter().filter(|event| event["reason"] == "NotShared").map(of).collect()
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn records_of_dns_endpoints_are_live_or_their_status_says_why_not() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    ["shop", "web"].iter().for_each(|name| drop(cluster.create(&objects::namespace(name))));
    cluster.define(ENDPOINTS, "DNSEndpoint", "dnsendpoints", &["v1alpha1"]);
    // Nothing waits for the definitions of the other kinds.
    let served = start("kubernetes-records", &cluster);
    let server = served.address;
    expect(server, "cluster.local", Rtype::NS, "NOERROR; NS ns.dns.cluster.local.");
    expect(server, "shop.example", Rtype::A, "NOERROR");
    let text = json!({ "dnsName": "web.shop.example", "recordType": "TXT", "targets": ["a b"] });
    let mut first = dns_endpoint(
        "shop",
        "web",
        json!([
            address("web.shop.example", "192.0.2.1"),
            text,
            address("*.shop.example", "192.0.2.9")
        ]),
    );
    cluster.create(&first);
    expect(server, "web.shop.example", Rtype::A, "NOERROR; A 192.0.2.1");
    expect(server, "web.shop.example", Rtype::TXT, "NOERROR; TXT a b");
    expect(server, "any.shop.example", Rtype::A, "NOERROR; A 192.0.2.9");
    expect_condition(&cluster, ["shop", "web"], "True", "all records are answered");
    first["spec"]["endpoints"] = json!([address("web.shop.example", "192.0.2.2")]);
    let patch = json!({ "spec": first["spec"] });
    cluster.patch(&path("shop", "web"), &patch);
    expect(server, "web.shop.example", Rtype::A, "NOERROR; A 192.0.2.2");
    expect(server, "any.shop.example", Rtype::A, "NXDOMAIN");
    expect_condition(&cluster, ["shop", "web"], "True", "all records are answered");

    // A zone of another namespace, a zone that no server has, and too many records.
    let elsewhere = address("a.elsewhere.example", "192.0.2.5");
    cluster.create(&dns_endpoint("web", "thief", json!([address("x.shop.example", "192.0.2.5")])));
    cluster.create(&dns_endpoint("web", "elsewhere", json!([elsewhere])));
    expect_condition(
        &cluster,
        ["web", "thief"],
        "False",
        "web may not write the zone shop.example.",
    );
    assert_eq!(answer(server, "x.shop.example", Rtype::A).as_deref(), Some("NXDOMAIN"));
    let many = |at| address(&format!("n{at}.apps.example"), "192.0.2.7");
    cluster.create(&dns_endpoint("web", "many", (0..201).map(many).collect()));
    expect_condition(&cluster, ["web", "many"], "False", "more than 200 records");
    expect(server, "n199.apps.example", Rtype::A, "NOERROR; A 192.0.2.7");
    assert_eq!(answer(server, "n200.apps.example", Rtype::A).as_deref(), Some("NXDOMAIN"));
    assert_eq!(cluster.get(&path("web", "elsewhere")).expect("it is there")["status"], json!(null));
    expect_oldest_wins(&cluster, &served);

    cluster.delete(&first);
    expect(server, "web.shop.example", Rtype::A, "NXDOMAIN");
}

/// A name is that of the namespace whose object is the oldest.
fn expect_oldest_wins(cluster: &Cluster, served: &Served) {
    let server = served.address;
    let created = |object: &Value| object["metadata"]["creationTimestamp"].clone().to_string();
    let of = |namespace: &str, name: &str, ip: &str| {
        let set = json!({ "dnsName": "api.apps.example", "recordType": "A", "targets": [ip] });
        dns_endpoint(namespace, name, json!([set]))
    };
    let oldest = cluster.create(&of("shop", "oldest", "192.0.2.11"));
    expect(server, "api.apps.example", Rtype::A, "NOERROR; A 192.0.2.11");
    // Ages are in seconds.
    let mut probes = 0;
    wait::until_true("a second later", || {
        probes += 1;
        let probe = cluster.create(&objects::namespace(&format!("probe-{probes}")));
        created(&probe) > created(&oldest)
    });
    cluster.create(&of("web", "later", "192.0.2.12"));
    let why = "the name is that of dnsendpoints shop/oldest, in another namespace";
    expect_condition(cluster, ["web", "later"], "False", why);
    let told = || {
        events(cluster, "web")
            .iter()
            .any(|(kind, text)| kind == "DNSEndpoint" && text.contains(why))
    };
    wait::until_true("an Event", told);
    assert_eq!(
        answer(server, "api.apps.example", Rtype::A).as_deref(),
        Some("NOERROR; A 192.0.2.11")
    );
    cluster.delete(&of("shop", "oldest", ""));
    expect(server, "api.apps.example", Rtype::A, "NOERROR; A 192.0.2.12");
    expect_condition(cluster, ["web", "later"], "True", "all records are answered");
}

fn ingress(namespace: &str, name: &str, host: &str, annotations: Value) -> Value {
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let paths = json!([{ "path": "/", "pathType": "Prefix", "backend": backend }]);
    json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "namespace": namespace, "name": name, "annotations": annotations },
            "spec": { "rules": [{ "host": host, "http": { "paths": paths } }] } })
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn hostnames_of_ingresses_gateways_and_routes_have_the_addresses_of_their_status() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    ["shop", "infra"].iter().for_each(|name| drop(cluster.create(&objects::namespace(name))));
    cluster.define(GATEWAY, "Gateway", "gateways", &["v1", "v1beta1"]);
    cluster.define(GATEWAY, "HTTPRoute", "httproutes", &["v1"]);
    let served = start("kubernetes-hostnames", &cluster);
    let server = served.address;
    let set_status = |group: &str, of: [&str; 3], status: Value| {
        let [namespace, plural, name] = of;
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/{plural}/{name}/status");
        cluster.patch(&path, &json!({ "status": status }));
    };
    cluster.create(&ingress("shop", "web", "www.shop.example", json!({ "dunlin.io/ttl": "77" })));
    let balancer = |ip: &str| json!({ "loadBalancer": { "ingress": [{ "ip": ip }] } });
    set_status("networking.k8s.io", ["shop", "ingresses", "web"], balancer("192.0.2.1"));
    expect(server, "www.shop.example", Rtype::A, "NOERROR; A 192.0.2.1");
    set_status("networking.k8s.io", ["shop", "ingresses", "web"], balancer("192.0.2.2"));
    expect(server, "www.shop.example", Rtype::A, "NOERROR; A 192.0.2.2");
    let reply = exchange(server, "www.shop.example", Rtype::A).expect("a reply");
    // The first record, behind its compressed name, its type and its class.
    let at = wire::skip_name(&reply, 12).expect("a question") + 4 + 6;
    assert_eq!(reply[at..at + 4], 77u32.to_be_bytes(), "the TTL of the annotation");

    let object = |kind: &str, namespace: &str, name: &str, spec: Value| {
        json!({ "apiVersion": format!("{GATEWAY}/v1"), "kind": kind,
                "metadata": { "namespace": namespace, "name": name }, "spec": spec })
    };
    let listeners = json!([{ "name": "https", "hostname": "*.apps.example" }]);
    cluster.create(&object("Gateway", "infra", "front", json!({ "listeners": listeners })));
    let hosts = json!({ "hostnames": ["a.apps.example", "www.other.example"] });
    cluster.create(&object("HTTPRoute", "shop", "a", hosts));
    let parent = json!({ "parentRef": { "namespace": "infra", "name": "front" },
                         "conditions": [{ "type": "Accepted", "status": "True" }] });
    set_status(GATEWAY, ["shop", "httproutes", "a"], json!({ "parents": [parent] }));
    let addresses = |ip: &str| json!({ "addresses": [{ "type": "IPAddress", "value": ip }] });
    set_status(GATEWAY, ["infra", "gateways", "front"], addresses("192.0.2.3"));
    expect(server, "a.apps.example", Rtype::A, "NOERROR; A 192.0.2.3");
    expect(server, "other.apps.example", Rtype::A, "NOERROR; A 192.0.2.3");
    set_status(GATEWAY, ["infra", "gateways", "front"], addresses("192.0.2.4"));
    expect(server, "a.apps.example", Rtype::A, "NOERROR; A 192.0.2.4");

    // A zone that the namespace may not write, and a Gateway that is gone.
    cluster.create(&ingress("infra", "thief", "x.shop.example", json!({})));
    set_status("networking.k8s.io", ["infra", "ingresses", "thief"], balancer("192.0.2.6"));
    let told = || {
        events(&cluster, "infra").iter().any(|(kind, text)| {
            kind == "Ingress" && text.contains("infra may not write the zone shop.example.")
        })
    };
    wait::until_true("an Event", told);
    assert_eq!(answer(server, "x.shop.example", Rtype::A).as_deref(), Some("NXDOMAIN"));
    cluster.delete(&object("Gateway", "infra", "front", json!({})));
    expect(server, "a.apps.example", Rtype::A, "NXDOMAIN");
}
