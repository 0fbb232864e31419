//! The source: receives the events of all streams, and updates the zones.
mod events;
mod lists;
mod origin;
mod part_status;
mod parts;
mod report;
mod sharing;
mod streams;

use crate::client::Access;
use crate::clients::{ClientSettings, Clients};
use crate::cluster::parts::PartKind;
use crate::cluster::{Cluster, Exposed};
use crate::failure::FailureLog;
use crate::limits::{BATCH_EVENTS_MAX, Bounds, EVENTS_MAX, SAVE_INTERVAL, SERIAL_INTERVAL};
use crate::names::Naming;
use crate::publish::Publisher;
use crate::saved;
use crate::status::{SharedStatus, StreamStatus};
use documents::{MapEvent, MapWriter, ReplicatedMap};
use events::{
    ALL, CORE, Event, IMPORTS, OBJECTS, SERVICES, SLICES, STREAMS, STREAMS_COUNT, StreamState,
    wanted,
};
use lists::{Outcome, Swept};
pub use parts::SharedPart;
use parts::{PartsState, put_service};
use sharing::{Sharing, next};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};
use zone_manager::{
    CheckNames, HoldPolicy, Lane, Source, SourceKind, SourceSettings, Stopped, UpdateSender,
};

/// The section `[kubernetes]` as the source needs it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the API server is reached.
    pub access: Access,
    /// How objects are named.
    pub naming: Naming,
    /// The kinds of objects that have names.
    pub exposed: Exposed,
    /// A selector of services, slices and pods; empty: all.
    pub labels: String,
    /// A selector of namespaces; empty: all.
    pub namespace_labels: String,
    /// Whether endpoints are named by their pods.
    pub pod_names: bool,
    /// The check of services that name none.
    pub check: Option<Box<str>>,
    /// Whether services with an address of their own can have a check.
    pub check_cluster_ips: bool,
    /// Where the state is saved; `None`: it is not saved.
    pub folder: Option<PathBuf>,
    /// How long a list is held that lost most of what was served.
    pub hold: Duration,
    /// What is watched of clients; `None`: nothing.
    pub clients: Option<ClientSettings>,
    /// The zone that clusters share; `None`: there is none.
    pub shared: Option<SharedPart>,
    /// Bounds of requests and lists.
    pub bounds: Bounds,
}

/// What a server of a fleet does with the objects of the cluster.
#[derive(Debug)]
pub enum FleetPart {
    /// It watches the API server, and writes what it knows for the others if it is elected.
    Writes(MapWriter),
    /// It does not watch the API server, and follows what another one writes.
    Follows(mpsc::Receiver<MapEvent>),
}

/// The running source. It ends when this is dropped.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    status: SharedStatus,
    clients: watch::Receiver<Arc<Clients>>,
}

impl Running {
    /// What is to be reported of it.
    pub fn status(&self) -> server_status::KubernetesStatus {
        self.status.get()
    }

    /// The clients of the cluster, if they are watched.
    pub fn clients(&self) -> watch::Receiver<Arc<Clients>> {
        self.clients.clone()
    }

    /// Whether its thread ended by itself.
    pub fn has_failed(&self) -> bool {
        self.stop.is_some() && self.thread.as_ref().is_some_and(|thread| thread.is_finished())
    }

    /// Saves the state and ends.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches Kubernetes panicked");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The name of the thread.
pub const THREAD: &str = "kubernetes";

/// The source: serves the saved state at once, if there is one, and watches the API server, or
/// what another server of the fleet writes.
#[derive(Debug)]
pub struct KubernetesSource {
    /// The section `[kubernetes]`.
    pub settings: Settings,
    /// `None`: there is no fleet.
    pub fleet: Option<FleetPart>,
}

impl Source for KubernetesSource {
    /// An error: the thread cannot be started.
    type Started = std::io::Result<Running>;

