//! A zone that two clusters share, beside two real API servers: what each has of a name is one set.
use crate::clustered::{answer, answer_to, expect, section, serve};
use crate::fleet_node::Node;
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::wait;
use wire::Rtype;

const WEB: &str = "web.shop.svc.example";
const HTTP: [(&str, &str, u16); 1] = [("http", "TCP", 80)];

/// Where clients are: 10.1.0.0/16 and 10.2.0.0/16 beside the clusters.
const NETWORKS: &str = "[ecs]\ntrust = [\"127.0.0.1\"]\n\
    [[network]]\nname = \"fra\"\nprefixes = [\"10.1.0.0/16\"]\nlocation = \"eu/fra1\"\n\
    [[network]]\nname = \"ams\"\nprefixes = [\"10.2.0.0/16\"]\nlocation = \"eu/ams1\"\n";

/// What a server of a cluster has in its section.
fn keys(name: &str, location: &str) -> String {
    format!("cluster = \"{name}\"\nlocation = \"{location}\"\nshared = \"svc.example\"\n")
}

/// When an object was created, as the API server says it.
fn created(object: &Value) -> String {
    object["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned()
}

fn slice(net: u8, endpoints: &[u8]) -> Value {
    let endpoints: Vec<Value> =
        endpoints.iter().map(|last| objects::endpoint(&format!("10.{net}.7.{last}"))).collect();
    objects::slice("shop", "web-1", "web", &HTTP, &endpoints)
}

fn events(cluster: &Cluster) -> Vec<(String, String)> {
    let events = cluster.get("/api/v1/namespaces/shop/events").expect("a list");
    let items = events["items"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |event: &Value| (text(&event["involvedObject"]["name"]), text(&event["message"]));
    items.iter().filter(|event| event["reason"] == "NotShared").map(of).collect()
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn service_of_two_clusters_is_one_set_and_clients_get_the_nearest() {
    let Some(one) = Cluster::start_or_skip() else { return };
    let Some(two) = Cluster::start_or_skip() else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let clusters = [(&one, "fra1-a", "eu/fra1", 1), (&two, "ams1-a", "eu/ams1", 2)];
    let nodes = clusters.map(|(cluster, name, location, net)| {
        cluster.create(&objects::namespace("shop"));
        cluster.create(&objects::headless("shop", "web", &HTTP));
        cluster.create(&slice(net, &[1, 2]));
        let watching = section(&cluster.kubeconfig(), &keys(name, location));
        let roles = "roles = [\"kubernetes\"]";
        let writer = Node::start_with(&format!("ks-w-{name}"), &etcd, roles, &watching);
        let zones = "[kubernetes]\nzones = [\"cluster.local\"]\n";
        let follows = format!("{zones}{}{NETWORKS}", keys(name, location));
        let roles = "roles = [\"dns\", \"api\"]";
        (writer, Node::start_with(&format!("ks-d-{name}"), &etcd, roles, &follows))
    });
    let servers = nodes.each_ref().map(|(_, dns)| dns.served.address);
    let all = "NOERROR; A 10.1.7.1; A 10.1.7.2; A 10.2.7.1; A 10.2.7.2";
    let (fra, ams) = ("NOERROR; A 10.1.7.1; A 10.1.7.2", "NOERROR; A 10.2.7.1; A 10.2.7.2");
    let near = |client, server| answer_to(client, server, WEB, Rtype::A);
    for server in servers {
        expect(server, WEB, Rtype::A, all);
        expect(
            server,
            &format!("_http._tcp.{WEB}"),
            Rtype::SRV,
            &format!("NOERROR; SRV 80 {WEB}."),
        );
        assert_eq!(near([10, 1, 0, 9], server).as_deref(), Some(fra));
        assert_eq!(near([10, 2, 0, 9], server).as_deref(), Some(ams));
        assert_eq!(answer(server, "other.shop.svc.example", Rtype::A).as_deref(), Some("NXDOMAIN"));
    }
    // The endpoints of one cluster vanish: its clients get those of the other one.
    one.replace(&slice(1, &[]));
    for server in servers {
        expect(server, WEB, Rtype::A, ams);
        assert_eq!(near([10, 1, 0, 9], server).as_deref(), Some(ams));
    }
    one.replace(&slice(1, &[3]));
    for server in servers {
        let is_near = || near([10, 1, 0, 9], server);
        wait::until_eq("the nearest", is_near, Some("NOERROR; A 10.1.7.3".into()));
    }
    expect_conflict([&one, &two], &nodes);
}

/// What cannot be merged is an Event on the later Service, and a line of the status.
fn expect_conflict([one, two]: [&Cluster; 2], nodes: &[(Node, Node); 2]) {
    let servers = nodes.each_ref().map(|(_, dns)| dns.served.address);
    let external = json!({ "type": "ExternalName", "externalName": "www.example.com" });
    let named = |net: u8| {
        let mut named = objects::headless("shop", &format!("n{net}"), &[]);
        named["metadata"]["annotations"] = json!({ "dunlin.io/name": "www" });
        named
    };
    let first = one.create(&named(1));
    one.create(&objects::slice("shop", "n1-1", "n1", &[], &[objects::endpoint("10.1.8.1")]));
    for server in servers {
        expect(server, "www.svc.example", Rtype::A, "NOERROR; A 10.1.8.1");
    }
    // Ages are in seconds.
    let mut probes = 0;
    wait::until_true("a second later", || {
        probes += 1;
        let probe = two.create(&objects::namespace(&format!("probe-{probes}")));
        created(&probe) > created(&first)
    });
    let mut alias = objects::service("shop", "n2", &[], external);
    alias["metadata"]["annotations"] = json!({ "dunlin.io/name": "www" });
    alias["spec"].as_object_mut().expect("a spec").remove("ports");
    two.create(&alias);
    let told = || events(two).into_iter().find(|(name, _)| name == "n2").map(|(_, text)| text);
    let told = wait::until("an Event", told);
    assert!(
        told.contains("it is an alias, and services shop/n1 of fra1-a has other records"),
        "{told}"
    );
    assert!(events(one).is_empty());
    for (server, (_, dns)) in servers.iter().zip(nodes) {
        let text = || String::from_utf8(dns.run(&["status"], true).stdout).expect("UTF-8");
        let is_told = |text: &String| text.contains("not shared: services shop/n2 of ams1-a");
        wait::until_value("the status", text, is_told);
        assert_eq!(
            answer(*server, "www.svc.example", Rtype::A).as_deref(),
            Some("NOERROR; A 10.1.8.1")
        );
    }
}

/// The zone itself is in the store: what is written over REST is the part without a cluster.
#[test]
#[ignore = "cluster: it starts an API server"]
fn records_over_rest_and_those_of_a_cluster_are_one_set() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    cluster.create(&objects::namespace("shop"));
    cluster.create(&objects::headless("shop", "web", &HTTP));
    cluster.create(&slice(1, &[1]));
    let watching = section(&cluster.kubeconfig(), &keys("fra1-a", "eu/fra1"));
    let mut node = Node::start_with("ks-rest", &etcd, "", &watching);
    node.token = node.create_token("admin");
    let server = node.served.address;
    expect(server, WEB, Rtype::A, "NOERROR; A 10.1.7.1");
    node.done(&["zones", "create", "svc.example", "--nameserver", "ns.example.net."]);
    node.done(&["records", "set", "svc.example", "web.shop", "A", "--ttl", "5", "192.0.2.1"]);
    node.done(&["records", "set", "svc.example", "mail", "A", "--ttl", "5", "192.0.2.2"]);
    expect(server, WEB, Rtype::A, "NOERROR; A 10.1.7.1; A 192.0.2.1");
    expect(server, "mail.svc.example", Rtype::A, "NOERROR; A 192.0.2.2");
    let shown = node.done(&["records", "list", "svc.example"]);
    assert!(shown.contains("192.0.2.1") && !shown.contains("10.1.7.1"), "{shown}");
    cluster.replace(&slice(1, &[]));
    expect(server, WEB, Rtype::A, "NOERROR; A 192.0.2.1");
    node.done(&["records", "delete", "svc.example", "web.shop", "A"]);
    expect(server, WEB, Rtype::A, "NXDOMAIN");
}

/// One cluster without a fleet, and a restart without its API server.
#[test]
#[ignore = "cluster: it starts an API server"]
fn cluster_without_a_fleet_has_a_shared_zone_alone() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    cluster.create(&objects::namespace("shop"));
    let labeled = |name: &str, shared: &str| {
        let mut service = objects::service("shop", name, &HTTP, json!({}));
        service["metadata"]["labels"] = json!({ "shared": shared });
        service
    };
    cluster.create(&labeled("web", "yes"));
    cluster.create(&labeled("internal", "no"));
    // The endpoints of a Service with an address of its own.
    cluster.create(&slice(1, &[1, 2]));
    let more = "shared = \"svc.example\"\nshared_selector = \"shared=yes\"\n";
    let served = serve("kubernetes-shared", &cluster, more);
    let known = "NOERROR; A 10.1.7.1; A 10.1.7.2";
    expect(served.address, WEB, Rtype::A, known);
    expect(served.address, "internal.shop.svc.example", Rtype::A, "NXDOMAIN");
    cluster.replace(&slice(1, &[2]));
    expect(served.address, WEB, Rtype::A, "NOERROR; A 10.1.7.2");
    let patch = json!({ "metadata": { "labels": { "shared": "no" } } });
    cluster.patch("/api/v1/namespaces/shop/services/web", &patch);
    expect(served.address, WEB, Rtype::A, "NXDOMAIN");
    let patch = json!({ "metadata": { "labels": { "shared": "yes" } } });
    cluster.patch("/api/v1/namespaces/shop/services/web", &patch);
    expect(served.address, WEB, Rtype::A, "NOERROR; A 10.1.7.2");
}
