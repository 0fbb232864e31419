//! The nodes of the cluster, watched.
use crate::limits::{NODES_MAX, NODES_PAGE};
use futures_util::StreamExt;
use http::Request;
use kube::core::WatchEvent;
use kube_api::{Api, ApiError, ListOf, encode};
use scale_rules::Nodes;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The server ends a watch after this many seconds.
const WATCH_S: u64 = 240;
/// A watch that says nothing for longer than that is not believed to be alive.
const WATCH_SILENCE_MAX: Duration = Duration::from_secs(WATCH_S + 30);
/// Pause after an error.
const PAUSE: Duration = Duration::from_secs(2);

/// What the API server says of a node; only what counts is read.
#[derive(Clone, Debug, Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default, rename = "resourceVersion")]
    version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    unschedulable: bool,
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Deserialize)]
struct Taint {
    effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    allocatable: BTreeMap<String, String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    is_ready: bool,
    is_cordoned: bool,
    /// Whether a taint keeps ordinary Pods away.
    is_tainted: bool,
    nano_cpus: u64,
    zone: String,
    kind: String,
}

impl Node {
    fn of(object: &Object) -> Self {
        let label = |name: &str| object.metadata.labels.get(name).cloned().unwrap_or_default();
        let cpu = object.status.allocatable.get("cpu");
        let ready =
            |condition: &Condition| condition.r#type == "Ready" && condition.status == "True";
        let keeps_away =
            |taint: &Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        Self {
            is_ready: object.status.conditions.iter().any(ready),
            is_cordoned: object.spec.unschedulable,
            is_tainted: object.spec.taints.iter().any(keeps_away),
            nano_cpus: cpu.and_then(|cpu| nano_cpus(cpu)).unwrap_or(0),
            zone: label("topology.kubernetes.io/zone"),
            kind: label("node.kubernetes.io/instance-type"),
        }
    }
}

/// A quantity of CPUs, such as `4`, `2820m` or `1.5`, in billionths.
pub fn nano_cpus(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "n" => 1.0,
        "u" => 1e3,
        "m" => 1e6,
        "" => 1e9,
        "k" => 1e12,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    let nano = number * scale;
    (number.is_finite() && (0.0..=1e15).contains(&nano)).then_some(nano.round() as u64)
}

/// What decisions need of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// The counts.
    pub nodes: Nodes,
    /// The share of the zone with most of the nodes that take ordinary Pods; 0 with one zone.
    pub largest_zone: f64,
}

/// All nodes, shared by the watch and the decisions.
#[derive(Clone)]
pub struct NodeTable {
    nodes: Arc<Mutex<HashMap<String, Node>>>,
    counts: watch::Sender<Option<Counts>>,
}

impl NodeTable {
    pub fn new() -> Self {
        Self { nodes: Arc::default(), counts: watch::Sender::new(None) }
    }

    /// The counts as they change; none until the first whole list.
    pub fn subscribe(&self) -> watch::Receiver<Option<Counts>> {
        self.counts.subscribe()
    }

    /// The type of a node's machine; empty if it is not known.
    pub fn kind(&self, name: &str) -> String {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.get(name).map(|node| node.kind.clone()).unwrap_or_default()
    }

    fn replace(&self, all: HashMap<String, Node>) {
        let counts = count(&all);
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = all;
        self.publish(counts);
    }

    fn change(&self, name: String, node: Option<Node>) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        match node {
            Some(node) if nodes.get(&name) == Some(&node) => return,
            Some(node) if nodes.len() < NODES_MAX || nodes.contains_key(&name) => {
                nodes.insert(name, node);
            }
            Some(_) => return,
            None => drop(nodes.remove(&name)),
        }
        let counts = count(&nodes);
        drop(nodes);
        self.publish(counts);
    }

    fn publish(&self, counts: Counts) {
        self.counts.send_if_modified(|known| {
            let is_new = *known != Some(counts);
            *known = Some(counts);
            is_new
        });
    }
}

fn count(nodes: &HashMap<String, Node>) -> Counts {
    let mut counts = Nodes::default();
    let mut nano = [0_u64; 3];
    let mut zones: HashMap<&str, u64> = HashMap::new();
    for node in nodes.values() {
        let is_schedulable = node.is_ready && !node.is_cordoned;
        counts.total += 1;
        counts.ready += u64::from(node.is_ready);
        counts.schedulable += u64::from(is_schedulable);
        let kinds = [true, node.is_ready, is_schedulable];
        for (sum, counts) in nano.iter_mut().zip(kinds) {
            *sum = sum.saturating_add(if counts { node.nano_cpus } else { 0 });
        }
        if is_schedulable && !node.is_tainted {
            *zones.entry(&node.zone).or_default() += 1;
        }
    }
    let cores = nano.map(|nano| nano.div_ceil(1_000_000_000));
    [counts.total_cores, counts.ready_cores, counts.schedulable_cores] = cores;
    let all: u64 = zones.values().sum();
    let largest = zones.values().max().copied().unwrap_or(0);
    let largest_zone = if zones.len() > 1 { largest as f64 / all as f64 } else { 0.0 };
    Counts { nodes: counts, largest_zone }
}

/// Lists and watches nodes for as long as it runs. What is known stays while the API server is
/// away. `tell` gets errors.
pub async fn watch_nodes(api: Api, labels: String, table: NodeTable, tell: impl Fn(&str)) {
    loop {
        if let Err(error) = follow(&api, &labels, &table, WATCH_SILENCE_MAX).await {
            tell(&format!("nodes: {error}"));
            sleep(PAUSE).await;
        }
    }
}

