//! A namespace of a test in a real API server, with a target, nodes, and scalers.
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use test_support::ports;
use test_support::wait;

/// The manifest of the autoscaler.
pub const MANIFEST: &str = include_str!("../../../../../packaging/kubernetes/dunlin-scale.yaml");

/// The role of the original's manifest, unchanged.
const CPA_RULES: &str = r#"[
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["replicationcontrollers/scale"], "verbs": ["get", "update"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale", "replicasets/scale"],
     "verbs": ["get", "update"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]}
]"#;

/// One cluster with the namespace of a test.
pub struct Bed {
    pub cluster: Cluster,
    pub name: &'static str,
}

impl Bed {
    /// A cluster with a Deployment `dns` of so many replicas.
    pub fn start(name: &'static str, replicas: u32) -> Option<Self> {
        let bed = Self { cluster: Cluster::start_or_skip()?, name };
        if name != "kube-system" {
            bed.cluster.create(&objects::namespace(name));
        }
        bed.deployment("dns", replicas);
        Some(bed)
    }

    pub fn deployment(&self, name: &str, replicas: u32) {
        self.cluster.create(&json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "dns", "image": "dns"}]},
                },
            },
        }));
    }

    /// Replaces all nodes by so many, each ready and with this CPU.
    pub fn set_nodes(&self, count: usize, cpu: &str) {
        let delete = self.cluster.request("DELETE", "/api/v1/nodes", &Value::Null);
        delete.and_then(cluster::Answer::done).expect("no nodes");
        for index in 0..count {
            self.node(index, cpu, "True");
        }
    }

    pub fn node(&self, index: usize, cpu: &str, ready: &str) {
        self.cluster.create(&json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": format!("node-{index}")},
            "status": {
                "allocatable": {"cpu": cpu, "memory": "1Gi"},
                "capacity": {"cpu": cpu, "memory": "1Gi"},
                "conditions": [{"type": "Ready", "status": ready, "reason": "test"}],
            },
        }));
    }

    /// Whether the kubelet of a node says that it is ready.
    pub fn set_ready(&self, index: usize, ready: &str) {
        let patch = json!({"status": {"conditions": [
            {"type": "Ready", "status": ready, "reason": "test"}]}});
        self.cluster.patch(&format!("/api/v1/nodes/node-{index}/status"), &patch);
    }

    /// Creates the ConfigMap, or replaces its data.
    pub fn configure(&self, mode: &str, params: &str) {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "dunlin-scale", "namespace": self.name},
            "data": {mode: params},
        });
        let path = format!("/api/v1/namespaces/{}/configmaps", self.name);
        let put = self.cluster.request("PUT", &format!("{path}/dunlin-scale"), &object);
        if put.expect("an answer").status == 404 {
            self.cluster.create(&object);
        }
    }

    pub fn path(&self, name: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.name)
    }

    pub fn replicas(&self, name: &str) -> u64 {
        let object = self.cluster.get(&self.path(name)).expect("the target");
        object["spec"]["replicas"].as_u64().expect("a count")
    }

    /// Waits until the target has so many replicas.
    pub fn expect(&self, scaler: &Scaler, replicas: u64, what: &str) {
        wait::until_ok(&format!("{replicas} replicas: {what}"), || match self.replicas("dns") {
            count if count == replicas => Ok(()),
            count => Err(format!("{count}\n{}", scaler.log())),
        });
    }

    /// A kubeconfig with the rights of the original's role, and no others.
    pub fn cpa_account(&self) -> PathBuf {
        let role = "rbac.authorization.k8s.io";
        let rules: Value = serde_json::from_str(CPA_RULES).expect("JSON");
        self.cluster.create(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "cpa", "namespace": self.name}}));
        self.cluster.create(&json!({"apiVersion": format!("{role}/v1"), "kind": "ClusterRole",
            "metadata": {"name": "cpa"}, "rules": rules}));
        self.cluster.create(&json!({"apiVersion": format!("{role}/v1"),
            "kind": "ClusterRoleBinding", "metadata": {"name": "cpa"},
            "roleRef": {"apiGroup": role, "kind": "ClusterRole", "name": "cpa"},
            "subjects": [{"kind": "ServiceAccount", "name": "cpa", "namespace": self.name}]}));
        self.cluster.kubeconfig_of(self.name, "cpa", 3_600).expect("a token")
    }

    /// Starts a scaler of the Deployment `dns` that polls every second, unless a flag says
    /// otherwise.
    pub fn scaler(&self, name: &str, kubeconfig: &Path, more: &[&str]) -> Scaler {
        let page = ports::free_address(std::net::Ipv4Addr::LOCALHOST).to_string();
        let log = self.cluster.folder().join(format!("{name}.log"));
        let file = File::create(&log).expect("a log");
        let has_period = more.iter().any(|flag| flag.starts_with("--poll-period"));
        let child = Command::new(env!("CARGO_BIN_EXE_dunlin"))
            .args(["scale", "--namespace", self.name])
            .args((!has_period).then_some("--poll-period-seconds=1"))
            .args(["--listen", &page, "--kubeconfig"])
            .arg(kubeconfig)
            .args(more)
            .env("HOSTNAME", name)
            .stdin(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("dunlin runs");
        Scaler { child, log, page }
    }

    /// `dunlin scale status` as an administrator.
    pub fn status(&self) -> Output {
        Command::new(env!("CARGO_BIN_EXE_dunlin"))
            .args(["scale", "status", "-o", "json", "--namespace", self.name, "--kubeconfig"])
            .arg(self.cluster.kubeconfig())
            .output()
            .expect("dunlin runs")
    }

    /// The messages of the target's Events with this reason.
    pub fn events(&self, reason: &str) -> Vec<String> {
        let path = format!("/api/v1/namespaces/{}/events", self.name);
        let list = self.cluster.get(&path).expect("Events");
        let events = list["items"].as_array().expect("a list").iter();
        let of_reason = events.filter(|event| event["reason"] == reason);
        of_reason.map(|event| event["message"].as_str().expect("text").to_owned()).collect()
    }
}

