//! The manifests for a cluster: kustomize and the Helm chart, before a real API server; the cache
//! of a node; and a fleet.
mod announced;
mod chart;
mod kubelet;

use crate::clustered::{answer, exchange, expect, serve};
use crate::fleet_node::{Node, answers};
use crate::served::{Served, binary, holds};
use cluster::{Cluster, objects};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::wait;
use wire::Rtype;

const BASE: &str = include_str!("../../../../packaging/kubernetes/base/cluster-dns.yaml");
const NODE_LOCAL: &str =
    include_str!("../../../../packaging/kubernetes/node-local/node-local.yaml");
const LOAD_BALANCER: &str =
    include_str!("../../../../packaging/kubernetes/load-balancer/load-balancer.yaml");
const ANYCAST: &str = include_str!("../../../../packaging/kubernetes/anycast/anycast.yaml");
const FLEET: &str = include_str!("../../../../packaging/kubernetes/fleet/fleet.yaml");

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes")
}

/// The objects in YAML.
fn objects(text: &str) -> Vec<Value> {
    let parts = text.split("\n---\n").map(|part| part.trim_start_matches("---"));
    let parts = parts.filter(|part| part.lines().any(|line| line.starts_with("kind:")));
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}

/// The password in the Secret of a fleet, as a user writes it to a file.
const PASSWORD: &str = "secret\n";