/// One list, and watches until one fails or falls silent.
async fn follow(
    api: &Api,
    labels: &str,
    table: &NodeTable,
    silence_max: Duration,
) -> Result<(), ApiError> {
    let selector = match labels {
        "" => String::new(),
        labels => format!("&labelSelector={}", encode(labels)),
    };
    let (all, mut version) = list(api, &selector).await?;
    table.replace(all);
    loop {
        let path = format!(
            "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}\
             &resourceVersion={version}{selector}"
        );
        let what = "watch of nodes";
        let request = Request::get(&path).body(Vec::new());
        let request = request.map_err(|error| ApiError::Other(format!("{what}: {error}")))?;
        let events = api.client().await?.request_events::<Object>(request).await;
        let events = events.map_err(|error| api.told(what, error))?;
        let mut events = pin!(events);
        loop {
            let silent =
                || ApiError::Other(format!("{what}: silent, so the nodes are listed again"));
            let event = timeout(silence_max, events.next()).await.map_err(|_| silent())?;
            match event {
                None => break,
                Some(Err(error)) => return Err(api.told(what, error)),
                Some(Ok(WatchEvent::Added(node) | WatchEvent::Modified(node))) => {
                    version.clone_from(&node.metadata.version);
                    table.change(node.metadata.name.clone(), Some(Node::of(&node)));
                }
                Some(Ok(WatchEvent::Deleted(node))) => {
                    version = node.metadata.version;
                    table.change(node.metadata.name, None);
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => version = mark.metadata.resource_version,
                // The version is too old: list again, without a pause.
                Some(Ok(WatchEvent::Error(status))) if status.code == 410 => return Ok(()),
                Some(Ok(WatchEvent::Error(status))) => {
                    return Err(ApiError::Other(format!("{what}: {}", status.message)));
                }
            }
        }
    }
}

/// All nodes, and the revision of the list.
async fn list(api: &Api, selector: &str) -> Result<(HashMap<String, Node>, String), ApiError> {
    let mut all = HashMap::new();
    let of = ListOf { path: "/api/v1/nodes", selector, page: NODES_PAGE, max: NODES_MAX };
    let keep = |node: Object| drop(all.insert(node.metadata.name.clone(), Node::of(&node)));
    let version = api.list(of, keep).await?;
    Ok((all, version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_api::lying::{LyingServer, Reply, block};
    use serde_json::{Value, json};
    use std::time::Instant;

    #[test]
    fn quantities_of_cpus_are_read() {
        for (text, expected) in [
            ("4", Some(4_000_000_000)),
            ("2820m", Some(2_820_000_000)),
            ("1.5", Some(1_500_000_000)),
            ("0", Some(0)),
            ("7n", Some(7)),
            ("10k", Some(10_000_000_000_000)),
            ("1e3", Some(1_000_000_000_000)),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("1e308", None),
            ("4Gi", None),
            ("", None),
        ] {
            assert_eq!(nano_cpus(text), expected, "{text}");
        }
    }

    /// What a silent watch has not said is found by the next list; until then the counts stay.
    #[test]
    fn silent_watch_ends_and_keeps_the_counts() {
        let list = |names: &[&str]| {
            let items: Vec<Value> =
                names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
            json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
                "items": items})
        };
        let (first, second) = (list(&["a", "b"]).to_string(), list(&["a"]).to_string());
        block(async {
            let lists = std::sync::atomic::AtomicUsize::new(0);
            let server = LyingServer::start(Duration::from_secs(5), move |request, _| {
                if request.contains("watch=1") {
                    return Reply::Stream(String::new());
                }
                let is_first = lists.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
                Reply::Status(200, if is_first { first.clone() } else { second.clone() })
            })
            .await;
            let table = NodeTable::new();
            let counts = table.subscribe();
            let total = || counts.borrow().map(|counts| counts.nodes.total);
            let (silence, begun) = (Duration::from_millis(300), Instant::now());
            let error = follow(&server.api, "", &table, silence).await.expect_err("silence");
            assert!(error.to_string().contains("silent, so the nodes are listed again"), "{error}");
            assert!(begun.elapsed() >= silence);
            assert_eq!(total(), Some(2), "what is not known changes nothing");
            follow(&server.api, "", &table, silence).await.expect_err("silence");
            assert_eq!((total(), server.requests().len()), (Some(1), 4));
        });
    }

    fn node(name: &str, cpu: &str, zone: &str, ready: &str, spec: Value) -> (String, Node) {
        let object = json!({
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu},
                "conditions": [{"type": "Ready", "status": ready}]}
        });
        (name.to_owned(), Node::of(&serde_json::from_value(object).expect("a node")))
    }

    /// The scenario of the original's client: cores are rounded up once, for all nodes.
    #[test]
    fn nodes_are_counted_as_the_original_counts_them() {
        let nodes = HashMap::from([
            node("a", "1410m", "x", "True", json!({})),
            node("b", "1410m", "x", "True", json!({})),
            node("c", "4", "y", "True", json!({"unschedulable": true})),
            node("d", "2", "y", "Unknown", json!({"taints": [{"effect": "NoExecute"}]})),
            node("e", "nonsense", "y", "True", json!({"taints": [{"effect": "NoSchedule"}]})),
        ]);
        let counts = count(&nodes);
        let nodes = counts.nodes;
        assert_eq!((nodes.total, nodes.ready, nodes.schedulable), (5, 4, 3));
        assert_eq!((nodes.total_cores, nodes.ready_cores, nodes.schedulable_cores), (9, 7, 3));
        assert_eq!(counts.largest_zone, 0.0, "only zone x takes ordinary Pods");
    }
}
