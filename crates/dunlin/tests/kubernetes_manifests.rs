//! The manifests for a cluster: kustomize and the Helm chart, before a real API server; and the
//! cache of a node.
mod clustered;
mod served;

use cluster::{Cluster, objects};
use clustered::{POLL, answer, serve};
use serde_json::{Value, json};
use served::{PATIENCE, Served, binary};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use test_support::{skip, tools};
use wire::Rtype;

const NODE_LOCAL: &str = include_str!("../../../packaging/kubernetes/node-local/node-local.yaml");

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes")
}

/// Values of the chart, and how many objects they lead to.
const VALUES: [(&[&str], usize); 5] = [
    (&[], 7),
    (&["cpus.enabled=true", "cpus.policy=none"], 12),
    (&["service.create=false", "replicas=3", "image=registry.example/dunlin:1"], 6),
    (&["nodeLocal.enabled=true", "scale.enabled=true", "scale.linear.max=9"], 18),
    (
        &[
            "pods=verified",
            "zones={cluster.local,other.local}",
            "multiclusterZones={clusterset.local}",
            "upstreams={192.0.2.1,192.0.2.2}",
            "nodeLocal.enabled=true",
            "nodeLocal.address=169.254.25.10",
        ],
        10,
    ),
];

/// The objects in YAML.
fn objects(text: &str) -> Vec<Value> {
    let parts = text.split("\n---\n").map(|part| part.trim_start_matches("---"));
    let parts = parts.filter(|part| part.lines().any(|line| line.starts_with("kind:")));
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}

/// Each config in the objects is one that Dunlin takes.
fn check_configs(objects: &[Value], folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    for config in objects.iter().filter_map(|object| object["data"]["dunlin.toml"].as_str()) {
        let file = folder.join("dunlin.toml");
        std::fs::write(&file, config).expect("a file");
        let output = binary().arg("check").arg(&file).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}{config}");
    }
}

#[test]
#[ignore = "slow: it starts an API server, which scripts/require cluster builds"]
fn manifests_and_chart_are_valid_for_an_api_server() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-manifests");
    for (overlay, count) in [("base", 7), ("overlays/node-local", 10), (".", 18)] {
        let path = packaging().join(overlay).display().to_string();
        let applied = cluster.kubectl(&["apply", "--dry-run=server", "-k", &path], "");
        let applied = applied.unwrap_or_else(|why| panic!("{overlay}: {why}"));
        assert_eq!(applied.lines().count(), count, "{overlay}: {applied}");
        let built = cluster.kubectl(&["kustomize", &path], "").expect("it is built");
        check_configs(&objects(&built), &folder);
    }
    let file = packaging().join("dunlin-cpus.yaml").display().to_string();
    let applied = cluster.kubectl(&["apply", "--dry-run=server", "-f", &file], "");
    assert_eq!(applied.expect("it is applied").lines().count(), 5);
    let pod = packaging().join("../../examples/cpus/pod.yaml").display().to_string();
    cluster.kubectl(&["apply", "--dry-run=server", "-f", &pod], "").expect("it is applied");
    let helm = match tools::go("helm", "HELM") {
        Ok(helm) => helm,
        Err(missing) => return skip::skip(&missing),
    };
    for (values, count) in VALUES {
        let mut command = Command::new(&helm);
        command.args(["template", "dunlin"]).arg(packaging()).env("HOME", &folder);
        for value in values {
            command.args(["--set", value]);
        }
        let output = command.output().expect("helm runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{values:?}: {told}");
        let text = String::from_utf8(output.stdout).expect("text");
        let applied = cluster.kubectl(&["apply", "--dry-run=server", "-f", "-"], &text);
        let applied = applied.unwrap_or_else(|why| panic!("{values:?}: {why}\n{text}"));
        assert_eq!(applied.lines().count(), count, "{values:?}: {applied}");
        check_configs(&objects(&text), &folder);
        check_values(values, &text);
    }
}

