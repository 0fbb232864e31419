//! Where clients are: the addresses of Pods and of Nodes, for networks of clients.
//!
//! Of a Pod only its addresses, its namespace, its start and the labels that networks ask for are
//! kept; of a Node its prefixes and its topology zone. A list names all objects: what it did not
//! name by its end is gone. The state is saved, so that a start without the API server knows its
//! clients (invariant I10).
mod kinds;
mod saved;

use crate::client::{Access, Connection};
use crate::cluster::ObjectName;
use crate::failure::Failure;
use crate::limits::{BATCH_EVENTS_MAX, Bounds, CLIENTS_DELAY, EVENTS_MAX, SAVE_INTERVAL};
use crate::objects::{EndpointNaming, Kind};
use crate::status::{SharedStatus, StreamStatus};
use crate::watch::{Selection, Sink, StreamEvent, watch as watch_objects};
use image::Location;
use kinds::{ClientNodes, ClientPods, NodeEntry, PodEntry};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Pods that can have an address of their own.
pub(crate) const POD_FIELDS: &str =
    "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown";

/// What is watched of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Whether Pods are.
    pub pods: bool,
    /// The labels that are kept of them.
    pub labels: BTreeSet<Box<str>>,
    /// Whether Nodes are.
    pub nodes: bool,
}

/// A Pod as a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientPod {
    /// Its address.
    pub address: IpAddr,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Those of its labels that are kept, in ascending order.
    pub labels: Box<[(Box<str>, Box<str>)]>,
}

/// A Node: its clients are its own addresses and those of its Pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientNode {
    /// Its prefixes, with their lengths.
    pub prefixes: Box<[(IpAddr, u8)]>,
    /// The path of its location.
    pub location: Box<str>,
}

/// All clients that are known, in order. Each address belongs to one Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// The Pods that have an address of their own.
    pub pods: Vec<ClientPod>,
    /// The Nodes whose location is known.
    pub nodes: Vec<ClientNode>,
}

/// Watches clients until its stream of them has no receiver.
pub(crate) struct ClientWatch {
    pub access: Access,
    pub settings: ClientSettings,
    /// Where the cluster is; empty: not known.
    pub location: Box<str>,
    pub folder: Option<PathBuf>,
    pub bounds: Bounds,
    pub status: SharedStatus,
    pub clients: watch::Sender<Arc<Clients>>,
}

enum Event {
    Pod(StreamEvent<PodEntry>),
    Node(StreamEvent<NodeEntry>),
}

/// The objects of a stream.
struct Objects<T> {
    all: HashMap<ObjectName, T>,
    /// Those that the list that is read now has not named yet.
    missing: HashSet<ObjectName>,
    /// Whether they were listed since the start, or are not asked for.
    is_listed: bool,
    /// The name of the stream in the status.
    kind: &'static str,
}

impl<T> Objects<T> {
    fn new(kind: &'static str, is_wanted: bool) -> Self {
        Self { all: HashMap::new(), missing: HashSet::new(), is_listed: !is_wanted, kind }
    }

    /// Takes in an event. `true`: an object may have changed.
    fn take(&mut self, event: StreamEvent<T>, max: u64, status: &SharedStatus) -> bool {
        let mut changed = false;
        match event {
            StreamEvent::ListBegins => self.missing = self.all.keys().cloned().collect(),
            StreamEvent::Put(object, kept) => {
                self.missing.remove(&object);
                let has_room = (self.all.len() as u64) < max || self.all.contains_key(&object);
                match kept {
                    Some(_) if !has_room => {
                        let ObjectName { namespace, name } = &object;
                        let kind = self.kind;
                        tracing::error!(kind, "{namespace}/{name}: there are more than {max}");
                    }
                    Some(kept) => drop(self.all.insert(object, kept)),
                    None => drop(self.all.remove(&object)),
                }
                changed = true;
            }
            StreamEvent::Skipped(object, why) => {
                self.missing.remove(&object);
                tracing::error!(kind = self.kind, "{}/{}: {why}", object.namespace, object.name);
            }
            StreamEvent::ListEnds => {
                for gone in self.missing.drain() {
                    self.all.remove(&gone);
                }
                (changed, self.is_listed) = (true, true);
                self.report(status, None);
            }
            StreamEvent::Current => self.report(status, None),
            StreamEvent::State(state) => self.report(status, Some(state)),
        }
        changed
    }

    /// Reports that the stream is current, or whether it is open.
    fn report(&self, status: &SharedStatus, state: Option<Result<(), Failure>>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        status.edit(|status| {
            let shown = status.streams.iter_mut().find(|stream| stream.kind == self.kind);
            let Some(shown) = shown else { return };
            match state {
                None => shown.current_seconds = Some(now),
                Some(Ok(())) => (shown.open_seconds, shown.error) = (Some(now), None),
                Some(Err(failure)) => {
                    shown.failures += 1;
                    (shown.open_seconds, shown.error) = (None, Some(failure.what));
                }
            }
        });
    }
}

/// The names of the streams in the status.
const PODS: &str = "pods of networks";
const NODES: &str = "nodes";

