//! The running server as its surroundings meet it: it tells of itself, takes other settings, and
//! gives its place away.
mod asked;

pub use asked::Handler;

use crate::bypass::{Bypass, QueuePort};
use crate::commands::Commands;
use crate::forwarding;
use crate::gather::{self, seconds};
use crate::health::Health;
use crate::live::Live;
use crate::opened::VERSION;
use crate::rest::Rest;
use crate::sockets::Listening;
use crate::store::{DESK, Stored};
use crate::systemd::Notify;
use crate::threads::{Begun, Counted, Threads, WorkerDeps};
use crate::workers::{self, OneOf, Places};
use crate::zone_changes;
use crate::zones::{self, Wanted, Zones};
use admin::{Command, CommandOutcome, ReloadOutcome, SharedSocket, SocketKind};
use api::Credentials;
use config::{Config, Steering, Streams};
use ops::Ops;
use query_samples::TapThread;
use std::error::Error;
use std::mem;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use upstream::{StatusView, TrustAnchors};
use worker::{Connections, HandedConnection, IsProxy, OnFailure};
use zone_manager::ZonePublisher;
use zone_manager::lock::DataLock;
use zone_manager::status::{ApiStatus, Process, ServerState, Status, ZoneState};

/// The thread that publishes what is answered.
const CONTROL: &str = "control";

/// Said to who comes too early.
const STARTING: &str = "the server is starting: wait until it serves (`dunlin status`)";

/// Said to who comes while a successor, which has read config and zones already, is on its way.
const OFFERED: &str =
    "a successor is taking over, and would not know of a change: reload again when it has";

/// Said to who comes too late.
const ENDING: &str = "the server is about to end: what it was told last holds until then";

