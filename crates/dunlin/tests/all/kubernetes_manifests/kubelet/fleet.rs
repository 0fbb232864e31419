//! The fleet. What a user has before stands here: etcd with names in the cluster, volumes, Secrets.
use super::Real;
use crate::kubernetes_manifests::{PASSWORD, packaging, secret_files};
use cluster::{Forward, objects};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use test_support::etcd::Etcd;
use test_support::operator::Operator;

const NAMESPACE: &str = "dunlin";
/// The port that the manifest names.
const PORT: u16 = 2379;
/// Where the members of etcd are for Pods.
const MEMBERS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 0, 2, 101), Ipv4Addr::new(10, 0, 2, 102), Ipv4Addr::new(10, 0, 2, 103)];

/// etcd with TLS and users, on this machine, and the files of the Secrets.
pub struct Store {
    etcd: Etcd,
    folder: PathBuf,
}

impl Store {
    /// Starts it. Without etcd the test is skipped.
    pub fn start_or_skip(folder: &Path) -> Option<Self> {
        let folder = folder.join("fleet");
        std::fs::create_dir_all(&folder).expect("a folder");
        let files = secret_files();
        for (file, text) in &files {
            std::fs::write(folder.join(file), text).expect("a file");
        }
        let option = |what, file| format!("--{what}-file={}", folder.join(file).display());
        let options = [option("cert", "api.pem"), option("key", "api.key")];
        let etcd = Etcd::start_with(MEMBERS.len(), &options.each_ref().map(String::as_str))?;
        // The user of docs/etcd.md.
        let [(_, ca), ..] = &files;
        Operator::over_tls(&etcd, ca).guard("dunlin", PASSWORD.trim_end(), "/dunlin/");
        Some(Self { etcd, folder })
    }

    /// How Pods reach it.
    pub fn forwards(&self) -> Vec<Forward> {
        let port = |url: &String| url.rsplit(':').next()?.parse().ok();
        let endpoints = self.etcd.endpoints();
        let ports = endpoints.iter().map(|url| port(url).expect("a port"));
        let members = MEMBERS.into_iter().zip(ports);
        members.map(|(address, host_port)| Forward { address, port: PORT, host_port }).collect()
    }

    /// The commands of docs/etcd.md.
    fn create_secrets(&self, real: &Real) {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let [ca, password] = [("ca.pem", "etcd-ca.pem"), ("password", "etcd-password")]
            .map(|(key, name)| format!("--from-file={key}={}", file(name)));
        let create = ["create", "secret", "-n", NAMESPACE];
        real.kubectl(&[&create[..], &["generic", "dunlin-etcd", &ca, &password]].concat());
        let (cert, key) =
            (format!("--cert={}", file("api.pem")), format!("--key={}", file("api.key")));
        real.kubectl(&[&create[..], &["tls", "dunlin-api", &cert, &key]].concat());
    }
}

/// The names that the manifest has for the members of etcd.
fn create_names(real: &Real) {
    let ports = [("client", "TCP", PORT)];
    real.cluster.create(&objects::headless(NAMESPACE, "etcd", &ports));
    let endpoints: Vec<Value> = (0..)
        .zip(MEMBERS)
        .map(|(n, address)| {
            let mut endpoint = objects::endpoint(&address.to_string());
            endpoint["hostname"] = json!(format!("etcd-{n}"));
            endpoint
        })
        .collect();
    real.cluster.create(&objects::slice(NAMESPACE, "etcd", "etcd", &ports, &endpoints));
}

/// A folder of the node (`testing/cluster/node`) as a volume.
fn volume(n: usize) -> Value {
    let on_node = json!({ "key": "kubernetes.io/hostname", "operator": "In",
                          "values": [cluster::NODE_NAME] });
    let terms = json!([{ "matchExpressions": [on_node] }]);
    json!({ "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": format!("state-{n}") },
            "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                      "local": { "path": format!("/run/node/volumes/{n}") },
                      "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } } })
}

/// Of three servers one has a node; the others wait for one of their own. It shares its records by
/// etcd, and answers.
pub fn by_fleet(real: &Real, store: &Store) {
    real.kubectl(&["create", "namespace", NAMESPACE]);
    store.create_secrets(real);
    create_names(real);
    for n in 0..MEMBERS.len() {
        real.cluster.create(&volume(n));
    }
    let path = packaging().join("fleet").display().to_string();
    real.kubectl(&["apply", "-k", &path]);
    let one = "--for=jsonpath={.status.readyReplicas}=1";
    real.kubectl(&["wait", "-n", NAMESPACE, one, "statefulset/dunlin", "--timeout=300s"]);
    real.say("a server of the fleet is ready");
    let pods = real.kubectl(&[
        "get",
        "pods",
        "-n",
        NAMESPACE,
        "-l",
        "app=dunlin",
        "--no-headers",
        "-o",
        "custom-columns=NAME:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName",
    ]);
    let waiting = pods.lines().filter(|line| line.contains("Pending") && line.contains("<none>"));
    assert_eq!((pods.lines().count(), waiting.count()), (3, 2), "{pods}");
    let server = pods.lines().find(|line| line.contains("Running")).expect("one runs");
    let server = server.split_whitespace().next().expect("its name");

    let dunlin = |words: &[&str], input: &str| {
        let run = ["exec", "-i", "-n", NAMESPACE, server, "--", "dunlin"];
        real.cluster.kubectl(&[&run[..], words].concat(), input)
    };
    let fleet = dunlin(&["fleet"], "").unwrap_or_else(|why| panic!("{why}\n{}", real.state()));
    assert!(fleet.contains(server), "{fleet}");
    let token = ["token", "create", "me", "--grant", "read,write,zones *"];
    let token = dunlin(&token, "").unwrap_or_else(|why| panic!("{why}"));
    let api = [
        "--api",
        "https://dunlin-api.dunlin.svc:8053",
        "--ca",
        "/etc/dunlin/etcd-ca.pem",
        "--token-file",
        "/dev/stdin",
    ];
    let write = |words: &[&str]| dunlin(&[words, &api[..]].concat(), &token);
    let zone = ["zones", "create", "fleet.example", "--nameserver", "ns.example.net."];
    real.wait("the fleet has a zone", || write(&zone).map(drop));
    let set = ["records", "set", "fleet.example", "www", "A", "--ttl", "60", "192.0.2.7"];
    real.wait("the fleet has a record", || write(&set).map(drop));
    real.dig(&["www.fleet.example", "@dunlin.dunlin"], "192.0.2.7");
    real.kubectl(&["delete", "-k", &path, "--wait=false"]);
}