impl ClientWatch {
    /// Watches, and passes on what is known whenever that changes.
    pub async fn run(self) {
        let mut pods = Objects::new(PODS, self.settings.pods);
        let mut nodes = Objects::new(NODES, self.settings.nodes);
        if let Some(saved) = self.load() {
            (pods.all, nodes.all) = saved;
            self.publish(&pods.all, &nodes.all);
            self.status.edit(|status| status.is_without_clients = false);
        }
        let (sender, mut events) = mpsc::channel(EVENTS_MAX);
        let _tasks = self.start(&sender);
        drop(sender);
        let (mut batch, mut publish_at, mut is_saved) = (Vec::new(), None, true);
        let mut save_at = Instant::now() + SAVE_INTERVAL;
        loop {
            let due = publish_at.unwrap_or(save_at).min(save_at);
            tokio::select! {
                count = events.recv_many(&mut batch, BATCH_EVENTS_MAX) => {
                    if count == 0 {
                        return;
                    }
                    let max = self.bounds.objects_max;
                    for event in batch.drain(..) {
                        let changed = match event {
                            Event::Pod(event) => {
                                pods.take(self.reduced(event), max, &self.status)
                            }
                            Event::Node(event) => nodes.take(event, max, &self.status),
                        };
                        if changed && publish_at.is_none() {
                            publish_at = Some(Instant::now() + CLIENTS_DELAY);
                        }
                    }
                }
                () = sleep_until(due) => {}
            }
            let now = Instant::now();
            if publish_at.is_some_and(|at| at <= now) {
                self.publish(&pods.all, &nodes.all);
                (publish_at, is_saved) = (None, false);
                if pods.is_listed && nodes.is_listed {
                    self.status.edit(|status| status.is_without_clients = false);
                }
            }
            if save_at <= now {
                let is_whole = pods.missing.is_empty() && nodes.missing.is_empty();
                if let Some(folder) = self.folder.as_ref().filter(|_| !is_saved && is_whole) {
                    let saved = saved::save(folder, &self.settings, &pods.all, &nodes.all);
                    is_saved = saved.is_ok();
                    if let Err(why) = saved {
                        tracing::error!("Kubernetes: {why}; it is retried");
                    }
                }
                save_at = now + SAVE_INTERVAL;
            }
        }
    }

    /// What was saved; `None`: nothing that can be used.
    fn load(&self) -> Option<saved::Saved> {
        let loaded = saved::load(self.folder.as_ref()?, &self.settings);
        loaded.unwrap_or_else(|why| {
            tracing::error!("Kubernetes: {why}");
            None
        })
    }

    fn start(&self, sender: &mpsc::Sender<Event>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let connection = Connection::new(self.access.clone());
        let selection = |fields| Selection {
            labels: String::new(),
            fields,
            naming: EndpointNaming::default(),
            bounds: self.bounds,
        };
        let shown = |kind: &str| {
            self.status.edit(|status| status.streams.push(StreamStatus::new(kind)));
        };
        if self.settings.pods {
            shown(PODS);
            let sink = Sink { sender: sender.clone(), wrap: Event::Pod };
            let watched = (connection.clone(), selection(POD_FIELDS), sink);
            tasks.spawn(watch_all::<ClientPods>(watched));
        }
        if self.settings.nodes {
            shown(NODES);
            let sink = Sink { sender: sender.clone(), wrap: Event::Node };
            tasks.spawn(watch_all::<ClientNodes>((connection, selection(""), sink)));
        }
        tasks
    }

    /// Without the labels that no network asks for.
    fn reduced(&self, mut event: StreamEvent<PodEntry>) -> StreamEvent<PodEntry> {
        if let StreamEvent::Put(_, Some(pod)) = &mut event {
            pod.labels.retain(|(name, _)| self.settings.labels.contains(name));
        }
        event
    }

    fn publish(
        &self,
        pods: &HashMap<ObjectName, PodEntry>,
        nodes: &HashMap<ObjectName, NodeEntry>,
    ) {
        let new = clients(pods, nodes, &self.location);
        self.clients.send_if_modified(|clients| {
            let is_new = **clients != new;
            if is_new {
                *clients = Arc::new(new);
            }
            is_new
        });
    }
}

async fn watch_all<K: Kind>(
    (connection, selection, sink): (Connection, Selection, Sink<K::Entry, Event>),
) {
    watch_objects::<K, Event>(connection, selection, sink).await;
}

/// The clients of these objects. If two Pods have an address, it is that of the one that started
/// last: the other one has ended, and its end has not come yet.
fn clients(
    pods: &HashMap<ObjectName, PodEntry>,
    nodes: &HashMap<ObjectName, NodeEntry>,
    location: &str,
) -> Clients {
    let mut owners: HashMap<IpAddr, (&ObjectName, &PodEntry)> = HashMap::new();
    for (object, pod) in pods {
        for address in &pod.addresses {
            let owner = owners.entry(*address).or_insert((object, pod));
            if (&pod.started, object) > (&owner.1.started, owner.0) {
                *owner = (object, pod);
            }
        }
    }
    let pod = |(address, (object, pod)): (IpAddr, (&ObjectName, &PodEntry))| ClientPod {
        address,
        namespace: object.namespace.clone(),
        labels: pod.labels.clone().into(),
    };
    let mut pods: Vec<ClientPod> = owners.into_iter().map(pod).collect();
    pods.sort_unstable();
    let node = |(object, node): (&ObjectName, &NodeEntry)| {
        let location = location_of(location, &node.zone, &object.name)?;
        Some(ClientNode { prefixes: node.prefixes.clone(), location })
    };
    let mut nodes: Vec<ClientNode> = nodes.iter().filter_map(node).collect();
    nodes.sort_unstable();
    Clients { pods, nodes }
}

/// The location of a node of a topology zone; without its node if its name can be no level.
fn location_of(cluster: &str, zone: &str, node: &str) -> Option<Box<str>> {
    let path = |levels: &[&str]| {
        let levels: Vec<&str> = levels.iter().copied().filter(|level| !level.is_empty()).collect();
        let path = levels.join("/");
        Location::parse(&path).is_ok().then(|| path.into())
    };
    match zone {
        "" => path(&[cluster]),
        zone => path(&[cluster, zone, node]).or_else(|| path(&[cluster, zone])),
    }
}

#[cfg(test)]
mod tests;
