//! Events of Pods by `dunlin cpus manage`: its manifest, a real containerd and a real API server.
//! The control groups are files, so that it changes no other process of this machine.
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use test_support::containerd::Containerd;
use test_support::skip;
use test_support::wait;

const MANIFEST: &str = include_str!("../../../../packaging/kubernetes/dunlin-cpus.yaml");

/// CPUs that are too many; the kernel takes no more shares.
const REQUEST_MAX: u32 = 250;

/// The objects of the manifest of this kind.
fn object(kind: &str) -> Value {
    let parts = MANIFEST.split("\n---\n");
    let mut objects = parts.map(|part| serde_saphyr::from_str::<Value>(part).expect("YAML"));
    objects.find(|object| object["kind"] == kind).expect("an object")
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|text| text.as_str().expect("text").to_owned()).collect()
}

/// A folder with the rule file of the manifest.
fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("cpus-{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let config = object("ConfigMap");
    let rules = config["data"]["cpus.toml"].as_str().expect("a file").to_owned();
    // The interrupts are this machine's.
    let rules = format!("interrupts = \"keep\"\n{rules}");
    fs::write(folder.join("rules"), rules).expect("a file");
    folder
}

/// The arguments of the manifest, with paths of a test in place of the node's.
fn arguments(cgroup: &Path, nri: &Path, folder: &Path) -> Vec<String> {
    let pod = &object("DaemonSet")["spec"]["template"]["spec"];
    let arguments = texts(&pod["containers"][0]["args"]);
    let replaced = arguments.into_iter().map(|argument| {
        let place = match argument.split_once('=').map_or("", |(flag, _)| flag) {
            "--nri" => nri.to_owned(),
            "--cgroup" => cgroup.to_owned(),
            "--state" => folder.join("state"),
            "--rules" => folder.join("rules"),
            "--kubelet-state" => folder.join("kubelet"),
            _ => return argument,
        };
        let flag = argument.split_once('=').expect("a flag").0;
        format!("{flag}={}", place.display())
    });
    replaced.collect()
}

