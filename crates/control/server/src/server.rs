//! The running server: status, reload, commands, drain, and hand-over.
mod announcing;
mod requests;
mod status;

pub use requests::Handler;

use crate::documents::Documents;
use crate::live::Live;
use crate::rest::Rest;
use crate::sources::Sources;
use crate::stage::Stage;
use crate::store::{StoreConfig, known_views};
use crate::{zone_changes, zones};
use announcer::Announcer;
use api::Api;
use config::{StoreKind, Streams};
use control_messages::ControlMessages;
use data_plane::{AccessLists, DataPlane, Listening, QueuePort, ThreadSetup};
use durable::lock::DataLock;
use ops::Ops;
use process::Notify;
use server_status::command::{Command, CommandOutcome, ReloadOutcome};
use server_status::{ServerState, ZoneState};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use transfer::TransferThread;
use worker::{ConnectionSink, IsProxy, OnFailure};

/// A running server.
pub struct Server {
    pub started: SystemTime,
    /// The threads that answer.
    pub plane: DataPlane,
    /// The sources of records.
    pub sources: Sources,
    pub stage: Stage,
    /// The config.
    pub live: Mutex<Live>,
    /// The credentials of [api], and where they are.
    pub documents: Documents,
    pub services: Services,
    /// What the process was started with.
    pub supervision: Supervision,
}

/// What serves others beside queries.
#[derive(Default)]
pub struct Services {
    pub rest: Rest,
    /// Transfers of zones to other servers; unset: there are none.
    pub transfers: OnceLock<TransferThread>,
}

/// What ties the process to its service manager, its folder, and the keeper of its addresses.
pub struct Supervision {
    pub notify: Notify,
    /// `None`: no address is announced.
    pub announcer: Option<Arc<Announcer>>,
    /// Held for the lifetime of the process; `None`: no folder, or it cannot be locked.
    pub lock: Option<DataLock>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts the workers and stream threads. Returns the messages that they pass on, and whether
    /// each worker gets the datagrams of its CPU.
    ///
    /// # Errors
    /// A thread cannot be started, or a socket cannot be used.
    pub fn start_threads(
        &self,
        streams: &Streams,
        (listening, queues): (Vec<Listening>, Vec<QueuePort>),
        (is_proxy, transfers): (IsProxy, Option<ConnectionSink>),
        on_failure: OnFailure,
    ) -> Result<(ControlMessages, bool), Box<dyn Error>> {
        let mut control_messages = ControlMessages::new()?;
        let control_waker = control_messages.waker();
        let mut live = lock(&self.live);
        let forwards = live.forwards().forwarding().is_some();
        let zones = || self.sources.control.reader();
        let settings = &mut live.settings;
        let (controls, is_steered) = self.plane.start(ThreadSetup {
            streams,
            listening,
            queues,
            zones: &zones,
            settings,
            forwards,
            control_waker,
            transfers,
            is_proxy,
            on_failure,
        })?;
        control_messages.receive_from(controls);
        Ok((control_messages, is_steered))
    }

    /// What `[ops]` serves over HTTP.
    pub fn ops(self: &Arc<Self>, lists: AccessLists, hosts: Vec<String>) -> Ops {
        let (for_status, for_health) = (Arc::clone(self), Arc::clone(self));
        Ops {
            status: Arc::new(move || for_status.status()),
            health: Arc::new(move || for_health.check_progress()),
            allow: Arc::new(move |address| lists.may_read_metrics(address)),
            hosts: hosts.into(),
        }
    }

    /// Passes the sockets to the service manager, so that a restart loses no query.
    pub fn keep_sockets(&self) {
        self.plane.share(|sockets| self.supervision.notify.keep(sockets));
    }

    /// Writes this process's ID into the lock file.
    pub fn sign_lock(&self) {
        if let Some(lock) = &self.supervision.lock {
            lock.sign();
        }
    }

    /// Reports readiness and a summary to the service manager.
    pub fn report_ready(&self) {
        let zones = self.sources.zones.status();
        let current = zones.iter().filter(|zone| zone.state == ZoneState::Current).count();
        let (zones, listen) = (zones.len(), self.addresses());
        let notify = &self.supervision.notify;
        notify.status(&format!("{current} of {zones} zones current; listens on {listen}"));
        notify.ready();
    }

