//! `dunlin serve`: the order in which everything is opened, started and stopped.
use crate::documents::Documents;
use crate::limits::{HEALTH_INTERVAL, STOP_AFTER_FAILURE_MAX};
use crate::live::{ForwardSetup, Live, tap_settings};
use crate::resources::{Resources, VERSION};
use crate::server::{Handler, Server, Services, Supervision, lock};
use crate::sources::Sources;
use crate::stage::Stage;
use crate::zones;
use admin::{CompletedRestart, Endpoint, HotRestart, RestartOffer};
use announcer::Announcer;
use config::{Config, Streams};
use control_messages::{ControlMessages, Handlers, ServerContext};
use data_plane::limits::SELF_QUERY_INTERVAL;
use data_plane::{AccessLists, CorePlanner, DataPlane, Listening, QueuePort};
use durable::data_folder;
use durable::lock::DataLock;
use listen::Tls;
use process::{Action, Identity, Manager, Notify, Signals, holder, log};
use query_samples::TapThread;
use rustix::thread::CapabilitySet;
use server_status::{ServerState, Status};
use source_file::CommandId;
use std::error::Error;
use std::io::stdin;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use transfer::TlsListeners;
use worker::{IsProxy, OnFailure};
use zone_manager::{PublisherThread, ZonePublisher};

/// An error is a sentence for the operator.
type Anyhow<T> = Result<T, Box<dyn Error>>;

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions<'a> {
    /// Its config; `None`: the defaults.
    pub config: Option<&'a Path>,
    /// Whether it replaces the running server.
    pub hot_restart: Option<HotRestart>,
    /// A holder of the sockets has started it, with a socket as its standard input.
    pub is_held: bool,
}