#[test]
fn manifest_of_cpus_has_flags_that_are_there_and_mounts_each_path() {
    let folder = folder("manifest");
    let arguments = arguments(Path::new("/nonexistent"), Path::new("/nonexistent"), &folder);
    let output = Command::new(env!("CARGO_BIN_EXE_dunlin")).args(arguments).output();
    let output = output.expect("dunlin runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("is not cgroup v2"), "{told}");
    fs::remove_dir_all(&folder).expect("gone");

    let pod = &object("DaemonSet")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let names = |list: &Value, key: &str| -> Vec<String> {
        let list = list.as_array().expect("a list").iter();
        list.map(|one| one[key].as_str().expect("text").to_owned()).collect()
    };
    let mounts = names(&container["volumeMounts"], "mountPath");
    let paths = texts(&container["args"]).into_iter();
    let paths = paths.filter_map(|argument| Some(argument.split_once('=')?.1.to_owned()));
    for path in paths.chain(["/etc/machine-id".into()]) {
        assert!(mounts.iter().any(|mount| Path::new(&path).starts_with(mount)), "{path}");
    }
    assert_eq!(names(&container["volumeMounts"], "name"), names(&pod["volumes"], "name"));
    let rules = &object("ClusterRole")["rules"];
    assert_eq!(*rules, json!([{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]));
}

/// A manager with control groups that are files.
struct Node {
    cluster: Cluster,
    containerd: Containerd,
    folder: PathBuf,
    manager: Option<Child>,
}

impl Node {
    fn start() -> Option<Self> {
        if cpu::allowed().expect("CPUs").len() < 2 {
            skip::skip("two CPUs: one stays shared");
            return None;
        }
        let cluster = Cluster::start_or_skip()?;
        let containerd = Containerd::start("events")?;
        let folder = folder("events");
        let node = Self { cluster, containerd, folder, manager: None };
        node.group("");
        fs::write(node.groups().join("cgroup.controllers"), "cpuset cpu").expect("a file");
        node.cluster.kubectl(&["apply", "-f", "-"], MANIFEST).expect("the manifest is applied");
        Some(node)
    }

    fn groups(&self) -> PathBuf {
        self.folder.join("groups")
    }

    /// Makes a group.
    fn group(&self, path: &str) {
        let group = self.groups().join(path);
        fs::create_dir_all(&group).expect("a folder");
        for file in ["cgroup.procs", "cgroup.subtree_control", "cpuset.cpus", "cpu.max"] {
            fs::write(group.join(file), "").expect("a file");
        }
    }

    fn manage(&mut self) {
        let account = self.cluster.kubeconfig_of("kube-system", "dunlin-cpus", 3_600);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        command.args(arguments(&self.groups(), &self.containerd.nri(), &self.folder));
        command.arg("--interval=50ms").arg("--kubeconfig").arg(account.expect("a token"));
        command.arg("--metrics").arg(self.folder.join("metrics")).env("NODE_NAME", "node-7");
        let log = File::create(self.folder.join("log")).expect("a log");
        command.stdout(log.try_clone().expect("a log")).stderr(log).stdin(Stdio::null());
        self.manager = Some(command.spawn().expect("dunlin runs"));
        self.wait("the runtime is connected", |node| {
            node.text("log").contains("tells of its containers")
        });
    }

    fn kill(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            drop(manager.kill());
            drop(manager.wait());
        }
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }

    /// A Pod in the API server and in containerd, with a container that requests so many CPUs and
    /// runs; returns the group of that container.
    fn pod(&mut self, name: &str, cpus: u32) -> String {
        let pod = self.cluster.create(&objects::pod("default", name, json!({})));
        let uid = pod["metadata"]["uid"].as_str().expect("an id").to_owned();
        let parent = format!("/kubepods/pod{uid}");
        let logs = self.containerd.path("logs").display().to_string();
        let id = self.containerd.must(&["pod", name, &uid, &parent, &logs]);
        let container = self.containerd.run(&id, "app", cpus * 1_000, true, "sleep 1000");
        format!("{}/{container}", &parent[1..])
    }

    /// Events with this reason.
    fn events(&self, reason: &str) -> Vec<Value> {
        let list = self.cluster.get("/api/v1/namespaces/default/events").expect("Events");
        let list = list["items"].as_array().expect("a list").iter();
        list.filter(|event| event["reason"] == reason).cloned().collect()
    }

    /// Waits until there is an Event of a Pod whose message has this text.
    fn expect(&self, pod: &str, reason: &str, kind: &str, text: &str) {
        self.wait(&format!("{reason}: {text}"), |node| {
            node.events(reason).iter().any(|event| {
                let message = event["message"].as_str().expect("text");
                event["involvedObject"]["name"] == pod
                    && event["type"] == kind
                    && message.contains(text)
            })
        });
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        wait::until_ok(what, || is_so(self).then_some(()).ok_or_else(|| self.text("log")));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        drop(fs::remove_dir_all(&self.folder));
    }
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn events_of_pods_tell_which_cpus_they_have_and_what_went_wrong() {
    let Some(mut node) = Node::start() else { return };
    // It is created while the manager is away.
    let group = node.pod("own", 1);
    node.group(&group);
    let set = node.groups().join(&group).join("cpuset.cpus");
    let has_set = || fs::read_to_string(&set).is_ok_and(|text| text.len() > 1);
    let begin = Instant::now();
    node.manage();
    println!("containers were known {:?} after the manager's start", begin.elapsed());
    node.wait("it has its set", |_| has_set());
    println!("a late container had its set {:?} after the manager's start", begin.elapsed());
    node.expect("own", "ExclusiveCPUs", "Normal", "Container app has CPUs ");
    let given = &node.events("ExclusiveCPUs")[0];
    assert_eq!(given["source"], json!({"component": "dunlin-cpus", "host": "node-7"}));
    // What a person sees.
    let described = node.cluster.kubectl(&["describe", "pod", "own"], "").expect("a text");
    assert!(
        described.contains("ExclusiveCPUs") && described.contains("dunlin-cpus"),
        "{described}"
    );

    node.pod("large", REQUEST_MAX);
    node.expect("large", "FailedCPUs", "Warning", "it shares");
    // Another program changes the set. It is as long as the manager's: a file keeps what is behind
    // a write, the kernel's does not.
    let own = given["message"].as_str().expect("text").split(' ').nth(4).expect("a list");
    let other = (if own == "0" { "1" } else { "0" }).repeat(own.len());
    for times in 1..=5 {
        // At once, as the kernel's files change.
        fs::write(node.folder.join("set"), format!("{other}\n")).expect("a file");
        fs::rename(node.folder.join("set"), &set).expect("renamed");
        let count = format!("dunlin_cpus_drift_repaired_total {times}\n");
        node.wait("it is repaired", |node| node.text("metrics").contains(&count));
    }
    let repaired = format!("Another program had set CPUs \"{other}\"");
    node.expect("own", "CPUDriftRepaired", "Warning", &repaired);
    // The CPU is not to be had any more.
    let rules = format!("interrupts = \"keep\"\nreserved = \"{own}\"\n");
    fs::write(node.folder.join("rules"), rules).expect("a file");
    node.expect("own", "CPUsLost", "Warning", &format!("has lost CPUs {own}"));
    // The repeats wait for their time.
    assert_eq!(node.events("CPUDriftRepaired").len(), 1);
    assert!(node.text("metrics").contains("pod_events_total{outcome=\"written\"}"));

    // Without the right it says so once, and all else continues.
    node.kill();
    node.cluster.kubectl(&["delete", "clusterrolebinding", "dunlin-cpus"], "").expect("deleted");
    fs::write(node.folder.join("rules"), "interrupts = \"keep\"\n").expect("a file");
    node.manage();
    node.pod("other", REQUEST_MAX);
    node.wait("the right is missed", |node| node.text("log").contains("Events of Pods are off"));
    let last = node.pod("last", REQUEST_MAX);
    node.wait("it goes on", |node| node.text("log").contains(&last));
    assert_eq!(node.text("log").matches("Events of Pods are off").count(), 1);
}