/// Files of the Secrets of a fleet, by the names that the Pods give them: one CA for all.
fn secret_files() -> [(&'static str, String); 6] {
    let key = || KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("no names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, key()).expect("a CA");
    let mut names = vec!["127.0.0.1".to_owned(), "dunlin-api.dunlin.svc".to_owned()];
    names.extend((0..3).map(|n| format!("etcd-{n}.etcd.dunlin.svc")));
    let own = key();
    let certificate = CertificateParams::new(names).expect("names").signed_by(&own, &ca);
    [
        ("etcd-ca.pem", ca.pem()),
        ("etcd-password", PASSWORD.into()),
        ("api.pem", certificate.expect("a certificate").pem()),
        ("api.key", own.serialize_pem()),
        ("site-ca.pem", ca.pem()),
        ("site-password", PASSWORD.into()),
    ]
}

/// Each config in the objects is one that Dunlin takes.
fn check_configs(objects: &[Value], folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    for (file, text) in secret_files() {
        std::fs::write(folder.join(file), text).expect("a file");
    }
    for config in objects.iter().filter_map(|object| object["data"]["dunlin.toml"].as_str()) {
        let file = folder.join("dunlin.toml");
        std::fs::write(&file, config).expect("a file");
        let output = binary().arg("check").arg(&file).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}{config}");
    }
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn manifests_and_chart_are_valid_for_an_api_server() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-manifests");
    // A namespace that is only tried has no room for the other objects.
    cluster.create(&objects::namespace("dunlin"));
    for (overlay, count) in [
        ("base", 7),
        ("overlays/join-kube-dns", 7),
        ("overlays/node-local", 10),
        (".", 18),
        ("fleet", 8),
        ("components/kubernetes", 8),
        ("components/health", 6),
        ("components/api", 7),
        ("components/dns", 7),
        ("components/dns-of-two-sites", 7),
        ("load-balancer", 1),
        ("anycast", 3),
    ] {
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
    chart::check(&cluster, &folder);
}

/// Neither kubeadm nor an autoscaler takes Dunlin for CoreDNS, and the Service kube-dns stays.
#[test]
fn dns_of_a_cluster_stands_beside_the_one_that_exists() {
    let all = objects(BASE);
    let of = |kind: &str| all.iter().find(|object| object["kind"] == kind).expect("one");
    let (deployment, service) = (of("Deployment"), of("Service"));
    assert_eq!(service["metadata"]["name"], "dunlin-dns");
    assert_eq!(service["spec"]["clusterIP"], Value::Null, "the cluster chooses it");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels, &json!({ "app": "dunlin-dns" }));
    assert_eq!(&deployment["metadata"]["labels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    for object in [deployment, of("PodDisruptionBudget")] {
        assert_eq!(&object["spec"]["selector"]["matchLabels"], labels);
    }
}

/// As with CoreDNS, resolvers are asked for reverse names of private addresses that the cluster
/// lacks.
#[test]
fn reverse_names_of_private_addresses_are_forwarded_by_the_manifest() {
    let zone = "$TTL 60\n@ SOA ns.example. a.example. 1 60 60 60 60\n@ NS ns.example.\n\
                5.0.0 PTR host.example.\n";
    let section = "[[zone]]\nname = \"10.in-addr.arpa\"\nfile = \"reverse.zone\"\n";
    let resolver = Served::start("kubernetes-resolver", section, &[("reverse.zone", zone)]);
    let all = objects(BASE);
    let config = all.iter().find_map(|object| object["data"]["dunlin.toml"].as_str());
    let config = config.expect("a config").replacen("[server]\n", "", 1);
    let (start, end) = (config.find("[kubernetes]"), config.find("[forward]"));
    let (start, end) = (start.expect("a section"), end.expect("a section"));
    let config = [&config[..start], &config[end..]].concat();
    let config = config.replace("[\"0.0.0.0:53\", \"[::]:53\"]", "[\"127.0.0.1:0\"]");
    let config = config.replace("0.0.0.0:9153", "127.0.0.1:0");
    let config = config.replace("data_dir = \"/var/lib/dunlin\"\n", "");
    let config = config.replace("[log]\nformat = \"json\"\n", "").replace("drain = \"10s\"", "");
    let config = config.replace("\"resolv.conf\"", &format!("[\"{}\"]", resolver.address));
    let served = Served::start("kubernetes-private", &config, &[]);
    for (name, rtype, expected) in [
        ("5.0.0.10.in-addr.arpa", Rtype::PTR, "NOERROR; PTR host.example."),
        ("localhost", Rtype::A, "NOERROR; A 127.0.0.1"),
    ] {
        assert_eq!(answer(served.address, name, rtype).as_deref(), Some(expected), "{name}");
    }
}

/// The config of a node's cache, at another address, which asks others for names of the cluster.
pub fn node_config(listen: &str, central: &str) -> String {
    let all = objects(NODE_LOCAL);
    let config = all.iter().find_map(|object| object["data"]["dunlin.toml"].as_str());
    let config = config.expect("a config").replacen("[server]\n", "", 1);
    let config = config.replace("[\"169.254.20.10:53\"]", &format!("[\"{listen}\"]"));
    let config = config.replace("169.254.20.10:9153", "127.0.0.1:0");
    let config = config.replace("[log]\nformat = \"json\"\n", "").replace("drain = \"10s\"", "");
    config.replace("workers = 1\n", "").replace("\"10.96.0.10\"", central)
}

/// The config of the manifest, with addresses of this test in place of those of a cluster.
#[test]
#[ignore = "cluster: it starts an API server"]
fn the_cache_of_a_node_answers_while_the_central_server_is_away() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    cluster.create(&objects::namespace("shop"));
    let ip = json!({ "clusterIP": "10.96.7.7" });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], ip));
    let mut central = serve("kubernetes-central", &cluster, "");
    let (web, known) = ("web.shop.svc.cluster.local", "NOERROR; A 10.96.7.7");
    let reverse = ("7.7.96.10.in-addr.arpa", "NOERROR; PTR web.shop.svc.cluster.local.");
    let config = node_config("127.0.0.1:0", &format!("\"{}\"", central.address));
    let node = Served::start("kubernetes-node", &config, &[]);
    assert_eq!(answer(node.address, web, Rtype::A).as_deref(), Some(known));
    assert_eq!(answer(node.address, reverse.0, Rtype::PTR).as_deref(), Some(reverse.1));

    // A change is seen after at most 5 s.
    let object = "/api/v1/namespaces/shop/services/web";
    cluster.request("DELETE", object, &Value::Null).expect("an answer");
    expect(node.address, web, Rtype::A, "NXDOMAIN");
    let ip = json!({ "clusterIP": "10.96.7.7" });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], ip));
    // Both workers of this test know it.
    let is_known = || answer(node.address, web, Rtype::A).as_deref() == Some(known);
    wait::until_true("it is answered again", || (0..20).all(|_| is_known()));

    central.end();
    // Extended DNS Error 3 (RFC 8914): a stale answer.
    let is_stale = |reply: &Option<Vec<u8>>| {
        reply.as_ref().is_some_and(|reply| holds(reply, &[0, 15, 0, 2, 0, 3]))
    };
    wait::until_value("a stale answer", || exchange(node.address, web, Rtype::A), is_stale);
    for _ in 0..20 {
        assert_eq!(answer(node.address, web, Rtype::A).as_deref(), Some(known));
    }
}

