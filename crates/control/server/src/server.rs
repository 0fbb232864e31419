//! The running server: status, reload, commands, drain, and hand-over.
mod requests;
mod status;

pub use requests::Handler;

use crate::bypass::{Bypass, QueuePort};
use crate::commands::Commands;
use crate::control_messages::ControlMessages;
use crate::documents::Documents;
use crate::follow::Placement;
use crate::forward_table::ForwardChange;
use crate::forwarding;
use crate::health::Health;
use crate::kubernetes::{Kubernetes, THREAD as CLUSTER};
use crate::limits::{CLUSTER_POLL_INTERVAL, KUBERNETES_START_MAX};
use crate::live::Live;
use crate::rest::Rest;
use crate::sockets::Listening;
use crate::store::{StoreConfig, Stored, WRITER};
use crate::systemd::Notify;
use crate::threads::{StartedThreads, ThreadCounters, Threads, WorkerDeps};
use crate::workers::{self, AddressSocket, WorkerCpus};
use crate::zone_changes;
use crate::zones;
use ::health::{HealthService, THREAD as PROBER};
use admin::{SharedSocket, SocketKind};
use api::Api;
use config::{Config, Steering, StoreKind, Streams};
use durable::lock::DataLock;
use ops::Ops;
use query_samples::TapThread;
use server_status::command::{Command, CommandOutcome, ReloadOutcome};
use server_status::{ServerState, ZoneState};
use std::error::Error;
use std::mem;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};
use upstream::StatusView;
use worker::{HandedConnection, IsProxy, OnFailure};
use zone_manager::ZonePublisher;

/// The thread that publishes snapshots.
const CONTROL: &str = "control";

/// Error during the start.
const STARTING: &str = "the server is starting: wait until it serves (`dunlin status`)";

/// Error while a new process, which has read config and zones already, is starting.
const OFFERED: &str =
    "a hot restart is in progress, and its new process would miss the change: reload after it";

/// Error during the end.
const ENDING: &str = "the server is about to end: its last settings hold until then";

/// A running server.
pub struct Server {
    pub started: SystemTime,
    /// The addresses that the server answers on.
    pub listen: Vec<String>,
    pub control: ZonePublisher,
    pub zones: source_file::Zones,
    /// Empty while the store is opened, or without a store in the config.
    pub store: OnceLock<Stored>,
    /// The names of a Kubernetes cluster; gone once it is stopped, or none is watched.
    pub kubernetes: Mutex<Option<Kubernetes>>,
    /// Probes the addresses of record sets; `None`: there is no check.
    pub prober: HealthService,
    pub tap: TapThread,
    /// Empty until the threads are started.
    pub counters: OnceLock<Vec<ThreadCounters>>,
    /// Sends commands to the threads.
    pub commands: OnceLock<Commands>,
    /// Another descriptor of each socket, for a new process. Empty once the server ends: a new
    /// connection would wait in vain.
    pub shared: Mutex<Vec<SharedSocket>>,
    pub notify: Notify,
    /// Held for the lifetime of the process; `None`: no folder, or it cannot be locked.
    pub lock: Option<DataLock>,
    pub live: Mutex<Live>,
    pub state: Mutex<ServerState>,
    /// The AF_XDP interface.
    pub bypass: Mutex<Bypass>,
    /// `None` before zones are loaded and after the threads are stopped.
    pub threads: Mutex<Option<Threads>>,
    /// How datagrams are distributed to the workers, and the CPUs of the workers.
    pub steering: Steering,
    pub worker_cpus: WorkerCpus,
    pub placement: Mutex<Placement>,
    /// The faults of upstreams that were logged.
    pub upstream_log: Mutex<forwarding::UpstreamLog>,
    /// A new process has the sockets and does not serve yet.
    pub is_offered: AtomicBool,
    pub stream_limits: (usize, u64),
    pub health: Health,
    /// Notified when a new process serves: HTTP clients must reach that one.
    pub handed_over: tokio::sync::Notify,
    /// The credentials of [api], and where they are.
    pub documents: Documents,
    pub rest: Rest,
    /// Held during a reload: one at a time.
    pub reloading: tokio::sync::Mutex<()>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    fn views(&self) -> Vec<StatusView> {
        self.counters().iter().filter_map(|all| all.forwarded.clone()).collect()
    }

    fn counters(&self) -> &[ThreadCounters] {
        self.counters.get().map_or(&[], |counters| counters)
    }

