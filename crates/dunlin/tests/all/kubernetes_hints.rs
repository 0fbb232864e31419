//! Endpoints with hints of slices: each client gets those that are for its node, else for its zone.
use crate::clustered::{answer_to, serve};
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use test_support::wait;
use wire::Rtype;

const NAME: &str = "web.shop.svc.cluster.local";

/// The address of the endpoint on a node of a zone.
fn address(zone: u8, node: u8) -> String {
    format!("10.1.{zone}.{node}")
}

/// An endpoint that is for the clients of its zone, and with `node` only for those of its node.
fn endpoint(zone: u8, node: u8, has_node: bool) -> Value {
    let mut endpoint = objects::endpoint(&address(zone, node));
    endpoint["zone"] = json!(format!("zone-{zone}"));
    endpoint["nodeName"] = json!(format!("node-{zone}-{node}"));
    endpoint["hints"] = json!({ "forZones": [{ "name": format!("zone-{zone}") }] });
    if has_node {
        endpoint["hints"]["forNodes"] = json!([{ "name": format!("node-{zone}-{node}") }]);
    }
    endpoint
}

fn expected(addresses: impl Iterator<Item = String>) -> Option<String> {
    let records: Vec<String> = addresses.map(|address| format!("; A {address}")).collect();
    Some(format!("NOERROR{}", records.concat()))
}

/// Three zones with three nodes each. A client with the address 10.2.ZONE.NODE is on a node, one
/// with 10.3.ZONE.1 is in a zone.
#[test]
#[ignore = "cluster: it starts an API server"]
fn clients_get_endpoints_that_hints_name_for_their_node_or_zone() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    cluster.create(&objects::namespace("shop"));
    cluster.create(&objects::headless("shop", "web", &[]));
    let all = || (1..=3).flat_map(|zone| (1..=3).map(move |node| (zone, node)));
    let slice = |has_node: bool| {
        let endpoints: Vec<Value> = all().map(|(zone, n)| endpoint(zone, n, has_node)).collect();
        objects::slice("shop", "web-1", "web", &[], &endpoints)
    };
    cluster.create(&slice(false));
    let network = |name: String, prefix: String, location: String| {
        let location = format!("location = \"eu/fra1/{location}\"");
        format!("[[network]]\nname = \"{name}\"\nprefixes = [\"{prefix}\"]\n{location}\n")
    };
    let zones =
        (1..=3).map(|z| network(format!("z{z}"), format!("10.3.{z}.0/24"), format!("zone-{z}")));
    let nodes = all().map(|(z, n)| {
        network(format!("n{z}{n}"), format!("10.2.{z}.{n}/32"), format!("zone-{z}/node-{z}-{n}"))
    });
    let networks: String = zones.chain(nodes).collect();
    let ecs = "[ecs]\ntrust = [\"127.0.0.1\"]\n";
    let served = serve("hints", &cluster, &format!("location = \"eu/fra1\"\n{ecs}{networks}"));
    let of = |client| answer_to(client, served.address, NAME, Rtype::A);
    let every = || expected(all().map(|(zone, node)| address(zone, node)));
    let of_zone = |zone| expected((1..=3).map(|node| address(zone, node)));
    wait::until_eq("the endpoints of zone 2", || of([10, 3, 2, 1]), of_zone(2));
    for (zone, node) in all() {
        assert_eq!(of([10, 2, zone, node]), of_zone(zone), "{zone} {node}");
        assert_eq!(of([10, 3, zone, 1]), of_zone(zone), "{zone}");
    }
    assert_eq!(of([192, 0, 2, 1]), every(), "its location is not known");

    cluster.replace(&slice(true));
    let of_node = |zone, node| expected([address(zone, node)].into_iter());
    wait::until_eq("the endpoint of a node", || of([10, 2, 3, 1]), of_node(3, 1));
    for (zone, node) in all() {
        assert_eq!(of([10, 2, zone, node]), of_node(zone, node), "{zone} {node}");
    }
    assert_eq!(of([10, 3, 1, 1]), of_zone(1), "its node is not known");

    // One endpoint without hints: they count for none, as in kube-proxy.
    let mut mixed = slice(true);
    mixed["endpoints"][4].as_object_mut().expect("an endpoint").remove("hints");
    cluster.replace(&mixed);
    wait::until_eq("all endpoints", || of([10, 2, 3, 1]), every());
}
