//! The manifests and the chart beside a real kubelet: what a user types brings up Pods that answer.
//!
//! The node is the virtual machine of `make test-containers`, with containerd, kube-proxy and a
//! kubelet; the other parts of the cluster run on this machine. It has a kernel and control groups
//! of its own: those of this machine stay as they are, and may be of version 1, which the kubelet
//! refuses. Its CPUs are emulated, so times are longer than those of a node.
mod fleet;
mod images;

use super::{chart, packaging};
use cluster::{Cluster, objects};
use cpu::CpuList;
use fleet::Store;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use test_support::{skip, wait};

/// The address of the Service `kube-dns`, which the kubelet gives to Pods.
const DNS: &str = "10.96.0.10";
/// The cache of the node.
const NODE_DNS: &str = "169.254.20.10";
const KUBERNETES: &str = "kubernetes.default.svc.cluster.local";

/// A cluster whose node has a kubelet.
struct Real {
    cluster: Cluster,
    begin: Instant,
}

impl Real {
    fn say(&self, what: &str) {
        println!("{:6.1} s: {what}", self.begin.elapsed().as_secs_f64());
    }

    /// Runs kubectl, which must succeed.
    fn kubectl(&self, words: &[&str]) -> String {
        let done = self.cluster.kubectl(words, "");
        done.unwrap_or_else(|why| panic!("kubectl {}: {why}\n{}", words.join(" "), self.state()))
    }

    /// What a person would look at.
    fn state(&self) -> String {
        let look = |words: &[&str]| self.cluster.kubectl(words, "").unwrap_or_else(|why| why);
        [
            look(&["get", "pods", "-A", "-o", "wide"]),
            look(&["get", "events", "-A", "--field-selector", "type!=Normal"]),
            look(&["logs", "-n", "kube-system", "-l", "app=dunlin-dns", "--tail=20"]),
            look(&["logs", "-l", "app=dunlin", "--tail=20"]),
            look(&["logs", "-n", "dunlin", "-l", "app=dunlin", "--tail=20"]),
        ]
        .concat()
    }

    /// Waits until all Pods of something are as they should be.
    fn rollout(&self, namespace: &str, what: &str) {
        self.kubectl(&["rollout", "status", "-n", namespace, what, "--timeout=300s"]);
        self.say(&format!("{what} is ready"));
    }

    /// Has a Pod run something.
    fn exec(&self, pod: &str, words: &[&str]) -> Result<String, String> {
        let words = [&["exec", pod, "--"], words].concat();
        self.cluster.kubectl(&words, "").map(|said| said.trim().to_owned())
    }

    /// Asks from a Pod until the answer is this one: `words` are those of dig.
    fn dig(&self, words: &[&str], expected: &str) {
        let words = [&["dig", "+short", "+time=2", "+tries=1"], words].concat();
        let what = format!("{}: {expected}", words.join(" "));
        self.wait(&what, || match self.exec("client", &words) {
            Ok(found) if found == expected => Ok(()),
            found => Err(format!("{found:?}")),
        });
    }

    /// The CPUs that the first process of a Pod may run on.
    fn cpus(&self, pod: &str) -> CpuList {
        let status = self.exec(pod, &["grep", "Cpus_allowed_list", "/proc/1/status"]);
        let status = status.unwrap_or_else(|why| panic!("{pod}: {why}\n{}", self.state()));
        let list = status.split_whitespace().nth(1).unwrap_or_default();
        CpuList::from_kernel(list).unwrap_or_else(|_| panic!("{status}"))
    }

    /// Waits until something succeeds.
    fn wait(&self, what: &str, attempt: impl FnMut() -> Result<(), String>) {
        let done = wait::try_until_ok(what, attempt);
        done.unwrap_or_else(|why| panic!("{why}\n{}", self.state()));
        self.say(what);
    }

