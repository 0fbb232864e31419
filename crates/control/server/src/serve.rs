//! `dunlin serve`: the order in which all is opened, started and told, and stopped again.
use crate::health::Health;
use crate::limits::{GIVE_UP_MAX, HEALTH_INTERVAL};
use crate::live::{Lists, Live, tap_settings};
use crate::opened::{Opened, VERSION};
use crate::privileges::{self, Identity};
use crate::rest::Rest;
use crate::server::{Handler, Server};
use crate::sockets::Listening;
use crate::systemd::Manager;
use crate::workers::CorePlanner;
use crate::zones::{self, Wanted, Zones};
use crate::{gather, log, peer, threads, workers};
use admin::{CompletedRestart, Connection, Endpoint, RestartOffer};
use api::{Credentials, Tls};
use config::{Config, Streams};
use query_samples::TapThread;
use rustix::thread::CapabilitySet;
use source_file::CommandId;
use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use worker::{HandedConnection, OnFailure};
use zone_manager::lock::DataLock;
use zone_manager::status::{ServerState, Status};
use zone_manager::{PublisherThread, ZonePublisher};

/// Where credentials of the API are kept, in the data folder.
const CREDENTIALS: &str = "credentials.json";

/// What everything here may fail with: a sentence for the operator.
type Anyhow<T> = Result<T, Box<dyn Error>>;

/// Runs the server with a config, or with the defaults, until it is asked to end. With
/// `hot_restart` it replaces the server that runs. `plan_cores` places workers on cores.
///
/// # Errors
/// The server cannot start, or one of its threads ended by itself.
pub fn run(config: Option<&Path>, hot_restart: bool, plan_cores: CorePlanner) -> Anyhow<ExitCode> {
    let config = match Config::load(config) {
        Ok(config) => config,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let levels = log::start(&config.log);
    let (user, group) = (&config.server.user, &config.server.group);
    let identity = Identity::wanted(user, group)?;
    // SAFETY: there is one thread, and what was opened, the config, is closed again.
    let Manager { sockets, notify, watchdog } = unsafe { Manager::take() }?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before anything takes long: it waits until there is something to reload, and does not kill.
    let reload = runtime.block_on(async { signal(SignalKind::hangup()) })?;
    let opened = Opened::open(&config, hot_restart, sockets, identity, plan_cores)?;
    // Before any thread starts: each has its capabilities from the one that starts it.
    privileges::drop_to(user, group, CapabilitySet::empty())?;
    log::start_thread()?;
    let served = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let Some(started) = Started::start(config, levels, opened, notify, &mut signals).await?
        else {
            return Ok(ExitCode::SUCCESS);
        };
        started.run(signals, reload, watchdog).await
    });
    log::flush();
    served
}

/// A server that answers.
struct Started {
    server: Arc<Server>,
    running: PublisherThread,
    lists: Lists,
    /// Tells of a thread that ended by itself.
    failure: mpsc::UnboundedReceiver<worker::ThreadFailure>,
    admin: Option<Endpoint>,
    ops: Option<TcpListener>,
    api: Option<(TcpListener, Option<Arc<Tls>>)>,
    /// Ends when a successor has taken over.
    asked: Option<JoinHandle<std::io::Result<CompletedRestart>>>,
}

impl Started {
    /// Loads the zones and starts to answer. Nothing: it was told to end before that.
    async fn start(
        config: Config,
        levels: log::Levels,
        opened: Opened,
        notify: crate::systemd::Notify,
        signals: &mut Signals,
    ) -> Anyhow<Option<Self>> {
        let started = SystemTime::now();
        let Opened { places, listening, shared, connections, ops, api, tls, .. } = opened;
        let Opened { admin, trust, mut offer, .. } = opened;
        let (lock, credentials) = open_data(&config, offer.as_mut())?;
        let wanted = Wanted::new(&config, &config.forwards);
        let (control, running) = ZonePublisher::start(zones::first_image(&wanted)?)?;
        let (zones, wished) = Zones::start(&control, wanted, config.server.data_dir.as_deref())?;
        let (steering, count) = (config.server.steering, config.zones.len());
        let streams = Streams { connections, ..config.streams.clone() };
        let listen: Vec<_> = listening.iter().map(|all| all.address.to_string()).collect();
        let tap = TapThread::start(tap_settings(&config))?;
        let lists = Lists::default();
        let server = Arc::new(Server {
            started,
            listen,
            control,
            zones,
            store: OnceLock::new(),
            tap,
            counted: OnceLock::new(),
            commands: OnceLock::new(),
            shared: Mutex::new(shared),
            notify,
            live: Mutex::new(Live::new(config, levels, lists.clone())?),
            state: Mutex::new(ServerState::Starting),
            bypass: Mutex::new(opened.bypass),
            threads: Mutex::default(),
            steering,
            lock,
            places,
            trust,
            watched: Mutex::default(),
            is_offered: AtomicBool::new(false),
            stream_limits: (connections, streams.memory),
            health: Health::default(),
            given_away: tokio::sync::Notify::new(),
            credentials: Arc::new(credentials),
            rest: Rest::default(),
            reloading: tokio::sync::Mutex::default(),
        });
        let (on_failure, failure) = failures();
        let is_proxy = lists.proxies();
        let api = api.map(|listener| (listener, tls.map(Arc::new)));
        let mut started = Self { server, running, lists, failure, admin, ops, api, asked: None };
        // Who takes over has nobody asked before the other one no longer is.
        if offer.is_none() {
            started.let_in()?;
        }
        let is_told_to_end = tokio::select! {
            loaded = started.load(wished, offer.is_some()) => loaded.map(|()| false)?,
            () = signals.end() => true,
        };
        if is_told_to_end {
            // Its predecessor need not wait for that.
            drop(offer);
            started.end(signals).await?;
            return Ok(None);
        }
        let server = &started.server;
        let first = Listening::first_of_each(&listening);
        let steered = workers::steer(steering, &server.places, &first);
        server.start_threads(&streams, listening, opened.queues, is_proxy, on_failure)?;
        started.hot_restart(offer).await?;
        started.server.set_state(ServerState::Serving);
        started.server.keep_sockets();
        started.server.tell_ready();
        let (workers, listen) = (started.server.places.len(), started.server.listen.join(" "));
        tracing::info!(zones = count, workers, steered, listen, "serving");
        Ok(Some(started))
    }

