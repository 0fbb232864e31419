//! Pods and Nodes as clients.
use super::*;
use serde_json::{Value, json};
use test_support::folder::Folder;

fn keep<K: Kind>(object: Value) -> Option<K::Entry> {
    K::keep(serde_json::from_value(object).expect("an object"), EndpointNaming::default())
}

fn pod(address: &str, started: &str) -> PodEntry {
    let kept = keep::<ClientPods>(json!({
        "metadata": { "labels": { "tier": "front", "app": "web" } },
        "status": { "phase": "Running", "startTime": started, "podIPs": [{ "ip": address }] },
    }));
    kept.expect("a Pod with an address")
}

#[test]
fn pods_that_have_ended_or_the_network_of_their_node_are_no_clients() {
    let of = |host: Value, phase: &str| {
        let status = json!({ "phase": phase, "podIPs": [{ "ip": "10.1.0.1" }] });
        keep::<ClientPods>(json!({ "spec": { "hostNetwork": host }, "status": status })).is_some()
    };
    assert!(of(json!(null), "Running") && of(json!(false), "Pending"));
    assert!(!of(json!(true), "Running"), "its address is that of the node");
    assert!(!of(json!(null), "Succeeded") && !of(json!(null), "Failed"));
    assert_eq!(keep::<ClientPods>(json!({ "status": { "phase": "Pending" } })), None);
}

#[test]
fn address_of_two_pods_is_that_of_the_one_that_started_last() {
    let named = |namespace: &str, name: &str| ObjectName::new(namespace, name);
    let old = (named("pci-eu", "a"), pod("10.1.0.1", "2026-11-28T01:00:00Z"));
    let new = (named("shop", "b"), pod("10.1.0.1", "2026-11-28T02:00:00Z"));
    let of = |pods: &[&(ObjectName, PodEntry)]| {
        let pods = pods.iter().map(|pod| (*pod).clone()).collect();
        let clients = clients(&pods, &HashMap::new(), "");
        let namespaces = clients.pods.iter().map(|pod| pod.namespace.to_string());
        namespaces.collect::<Vec<_>>()
    };
    assert_eq!(of(&[&old]), ["pci-eu"]);
    assert_eq!(of(&[&old, &new]), ["shop"], "the end of the first has not come yet");
    assert_eq!(of(&[&new]), ["shop"]);
}

#[test]
fn node_is_at_its_zone_below_the_cluster() {
    let node = |labels: Value| {
        keep::<ClientNodes>(json!({
            "metadata": { "labels": labels },
            "spec": { "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:1::/64"] },
            "status": { "addresses": [
                { "type": "Hostname", "address": "n1" },
                { "type": "InternalIP", "address": "192.0.2.1" },
            ] },
        }))
        .expect("a node with addresses")
    };
    let zoned = node(json!({ "topology.kubernetes.io/zone": "zone-a" }));
    let prefixes: Vec<String> =
        zoned.prefixes.iter().map(|(address, len)| format!("{address}/{len}")).collect();
    assert_eq!(prefixes, ["10.244.1.0/24", "192.0.2.1/32", "fd00:1::/64"]);
    let of = |kept: &NodeEntry, name: &str, cluster| {
        let nodes = HashMap::from([(ObjectName::new("", name), kept.clone())]);
        let nodes = clients(&HashMap::new(), &nodes, cluster).nodes;
        nodes.first().map(|node| node.location.to_string())
    };
    assert_eq!(of(&zoned, "n1", "eu/fra1").as_deref(), Some("eu/fra1/zone-a/n1"));
    assert_eq!(of(&zoned, "n1", "").as_deref(), Some("zone-a/n1"));
    assert_eq!(of(&zoned, &"n".repeat(64), "").as_deref(), Some("zone-a"), "no level is as long");
    let bare = node(json!({}));
    assert_eq!(of(&bare, "n1", "eu").as_deref(), Some("eu"));
    assert_eq!(of(&bare, "n1", ""), None);
}

#[test]
fn saved_clients_are_those_of_before_and_damaged_ones_are_refused() {
    let folder = Folder::new("clients");
    let settings = ClientSettings { pods: true, nodes: true, ..ClientSettings::default() };
    let pods = HashMap::from([(ObjectName::new("shop", "a"), pod("10.1.0.1", "x"))]);
    let node = NodeEntry { prefixes: [([192, 0, 2, 1].into(), 32)].into(), zone: "a".into() };
    let nodes = HashMap::from([(ObjectName::new("", "n1"), node)]);
    assert_eq!(saved::load(&folder, &settings), Ok(None));
    saved::save(&folder, &settings, &pods, &nodes).expect("saved");
    assert_eq!(saved::load(&folder, &settings), Ok(Some((pods, nodes))));
    let file = folder.join("kubernetes.clients");
    let whole = std::fs::read(&file).expect("it is there");
    std::fs::write(&file, &whole[..whole.len() - 1]).expect("written");
    let why = saved::load(&folder, &settings).expect_err("it is cut");
    assert!(why.contains("kubernetes.clients"), "{why}");
}
