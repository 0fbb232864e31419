//! The cluster itself: what runs in it, and what is left of it.
use cluster::{Cluster, Part, objects};
use serde_json::{Value, json};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";

/// The addresses in all slices of the namespace.
fn addresses(cluster: &Cluster) -> Vec<Value> {
    let slices = cluster.get(SLICES).unwrap_or_default();
    let slices = slices["items"].as_array().cloned().unwrap_or_default();
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned());
    endpoints.flatten().map(|endpoint| endpoint["addresses"][0].clone()).collect()
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn api_server_returns_with_its_objects() {
    let Some(mut cluster) = Cluster::start_or_skip() else { return };
    cluster.create(&objects::namespace("shop"));
    let selector = json!({ "selector": { "app": "web" } });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], selector));
    cluster.create(&objects::pod("shop", "web-0", json!({ "app": "web" })));
    let status = "/api/v1/namespaces/shop/pods/web-0/status";
    cluster.patch(status, &objects::ready_status(&["10.1.0.1"]));
    let has_address = |cluster: &Cluster| addresses(cluster) == [json!("10.1.0.1")];
    cluster.wait_for("a slice with the address of the pod", has_address).unwrap();

    cluster.kill(Part::ApiServer);
    assert!(cluster.get("/readyz").is_err(), "it is gone");
    cluster.start_part(Part::ApiServer).unwrap();
    assert!(has_address(&cluster), "it is in etcd");
    cluster.compact();
    let old = cluster.request("GET", "/api/v1/pods?watch=true&resourceVersion=1", &Value::Null);
    let old = old.expect("an answer");
    let code = if old.status == 200 { &old.body["object"]["code"] } else { &old.body["code"] };
    assert_eq!(*code, 410, "{old:?}");

    cluster.kill(Part::ApiServer);
    cluster.kill(Part::Etcd);
    cluster.empty_etcd();
    cluster.start_part(Part::Etcd).unwrap();
    cluster.start_part(Part::ApiServer).unwrap();
    assert!(cluster.get("/api/v1/namespaces/shop").is_err(), "etcd was emptied");
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn nothing_is_left_of_a_dropped_cluster() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let (folder, api) = (cluster.folder().to_owned(), cluster.api());
    cluster.pause(Part::ApiServer);
    drop(cluster);
    assert!(!folder.exists(), "{}", folder.display());
    assert!(std::net::TcpListener::bind(api).is_ok(), "the port is free again");
}