    /// The addresses that the server answers on, in words.
    pub fn addresses(&self) -> String {
        let addresses: Vec<String> =
            self.plane.addresses().iter().map(ToString::to_string).collect();
        addresses.join(" ")
    }

    /// Reads config and zones again, and waits until every zone was tried. An error in a zone does
    /// not refuse the config. Refused while the server ends: new settings would reopen streams
    /// that are being closed. A config that removes most of the zones is held, unless `accepts`.
    pub async fn reload_all(&self, accepts: bool) -> ReloadOutcome {
        let _turn = self.stage.reload().await;
        if let Some(why) = self.reload_refusal() {
            tracing::warn!("not reloaded: {why}");
            return ReloadOutcome::NotNow { reason: why };
        }
        self.supervision.notify.reloading();
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
                tracing::error!(
                    errors = errors.len(),
                    "config refused; the previous config stays \
                                                        in use"
                );
            }
            ReloadOutcome::Held { reason, .. } | ReloadOutcome::NotNow { reason } => {
                tracing::error!("not reloaded: {reason}");
            }
        }
        self.report_ready();
        reloaded
    }

    /// Runs a command on all threads, and waits until it is done.
    ///
    /// # Errors
    /// Why it is not done, and what to do.
    pub async fn command(&self, command: Command) -> Result<CommandOutcome, String> {
        let forwards = lock(&self.live).forwards().clone();
        self.plane.command(&command, &forwards).await
    }

    /// Why a reload is not possible now.
    pub fn reload_refusal(&self) -> Option<String> {
        let is_offered = self.plane.is_offered() || self.plane.is_handed_over();
        let refusal = self.stage.reload_refusal(is_offered).map(str::to_owned);
        refusal.or_else(|| server_status::failed_threads(&self.sources.failed()))
    }

    async fn try_reload(&self, accepts: bool) -> ReloadOutcome {
        let Sources { zones, prober, store, .. } = &self.sources;
        let before = zones.status();
        let (load_id, reloaded, restart_needed, checks) = {
            let mut live = lock(&self.live);
            let reloaded = match live.reload(self.plane.tap(), prober, accepts) {
                Ok(reloaded) => reloaded,
                Err(refusal) => return refusal,
            };
            self.plane.change_bypass(live.config());
            self.sources.control.set_default_checks(zones::checks(live.config()));
            let load_id = zones.reload(zones::configured(live.config(), &live.views()));
            let checks = live.config().health.checks.clone();
            (load_id, reloaded, live.status.restart_needed.clone(), checks)
        };
        // A prober that has ended is a fault of its own.
        let _ = prober.set_configured(&checks).await;
        self.plane.finish_forward_change(&reloaded.forwards).await;
        zones.wait(load_id).await;
        if let Err(why) = self.documents.credentials.mend() {
            tracing::error!("[api] admits no client: {why}");
        }
        if let Some(store) = store.get() {
            let views = {
                let live = lock(&self.live);
                known_views(live.config(), &live.views())
            };
            store.service.set_views(views);
            // A store that is ending cannot be settled, and need not be.
            let _ = store.service.settle().await;
        }
        let followed = tokio::task::spawn_blocking(self.follow_primaries()).await;
        if let Err(why) = followed.map_err(std::io::Error::other).flatten() {
            tracing::error!("zones of primaries are not followed: {why}");
        }
        let zones = zone_changes::compare(&before, &zones.status());
        ReloadOutcome::Applied { changed: reloaded.changed, zones, restart_needed }
    }

    /// Loads files that have changed by themselves: those with upstreams, and the config if
    /// `[server] watch_config` asks for it.
    pub fn follow_files(self: &Arc<Self>) {
        // What changes now is loaded once that is possible.
        if self.reload_refusal().is_some() {
            return;
        }
        let (config, servers, geo) = {
            let mut live = lock(&self.live);
            let (config, servers) = (live.config_has_changed(), live.server_files_have_changed());
            (config, servers, live.geo_files_have_changed())
        };
        let server = Arc::clone(self);
        if geo && !config {
            let server = Arc::clone(self);
            tokio::spawn(async move { server.read_geo_files().await });
        }
        if config {
            tracing::info!("the config file has changed");
            tokio::spawn(async move { server.reload_all(false).await });
        } else if servers {
            tokio::spawn(async move { server.read_server_files().await });
        }
    }

    async fn read_geo_files(&self) {
        let _turn = self.stage.reload().await;
        let (geo, systems) = {
            let live = lock(&self.live);
            (live.config().geo.clone(), live.config().systems())
        };
        let read = tokio::task::spawn_blocking(move || geo.read_files(&systems)).await;
        let read = read.map_err(|error| error.to_string());
        let read = read.and_then(|read| read.map_err(|why| why.to_string()));
        lock(&self.live).take_geo(read);
    }

    async fn read_server_files(&self) {
        let _turn = self.stage.reload().await;
        let read = lock(&self.live).read_server_files();
        match read {
            Ok(change) => self.plane.finish_forward_change(&change).await,
            Err(why) => tracing::error!("{why}; the previous upstreams stay in use"),
        }
    }

    /// Takes in the clients of the cluster, if one is watched, and follows them until it ends.
    pub fn follow_clients(self: &Arc<Self>) {
        let Some(mut feed) = self.sources.clients() else { return };
        if let Some(clients) = feed.known() {
            lock(&self.live).take_clients(clients);
        }
        let server = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(clients) = feed.next().await {
                lock(&server.live).take_clients(clients);
            }
        });
    }

    /// Attaches AF_XDP as the current config says, after the old process has detached.
    pub fn attach(&self) {
        self.plane.change_bypass(lock(&self.live).config());
    }

    /// Starts the drain: withdraws announced addresses, closes streams, keeps answering. Returns
    /// its duration.
    pub fn start_drain(&self) -> Duration {
        self.stage.set(ServerState::Draining);
        let mut live = lock(&self.live);
        live.close_streams();
        let settle =
            self.supervision.announcer.as_ref().map(|one| one.start_drain()).unwrap_or_default();
        settle + live.config().server.drain
    }

    /// Periodic work: follows the allowed CPUs, frees old settings, logs upstream faults, feeds the
    /// service manager's watchdog.
    pub fn tick(&self, watchdog: bool) {
        let mut live = lock(&self.live);
        self.plane.follow_cpus(live.started());
        live.collect();
        self.plane.log_upstreams(live.forwards());
        drop(live);
        match self.check_progress() {
            Ok(()) if watchdog => self.supervision.notify.watchdog(),
            Ok(()) => {}
            Err(why) => tracing::error!("{why}"),
        }
    }

    /// The names of all threads, in the order in which [`serve`](crate::serve) ends them.
    pub fn threads_to_end(&self) -> Vec<String> {
        self.plane.thread_names().chain(Sources::thread_names()).collect()
    }

    /// Opens the configured store and serves its zones. A store that cannot be opened is retried.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_store(&self, is_hot_restart: bool) -> std::io::Result<()> {
        let listen: Vec<String> = self.plane.addresses().iter().map(ToString::to_string).collect();
        let live = lock(&self.live);
        let config = StoreConfig::new(live.started(), &listen, &self.documents.own);
        config.views.set(known_views(live.config(), &live.views()));
        drop(live);
        self.sources.start_store(&config, is_hot_restart)?;
        if let Some(stored) = self.sources.store.get() {
            // Set only here.
            let _ = self.services.rest.records.set(stored.service.clone());
        }
        // Behind the store: a zone that both have is that of the store.
        self.follow_primaries()()
    }

    /// What follows the primaries of the current config.
    fn follow_primaries(&self) -> impl FnOnce() -> std::io::Result<()> + Send + use<> {
        let live = lock(&self.live);
        let folder = live.started().server.folder().map(Path::to_owned);
        self.sources.follow_primaries(zones::secondaries(live.config()), folder)
    }

    /// The management API of this server, over the network and at the local socket.
    pub fn api(self: &Arc<Self>) -> Api {
        let live = lock(&self.live);
        let config = live.started();
        Api {
            records: (config.store.kind != StoreKind::None)
                .then(|| Arc::clone(&self.services.rest.records)),
            credentials: Arc::clone(&self.documents.credentials),
            health: Some(self.sources.prober.clone()),
            operator: Arc::clone(self) as _,
            counters: Arc::clone(&self.services.rest.counters),
            powerdns: config.api.powerdns,
            requests_per_second: config.api.requests_per_second,
            // A restored snapshot needs room.
            spool: config.server.folder().map_or_else(std::env::temp_dir, Path::to_owned),
        }
    }
}