    /// Waits until a value in an object is this one.
    fn wait_for(&self, what: &str, path: &str, value: &str, expected: &Value) {
        self.wait(what, || {
            let object = self.cluster.get(path)?;
            let found = object.pointer(value).unwrap_or(&Value::Null);
            if found == expected { Ok(()) } else { Err(found.to_string()) }
        });
    }
}

#[test]
#[ignore = "campaign: make test-kubelet, which starts Kubernetes and a virtual machine"]
fn manifests_and_chart_bring_up_dns_beside_a_kubelet() {
    let begin = Instant::now();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubelet");
    if let Err(missing) = chart::helm(&folder) {
        return skip::skip(&missing);
    }
    let Some(cluster) = Cluster::start_for_kubelet_or_skip() else { return };
    let registry = images::serve(&folder);
    let Some(store) = Store::start_or_skip(&folder) else { return };
    let mut real = Real { cluster, begin };
    real.say("the API server serves");
    real.cluster.add_node(&registry, &store.forwards()).unwrap_or_else(|why| panic!("{why}"));
    real.say("the node is ready");
    real.cluster.create(&client());
    real.kubectl(&["wait", "--for=condition=Ready", "pod/client", "--timeout=300s"]);
    real.say("a Pod runs");

    by_chart(&real, &folder);
    by_kustomize(&real);
    by_single_file(&real);
    fleet::by_fleet(&real, &store);
    keeps_its_cpus(&real);
}

/// A Pod with dig, and with the node's files of the kernel.
fn client() -> Value {
    let container = json!({
        "name": "client", "image": "docker.io/library/busybox:1.37",
        "securityContext": { "privileged": true },
        "volumeMounts": [{ "name": "kernel", "mountPath": "/kernel" }],
    });
    let kernel = json!({ "name": "kernel", "hostPath": { "path": "/sys" } });
    json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "client", "namespace": "default" },
            "spec": { "containers": [container], "volumes": [kernel] } })
}

/// `helm install`, then all that the chart has.
fn by_chart(real: &Real, folder: &Path) {
    let helm = |words: &[&str]| {
        let mut command = chart::helm(folder).expect("it is there");
        command.args(words).args(["--namespace", "kube-system", "--kubeconfig"]);
        let output = command.arg(real.cluster.kubeconfig()).output().expect("helm runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {told}");
    };
    let path = packaging().display().to_string();
    let service = format!("service.name=kube-dns,service.clusterIP={DNS}");
    let install = Instant::now();
    helm(&["install", "dunlin", &path, "--set", &service]);
    real.say("helm install has ended");
    // What is asked in vain costs little: the CPU is that of the servers, too.
    let script = format!(
        "until busybox nslookup {KUBERNETES} >/dev/null 2>&1; do sleep 1; done; \
         dig +short {KUBERNETES}"
    );
    let first = real.exec("client", &["sh", "-c", &script]);
    let took = install.elapsed();
    assert_eq!(first.as_deref(), Ok("10.96.0.1"), "{}", real.state());
    println!("from `helm install` to the first answer: {:.1} s (emulated)", took.as_secs_f64());
    real.rollout("kube-system", "deployment/dunlin-dns");

    let all = format!("{service},nodeLocal.enabled=true,scale.enabled=true,scale.linear.min=3");
    helm(&["upgrade", "dunlin", &path, "--set", &all]);
    for what in ["daemonset/dunlin-node-dns", "deployment/dunlin-scale"] {
        real.rollout("kube-system", what);
    }
    real.dig(&[KUBERNETES, &format!("@{NODE_DNS}")], "10.96.0.1");
    let path = "/apis/apps/v1/namespaces/kube-system/deployments/dunlin-dns/scale";
    real.wait_for("the scaler sets three replicas", path, "/spec/replicas", &json!(3));
    helm(&["uninstall", "dunlin", "--wait"]);
}