/// What the values say stands in the objects.
fn check_values(values: &[&str], text: &str) {
    let wanted: &[(&str, &[&str])] = &[
        ("replicas=3", &["replicas: 3"]),
        ("image=registry.example/dunlin:1", &["image: registry.example/dunlin:1"]),
        ("scale.linear.max=9", &["\"max\":9", "--target=deployment/dunlin-dns"]),
        ("cpus.policy=none", &["policy = \"none\"", "- --events\n", "fieldPath: spec.nodeName"]),
        ("pods=verified", &["- pods\n", "pods = \"verified\""]),
        ("zones={cluster.local,other.local}", &["zones = [\"cluster.local\",\"other.local\"]"]),
        (
            "multiclusterZones={clusterset.local}",
            &["- serviceimports\n", "\"clusterset.local\" = [\"10.96.0.10\"]"],
        ),
        ("upstreams={192.0.2.1,192.0.2.2}", &["\".\" = [\"192.0.2.1\",\"192.0.2.2\"]"]),
        ("nodeLocal.address=169.254.25.10", &["listen = [\"169.254.25.10:53\"]"]),
    ];
    for (_, parts) in wanted.iter().filter(|(value, _)| values.contains(value)) {
        for part in *parts {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
    assert!(!text.contains("deployment/coredns"), "{text}");
}

/// The config of the manifest, with addresses of this test in place of those of a cluster.
#[test]
#[ignore = "slow: it starts an API server, which scripts/require cluster builds"]
fn the_cache_of_a_node_answers_while_the_central_server_is_away() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    cluster.create(&objects::namespace("shop"));
    let ip = json!({ "clusterIP": "10.96.7.7" });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], ip));
    let mut central = serve("kubernetes-central", &cluster, "");
    let (web, known) = ("web.shop.svc.cluster.local", "NOERROR; A 10.96.7.7");
    let reverse = ("7.7.96.10.in-addr.arpa", "NOERROR; PTR web.shop.svc.cluster.local.");
    let all = self::objects(NODE_LOCAL);
    let config = all.iter().find_map(|object| object["data"]["dunlin.toml"].as_str());
    let config = config.expect("a config").replacen("[server]\n", "", 1);
    let config = config.replace("[\"169.254.20.10:53\"]", "[\"127.0.0.1:0\"]");
    let config = config.replace("169.254.20.10:9153", "127.0.0.1:0");
    let config = config.replace("[log]\nformat = \"json\"\n", "").replace("drain = \"10s\"", "");
    let config = config.replace("workers = 1\n", "");
    let config = config.replace("10.96.0.10", &central.address.to_string());
    let node = Served::start("kubernetes-node", &config, &[]);
    assert_eq!(answer(node.address, web, Rtype::A).as_deref(), Some(known));
    assert_eq!(answer(node.address, reverse.0, Rtype::PTR).as_deref(), Some(reverse.1));

    // A change is seen after at most 5 s.
    let object = "/api/v1/namespaces/shop/services/web";
    cluster.request("DELETE", object, &Value::Null).expect("an answer");
    let until = Instant::now() + PATIENCE;
    while answer(node.address, web, Rtype::A).as_deref() != Some("NXDOMAIN") {
        assert!(Instant::now() < until, "it is answered for ever");
        std::thread::sleep(POLL);
    }
    let ip = json!({ "clusterIP": "10.96.7.7" });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], ip));
    // Both workers of this test know it.
    let is_known = || answer(node.address, web, Rtype::A).as_deref() == Some(known);
    while !(0..20).all(|_| is_known()) {
        assert!(Instant::now() < until, "it is not answered again");
        std::thread::sleep(POLL);
    }

    central.end();
    // Longer than any answer is fresh.
    std::thread::sleep(std::time::Duration::from_secs(7));
    for _ in 0..20 {
        assert_eq!(answer(node.address, web, Rtype::A).as_deref(), Some(known));
    }
}