    /// Starts the workers and stream threads; returns the messages that they pass on.
    ///
    /// # Errors
    /// A thread cannot be started, or a socket cannot be used.
    pub fn start_threads(
        &self,
        streams: &Streams,
        listening: Vec<Listening>,
        queues: Vec<QueuePort>,
        is_proxy: IsProxy,
        on_failure: OnFailure,
    ) -> Result<ControlMessages, Box<dyn Error>> {
        let mut control_messages = ControlMessages::new()?;
        let control_waker = control_messages.waker();
        let mut live = lock(&self.live);
        // Stream threads have few clients or none. Without another worker there is no owner shard
        // to query.
        let peers = match live.forwards().forwarding() {
            Some(_) => upstream::peer_shards(self.worker_cpus.len(), streams.threads)?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let settings = &mut live.settings;
        let (control, tap) = (&self.control, &self.tap);
        let deps = WorkerDeps { control, settings, tap, control_waker, peers };
        let started =
            Threads::start(streams, deps, &self.worker_cpus, listening, is_proxy, on_failure);
        let StartedThreads { threads, counters, commanders, controls } = started?;
        control_messages.receive_from(controls);
        lock(&self.bypass).begin(&threads, queues);
        // Set only here.
        let _ = (self.counters.set(counters), self.commands.set(Commands::new(commanders)));
        *lock(&self.threads) = Some(threads);
        Ok(control_messages)
    }

    /// What `[ops]` serves over HTTP.
    pub fn ops(self: &Arc<Self>, lists: crate::live::AccessLists, hosts: Vec<String>) -> Ops {
        let (told, looked_at) = (Arc::clone(self), Arc::clone(self));
        Ops {
            status: Arc::new(move || told.status()),
            health: Arc::new(move || looked_at.look_at_health()),
            allow: Arc::new(move |address| lists.may_read_metrics(address)),
            hosts: hosts.into(),
        }
    }

    /// Changes the state that the status reports.
    pub fn set_state(&self, state: ServerState) {
        *lock(&self.state) = state;
    }

    /// Passes the sockets to the service manager, so that a restart loses no query.
    pub fn keep_sockets(&self) {
        self.notify.keep(&lock(&self.shared));
    }

    /// Writes this process's ID into the lock file.
    pub fn sign_lock(&self) {
        if let Some(lock) = &self.lock {
            lock.sign();
        }
    }

    /// Reports readiness and a summary to the service manager.
    pub fn tell_ready(&self) {
        let zones = self.zones.status();
        let current = zones.iter().filter(|zone| zone.state == ZoneState::Current).count();
        let (zones, listen) = (zones.len(), self.listen.join(" "));
        self.notify.status(&format!("{current} of {zones} zones current; listens on {listen}"));
        self.notify.ready();
    }

    /// Reads config and zones again, and waits until every zone was tried. An error in a zone does
    /// not refuse the config. Refused while the server ends: new settings would reopen streams
    /// that are being closed. A config that removes most of the zones is held, unless `accepts`.
    pub async fn reload_all(&self, accepts: bool) -> ReloadOutcome {
        let _turn = self.reloading.lock().await;
        if let Some(why) = self.reload_refusal() {
            tracing::warn!("not reloaded: {why}");
            return ReloadOutcome::NotNow { reason: why };
        }
        self.notify.reloading();
        let reloaded = self.try_reload(accepts).await;
        match &reloaded {
            ReloadOutcome::Applied { changed, zones, restart_needed } => {
                let (changed, zones) = (changed.join(", "), zones.len());
                tracing::info!(changed, zones_changed = zones, "reloaded");
                if !restart_needed.is_empty() {
                    let keys = restart_needed.join(", ");
                    tracing::warn!(
                        keys,
                        "these keys need a restart, or `dunlin serve --hot-restart`"
                    );
                }
            }
            ReloadOutcome::Refused { errors } => {
                errors.iter().for_each(|error| tracing::error!("{error}"));
                tracing::error!(errors = errors.len(), "config refused; the old one stays in use");
            }
            ReloadOutcome::Held { reason, .. } | ReloadOutcome::NotNow { reason } => {
                tracing::error!("not reloaded: {reason}");
            }
        }
        self.tell_ready();
        reloaded
    }

    /// Runs a command on all threads, and waits until it is done.
    ///
    /// # Errors
    /// Why it is not done, and what to do.
    pub async fn command(&self, command: Command) -> Result<CommandOutcome, String> {
        let commands = self.commands.get().ok_or_else(|| STARTING.to_owned())?;
        if self.is_handed_over() {
            return Err(ENDING.to_owned());
        }
        let forwards = lock(&self.live).forwards().clone();
        commands.command(&command, &forwards).await
    }

    /// Why a reload is not possible now.
    pub fn reload_refusal(&self) -> Option<String> {
        let is_offered = self.is_offered.load(Ordering::Relaxed);
        let why = match *lock(&self.state) {
            ServerState::Starting => STARTING,
            ServerState::Draining => ENDING,
            ServerState::Serving if is_offered || self.is_handed_over() => OFFERED,
            ServerState::Serving => return server_status::failed_threads(&self.failed()),
        };
        Some(why.to_owned())
    }

    async fn try_reload(&self, accepts: bool) -> ReloadOutcome {
        let before = self.zones.status();
        let (load_id, reloaded, restart_needed, checks) = {
            let mut live = lock(&self.live);
            let reloaded = match live.reload(&self.tap, &self.prober, accepts) {
                Ok(reloaded) => reloaded,
                Err(refusal) => return refusal,
            };
            self.change_bypass(live.config());
            let zone_config = zones::configured(live.config());
            let load_id = self.zones.reload(zone_config);
            let checks = live.config().health.checks.clone();
            (load_id, reloaded, live.status.restart_needed.clone(), checks)
        };
        // A prober that has ended is a fault of its own.
        let _ = self.prober.set_configured(&checks).await;
        self.finish_forward_change(&reloaded.forwards).await;
        self.zones.wait(load_id).await;
        if let Err(why) = self.documents.credentials.mend() {
            tracing::error!("[api] admits no client: {why}");
        }
        if let Some(store) = self.store.get() {
            // A store that is ending cannot be settled, and need not be.
            let _ = store.service.settle().await;
        }
        let zones = zone_changes::compare(&before, &self.zones.status());
        ReloadOutcome::Applied { changed: reloaded.changed, zones, restart_needed }
    }

    /// Waits until all threads use changed forward rules, and flushes the names that have other
    /// rules now.
    async fn finish_forward_change(&self, change: &ForwardChange) {
        let Some(commands) = self.commands.get() else { return };
        if let Err(why) = commands.finish_forward_change(change).await {
            tracing::warn!("changed [forward] rules are not in use everywhere: {why}");
        }
    }

    /// Loads files that have changed by themselves: those with upstreams, and the config if
    /// `[server] watch_config` asks for it.
    pub fn follow_files(self: &Arc<Self>) {
        // What changes now is loaded once that is possible.
        if self.reload_refusal().is_some() {
            return;
        }
        let (config, servers) = {
            let mut live = lock(&self.live);
            (live.config_has_changed(), live.server_files_have_changed())
        };
        let server = Arc::clone(self);
        if config {
            tracing::info!("the config file has changed");
            tokio::spawn(async move { server.reload_all(false).await });
        } else if servers {
            tokio::spawn(async move { server.read_server_files().await });
        }
    }

    async fn read_server_files(&self) {
        let _turn = self.reloading.lock().await;
        let read = lock(&self.live).read_server_files();
        match read {
            Ok(change) => self.finish_forward_change(&change).await,
            Err(why) => tracing::error!("{why}; the upstreams of before stay in use"),
        }
    }

    /// Attaches AF_XDP as the config says, unless it is attached so already. Takes some hundredths
    /// of a second, in which no status or reload is possible; queries are answered.
    fn change_bypass(&self, config: &Config) {
        let mut bypass = lock(&self.bypass);
        let addresses = self.listen.iter().filter_map(|address| address.parse().ok()).collect();
        if let Some(threads) = &*lock(&self.threads) {
            bypass.change(config, addresses, threads);
        }
    }

    /// Attaches AF_XDP as the current config says, after the old process has detached.
    pub fn attach(&self) {
        self.change_bypass(lock(&self.live).config());
    }

    /// The new process failed before it served: gives all sockets back to this process's workers.
    pub fn restore_steering(&self) {
        let cpus = lock(&self.placement).cpus.clone();
        let shared = lock(&self.shared);
        workers::restore_steering(self.steering, &cpus, &first_sockets(&shared));
        self.is_offered.store(false, Ordering::Relaxed);
    }

    /// The workers run on other CPUs now. Returns whether each gets the datagrams of its CPU.
    pub fn steer_again(&self) -> bool {
        // Until a new process serves, its sockets must not receive anything.
        if self.is_offered.load(Ordering::Relaxed) {
            return false;
        }
        let cpus = lock(&self.placement).cpus.clone();
        let shared = lock(&self.shared);
        workers::steer(self.steering, &cpus, &first_sockets(&shared))
    }

    /// Whether a new process has, or is about to have, all sockets and connections.
    pub fn is_handed_over(&self) -> bool {
        lock(&self.threads).is_none()
    }

    /// Continues with the connections of the old process.
    pub fn adopt(&self, connections: Vec<HandedConnection>) {
        if let Some(threads) = &*lock(&self.threads) {
            threads.streams().adopt(connections);
        }
    }

    /// Starts the drain: closes streams, keeps answering. Returns its duration.
    pub fn start_drain(&self) -> Duration {
        self.set_state(ServerState::Draining);
        let mut live = lock(&self.live);
        live.close_streams();
        live.config().server.drain
    }

    /// Periodic work: follows the allowed CPUs, frees old settings, logs upstream faults, feeds the
    /// service manager's watchdog.
    pub fn tick(&self, watchdog: bool) {
        self.follow_cpus();
        let mut live = lock(&self.live);
        live.collect();
        lock(&self.upstream_log).look(&forwarding::upstreams(live.forwards(), &self.views()));
        drop(live);
        match self.look_at_health() {
            Ok(()) if watchdog => self.notify.watchdog(),
            Ok(()) => {}
            Err(why) => tracing::error!("{why}"),
        }
    }

    /// The names of all threads, in the order in which [`serve`](crate::serve) ends them.
    pub fn threads_to_end(&self) -> Vec<String> {
        let answering = self.counters().iter().map(|counters| counters.name.clone());
        let others = [source_file::LOADER, source_file::SAVER, CLUSTER, PROBER, WRITER, CONTROL];
        answering.chain(others.map(str::to_owned)).collect()
    }

    /// Waits a while until the names of the cluster are served, if one is watched.
    pub async fn wait_for_cluster(&self) {
        let is_there = || lock(&self.kubernetes).as_ref().is_none_or(|it| it.status().is_synced);
        let until = Instant::now() + KUBERNETES_START_MAX;
        while !is_there() {
            if Instant::now() > until {
                tracing::warn!(
                    "the objects of Kubernetes are not listed yet: names of the cluster answer \
                     SERVFAIL until they are"
                );
                return;
            }
            sleep(CLUSTER_POLL_INTERVAL).await;
        }
    }

    /// Opens the configured store and serves its zones. A store that cannot be opened is retried.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_store(&self, is_hot_restart: bool) -> std::io::Result<()> {
        let config =
            StoreConfig::new(lock(&self.live).started(), &self.listen, &self.documents.own);
        let stored = Stored::start(&config, &self.control, is_hot_restart)?;
        if let Some(stored) = stored {
            // Set only here.
            let _ = (self.rest.records.set(stored.service.clone()), self.store.set(stored));
        }
        Ok(())
    }