/// A running server.
pub struct Server {
    pub started: SystemTime,
    /// The addresses it answers on.
    pub listen: Vec<String>,
    pub control: ZonePublisher,
    pub zones: Zones,
    /// Not there while it is opened, nor where the config asks for none.
    pub store: OnceLock<Stored>,
    pub tap: TapThread,
    /// What the threads count; nothing: they are not started yet.
    pub counted: OnceLock<Vec<Counted>>,
    /// Who tells them something.
    pub commands: OnceLock<Commands>,
    /// Another descriptor of each socket, for a successor. None once the end has come: who connects
    /// then would wait for nobody.
    pub shared: Mutex<Vec<SharedSocket>>,
    pub notify: Notify,
    /// Held as long as this process is there; nothing: there is no folder, or it cannot be locked.
    pub lock: Option<DataLock>,
    pub live: Mutex<Live>,
    pub state: Mutex<ServerState>,
    /// What is served past the kernel.
    pub bypass: Mutex<Bypass>,
    /// Not there yet while zones are loaded, gone once they are stopped.
    pub threads: Mutex<Option<Threads>>,
    /// How datagrams are dealt to the workers, and where these run.
    pub steering: Steering,
    pub places: Places,
    /// Whose certificates are believed.
    pub trust: Option<TrustAnchors>,
    /// How servers stood that are asked.
    pub watched: Mutex<forwarding::UpstreamLog>,
    /// A successor has our sockets, and has not come to serve yet.
    pub is_offered: AtomicBool,
    pub stream_limits: (usize, u64),
    pub health: Health,
    /// Told when a successor serves: who asks by HTTP from then on is to meet that one.
    pub given_away: tokio::sync::Notify,
    /// Who may come in by [api].
    pub credentials: Arc<Credentials>,
    /// The thread of the REST API.
    pub rest: Rest,
    /// Held by who reloads: one after the other.
    pub reloading: tokio::sync::Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// All there is to tell.
    pub fn status(&self) -> Status {
        let threads: Vec<_> = self.counted().iter().map(gather::thread).collect();
        let connections = lock(&self.threads)
            .as_ref()
            .map_or_else(Connections::default, |threads| threads.streams().connections());
        let (open_max, memory_max) = self.stream_limits;
        let (generation, published) = self.control.published();
        let views = self.views();
        let live = lock(&self.live);
        let config = live.started();
        let (upstreams, cache) = (
            forwarding::upstreams(&config.forwards, &views),
            forwarding::cache(&config.cache, &views),
        );
        let config = live.status.clone();
        drop(live);
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            state: *lock(&self.state),
            started_seconds: seconds(self.started),
            gathered_seconds: seconds(SystemTime::now()),
            listen: self.listen.clone(),
            config,
            upstreams,
            cache,
            generation,
            generation_seconds: seconds(published),
            zones: self.zones.status(),
            hosts: self.zones.hosts(),
            xdp: lock(&self.bypass).status(),
            saving: self.zones.trouble(),
            streams: gather::streams(&connections, open_max, memory_max),
            imbalance: gather::imbalance(&threads),
            failed: self.failed(),
            threads,
            store: self.store.get().map(Stored::status),
            api: self.rest.status().map(|api| ApiStatus { fault: self.credentials.fault(), ..api }),
            process: Process::read(),
            tap: self.tap.status(),
            hot: self.tap.hot(),
        }
    }

    /// The counters of the threads' upstream clients.
    fn views(&self) -> Vec<StatusView> {
        self.counted().iter().filter_map(|all| all.forwarded.clone()).collect()
    }

    fn counted(&self) -> &[Counted] {
        self.counted.get().map_or(&[], |counted| counted)
    }

    /// Starts the threads that answer.
    ///
    /// # Errors
    /// A thread cannot be started, or a socket not be used.
    pub fn start_threads(
        &self,
        streams: &Streams,
        listening: Vec<Listening>,
        queues: Vec<QueuePort>,
        is_proxy: IsProxy,
        on_failure: OnFailure,
    ) -> Result<(), Box<dyn Error>> {
        let mut live = lock(&self.live);
        let threads = self.places.len() + streams.threads;
        let forwarding = forwarding::forwarding(live.config(), threads, self.trust.clone());
        let settings = &mut live.settings;
        // A stream thread has fewer clients, or none: where there is one worker, what that is
        // asked for stays with it.
        let peers = match forwarding {
            Some(_) => upstream::peer_shards(self.places.len(), streams.threads)?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let kitchen =
            WorkerDeps { control: &self.control, settings, tap: &self.tap, forwarding, peers };
        let started =
            Threads::start(streams, kitchen, &self.places, listening, is_proxy, on_failure);
        let Begun { threads, counted, told } = started?;
        lock(&self.bypass).begin(&threads, queues);
        // Nobody else starts them.
        let _ = (self.counted.set(counted), self.commands.set(Commands::new(told)));
        *lock(&self.threads) = Some(threads);
        Ok(())
    }

    /// The threads that ended by themselves, and that answering does not need.
    fn failed(&self) -> Vec<String> {
        let each = [
            (zones::LOADER, self.zones.have_failed()),
            (CONTROL, self.control.has_failed()),
            (DESK, self.store.get().is_some_and(|store| store.desk.has_failed())),
        ];
        each.into_iter().filter(|(_, failed)| *failed).map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether every thread that answers gets on, and those are there that change what is answered.
    ///
    /// # Errors
    /// Which does not.
    pub fn look_at_health(&self) -> Result<(), String> {
        if let Some(why) = zone_manager::status::failed_threads(&self.failed()) {
            return Err(why);
        }
        self.health.look(self.counted(), Instant::now())
    }

    /// What operators' tools are told over HTTP.
    pub fn ops(self: &Arc<Self>, lists: crate::live::Lists) -> Ops {
        let (told, looked_at) = (Arc::clone(self), Arc::clone(self));
        Ops {
            status: Arc::new(move || told.status()),
            health: Arc::new(move || looked_at.look_at_health()),
            allow: Arc::new(move |address| lists.may_watch(address)),
        }
    }

    /// From now on it serves, or is about to end.
    pub fn set_state(&self, state: ServerState) {
        *lock(&self.state) = state;
    }

    /// Has the service manager keep the sockets, so that a restart loses nothing.
    pub fn keep_sockets(&self) {
        self.notify.keep(&lock(&self.shared));
    }

    /// Writes down that the folder of the data is this process's.
    pub fn sign_lock(&self) {
        if let Some(lock) = &self.lock {
            lock.sign();
        }
    }

    /// Tells the service manager that all is done, and how things are.
    pub fn tell_ready(&self) {
        let zones = self.zones.status();
        let current = zones.iter().filter(|zone| zone.state == ZoneState::Current).count();
        let (zones, listen) = (zones.len(), self.listen.join(" "));
        self.notify.status(&format!("{current} of {zones} zones current; listens on {listen}"));
        self.notify.ready();
    }

    /// Reads config and zones again, and waits until every zone was tried. What is wrong with a
    /// zone is not the config's fault: it is told, and the rest is taken over. Refused once the
    /// end has begun: it would let streams live again that were told to close.
    pub async fn reload_all(&self) -> ReloadOutcome {
        let _turn = self.reloading.lock().await;
        if let Some(why) = self.objection() {
            tracing::warn!("not reloaded: {why}");
            return ReloadOutcome::Refused { errors: vec![why] };
        }
        self.notify.reloading();
        let reloaded = self.try_reload().await;
        match &reloaded {
            ReloadOutcome::Applied { changed, zones, restart_needed } => {
                let (changed, zones) = (changed.join(", "), zones.len());
                tracing::info!(changed, zones_changed = zones, "reloaded");
                if !restart_needed.is_empty() {
                    let keys = restart_needed.join(", ");
                    tracing::warn!(
                        keys,
                        "these wait for a restart, or for `dunlin serve --hot-restart`"
                    );
                }
            }
            ReloadOutcome::Refused { errors } => {
                errors.iter().for_each(|error| tracing::error!("{error}"));
                tracing::error!(errors = errors.len(), "config refused; what held before goes on");
            }
        }
        self.tell_ready();
        reloaded
    }

    /// Has the threads do something, and waits until they have.
    ///
    /// # Errors
    /// Why they have not, and what to do.
    pub async fn command(&self, command: Command) -> Result<CommandOutcome, String> {
        let commands = self.commands.get().ok_or_else(|| STARTING.to_owned())?;
        if self.is_given_away() {
            return Err(ENDING.to_owned());
        }
        let forwards = lock(&self.live).started().forwards.clone();
        commands.command(&command, &forwards).await
    }

    /// Why nothing can be reloaded now.
    pub fn objection(&self) -> Option<String> {
        let is_offered = self.is_offered.load(Ordering::Relaxed);
        let why = match *lock(&self.state) {
            ServerState::Starting => STARTING,
            ServerState::Draining => ENDING,
            ServerState::Serving if is_offered || self.is_given_away() => OFFERED,
            ServerState::Serving => return zone_manager::status::failed_threads(&self.failed()),
        };
        Some(why.to_owned())
    }

    async fn try_reload(&self) -> ReloadOutcome {
        let before = self.zones.status();
        let (wished, changed, restart_needed) = {
            let mut live = lock(&self.live);
            let changed = match live.reload(&self.tap) {
                Ok(changed) => changed,
                Err(errors) => return ReloadOutcome::Refused { errors },
            };
            self.change_bypass(live.config());
            let wanted = Wanted::new(live.config(), &live.started().forwards);
            let wished = self.zones.reload(wanted);
            (wished, changed, live.status.restart_needed.clone())
        };
        self.zones.granted(wished).await;
        if let Err(why) = self.credentials.mend() {
            tracing::error!("[api] lets no client in: {why}");
        }
        if let Some(store) = self.store.get() {
            // One that ends meanwhile has nothing to ask anew.
            let _ = store.desk.settle().await;
        }
        let zones = zone_changes::compare(&before, &self.zones.status());
        ReloadOutcome::Applied { changed, zones, restart_needed }
    }

    /// Serves past the kernel what a config says, if that is not so already. Takes some hundredths
    /// of a second, for which nothing else is told or changed; what is asked is answered.
    fn change_bypass(&self, config: &Config) {
        let mut bypass = lock(&self.bypass);
        let addresses = self.listen.iter().filter_map(|address| address.parse().ok()).collect();
        if let Some(threads) = &*lock(&self.threads) {
            bypass.change(config, addresses, threads);
        }
    }

    /// Serves past the kernel what the config that holds says, now that a predecessor does not.
    pub fn attach(&self) {
        self.change_bypass(lock(&self.live).config());
    }

    /// Whoever was offered the sockets did not come to serve. They are dealt to our workers again,
    /// as before it had them dealt to its own.
    pub fn go_on(&self) {
        let shared = lock(&self.shared);
        let mut first_of_each: Vec<OneOf<'_>> = Vec::new();
        for SharedSocket { kind, address, fd, .. } in &*shared {
            if *kind == SocketKind::Udp && first_of_each.iter().all(|(known, _)| known != address) {
                first_of_each.push((*address, fd.as_fd()));
            }
        }
        workers::steer_again(self.steering, &self.places, &first_of_each);
        self.is_offered.store(false, Ordering::Relaxed);
    }

    /// Whether a successor has, or is about to have, all that was served here.
    pub fn is_given_away(&self) -> bool {
        lock(&self.threads).is_none()
    }

    /// Goes on with the connections of a predecessor.
    pub fn adopt(&self, connections: Vec<HandedConnection>) {
        if let Some(threads) = &*lock(&self.threads) {
            threads.streams().adopt(connections);
        }
    }

    /// Tells everybody that it is about to end, and goes on answering; for how long.
    pub fn begin_to_end(&self) -> Duration {
        self.set_state(ServerState::Draining);
        let mut live = lock(&self.live);
        live.close_streams();
        live.config().server.drain
    }

    /// What is to be done every now and then; the service manager is told that all is well, if it
    /// has a watchdog.
    pub fn tick(&self, watchdog: bool) {
        let mut live = lock(&self.live);
        live.collect();
        lock(&self.watched).look(&forwarding::upstreams(&live.started().forwards, &self.views()));
        drop(live);
        match self.look_at_health() {
            Ok(()) if watchdog => self.notify.watchdog(),
            Ok(()) => {}
            Err(why) => tracing::error!("{why}"),
        }
    }

    /// The names of all threads that [`serve`](crate::serve) ends, in the order in which it does.
    pub fn threads_to_end(&self) -> Vec<String> {
        let answering = self.counted().iter().map(|counted| counted.name.clone());
        answering.chain([zones::LOADER, zones::SAVER, DESK, CONTROL].map(str::to_owned)).collect()
    }

    /// Opens the store that the config asks for, and has its zones answered. One that cannot be
    /// opened is tried again until it can.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start_store(&self, takes_over: bool) -> std::io::Result<()> {
        let wanted = {
            let live = lock(&self.live);
            (live.started().store.kind, live.started().server.data_dir.clone())
        };
        let others = self.zones.others();
        let stored = Stored::start(wanted, &self.control, others, takes_over)?;
        if let Some(stored) = stored {
            // It is started once.
            let _ = (self.rest.desk.set(stored.desk.clone()), self.store.set(stored));
        }
        Ok(())
    }

    /// How often each may ask by [api], and where a snapshot has room.
    pub fn rest_settings(&self) -> (u32, PathBuf) {
        let live = lock(&self.live);
        let config = live.started();
        let folder = config.server.data_dir.clone().unwrap_or_else(std::env::temp_dir);
        (config.api.requests_per_second, folder)
    }

    /// Ends what brings changes, those first that others bring.
    pub fn stop_changes(&self) {
        self.zones.stop();
        if let Some(store) = self.store.get() {
            store.stop();
        }
    }

    /// Answers what has arrived, and ends the threads that answer.
    pub fn stop(&self) {
        lock(&self.shared).clear();
        lock(&self.bypass).end();
        let threads = mem::take(&mut *lock(&self.threads));
        threads.into_iter().for_each(Threads::stop);
    }
}