/// Two Pods of a node answer at the same address: neither may have a port of the host, which the
/// API server makes of each port that a Pod in the node's network names, and no probe may ask at
/// the address.
#[test]
fn pods_of_an_update_of_the_node_cache_stand_side_by_side() {
    let all = objects(NODE_LOCAL);
    let of = |kind: &str| all.iter().find(|object| object["kind"] == kind).expect("one");
    let set = &of("DaemonSet")["spec"];
    assert_eq!(set["updateStrategy"]["rollingUpdate"], json!({"maxUnavailable": 0, "maxSurge": 1}));
    let pod = &set["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!((&pod["hostNetwork"], &container["ports"]), (&json!(true), &Value::Null));
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["exec"]["command"][1], "status", "{probe}");
    }
    let args = container["args"].as_array().expect("arguments");
    assert!(args.contains(&json!("--hot-restart=if-running")), "{args:?}");
    let volumes = pod["volumes"].as_array().expect("volumes");
    let run = volumes.iter().find(|volume| volume["name"] == "run").expect("its folder");
    assert_eq!(run["hostPath"]["type"], "DirectoryOrCreate");
    let config = of("ConfigMap")["data"]["dunlin.toml"].as_str().expect("a config");
    assert!(config.contains("hold_sockets = true"), "{config}");
}

/// The API server does not know what a routing daemon needs.
#[test]
fn announced_addresses_of_a_cluster_lead_to_servers_that_are_ready() {
    let service = &objects(LOAD_BALANCER)[0]["spec"];
    assert_eq!(
        (&service["type"], &service["externalTrafficPolicy"]),
        (&json!("LoadBalancer"), &json!("Local"))
    );
    let ports = service["ports"].as_array().expect("ports").iter();
    let ports: Vec<_> = ports.map(|port| (&port["port"], &port["protocol"])).collect();
    assert_eq!(ports, [(&json!(53), &json!("UDP")), (&json!(53), &json!("TCP"))]);
    let fleet = objects(FLEET);
    let set = fleet.iter().find(|object| object["kind"] == "StatefulSet").expect("one");
    assert_eq!(service["selector"], set["spec"]["template"]["metadata"]["labels"]);

    let all = objects(ANYCAST);
    let set = all.iter().find(|object| object["kind"] == "DaemonSet").expect("one");
    let pod = &set["spec"]["template"]["spec"];
    let security = &pod["containers"][0]["securityContext"];
    let added = json!(["NET_ADMIN", "NET_BIND_SERVICE", "CHOWN", "SETUID", "SETGID"]);
    assert_eq!(security["capabilities"], json!({"drop": ["ALL"], "add": added}));
    assert_eq!((&pod["hostNetwork"], &pod["containers"][0]["ports"]), (&json!(true), &Value::Null));
    let volumes = pod["volumes"].as_array().expect("volumes");
    let tun = volumes.iter().find(|volume| volume["name"] == "tun").expect("the device");
    assert_eq!(tun["hostPath"], json!({"path": "/dev/net/tun", "type": "CharDevice"}));
}