/// Beside the manager of CPUs a Guaranteed Pod has its CPUs alone, also after the kubelet has
/// written its resources.
fn keeps_its_cpus(real: &Real) {
    // There are not enough CPUs for all.
    real.kubectl(&["delete", "deployment/dunlin", "--wait=false"]);
    // Until here all ran on one CPU (testing/cluster/node).
    let all = "for n in 1 2 3; do echo 1 >/kernel/devices/system/cpu/cpu$n/online; done";
    real.exec("client", &["sh", "-c", all]).expect("the CPUs come back");
    let file = packaging().join("dunlin-cpus.yaml").display().to_string();
    real.kubectl(&["apply", "-f", &file]);
    real.rollout("kube-system", "daemonset/dunlin-cpus");
    let file = packaging().join("../../examples/cpus/pod.yaml").display().to_string();
    real.kubectl(&["apply", "-f", &file]);
    real.kubectl(&["wait", "--for=condition=Ready", "pod/two-cpus", "--timeout=300s"]);
    let own = real.cpus("two-cpus");
    assert_eq!(own.len(), 2, "{own}");
    let is_alone = || {
        let (now, of_client) = (real.cpus("two-cpus"), real.cpus("client"));
        let is_so = now == own && of_client.intersection(&own).is_empty();
        if is_so { Ok(()) } else { Err(format!("{now}, and {of_client} of another Pod")) }
    };
    real.wait(&format!("a Guaranteed Pod is alone on the CPUs {own}"), is_alone);
    let memory = json!({ "memory": "96Mi" });
    let resources = json!({ "name": "app", "resources": { "requests": memory, "limits": memory } });
    let patch = json!({ "spec": { "containers": [resources] } }).to_string();
    real.kubectl(&["patch", "pod", "two-cpus", "--subresource", "resize", "--patch", &patch]);
    let path = "/api/v1/namespaces/default/pods/two-cpus";
    let limit = "/status/containerStatuses/0/resources/limits/memory";
    real.wait_for("the kubelet writes its resources", path, limit, &json!("96Mi"));
    is_alone().expect("it keeps them");
    real.kubectl(&["delete", "-f", &file]);
}

/// Each overlay, one after the other, as a cluster changes over: its Service exists before.
fn by_kustomize(real: &Real) {
    let spec = json!({ "clusterIP": DNS, "selector": { "k8s-app": "kube-dns" } });
    let ports = [("dns", "UDP", 53), ("dns-tcp", "TCP", 53)];
    real.cluster.create(&objects::service("kube-system", "kube-dns", &ports, spec));
    let apply = |real: &Real, overlay: &str| {
        real.kubectl(&["apply", "-k", &packaging().join(overlay).display().to_string()]);
        real.rollout("kube-system", "deployment/dunlin-dns");
    };
    apply(real, "base");
    let path = "/api/v1/namespaces/kube-system/services/dunlin-dns";
    let service = real.cluster.get(path).expect("the Service");
    let own = format!("@{}", service["spec"]["clusterIP"].as_str().expect("an address"));
    real.dig(&[KUBERNETES, &own], "10.96.0.1");
    apply(real, "overlays/join-kube-dns");
    real.dig(&[KUBERNETES], "10.96.0.1");
    real.dig(&["+tcp", "-x", "10.96.0.1"], &format!("{KUBERNETES}."));
    apply(real, "overlays/node-local");
    real.rollout("kube-system", "daemonset/dunlin-node-dns");
    real.dig(&[KUBERNETES, &format!("@{NODE_DNS}")], "10.96.0.1");
    apply(real, ".");
    real.rollout("kube-system", "deployment/dunlin-scale");
}

/// The manifest of a server of zone files.
fn by_single_file(real: &Real) {
    let file = packaging().join("dunlin.yaml").display().to_string();
    real.kubectl(&["apply", "-f", &file]);
    real.rollout("default", "deployment/dunlin");
    real.dig(&["www.example.org", "@dunlin"], "192.0.2.80");
}
