//! A zone that clusters of two sites share: each site has an etcd of its own.
use crate::clustered::{answer, answer_to, expect};
use crate::fleet_node::Node;
use rustix::process::Signal;
use serde_json::json;
use std::net::SocketAddr;
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::wait::{until_eq, until_true};
use wire::Rtype;

const WEB: &str = "web.shop.svc.example";

/// Where clients are: 10.1.0.0/16 and 10.2.0.0/16 beside the sites.
const NETWORKS: &str = "[ecs]\ntrust = [\"127.0.0.1\"]\n\
    [[network]]\nname = \"fra\"\nprefixes = [\"10.1.0.0/16\"]\nlocation = \"eu/fra1\"\n\
    [[network]]\nname = \"ams\"\nprefixes = [\"10.2.0.0/16\"]\nlocation = \"eu/ams1\"\n";

/// The key of a part of `shop/NAME` of a cluster.
fn key(cluster: &str, name: &str) -> String {
    format!("/dunlin/clusters/{cluster}/objects/parts/services/shop/{name}")
}

/// Writes the part of `shop/NAME`, as the leader of a cluster does.
fn put(etcd: &Operator, cluster: &str, location: &str, name: &str, addresses: &[&str]) {
    let set = json!({ "name": format!("{name}.shop.svc.example."), "type": "A", "ttl": 5,
                      "data": addresses });
    let part = json!({ "format": 1, "created": 7, "location": location, "policy": "nearest",
                       "sets": [set] });
    etcd.put(&key(cluster, name), part.to_string());
}

/// A server of the site `ams1`, which shares a zone with the site `fra1`.
fn server(test: &str, etcd: &Etcd, home: &Etcd) -> Node {
    let endpoints = home.endpoints();
    let sections = format!(
        "[kubernetes]\nzones = [\"cluster.local\"]\ncluster = \"ams1-a\"\nlocation = \"eu/ams1\"\n\
         shared = \"svc.example\"\n{NETWORKS}[[site]]\nname = \"fra1\"\nlocation = \"eu/fra1\"\n\
         zones = [\"svc.example\"]\nendpoints = {endpoints:?}\n"
    );
    Node::start_with(test, etcd, "roles = [\"dns\", \"api\"]", &sections)
}

fn says(node: &Node, words: &str) -> bool {
    let status = node.run(&["status"], true);
    String::from_utf8_lossy(&status.stdout).contains(words)
}

/// What clients beside `fra1` and `ams1` get, and one without a location.
fn is_answered(server: SocketAddr, fra: &str, ams: &str, all: &str) {
    let near = |client| move || answer_to(client, server, WEB, Rtype::A).unwrap_or_default();
    until_eq("beside fra1", near([10, 1, 0, 9]), fra);
    until_eq("beside ams1", near([10, 2, 0, 9]), ams);
    expect(server, WEB, Rtype::A, all);
}

#[test]
fn service_of_clusters_at_two_sites_is_one_set_also_while_one_site_is_away() {
    let Some(mut home_etcd) = Etcd::start_or_skip(1) else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (home, own) = (Operator::of(&home_etcd), Operator::of(&etcd));
    put(&home, "fra1-a", "eu/fra1", "web", &["10.1.7.1"]);
    put(&own, "ams1-a", "eu/ams1", "web", &["10.2.7.1"]);
    let mut node = server("shared-ams1", &etcd, &home_etcd);
    let (fra, ams) = ("NOERROR; A 10.1.7.1", "NOERROR; A 10.2.7.1");
    let all = "NOERROR; A 10.1.7.1; A 10.2.7.1";
    is_answered(node.served.address, fra, ams, all);

    // What changes there is answered here, and what is gone here is answered from there.
    put(&home, "fra1-a", "eu/fra1", "db", &["10.1.8.1"]);
    expect(node.served.address, "db.shop.svc.example", Rtype::A, "NOERROR; A 10.1.8.1");
    own.delete(&key("ams1-a", "web"));
    is_answered(node.served.address, fra, fra, fra);
    put(&own, "ams1-a", "eu/ams1", "web", &["10.2.7.1"]);
    is_answered(node.served.address, fra, ams, all);

    // A cluster there that has the name of one here is left out, and changes nothing.
    put(&home, "ams1-a", "eu/fra1", "web", &["10.1.9.9"]);
    until_true("it is named", || says(&node, "the cluster ams1-a of the site fra1 is left out"));
    is_answered(node.served.address, fra, ams, all);
    home.delete(&key("ams1-a", "web"));

    // Without the other site, and after a start without it, all is as it was.
    home_etcd.kill(0);
    let older = home_etcd.save(0);
    home_etcd.start(0);
    put(&home, "fra1-a", "eu/fra1", "new", &["10.1.8.2"]);
    expect(node.served.address, "new.shop.svc.example", Rtype::A, "NOERROR; A 10.1.8.2");
    home_etcd.kill(0);
    until_true("the status says so", || says(&node, "those of the site fra1"));
    is_answered(node.served.address, fra, ams, all);
    put(&own, "ams1-a", "eu/ams1", "own", &["10.2.8.1"]);
    expect(node.served.address, "own.shop.svc.example", Rtype::A, "NOERROR; A 10.2.8.1");

    // An older copy of its etcd is not believed: no name is lost.
    home_etcd.load(0, &older);
    home_etcd.start(0);
    until_true("it is held", || says(&node, "etcd was set back"));
    is_answered(node.served.address, fra, ams, all);
    let new = answer(node.served.address, "new.shop.svc.example", Rtype::A);
    assert_eq!(new.as_deref(), Some("NOERROR; A 10.1.8.2"));
    home_etcd.kill(0);
    node.served.signal(Signal::TERM);
    node.served.status();
    let node = node.restarted();
    for name in ["new", "db"] {
        until_true("it was saved", || {
            let found = answer(node.served.address, &format!("{name}.shop.svc.example"), Rtype::A);
            found.is_some_and(|text| text.starts_with("NOERROR; A 10.1.8."))
        });
    }
    is_answered(node.served.address, fra, ams, all);
}

#[test]
fn retired_cluster_leaves_the_shared_zone_at_all_sites_and_the_others_stay() {
    let Some(home_etcd) = Etcd::start_or_skip(1) else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (home, own) = (Operator::of(&home_etcd), Operator::of(&etcd));
    put(&home, "fra1-a", "eu/fra1", "web", &["10.1.7.1"]);
    put(&home, "fra1-b", "eu/fra1", "web", &["10.1.7.2"]);
    put(&own, "ams1-a", "eu/ams1", "web", &["10.2.7.1"]);
    let node = server("retire-ams1", &etcd, &home_etcd);
    let near = "[kubernetes]\nzones = [\"cluster.local\"]\ncluster = \"fra1-b\"\n\
                shared = \"svc.example\"\n";
    let api = Node::start_with("retire-fra1", &home_etcd, "roles = [\"dns\", \"api\"]", near);
    let both = "NOERROR; A 10.1.7.1; A 10.1.7.2";
    expect(api.served.address, WEB, Rtype::A, both);
    expect(node.served.address, WEB, Rtype::A, &format!("{both}; A 10.2.7.1"));
    let told = api.run(&["fleet", "retire", "fra1-a", "--yes"], true);
    assert!(told.status.success(), "{told:?}");
    expect(api.served.address, WEB, Rtype::A, "NOERROR; A 10.1.7.2");
    expect(node.served.address, WEB, Rtype::A, "NOERROR; A 10.1.7.2; A 10.2.7.1");
}
