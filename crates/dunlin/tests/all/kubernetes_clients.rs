//! Pods by namespace and label, and Nodes, as networks of clients.
use crate::clustered::{answer_to, serve};
use cluster::{Cluster, objects};
use serde_json::json;
use std::time::Instant;
use test_support::wait;
use wire::Rtype;

const NAME: &str = "web.shop.svc.cluster.local";
const WEB: &str = "NOERROR; A 10.96.7.7";

fn status(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}/status")
}

/// A Pod with this address, which started in this hour.
fn run(cluster: &Cluster, namespace: &str, name: &str, address: &str, hour: u8) {
    cluster.create(&objects::pod(namespace, name, json!({ "tier": name })));
    let mut running = objects::ready_status(&[address]);
    running["status"]["startTime"] = json!(format!("2026-11-28T{hour:02}:00:00Z"));
    cluster.patch(&status(namespace, name), &running);
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn address_of_a_pod_has_the_verdict_of_its_namespace_whoever_had_it_before() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    for namespace in ["shop", "pci-eu"] {
        cluster.create(&objects::namespace(namespace));
    }
    let own = json!({ "clusterIP": "10.96.7.7" });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], own));
    let denied = "deny = [\"*\"]\ndeny_answer = \"refused\"\n";
    let payment = format!("[[network]]\nname = \"payment\"\nnamespaces = [\"pci-*\"]\n{denied}");
    let front = format!("[[network]]\nname = \"front\"\npod_labels = [\"tier=front\"]\n{denied}");
    let ecs = "[ecs]\ntrust = [\"127.0.0.1\"]\n";
    let served = serve("kube-clients", &cluster, &format!("{ecs}{payment}{front}"));
    let of = |client| answer_to(client, served.address, NAME, Rtype::A);
    let expect = |client, expected: &str| {
        wait::until_eq(&format!("{client:?}"), || of(client), Some(expected.to_owned()));
    };
    expect([10, 9, 0, 1], WEB);
    run(&cluster, "pci-eu", "one", "10.9.0.1", 1);
    expect([10, 9, 0, 1], "REFUSED");
    assert_eq!(of([10, 9, 0, 2]).as_deref(), Some(WEB));

    // Another Pod has the address, and the end of the first one has not come yet.
    run(&cluster, "shop", "two", "10.9.0.1", 2);
    let patched = Instant::now();
    expect([10, 9, 0, 1], WEB);
    println!("a reused address had its new verdict after {:.1?}", patched.elapsed());
    run(&cluster, "shop", "front", "10.9.0.2", 2);
    expect([10, 9, 0, 2], "REFUSED");
    // The newer one ends: the address is that of the first one again.
    cluster.patch(&status("shop", "two"), &json!({ "status": { "phase": "Succeeded" } }));
    expect([10, 9, 0, 1], "REFUSED");
    cluster.patch(&status("pci-eu", "one"), &json!({ "status": { "phase": "Failed" } }));
    expect([10, 9, 0, 1], WEB);
}