    /// The management API of this server, over the network and at the local socket.
    pub fn api(self: &Arc<Self>) -> Api {
        let live = lock(&self.live);
        let config = live.started();
        Api {
            records: (config.store.kind != StoreKind::None).then(|| Arc::clone(&self.rest.records)),
            credentials: Arc::clone(&self.documents.credentials),
            health: Some(self.prober.clone()),
            operator: Arc::clone(self) as _,
            counters: Arc::clone(&self.rest.counters),
            requests_per_second: config.api.requests_per_second,
            // A restored snapshot needs room.
            spool: config.server.folder().map_or_else(std::env::temp_dir, Path::to_owned),
        }
    }

    /// Stops the threads that change zones, sources first.
    pub fn stop_changes(&self) {
        self.zones.stop();
        // Waited for outside of the lock: who asks for the status does not wait as well.
        {
            let _cluster = lock(&self.kubernetes).take();
        }
        self.prober.stop();
        if let Some(store) = self.store.get() {
            store.stop();
        }
    }

    /// Answers received queries, and ends workers and stream threads.
    pub fn stop(&self) {
        lock(&self.shared).clear();
        lock(&self.bypass).end();
        let threads = mem::take(&mut *lock(&self.threads));
        threads.into_iter().for_each(Threads::stop);
    }
}

/// One UDP socket of each address, the first of its group.
fn first_sockets(shared: &[SharedSocket]) -> Vec<AddressSocket<'_>> {
    let mut first: Vec<AddressSocket<'_>> = Vec::new();
    for SharedSocket { kind, address, fd, .. } in shared {
        if *kind == SocketKind::Udp && first.iter().all(|(known, _)| known != address) {
            first.push((*address, fd.as_fd()));
        }
    }
    first
}