    fn settings(&self) -> SourceSettings {
        SourceSettings {
            name: THREAD.into(),
            kind: SourceKind::Kubernetes,
            lane: Lane::Normal,
            hold: HoldPolicy::Until(self.settings.hold),
        }
    }

    fn start(self, updates: UpdateSender) -> Self::Started {
        let Self { settings, fleet } = self;
        let status = SharedStatus::default();
        let checks = updates.publisher().health().checks();
        let publisher = Publisher::new(updates, &settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let shared = status.clone();
        let (passed_on, clients) = watch::channel(Arc::default());
        let watched = streams::client_watch(&settings, &status, passed_on);
        let run = move || {
            let mut worker = Worker::new(settings, publisher, shared, checks);
            let fleet = Sharing::new(fleet);
            worker.map = fleet.map();
            worker.follows = matches!(fleet, Sharing::Follows(..));
            runtime.block_on(async {
                worker.load().await;
                let mut watching = JoinSet::new();
                if let Some(watched) = watched {
                    watching.spawn(watched.run());
                }
                // No thread waits any more if the server ends.
                let _ = ready.send(());
                tokio::select! {
                    _ = stopped => {}
                    Stopped = worker.run(fleet) => {}
                }
            });
            worker.save();
        };
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(run)?;
        // What was saved is served before the server listens.
        let _ = is_ready.recv();
        Ok(Running { stop: Some(stop), thread: Some(thread), status, clients })
    }
}

struct Worker {
    settings: Settings,
    cluster: Cluster,
    publisher: Publisher,
    status: SharedStatus,
    checks: watch::Receiver<CheckNames>,
    streams: [StreamState; STREAMS_COUNT],
    /// What this server writes for the fleet, if it is elected.
    map: Option<Arc<ReplicatedMap>>,
    /// It is elected.
    leads: bool,
    /// It does not watch the API server.
    follows: bool,
    /// The map of the fleet is that of another cluster, which is followed.
    is_refused: bool,
    /// The cluster was retired: its names go, without those of another one.
    is_retired: bool,
    parts: PartsState,
    /// Asks again which cluster it is.
    asks_origin: Arc<Notify>,
    /// Objects of the fleet that cannot be read, and why; the first of them.
    unusable: BTreeMap<String, String>,
    /// Objects of the API server that are not used, with their kinds, and why; the first of them.
    skipped: BTreeMap<(usize, String), String>,
    failure_log: FailureLog,
    is_published: bool,
    /// The state differs from the saved one.
    is_changed: bool,
    /// The serial is to change.
    is_new: bool,
}

impl Worker {
    fn new(
        settings: Settings,
        publisher: Publisher,
        status: SharedStatus,
        mut checks: watch::Receiver<CheckNames>,
    ) -> Self {
        let naming = Arc::new(settings.naming.clone());
        let exposed = Arc::new(settings.exposed.clone());
        let wanted = wanted(&settings);
        let mut streams: [StreamState; STREAMS_COUNT] = Default::default();
        for (stream, is_wanted) in streams.iter_mut().zip(wanted) {
            stream.is_wanted = is_wanted;
        }
        let names = STREAMS.iter().zip(wanted).filter(|(_, wanted)| *wanted);
        status.edit(|status| {
            status.streams = names.map(|(name, _)| StreamStatus::new(name)).collect();
        });
        let mut cluster = Cluster::new(naming, exposed, now_seconds());
        cluster.configure_checks(settings.check.clone(), settings.check_cluster_ips);
        cluster.set_checks(Arc::clone(&checks.borrow_and_update()));
        settings.set_part_zones(&mut cluster);
        Self {
            cluster,
            checks,
            settings,
            publisher,
            status,
            streams,
            map: None,
            leads: false,
            follows: false,
            is_refused: false,
            is_retired: false,
            parts: PartsState::default(),
            asks_origin: Arc::default(),
            unusable: BTreeMap::new(),
            skipped: BTreeMap::new(),
            failure_log: FailureLog::default(),
            is_published: false,
            is_changed: false,
            is_new: false,
        }
    }