/// Runs the server until a signal ends it. `plan_cores` places workers on cores.
///
/// # Errors
/// The server cannot start, or one of its threads ended unexpectedly.
pub fn run(options: ServeOptions<'_>, plan_cores: CorePlanner) -> Anyhow<ExitCode> {
    let ServeOptions { config: file, hot_restart, is_held } = options;
    let mut config = match Config::load(file) {
        Ok(config) => config,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let levels = log::start(&config.log);
    let (user, group) = (&config.server.user, &config.server.group);
    let identity = Identity::of_config(user, group)?;
    let Manager { sockets, notify, watchdog } = match is_held {
        true => Manager::of_holder(stdin().as_fd().try_clone_to_owned()?)?,
        // SAFETY: there is one thread, and the only file opened so far, the config, is closed.
        false => unsafe { Manager::take() }?,
    };
    if config.server.hold_sockets && !is_held {
        if !notify.is_watched() && sockets.is_empty() {
            return holder::run(&config, file, hot_restart);
        }
        tracing::warn!(
            "[server] hold_sockets has no effect: the service manager holds the sockets"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // First: an early SIGHUP must wait until it can be handled, and not end the process.
    let reload = runtime.block_on(async { signal(SignalKind::hangup()) })?;
    let resources = Resources::open(&config, hot_restart, sockets, identity, plan_cores)?;
    // Before any thread starts: a thread inherits its capabilities.
    process::drop_to(user, group, CapabilitySet::empty())?;
    let data_dir = config.server.data_dir.as_deref();
    let is_offered = resources.offer.is_some();
    let folder = data_dir.map(|folder| data_folder::settle(folder, is_offered)).transpose()?;
    config.server.own_folder = folder;
    log::start_thread()?;
    let served = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let Some(started) =
            RunningServer::start(config, levels, resources, notify, &mut signals).await?
        else {
            return Ok(ExitCode::SUCCESS);
        };
        started.run(signals, reload, watchdog).await
    });
    log::flush();
    served
}

/// A server that answers queries.
struct RunningServer {
    server: Arc<Server>,
    running: PublisherThread,
    lists: AccessLists,
    /// Receives threads that ended unexpectedly.
    failure: mpsc::UnboundedReceiver<worker::ThreadFailure>,
    admin: Option<Endpoint>,
    ops: Option<TcpListener>,
    /// Names that a Host of `[ops]` may have.
    ops_hosts: Vec<String>,
    api: Option<(TcpListener, Option<Arc<Tls>>)>,
    /// Listeners of transfers over TLS.
    transfers: Option<TlsListeners>,
    /// Ends when a new process serves.
    admin_task: Option<JoinHandle<std::io::Result<CompletedRestart>>>,
}

impl RunningServer {
    /// Loads the zones and starts to answer. `None`: a signal ended it first.
    async fn start(
        config: Config,
        levels: log::Levels,
        resources: Resources,
        notify: Notify,
        signals: &mut Signals,
    ) -> Anyhow<Option<Self>> {
        let Resources { placement, listening, shared, connections, bypass, .. } = resources;
        let Resources { ops, api, tls, transfers, admin, trust, mut offer, .. } = resources;
        let Resources { queues, dpdk, keeper, .. } = resources;
        let (lock, documents) = open_data(&config, offer.as_mut())?;
        let (control, running) = ZonePublisher::start(zones::empty_image()?)?;
        let (sources, load_id) = Sources::start(&config, control, &documents, placement.cpus())?;
        let (workers, count) = (placement.cpus().len(), config.zones.len());
        let ops_hosts = config.ops.hosts.clone();
        let streams = Streams { connections, ..config.streams.clone() };
        let setup = ForwardSetup::new(workers + streams.threads, trust, &listening);
        let (tap, lists) = (TapThread::start(tap_settings(&config))?, AccessLists::default());
        let (sockets, on_queues) = ((&listening[..], shared), (placement, bypass, dpdk));
        let plane = DataPlane::new(&config, sockets, on_queues, connections, tap);
        let announcer = Announcer::new(&config, keeper, |addresses| documents.permits(addresses));
        let announcer = announcer.map(Arc::new);
        let own_query = announcer.as_ref().map(|one| one.own_query().clone());
        let server = Arc::new(Server {
            started: SystemTime::now(),
            plane,
            sources,
            stage: Stage::new(),
            live: Mutex::new(Live::new(config, levels, lists.clone(), setup, own_query)?),
            documents,
            services: Services::default(),
            supervision: Supervision { notify, announcer, lock },
        });
        let (on_failure, failure) = failures();
        let is_proxy = lists.proxies();
        let api = api.map(|listener| (listener, tls.map(Arc::new)));
        let mut started = Self {
            server,
            running,
            lists,
            failure,
            admin,
            ops,
            ops_hosts,
            api,
            transfers,
            admin_task: None,
        };
        // During a hot restart the old process serves the admin socket and HTTP until the end.
        if offer.is_none() {
            started.start_management()?;
        }
        let is_interrupted = tokio::select! {
            loaded = started.load(load_id, offer.is_some()) => loaded.map(|()| false)?,
            () = signals.end() => true,
        };
        if is_interrupted {
            // Lets the old process continue at once.
            drop(offer);
            started.end(signals).await?;
            return Ok(None);
        }
        let steered = started.answer(&streams, (listening, queues), is_proxy, on_failure)?;
        started.hot_restart(offer).await?;
        started.server.stage.set(ServerState::Serving);
        started.server.keep_sockets();
        started.server.start_announcing()?;
        started.server.report_ready();
        let listen = started.server.addresses();
        tracing::info!(zones = count, workers, steered, listen, "serving");
        Ok(Some(started))
    }

    /// Starts the threads that answer. Returns whether each worker gets the datagrams of its CPU.
    fn answer(
        &mut self,
        streams: &Streams,
        ports: (Vec<Listening>, Vec<QueuePort>),
        is_proxy: IsProxy,
        on_failure: OnFailure,
    ) -> Anyhow<bool> {
        let server = &self.server;
        let transfers = server.start_transfers(&self.lists, self.transfers.take())?;
        let of_streams = (is_proxy, transfers);
        let (messages, steered) = server.start_threads(streams, ports, of_streams, on_failure)?;
        tokio::spawn(handle_control_messages(messages, Arc::clone(server)));
        tokio::spawn(follow_keys(Arc::clone(server)));
        Ok(steered)
    }

    /// Waits until zones of files and of the store are served.
    async fn load(&self, load_id: CommandId, is_hot_restart: bool) -> Anyhow<()> {
        self.server.sources.zones.wait(load_id).await;
        self.server.sources.wait_for_cluster().await;
        self.server.follow_clients();
        let server = Arc::clone(&self.server);
        Ok(tokio::task::spawn_blocking(move || server.start_store(is_hot_restart)).await??)
    }

    /// Serves HTTP and the admin socket from now on. Requests get an error while the server starts.
    fn start_management(&mut self) -> std::io::Result<()> {
        self.server.sign_lock();
        self.start_admin_and_ops();
        let Some((listener, tls)) = self.api.take() else { return Ok(()) };
        self.server.services.rest.start(listener, tls, self.server.api())
    }

    /// Replaces the old process, if there is one, now that this process serves all its sockets.
    async fn hot_restart(&mut self, offer: Option<RestartOffer>) -> Anyhow<()> {
        let Some(offer) = offer else { return Ok(()) };
        let old_pid = offer.pid;
        let mut admin = self.admin.take();
        let server = Arc::clone(&self.server);
        let serving = move || {
            let taken = offer.serving(|| {
                // The old process sends the keeper no heartbeats any more.
                if let Err(error) = server.start_announcing() {
                    tracing::error!("the addresses are not announced: {error}");
                }
                // The old process no longer serves, so an error here must not end this one.
                if let Some(Err(error)) = admin.as_mut().map(Endpoint::reveal) {
                    tracing::error!(
                        "`dunlin status`, `top`, `reload` and hot restart do not work: {error}"
                    );
                }
            });
            taken.map(|taken| (taken, admin))
        };
        let (taken, admin) = tokio::task::spawn_blocking(serving).await??;
        self.admin = admin;
        if let Some(problem) = taken.problem {
            tracing::warn!("not all connections were handed over: {problem}");
        }
        let connections = taken.connections.len();
        self.server.plane.adopt(taken.connections);
        tracing::info!(old_pid, connections, "hot restart done");
        self.server.attach();
        // The old process may have changed them after this one read them.
        self.server.documents.read_again();
        if let Err(error) = self.start_management() {
            tracing::error!("[api] is not served: {error}");
        }
        Ok(())
    }

    /// Starts to serve metrics, health and the admin socket.
    fn start_admin_and_ops(&mut self) {
        if let Some(listener) = self.ops.take() {
            let (server, lists) = (Arc::clone(&self.server), self.lists.clone());
            let hosts = std::mem::take(&mut self.ops_hosts);
            tokio::spawn(async move {
                let ops = server.ops(lists, hosts);
                if let Err(error) = ops::serve(listener, ops, server.stage.handed_over()).await {
                    tracing::error!("[ops] is not served: {error}");
                }
            });
        }
        self.admin_task = self.admin.take().map(|at| {
            let handler = Arc::new(Handler::new(Arc::clone(&self.server)));
            tokio::spawn(admin::AdminServer::new(at, process::groups, VERSION).run(handler))
        });
    }

    /// Serves until a signal ends it, a new process has replaced it, or a thread fails.
    async fn run(
        mut self,
        mut signals: Signals,
        reload: Signal,
        watchdog: Option<Duration>,
    ) -> Anyhow<ExitCode> {
        tokio::spawn(reload_on_signal(Arc::clone(&self.server), reload));
        if let Some(holder) = self.server.supervision.notify.holder() {
            holder::end_with(holder?)?;
        }
        let task = self.admin_task.take();
        let mut admin_task = std::pin::pin!(async move {
            match task {
                Some(task) => task.await.map_err(std::io::Error::other)?,
                None => std::future::pending().await,
            }
        });
        let mut ticks = interval(watchdog.map_or(HEALTH_INTERVAL, |own| own.min(HEALTH_INTERVAL)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ends_at = None;
        loop {
            // A hand-over in progress is awaited; it takes no longer than an end.
            let is_over = ends_at.is_some() && !self.server.plane.is_handed_over();
            tokio::select! {
                action = signals.next() => match action {
                    Action::Terminate if ends_at.is_none() => ends_at = Some(self.start_drain()),
                    Action::Terminate | Action::Interrupt => break,
                    Action::Report => data_plane::log_counters(&self.server.status().threads),
                },
                () = sleep_until(ends_at.unwrap_or_else(Instant::now)), if is_over => break,
                handed_over = &mut admin_task => return Ok(self.hand_over(handed_over?).await),
                _ = ticks.tick() => {
                    self.server.tick(watchdog.is_some());
                    self.server.follow_files();
                }
                Some(failed) = self.failure.recv() => return Err(self.fail(failed).await),
            }
        }
        self.end(&mut signals).await
    }

    /// Starts to drain: the server is no longer ready. Returns when it stops answering.
    fn start_drain(&self) -> Instant {
        self.server.supervision.notify.stopping();
        let drain = self.server.start_drain();
        if !drain.is_zero() {
            let seconds = drain.as_secs_f64();
            tracing::info!(
                seconds,
                "draining: still answering; a second signal ends the server at once"
            );
        }
        Instant::now() + drain
    }

    /// Ends because a thread failed. Waits only a while for other threads: a supervisor must see
    /// the process end.
    async fn fail(self, failure: worker::ThreadFailure) -> Box<dyn Error> {
        let names = self.server.threads_to_end();
        let stopped = tokio::task::spawn_blocking(|| self.stop());
        if timeout(STOP_AFTER_FAILURE_MAX, stopped).await.is_err() {
            let stuck = data_plane::first_alive(&names);
            let stuck = stuck.as_deref().unwrap_or("a thread without a name");
            tracing::error!("{failure}; ended without {stuck}, which does not end");
            log::flush();
            std::process::exit(1);
        }
        failure.into()
    }

    /// Stops all threads, workers first.
    fn stop(self) -> Status {
        let Self { server, running, .. } = self;
        if let Some(announcer) = &server.supervision.announcer {
            announcer.stop();
        }
        server.services.rest.stop();
        server.plane.stop();
        server.stop_transfers();
        server.sources.stop();
        running.stop();
        server.status()
    }

    async fn end(self, signals: &mut Signals) -> Anyhow<ExitCode> {
        tracing::info!("ending: received queries are answered; a further signal ends at once");
        let stopped = tokio::task::spawn_blocking(|| self.stop());
        let status = tokio::select! {
            status = stopped => status?,
            () = signals.end() => {
                tracing::warn!("ended at once by a signal");
                log::flush();
                std::process::exit(1)
            }
        };
        let seconds = (status.gathered_seconds - status.started_seconds).round();
        let all = data_plane::sum(&status.threads);
        let (received, replied) = (all.received, all.replied);
        tracing::info!(seconds, received, replied, "ended");
        Ok(ExitCode::SUCCESS)
    }

    /// The new process serves: ends without answering anything more.
    async fn hand_over(self, handed_over: CompletedRestart) -> ExitCode {
        let CompletedRestart { new_process, connections, problem } = handed_over;
        let (pid, version) = (new_process.pid, new_process.version);
        if let Some(problem) = problem {
            tracing::warn!("not all connections could be handed over: {problem}");
        }
        tracing::info!(pid, version, connections, "handed over");
        let Self { server, running, .. } = self;
        let stopped = tokio::task::spawn_blocking(move || {
            if let Some(announcer) = &server.supervision.announcer {
                announcer.stop();
            }
            server.services.rest.stop();
            server.stop_transfers();
            server.sources.stop();
            running.stop();
        });
        // A panic is logged already.
        let _ = stopped.await;
        ExitCode::SUCCESS
    }
}

/// Locks the data folder, with the lock of the old process if it offers one, and opens the sets of
/// documents.
fn open_data(
    config: &Config,
    offer: Option<&mut RestartOffer>,
) -> Anyhow<(Option<DataLock>, Documents)> {
    let offered = offer.and_then(|offer| offer.lock.take());
    let folder = config.server.folder();
    let lock = folder.map(|folder| DataLock::take(folder, offered)).transpose()?.flatten();
    Ok((lock, Documents::new(config)?))
}

/// The sender and the receiver for threads that end unexpectedly.
fn failures() -> (OnFailure, mpsc::UnboundedReceiver<worker::ThreadFailure>) {
    let (failed, failure) = mpsc::unbounded_channel();
    let on_failure: OnFailure = Arc::new(move |failure| {
        // The receiver is gone once the server ends.
        let _ = failed.send(failure);
    });
    (on_failure, failure)
}

/// Handles the messages that the data plane passes on, as long as the process runs.
async fn handle_control_messages(messages: ControlMessages, server: Arc<Server>) {
    let context: Arc<dyn ServerContext> = Arc::<Server>::clone(&server);
    let handlers = Handlers::of_server(&context, lock(&server.live).started().api.update);
    let each = || server.plane.note_self_answers();
    if let Err(error) = messages.run(handlers, SELF_QUERY_INTERVAL, each).await {
        tracing::error!("NOTIFY is not answered, and threads are not watched any more: {error}");
    }
}

/// Tells the threads the names of the keys that sign messages, as long as the process runs.
async fn follow_keys(server: Arc<Server>) {
    let credentials = Arc::clone(&server.documents.credentials);
    let mut changes = credentials.changes();
    loop {
        changes.mark_unchanged();
        lock(&server.live).set_keys(credentials.key_names());
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Reloads at each signal. Signals during a reload, or before the start is done, are merged.
async fn reload_on_signal(server: Arc<Server>, mut signal: Signal) {
    while signal.recv().await.is_some() {
        server.reload_all(false).await;
    }
}
