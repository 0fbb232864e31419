//! The scaler of a large cluster: memory, CPU time at rest, and how soon it decides.
use super::bed::{Bed, Scaler};
use serde_json::{Value, json};
use std::fs;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use test_support::wait;

/// The most memory, in bytes.
const RESIDENT_MAX: u64 = 64 << 20;
/// Threads that create nodes.
const CREATORS: usize = 8;
/// Status updates a second of 5,000 kubelets, each of which reports every 5 minutes.
const HEARTBEATS: u32 = 17;

/// A node as a kubelet reports it, with the 50 images that it names at most.
fn node(index: usize) -> Value {
    let images: Vec<Value> = (0..50)
        .map(|image| {
            let digest = format!("{:064x}", image * 7_919);
            let repository = format!("registry.example/team-{}/service-{image}", image % 7);
            let names =
                [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{image}")];
            json!({"names": names,
                "sizeBytes": 100_000_000 + image})
        })
        .collect();
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "KubeletSays",
            "message": format!("kubelet says that {kind} is {status}")})
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{index}"), "labels": {
            "kubernetes.io/hostname": format!("node-{index}"),
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": format!("type-{}", index % 5),
            "topology.kubernetes.io/region": "r",
            "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
        }},
        "status": {
            "allocatable": {"cpu": "7910m", "memory": "31Gi", "pods": "110"},
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True")],
            "images": images,
        },
    })
}

/// A line of /proc/PID/status in bytes.
fn memory(scaler: &Scaler, key: &str) -> u64 {
    let file = format!("/proc/{}/status", scaler.child.id());
    let text = fs::read_to_string(file).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("a line");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}

/// CPU time of the process in seconds.
fn cpu_s(scaler: &Scaler) -> f64 {
    let text = scaler.page("/metrics").1;
    let line = text.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| {
        // User and system time in ticks of 10 ms.
        let file = format!("/proc/{}/stat", scaler.child.id());
        let text = fs::read_to_string(file).expect("it runs");
        let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split(' ').collect();
        let ticks = |index: usize| fields[index].parse::<f64>().expect("ticks");
        (ticks(12) + ticks(13)) / 100.0
    })
}

/// `make bench-scale-replicas` runs it with 5,000 nodes, and then holds its CPU time and delay to
/// their bounds too.
#[test]
#[ignore = "cluster: it starts an API server and creates many nodes"]
fn many_nodes_fit_into_64_mib() {
    let told = std::env::var("DUNLIN_SCALE_NODES").ok();
    let count: usize = told.as_ref().map_or(300, |count| count.parse().expect("a number"));
    let Some(bed) = Bed::start("many", 1) else { return };
    bed.set_nodes(0, "1");
    scope(|scope| {
        for first in 0..CREATORS {
            let bed = &bed;
            scope.spawn(move || {
                for index in (first..count).step_by(CREATORS) {
                    bed.cluster.create(&node(index));
                }
            });
        }
    });
    bed.configure("linear", r#"{"nodesPerReplica": 1}"#);
    let admin = bed.cluster.kubeconfig();
    let period = "--poll-period-seconds=10";
    let scaler = bed.scaler("many", &admin, &["--target=deployment/dns", period]);
    let all = u64::try_from(count).expect("few");
    bed.expect(&scaler, all, "one for each node");

    scaler.wait_for_polls();
    let (begun, before_s) = (Instant::now(), cpu_s(&scaler));
    let rest = Duration::from_secs(if told.is_some() { 60 } else { 5 });
    let mut beats = 0;
    while begun.elapsed() < rest {
        let beat = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
            "reason": "KubeletSays", "message": format!("heartbeat {beats}")}]}});
        let path = format!("/api/v1/nodes/node-{}/status", beats as usize % count);
        bed.cluster.patch(&path, &beat);
        beats += 1;
        sleep((begun + beats * Duration::from_secs(1) / HEARTBEATS).duration_since(Instant::now()));
    }
    let share = (cpu_s(&scaler) - before_s) / begun.elapsed().as_secs_f64();

    let mut delays_ms: Vec<f64> = (0..20)
        .map(|index| {
            let path = format!("/api/v1/nodes/node-{index}");
            bed.cluster.patch(&path, &json!({"spec": {"unschedulable": true}}));
            let (changed, wanted) = (Instant::now(), all - index - 1);
            wait::until_eq("replicas", || bed.replicas("dns"), wanted);
            1e3 * changed.elapsed().as_secs_f64()
        })
        .collect();
    delays_ms.sort_by(f64::total_cmp);
    let (median_ms, most_ms) = (delays_ms[10], delays_ms[19]);
    let [now, peak] = ["VmRSS:", "VmHWM:"].map(|key| memory(&scaler, key));
    eprintln!(
        "{count} nodes: {:.1} MiB, {:.1} at most; {:.2} % of a CPU at rest; a node's change is in \
         the scale after {median_ms:.0} ms (median), {most_ms:.0} at most",
        now as f64 / 1_048_576.0,
        peak as f64 / 1_048_576.0,
        100.0 * share
    );
    assert!(peak <= RESIDENT_MAX, "{peak} bytes");
    if told.is_some() {
        assert!(share <= 0.01, "{share} of a CPU at rest");
        assert!(median_ms <= 100.0, "{delays_ms:?}");
    }
}