    fn zones(&self) -> Vec<String> {
        self.settings.naming.zones.iter().map(|zone| zone.origin.to_string()).collect()
    }

    /// Serves what was saved.
    async fn load(&mut self) {
        let Some(folder) = self.settings.folder.clone() else { return };
        self.cluster.is_quiet = true;
        let began = Instant::now();
        match saved::load(&folder, &self.zones(), &mut self.cluster) {
            Ok(false) => {}
            Ok(true) => {
                self.cluster.is_quiet = false;
                if self.publish().await.is_ok() {
                    let milliseconds = began.elapsed().as_millis() as u64;
                    let counts = self.cluster.counts();
                    let (services, endpoints) = (counts.services, counts.endpoints);
                    self.status.edit(|status| status.is_saved = true);
                    tracing::info!(
                        services,
                        endpoints,
                        milliseconds,
                        "Kubernetes is served from the saved state until the API server answers"
                    );
                }
            }
            Err(why) => tracing::error!("Kubernetes: {why}"),
        }
        self.cluster.is_quiet = !self.is_published;
    }

    /// Watches until the zone manager has ended.
    async fn run(&mut self, mut fleet: Sharing) -> Stopped {
        let (mut sender, mut events) = mpsc::channel(EVENTS_MAX);
        let mut tasks = JoinSet::new();
        let is_follower = self.follows;
        self.start_watching(&mut tasks, &sender);
        let mut slices: Option<AbortHandle> = None;
        let mut checks = self.checks.clone();
        let mut batch = Vec::new();
        let (mut save, mut serial) = (interval(SAVE_INTERVAL), interval(SERIAL_INTERVAL));
        save.set_missed_tick_behavior(MissedTickBehavior::Delay);
        serial.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.follows != (is_follower || self.is_refused) {
                self.follows = !self.follows;
                (tasks, slices) = (JoinSet::new(), None);
                (sender, events) = mpsc::channel(EVENTS_MAX);
                batch.clear();
                if !(self.follows && self.is_retired) {
                    self.begin_anew();
                }
                self.start_watching(&mut tasks, &sender);
            }
            let watches = !self.follows;
            // Whether the endpoints of a slice are needed depends on its service.
            if watches && slices.is_none() && self.are_listed([SERVICES, IMPORTS].as_slice()) {
                slices = self.spawn(&mut tasks, &sender, [SLICES].as_slice());
            }
            let done = tokio::select! {
                _ = events.recv_many(&mut batch, BATCH_EVENTS_MAX) => self.take(&mut batch).await,
                incoming = next(&mut fleet) => self.take_incoming(incoming, &mut fleet).await,
                _ = save.tick() => {
                    self.save();
                    Ok(())
                }
                _ = serial.tick() => self.renew_serial().await,
                Ok(()) = checks.changed() => {
                    let known = Arc::clone(&checks.borrow_and_update());
                    self.take_checks(known).await
                }
            };
            if let Err(stopped) = done {
                return stopped;
            }
            // Streams that were ended.
            while tasks.try_join_next().is_some() {}
            self.update_readiness();
            self.give_parts().await;
            // Others get them once the server that writes has listed them.
            if std::mem::take(&mut self.cluster.needs_slices) && watches {
                tracing::info!("a service needs endpoints that were not kept: they are listed");
                slices.take().inspect(AbortHandle::abort);
            }
        }
    }

    fn start_watching(&self, tasks: &mut JoinSet<()>, sender: &mpsc::Sender<Event>) {
        if !self.follows {
            let at_once = ALL.into_iter().filter(|at| *at != SLICES);
            self.spawn(tasks, sender, &at_once.collect::<Vec<_>>());
        }
    }

