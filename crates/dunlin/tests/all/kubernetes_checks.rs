//! Checks of services beside a real API server.
use crate::clustered::{expect, serve};
use crate::served::binary;
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use std::path::Path;
use test_support::wait;
use wire::Rtype;

const NAME: &str = "front.shop.svc.cluster.local";

/// An endpoint with these conditions: ready, serving, terminating.
fn endpoint(last: u8, [ready, serving, terminating]: [bool; 3]) -> Value {
    let conditions = json!({ "ready": ready, "serving": serving, "terminating": terminating });
    json!({ "addresses": [format!("10.1.8.{last}")], "conditions": conditions })
}

fn run(socket: &Path, args: &[&str]) -> Vec<u8> {
    let output = binary().args(args).arg("--socket").arg(socket).output().expect("it runs");
    assert!(output.status.success(), "{args:?}: {output:?}");
    output.stdout
}

fn unused(socket: &Path) -> Value {
    let output = binary().args(["status", "-o", "json", "--socket"]).arg(socket).output();
    let status: Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    status["kubernetes"]["unused_checks"].clone()
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn annotation_adds_a_check_to_ready_endpoints() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    cluster.create(&objects::namespace("shop"));
    let mut service = objects::headless("shop", "front", &[]);
    service["metadata"]["annotations"] = json!({ "dunlin.io/check": "http" });
    cluster.create(&service);
    let (ready, unready, ending) =
        ([true, true, false], [false, false, false], [false, true, true]);
    let at_first =
        [endpoint(1, ready), endpoint(2, ready), endpoint(3, unready), endpoint(4, ending)];
    cluster.create(&objects::slice("shop", "front-a", "front", &[], &at_first));
    let socket = std::env::temp_dir().join(format!("dunlin-checks-{}", std::process::id()));
    // No probe is made: operators say what is down.
    let more = format!(
        "[admin]\nsocket = \"{}\"\n[health]\nallow = [\"192.0.2.0/24\"]\n[check.http]\n\
         kind = \"tcp\"\nport = 80",
        socket.display()
    );
    let served = serve("kubernetes-checks", &cluster, &more);
    let answered = |last: &[u8]| {
        let records: Vec<String> = last.iter().map(|last| format!("A 10.1.8.{last}")).collect();
        expect(served.address, NAME, Rtype::A, &format!("NOERROR; {}", records.join("; ")));
    };
    answered(&[1, 2]);
    run(&socket, &["force-down", "10.1.8.1"]);
    answered(&[2]);
    run(&socket, &["force-down", "10.1.8.2"]);
    answered(&[1, 2]);
    // What is not ready does not come back, neither by fail-open nor by a check that passes.
    for last in [3, 4] {
        run(&socket, &["force-up", "--any", &format!("10.1.8.{last}")]);
    }
    // What is set later holds later.
    run(&socket, &["restore", "10.1.8.2"]);
    answered(&[2]);

    let slice = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/front-a";
    let none_ready = [endpoint(2, unready), endpoint(3, unready), endpoint(4, ending)];
    cluster.patch(slice, &json!({ "endpoints": none_ready }));
    answered(&[4]);
    cluster.patch(slice, &json!({ "endpoints": at_first }));
    answered(&[2]);

    let annotate = |check: Value| {
        let patch = json!({ "metadata": { "annotations": { "dunlin.io/check": check } } });
        cluster.patch("/api/v1/namespaces/shop/services/front", &patch);
    };
    annotate(json!("absent"));
    answered(&[1, 2]);
    let why = "shop/front: dunlin.io/check \"absent\": there is no such check";
    wait::until_eq("what is not used", || unused(&socket), json!([why]));
    run(&socket, &["checks", "set", "absent", "kind=tcp", "port=81"]);
    run(&socket, &["restore", "10.1.8.1"]);
    run(&socket, &["force-down", "10.1.8.2", "--check", "absent"]);
    answered(&[1]);
    annotate(Value::Null);
    answered(&[1, 2]);
    // It has endpoints, but no set names the check any more.
    run(&socket, &["checks", "delete", "absent"]);
}