/// A scaler that runs, until it is dropped.
pub struct Scaler {
    pub child: Child,
    log: PathBuf,
    pub page: String,
}

impl Scaler {
    /// What it has written.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has written this.
    pub fn says(&self, what: &str) {
        let log = || self.log();
        wait::until_value(&format!("{what:?} in the log"), log, |log| log.contains(what));
    }

    /// A page: its status and its text.
    pub fn page(&self, path: &str) -> (u16, String) {
        page(&self.page, path)
    }

    /// Its status; nothing before its first poll.
    pub fn report(&self) -> Value {
        serde_json::from_str(&self.page("/status").1).unwrap_or_default()
    }

    /// Waits for the ends of two polls: all that has happened by now is known then.
    pub fn wait_for_polls(&self) {
        for _ in 0..2 {
            let before = self.report()["time"].take();
            wait::until_true("a poll ends", || self.report()["time"] != before);
        }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Scaler {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A page of a server: its status and its text.
pub fn page(address: &str, path: &str) -> (u16, String) {
    use std::io::{Read, Write};
    // A process that begins does not listen yet.
    let mut stream = wait::until_ok("its pages", || std::net::TcpStream::connect(address));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status, body.unwrap_or_default())
}

/// A Deployment of the cluster-proportional-autoscaler that scales this one.
pub fn original(namespace: &str, target: &str) -> Value {
    let image = "registry.k8s.io/cpa/cluster-proportional-autoscaler:v1.9.0";
    let target = format!("--target=Deployment/{target}");
    let command = json!(["/cluster-proportional-autoscaler", "--configmap=c", target]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "original", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "original"}},
            "template": {
                "metadata": {"labels": {"app": "original"}},
                "spec": {"containers": [{"name": "scaler", "image": image, "command": command}]},
            },
        },
    })
}