    /// Another cluster follows. Until all of it is known, what was published is served.
    fn begin_anew(&mut self) {
        let naming = Arc::new(self.settings.naming.clone());
        let settings = &self.settings;
        self.cluster = Cluster::new(naming, Arc::new(settings.exposed.clone()), now_seconds());
        self.cluster.configure_checks(settings.check.clone(), settings.check_cluster_ips);
        self.cluster.set_checks(Arc::clone(&self.checks.borrow_and_update()));
        settings.set_part_zones(&mut self.cluster);
        self.cluster.is_quiet = true;
        for stream in &mut self.streams {
            *stream = StreamState { is_wanted: stream.is_wanted, ..StreamState::default() };
        }
        (self.is_published, self.is_changed) = (false, false);
        self.unusable.clear();
        self.skipped.clear();
    }

    fn are_listed(&self, streams: &[usize]) -> bool {
        streams.iter().all(|at| !self.streams[*at].is_wanted || self.streams[*at].is_listed)
    }

    /// Takes all events that have come, and publishes what they change.
    async fn take(&mut self, batch: &mut Vec<Event>) -> Result<(), Stopped> {
        let mut changes = Vec::new();
        for event in batch.drain(..) {
            let (at, outcome) = self.event(event);
            match outcome {
                Outcome::Changes(more) => changes.extend(more),
                Outcome::Listed => {
                    let swept = self.end_list(at);
                    let is_first = !self.is_published;
                    if is_first && self.are_listed(&CORE) {
                        self.cluster.is_quiet = false;
                        self.publish().await?;
                        continue;
                    }
                    match swept {
                        Swept::Changes(more) => changes.extend(more),
                        // What is held is compared with what is served, so that comes first.
                        Swept::Loss => {
                            self.publisher.apply(std::mem::take(&mut changes)).await?;
                            self.publish().await?;
                        }
                    }
                }
                Outcome::State(state) => self.note(at, state),
            }
        }
        if self.is_published && !changes.is_empty() {
            self.is_new = true;
            self.publisher.apply(changes).await?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> (usize, Outcome) {
        let at = event.stream();
        match event {
            Event::Namespace(event) => self.stream(at, event, |cluster, object, kept| {
                cluster.put_namespace(&object.name, kept.is_some())
            }),
            Event::Service(event) => self.stream(at, event, put_service),
            Event::Import(event) => self.stream(at, event, |cluster, object, kept| {
                cluster.put_service((true, object), kept)
            }),
            Event::Slice(event) => self.stream(at, event, Cluster::put_slice),
            Event::KeptSlice(event) => self.stream(at, event, Cluster::put_kept_slice),
            Event::Pod(event) => self.stream(at, event, Cluster::put_pod),
            Event::DnsEndpoint(event)
            | Event::Ingress(event)
            | Event::Gateway(event)
            | Event::HttpRoute(event)
            | Event::Export(event) => {
                let kind = PartKind::OBJECTS[at - OBJECTS];
                self.stream(at, event, |cluster, object, kept| {
                    cluster.put_part_object(kind, &object, kept.as_ref());
                    Vec::new()
                })
            }
        }
    }

    /// Publishes all records.
    async fn publish(&mut self) -> Result<(), Stopped> {
        self.publisher.publish(&self.cluster).await?;
        // All records were in memory in several forms.
        sync::return_freed_memory();
        self.is_published = true;
        self.status.edit(|status| status.is_synced = true);
        Ok(())
    }

    /// Takes in which checks exist.
    async fn take_checks(&mut self, known: CheckNames) -> Result<(), Stopped> {
        let changes = self.cluster.set_checks(known);
        match self.is_published {
            true => self.publisher.apply(changes).await,
            false => Ok(()),
        }
    }

    async fn renew_serial(&mut self) -> Result<(), Stopped> {
        self.note_counts();
        self.end_holds();
        self.beat();
        self.tell_conflicts();
        self.write_statuses();
        if !std::mem::take(&mut self.is_new) {
            return Ok(());
        }
        let changes = self.cluster.renew_serial(now_seconds());
        self.publisher.apply(changes).await
    }
}

/// Seconds since 1970, as the serial of a zone.
fn now_seconds() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32
}