    /// Waits until the zones of files and of the store are answered.
    async fn load(&self, wished: CommandId, takes_over: bool) -> Anyhow<()> {
        self.server.zones.granted(wished).await;
        let server = Arc::clone(&self.server);
        Ok(tokio::task::spawn_blocking(move || server.start_store(takes_over)).await??)
    }

    /// Is asked over HTTP and over the admin socket from now on. What is not there yet is told to
    /// come later.
    fn let_in(&mut self) -> std::io::Result<()> {
        self.server.sign_lock();
        self.be_asked();
        let Some((listener, tls)) = self.api.take() else { return Ok(()) };
        self.server.rest.start(listener, tls, self.server.rest_settings(), &self.server)
    }

    /// Takes the place of the server that made an offer, if one did, now that all its sockets are
    /// served here.
    async fn hot_restart(&mut self, offer: Option<RestartOffer>) -> Anyhow<()> {
        let Some(offer) = offer else { return Ok(()) };
        let predecessor = offer.pid;
        let mut admin = self.admin.take();
        let serving = move || {
            let taken = offer.serving(|| {
                // Nobody else serves any more: what goes wrong is told, and no reason to end.
                if let Some(Err(error)) = admin.as_mut().map(Endpoint::reveal) {
                    tracing::error!("no `dunlin status`, `top`, `reload` and hot restart: {error}");
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
        self.server.adopt(taken.connections.into_iter().map(handed).collect());
        tracing::info!(predecessor, connections, "took over");
        self.server.attach();
        // It may have made and revoked some since they were read.
        if let Err(why) = self.server.credentials.read_again() {
            tracing::error!("credentials of before the hot restart hold: {why}");
        }
        if let Err(error) = self.let_in() {
            tracing::error!("[api] is not served: {error}");
        }
        Ok(())
    }

    /// Has who asks, over HTTP or the admin socket, be told from now on.
    fn be_asked(&mut self) {
        if let Some(listener) = self.ops.take() {
            let (server, lists) = (Arc::clone(&self.server), self.lists.clone());
            tokio::spawn(async move {
                let ops = server.ops(lists);
                if let Err(error) = ops::serve(listener, ops, server.given_away.notified()).await {
                    tracing::error!("[ops] is not served: {error}");
                }
            });
        }
        self.asked = self.admin.take().map(|at| {
            let handler = Arc::new(Handler(Arc::clone(&self.server)));
            tokio::spawn(admin::AdminServer::new(at, peer::groups, VERSION).run(handler))
        });
    }

    /// Serves until it is told to end, a successor has taken over, or a thread fails.
    async fn run(
        mut self,
        mut signals: Signals,
        reload: Signal,
        watchdog: Option<Duration>,
    ) -> Anyhow<ExitCode> {
        tokio::spawn(reload_when_told(Arc::clone(&self.server), reload));
        let task = self.asked.take();
        let mut asked = std::pin::pin!(async move {
            match task {
                Some(task) => task.await.map_err(std::io::Error::other)?,
                None => std::future::pending().await,
            }
        });
        let mut ticks = interval(watchdog.map_or(HEALTH_INTERVAL, |own| own.min(HEALTH_INTERVAL)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ends_at = None;
        loop {
            // Who is given everything is waited for: that takes no longer than ending does.
            let is_over = ends_at.is_some() && !self.server.is_given_away();
            tokio::select! {
                told = signals.next() => match told {
                    Told::Terminate if ends_at.is_none() => ends_at = Some(self.begin_to_end()),
                    Told::Terminate | Told::Interrupt => break,
                    Told::Report => gather::log(&self.server.status().threads),
                },
                () = sleep_until(ends_at.unwrap_or_else(Instant::now)), if is_over => break,
                handed_over = &mut asked => return Ok(self.hand_over(handed_over?).await),
                _ = ticks.tick() => self.server.tick(watchdog.is_some()),
                Some(failure) = self.failure.recv() => return Err(self.give_up(failure).await),
            }
        }
        self.end(&mut signals).await
    }

    /// From now on it is not ready any more; until when it goes on answering.
    fn begin_to_end(&self) -> Instant {
        self.server.notify.stopping();
        let drain = self.server.begin_to_end();
        if !drain.is_zero() {
            let seconds = drain.as_secs_f64();
            tracing::info!(
                seconds,
                "ending: still answering for a while; a second signal cuts it short"
            );
        }
        Instant::now() + drain
    }

    /// Ends since a thread failed. Another that hangs, be it for the same reason, holds up the end
    /// only for a while: whoever watches this process is to see it ended.
    async fn give_up(self, failure: worker::ThreadFailure) -> Box<dyn Error> {
        let names = self.server.threads_to_end();
        let stopped = tokio::task::spawn_blocking(|| self.stop());
        if timeout(GIVE_UP_MAX, stopped).await.is_err() {
            let stuck = threads::first_alive(&names);
            let stuck = stuck.as_deref().unwrap_or("a thread without a name");
            tracing::error!("{failure}; {stuck} does not end: ended without it");
            log::flush();
            std::process::exit(1);
        }
        failure.into()
    }

    /// Ends all threads, those first that answer.
    fn stop(self) -> Status {
        let Self { server, running, .. } = self;
        server.rest.stop();
        server.stop();
        server.stop_changes();
        running.stop();
        server.status()
    }

    async fn end(self, signals: &mut Signals) -> Anyhow<ExitCode> {
        tracing::info!("ending: what has been received is answered; one more signal ends at once");
        let stopped = tokio::task::spawn_blocking(|| self.stop());
        let status = tokio::select! {
            status = stopped => status?,
            () = signals.end() => {
                tracing::warn!("ended at once, as a signal wished");
                log::flush();
                std::process::exit(1)
            }
        };
        let seconds = (status.gathered_seconds - status.started_seconds).round();
        let all = gather::sum(&status.threads);
        let (received, replied) = (all.received, all.replied);
        tracing::info!(seconds, received, replied, "ended");
        Ok(ExitCode::SUCCESS)
    }

    /// A successor serves: nothing is left to answer.
    async fn hand_over(self, handed_over: CompletedRestart) -> ExitCode {
        let CompletedRestart { new_process: successor, connections, problem } = handed_over;
        let (pid, version) = (successor.pid, successor.version);
        if let Some(problem) = problem {
            tracing::warn!("not all connections could be handed over: {problem}");
        }
        tracing::info!(pid, version, connections, "handed over");
        let Self { server, running, .. } = self;
        let stopped = tokio::task::spawn_blocking(move || {
            server.rest.stop();
            server.stop_changes();
            running.stop();
        });
        // It panicked at worst, which is logged, and there is nothing left to do here.
        let _ = stopped.await;
        ExitCode::SUCCESS
    }
}

/// Locks the folder of the data, by the lock of the server that made an offer where that has it,
/// and reads the credentials in it.
fn open_data(
    config: &Config,
    offer: Option<&mut RestartOffer>,
) -> Result<(Option<DataLock>, Credentials), String> {
    let Some(folder) = &config.server.data_dir else {
        return Ok((None, Credentials::open(None)));
    };
    let lock = DataLock::take(folder, offer.and_then(|offer| offer.lock.take()))?;
    let file = Some(folder.join(CREDENTIALS));
    let credentials = match config.api.listen {
        Some(_) => Credentials::open(file),
        None => Credentials::unread(file),
    };
    Ok((lock, credentials))
}

/// Where threads tell that they ended by themselves, and where that is heard.
fn failures() -> (OnFailure, mpsc::UnboundedReceiver<worker::ThreadFailure>) {
    let (failed, failure) = mpsc::unbounded_channel();
    let on_failure: OnFailure = Arc::new(move |failure| {
        // Nobody listens any more once the server ends.
        let _ = failed.send(failure);
    });
    (on_failure, failure)
}

/// A connection as the plane takes it.
fn handed(connection: Connection) -> HandedConnection {
    let Connection { fd, peer, client, header_due, inbox } = connection;
    HandedConnection { stream: fd, peer, client, header_due, inbox }
}

/// Reloads at each signal. Those that come while it does, or before it could, are one.
async fn reload_when_told(server: Arc<Server>, mut signal: Signal) {
    while signal.recv().await.is_some() {
        server.reload_all().await;
    }
}

/// What this process is told from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Terminate,
    Interrupt,
    Report,
}

/// The signals it is told by.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    report: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            report: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Terminate,
            _ = self.interrupt.recv() => Told::Interrupt,
            _ = self.report.recv() => Told::Report,
        }
    }

    /// Waits for the signal to end, whatever else comes before.
    async fn end(&mut self) {
        while !matches!(self.next().await, Told::Terminate | Told::Interrupt) {}
    }
}
