//! `dunlin scale` in a real API server.
mod bed;
mod fleet;
mod loaded;
mod many_nodes;

use bed::Bed;
use cluster::Part;
use serde_json::{Value, json};
use test_support::wait;

const LADDER: &str = r#"{"ladder": {"coresToReplicas": [[1, 1], [2, 2], [3, 3], [512, 5], [1024, 7],
    [2048, 10], [4096, 15], [8192, 20], [12288, 30], [16384, 40], [20480, 50], [24576, 60],
    [28672, 70], [32768, 80], [65535, 100]], "nodesToReplicas": [[1, 1], [2, 2]]}}"#;

/// The scenario of the original's server, with its role and its flags.
#[test]
#[ignore = "cluster: it starts an API server"]
fn run_scenario_of_cpa_has_its_ten_counts() {
    let Some(bed) = Bed::start("run", 3) else { return };
    let account = bed.cpa_account();
    let flags = ["--target=deployment/dns", "--logtostderr=true", "--v=2", "--default-params"];
    let scaler = bed.scaler("run", &account, &[&flags[..], &[LADDER]].concat());
    bed.expect(&scaler, 1, "no nodes");
    bed.set_nodes(1, "800");
    bed.expect(&scaler, 5, "800 cores");
    bed.set_nodes(3, "333m");
    bed.expect(&scaler, 2, "3 nodes");
    bed.set_nodes(20, "10k");
    bed.expect(&scaler, 100, "200000 cores");
    bed.configure("ladder", r#"{"coresToReplicas": [[1, 1], [4, 4], [65535, 200]]}"#);
    bed.expect(&scaler, 200, "another ladder");
    bed.set_nodes(1, "4");
    bed.expect(&scaler, 4, "4 cores");
    let path = "/api/v1/namespaces/run/configmaps/dunlin-scale";
    let deleted = bed.cluster.request("DELETE", path, &Value::Null).expect("an answer");
    assert_eq!(deleted.status, 200);
    scaler.says("the ConfigMap was missing; it was created with --default-params");
    bed.expect(&scaler, 3, "the defaults");
    bed.configure("ladder", r#"{"coresToReplicas": [[1, 1], [4, 7]]}"#);
    bed.expect(&scaler, 7, "the ConfigMap is back");
    bed.set_nodes(10, "8");
    bed.configure("linear", r#"{"coresPerReplica": 2, "nodesPerReplica": 1}"#);
    bed.expect(&scaler, 40, "linear");
    bed.set_nodes(4, "8");
    bed.expect(&scaler, 16, "32 cores");
    bed.set_nodes(25, "8");
    bed.expect(&scaler, 100, "200 cores");
    wait::until_true("a good poll", || scaler.page("/last-poll").0 == 200);
    let log = scaler.log();
    for lost in [
        "leader election is off",
        "PodDisruptionBudgets are not",
        "metrics of replicas",
        "Events are",
    ] {
        assert_eq!(log.matches(lost).count(), 1, "{lost} is said once:\n{log}");
    }
    for line in [
        "dunlin_scale_replicas{target=\"deployment/dns\"} 100",
        "dunlin_scale_feature{feature=\"leader_election\"} 0",
        "dunlin_scale_nodes{state=\"schedulable\"} 25",
    ] {
        wait::until_true(line, || scaler.page("/metrics").1.contains(line));
    }
}

/// A bad ConfigMap keeps the last good one and says so; one failing target does not stop others.
#[test]
#[ignore = "cluster: it starts an API server"]
fn bad_parameters_and_failing_targets_stop_nothing_else() {
    let Some(bed) = Bed::start("bad", 3) else { return };
    bed.set_nodes(4, "1");
    bed.configure("linear", r#"{"nodesPerReplica": 1}"#);
    let admin = bed.cluster.kubeconfig();
    let scaler = bed.scaler("bad", &admin, &["--target=deployment/absent,deployment/dns"]);
    bed.expect(&scaler, 4, "the second target");
    let last = || scaler.page("/last-poll");
    wait::until_value("a failed target", last, |(status, text)| {
        *status == 500 && text.contains("deployment/absent")
    });
    let large = format!("{{\"nodesPerReplica\": 2{}}}", " ".repeat(900_000));
    let lists = r#"{"coresToReplicas": [[1, 2], [1, 3]]}"#;
    for (mode, params, said) in [
        ("linear", r#"{"nodePerReplica": 2}"#, "did you mean nodesPerReplica?"),
        ("linear", r#"{"nodesPerReplica": 1e308}"#, "outside of 0.001"),
        ("linear", r#"{"nodesPerReplica": NaN}"#, "this is not JSON"),
        ("linear", large.as_str(), "bytes of parameters, 65536 at most"),
        ("ladder", "{}", "without steps there would be 0 replicas"),
        ("ladder", lists, "1 begins two steps"),
    ] {
        bed.configure(mode, params);
        scaler.says(said);
        wait::until_true(said, || scaler.page("/last-poll").1.contains(said));
        assert_eq!(bed.replicas("dns"), 4, "{said}");
    }
    bed.set_nodes(6, "1");
    bed.expect(&scaler, 6, "the last good parameters hold");
    let metrics = || scaler.page("/metrics").1;
    wait::until_true("config_valid 0", || metrics().contains("dunlin_scale_config_valid 0"));
    bed.configure("linear", r#"{"nodesPerReplica": 3}"#);
    bed.expect(&scaler, 2, "good parameters again");
}

/// What else writes the target: a person, another autoscaler, an annotation that says stop.
#[test]
#[ignore = "cluster: it starts an API server"]
fn other_writers_are_left_alone_once_and_reported() {
    let Some(bed) = Bed::start("others", 3) else { return };
    bed.set_nodes(5, "1");
    bed.configure("linear", r#"{"nodesPerReplica": 1}"#);
    let admin = bed.cluster.kubeconfig();
    let scaler = bed.scaler("others", &admin, &["--target=deployment/dns"]);
    bed.expect(&scaler, 5, "5 nodes");
    // Events are written after what they report.
    wait::until_true("an Event", || !bed.events("Scaled").is_empty());
    assert!(bed.events("Scaled")[0].starts_with("Scaled deployment/dns from 3 to 5: 5 nodes ask"));

    let off = |value: Value| json!({"metadata": {"annotations": {"dunlin.io/scale": value}}});
    bed.cluster.patch(&bed.path("dns"), &off(json!("off")));
    scaler.wait_for_polls();
    bed.cluster.patch(&bed.path("dns"), &json!({"spec": {"replicas": 9}}));
    bed.set_nodes(7, "1");
    wait::until_eq("nodes", || scaler.report()["nodes"].take(), json!(7));
    scaler.wait_for_polls();
    assert_eq!(bed.replicas("dns"), 9, "the annotation says off");
    bed.cluster.patch(&bed.path("dns"), &off(Value::Null));
    bed.expect(&scaler, 7, "on again");

    bed.cluster.patch(&bed.path("dns"), &json!({"spec": {"replicas": 2}}));
    bed.expect(&scaler, 7, "scaled again after a period");
    scaler.says("was changed from 7 to 2 replicas by another; it is scaled again");
    wait::until_true("an Event", || !bed.events("ChangedByHand").is_empty());
    assert_eq!(bed.events("ChangedByHand").len(), 1);

    bed.cluster.create(&json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "rival", "namespace": "others"},
        "spec": {"maxReplicas": 9, "scaleTargetRef":
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "dns"}},
    }));
    scaler.says("has a second autoscaler: HorizontalPodAutoscaler rival; switch one off");
    let scale = json!({"metadata": {"name": "dns", "namespace": "others"}, "spec": {"replicas": 9},
        "apiVersion": "autoscaling/v1", "kind": "Scale"});
    let path = format!("{}/scale?fieldManager=cluster-proportional-autoscaler", bed.path("dns"));
    bed.cluster.request("PUT", &path, &scale).and_then(cluster::Answer::done).expect("a scale");
    scaler.says("second autoscaler: cluster-proportional-autoscaler has written its scale");
    bed.cluster.create(&bed::original("others", "dns"));
    scaler.says("second autoscaler: Deployment original of the cluster-proportional-autoscaler");
    bed.expect(&scaler, 7, "scaled again after a period");
    let output = bed.status();
    let status: Value = serde_json::from_slice(&output.stdout).expect("a status");
    assert_eq!((&status["mode"], &status["targets"][0]["replicas"]), (&json!("linear"), &json!(7)));
    assert!(status["targets"][0]["reason"].as_str().expect("text").contains("7 nodes ask for 7"));
}

/// NotReady nodes and a PodDisruptionBudget, as they are in a cluster.
#[test]
#[ignore = "cluster: it starts an API server"]
fn unready_nodes_and_budgets_keep_replicas() {
    let Some(bed) = Bed::start("floors", 6) else { return };
    bed.set_nodes(6, "1");
    bed.configure("linear", r#"{"nodesPerReplica": 1}"#);
    bed.cluster.create(&json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "dns", "namespace": "floors"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "dns"}}},
    }));
    let admin = bed.cluster.kubeconfig();
    let scaler = bed.scaler("floors", &admin, &["--target=deployment/dns"]);
    for node in 1..6 {
        bed.set_ready(node, "Unknown");
    }
    let status = || serde_json::from_str::<Value>(&scaler.page("/status").1).expect("JSON");
    let reason = |status: Value| status["targets"][0]["reason"].as_str().map(str::to_owned);
    wait::until_value(
        "5 nodes are not ready",
        || reason(status()),
        |reason| reason.as_ref().is_some_and(|reason| reason.contains("5 nodes are not ready")),
    );
    assert_eq!(bed.replicas("dns"), 6, "NotReady nodes do not shrink DNS");
    bed.set_nodes(1, "1");
    bed.expect(&scaler, 3, "minAvailable + 1");
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn dry_run_writes_nothing_and_dns_is_found() {
    let Some(bed) = Bed::start("dry", 3) else { return };
    bed.set_nodes(5, "1");
    bed.configure("linear", r#"{"nodesPerReplica": 1}"#);
    bed.deployment("coredns", 3);
    let admin = bed.cluster.kubeconfig();
    let scaler = bed.scaler("dry", &admin, &["--dry-run"]);
    scaler.says("no --target is named; deployment/coredns was found");
    scaler.says("would scale deployment/coredns from 3 to 5");
    assert_eq!((bed.replicas("coredns"), bed.events("Scaled").len()), (3, 0));
    assert_eq!(bed.status().status.code(), Some(1), "there is no status object");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/dry/leases/dunlin-scale";
    assert!(bed.cluster.get(lease).is_err(), "it takes no Lease");
}

/// The account of the manifest may do all that the scaler does, and no feature is off.
#[test]
#[ignore = "cluster: it starts an API server"]
fn rights_of_the_manifest_are_enough() {
    let Some(bed) = Bed::start("kube-system", 3) else { return };
    bed.set_nodes(40, "1");
    bed.cluster.kubectl(&["apply", "-f", "-"], bed::MANIFEST).expect("the manifest");
    let account = bed.cluster.kubeconfig_of("kube-system", "dunlin-scale", 3_600);
    let scaler = bed.scaler("rights", &account.expect("a token"), &["--target=deployment/dns"]);
    bed.configure("linear", r#"{"nodesPerReplica": 10}"#);
    bed.expect(&scaler, 4, "40 nodes");
    let status = || serde_json::from_slice::<Value>(&bed.status().stdout).unwrap_or_default();
    wait::until_eq("replicas", || status()["targets"][0]["replicas"].take(), json!(4));
    assert_eq!(status()["features_off"], json!([]), "{}", scaler.log());
    wait::until_true("an Event", || !bed.events("Scaled").is_empty());
    assert_eq!(bed.events("Scaled").len(), 1);
    let denied = bed.cluster.kubectl(
        &["auth", "can-i", "--as=system:serviceaccount:kube-system:dunlin-scale", "delete", "pods"],
        "",
    );
    assert!(denied.is_err(), "it may not delete Pods");
}

/// The leader is killed, the API server is silent and comes back: one decides, and no count changes
/// by what is not known.
#[test]
#[ignore = "cluster: it starts an API server, and a lease has to end"]
fn killed_leader_and_silent_api_server_change_no_count() {
    let Some(mut bed) = Bed::start("faults", 3) else { return };
    bed.set_nodes(4, "1");
    bed.configure("linear", r#"{"nodesPerReplica": 1}"#);
    let admin = bed.cluster.kubeconfig();
    let mut first = bed.scaler("first", &admin, &["--target=deployment/dns"]);
    bed.expect(&first, 4, "the first decides");
    let second = bed.scaler("second", &admin, &["--target=deployment/dns"]);
    let is_leader = |scaler: &bed::Scaler| scaler.page("/status").1.contains("\"is_leader\": true");
    // The status follows at the end of the poll that wrote the count.
    wait::until_true("the status says that the first leads", || is_leader(&first));
    second.wait_for_polls();
    let pages = [first.page("/status").1, second.page("/status").1];
    let logs = || format!("{pages:?}\n{}\n{}", first.log(), second.log());
    assert!(is_leader(&first) && !is_leader(&second), "{}", logs());
    first.kill();
    bed.set_nodes(6, "1");
    bed.expect(&second, 6, "the second decides");
    let leads =
        |so: bool| wait::until_true("the status says who leads", || is_leader(&second) == so);
    leads(true);

    // Who cannot renew the Lease stops to decide.
    bed.cluster.pause(Part::ApiServer);
    leads(false);
    bed.cluster.resume(Part::ApiServer);
    leads(true);
    second.wait_for_polls();
    assert_eq!(bed.replicas("dns"), 6);
    let failed = || second.report()["polls_failed"].as_u64();
    let before = failed();
    bed.cluster.kill(Part::ApiServer);
    wait::until_value("a poll fails", failed, |now| *now > before);
    bed.cluster.start_part(Part::ApiServer).expect("the API server");
    leads(true);
    second.wait_for_polls();
    assert_eq!(bed.replicas("dns"), 6);
    bed.set_nodes(8, "1");
    bed.expect(&second, 8, "it goes on");
    let changes = second.log().matches("scaled deployment/dns").count();
    assert!(changes >= 2, "{}", second.log());
}