/// The API server does not compare objects with each other.
#[test]
fn objects_of_the_fleet_belong_together() {
    let all = objects(FLEET);
    let of = |kind: &'static str| all.iter().filter(move |object| object["kind"] == kind);
    let set = of("StatefulSet").next().expect("one");
    let pod = &set["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    let affinity = &pod["spec"]["affinity"]["podAntiAffinity"];
    let apart = &affinity["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(&apart["labelSelector"]["matchLabels"], labels);
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    for budget in of("PodDisruptionBudget") {
        assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    }
    let container = &pod["spec"]["containers"][0];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ports = list(&container["ports"]);
    for service in of("Service") {
        assert_eq!(&service["spec"]["selector"], labels);
        for port in list(&service["spec"]["ports"]) {
            let target = ports.iter().find(|target| target["name"] == port["targetPort"]);
            let target = target.unwrap_or_else(|| panic!("{port}"));
            let of_both = |key, other| (port[key].clone(), target[other].clone());
            let (own, its) = of_both("port", "containerPort");
            assert_eq!(own, its);
            let (own, its) = of_both("protocol", "protocol");
            assert_eq!(own, its);
        }
    }
    let governing = of("Service").find(|it| it["metadata"]["name"] == set["spec"]["serviceName"]);
    assert_eq!(governing.expect("it exists")["spec"]["clusterIP"], "None");

    // What the config names is where the Pod has it.
    let config = of("ConfigMap").next().expect("one")["data"]["dunlin.toml"].as_str();
    let config = config.expect("a config");
    for port in &ports {
        assert!(config.contains(&format!(":{}\"", port["containerPort"])), "{port}");
    }
    let sources = list(&pod["spec"]["volumes"][0]["projected"]["sources"]);
    let items = sources.iter().flat_map(|source| list(&source["secret"]["items"]));
    let mut files: Vec<String> =
        items.map(|item| item["path"].as_str().expect("a path").to_owned()).collect();
    files.sort();
    assert_eq!(files, ["api.key", "api.pem", "etcd-ca.pem", "etcd-password"]);
    for file in files {
        assert!(config.contains(&format!("\"{file}\"")), "{file}");
    }
    let mounts = list(&container["volumeMounts"]);
    let folders: Vec<_> = mounts.iter().map(|mount| mount["mountPath"].as_str()).collect();
    assert_eq!(folders, ["/etc/dunlin", "/var/lib/dunlin", "/run/dunlin"].map(Some));
    assert_eq!(set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"], mounts[1]["name"]);
}

/// The config of the fleet, with addresses and folders of this test. etcd has TLS and users, as
/// the config says.
#[test]
fn servers_with_the_config_of_the_fleet_share_their_records() {
    let files = secret_files();
    let [(_, ca), _, (_, certificate), (_, key), ..] = &files;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-fleet");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |file: &str, text: &str| {
        std::fs::write(folder.join(file), text).expect("a file");
        folder.join(file).display().to_string()
    };
    let options = [("cert", certificate), ("key", key)]
        .map(|(what, text)| format!("--{what}-file={}", path(&format!("etcd.{what}"), text)));
    let Some(etcd) = Etcd::start_with(3, &options.each_ref().map(String::as_str)) else { return };
    // The user of docs/etcd.md.
    Operator::over_tls(&etcd, ca).guard("dunlin", PASSWORD.trim_end(), "/dunlin/");

    let all = objects(FLEET);
    let config = all.iter().find_map(|object| object["data"]["dunlin.toml"].as_str());
    let mut config = config.expect("a config").replacen("[server]\n", "", 1);
    for (n, endpoint) in etcd.endpoints().iter().enumerate() {
        config = config.replace(&format!("https://etcd-{n}.etcd.dunlin.svc:2379"), endpoint);
    }
    let config = config.replace("[\"0.0.0.0:53\", \"[::]:53\"]", "[\"127.0.0.1:0\"]");
    let config = config.replace("0.0.0.0:8053", "127.0.0.1:0");
    let config = config.replace("0.0.0.0:9153", "127.0.0.1:0");
    let config = config.replace("[log]\nformat = \"json\"\n", "");
    let start = |n: usize| {
        // Servers of one host have one name.
        let name = format!("dunlin-{n}");
        let socket = std::env::temp_dir().join(format!("{name}-{}.sock", std::process::id()));
        let data = folder.join(&name).display().to_string();
        let _ = std::fs::remove_dir_all(&data);
        let config = config.replace("/var/lib/dunlin", &data);
        let config =
            format!("name = \"{name}\"\n{config}\n[admin]\nsocket = \"{}\"\n", socket.display());
        let files = files.each_ref().map(|(file, text)| (*file, text.as_str()));
        let served = Served::start(&format!("kubernetes-fleet-{n}"), &config, &files);
        Node { served, socket, token: String::new() }
    };
    let nodes: Vec<Node> = (0..3).map(start).collect();
    let names = || {
        let fleet = nodes[2].fleet();
        let members = fleet["members"].as_array().cloned().unwrap_or_default();
        let names = members.iter().map(|member| member["name"].as_str().map(str::to_owned));
        names.collect::<Option<Vec<_>>>().unwrap_or_default()
    };
    wait::until_true("all are members", || names() == ["dunlin-0", "dunlin-1", "dunlin-2"]);

    let token = nodes[0].create_token("deploy");
    let ca = path("ca.pem", ca);
    let write = |node: &Node, args: &[&str]| {
        let mut command = binary();
        command.env("DUNLIN_API", format!("https://{}", node.api())).env("DUNLIN_TOKEN", &token);
        command.args(args).args(["--ca", &ca]).output().expect("it runs")
    };
    let create = ["zones", "create", "fleet.example", "--nameserver", "ns.example.net."];
    // The token is known to the others a moment later.
    wait::until_true("a zone is created", || write(&nodes[1], &create).status.success());
    for (n, writer) in nodes.iter().enumerate() {
        let (name, address) = (format!("n{n}"), format!("192.0.2.{n}"));
        let set = ["records", "set", "fleet.example", &name, "A", "--ttl", "60", &address];
        let what = format!("dunlin-{n} writes");
        wait::until_true(&what, || write(writer, &set).status.success());
        for node in &nodes {
            wait::until_true("each server answers", || {
                answers(node, &format!("{name}.fleet.example"), [192, 0, 2, n as u8])
            });
        }
    }
}
