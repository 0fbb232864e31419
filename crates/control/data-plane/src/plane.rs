//! The data plane of a running server: its threads, the sockets that they serve, and where they
//! run.
use crate::bypass::{Bypass, QueuePort};
use crate::commands::Commands;
use crate::dpdk::DpdkDevices;
use crate::forward_table::{ForwardChange, ForwardTable};
use crate::forwarding::{self, UpstreamLog};
use crate::gather;
use crate::placement::{self, AddressSocket, Placement};
use crate::pulse::Pulses;
use crate::sockets::Listening;
use crate::threads::{StartedThreads, ThreadCounters, Threads, WorkerDeps, ZoneReaders};
use admin::{Connection, SharedSocket, SocketKind};
use config::{Cache, Config, Steering, Streams};
use handler::{ControlReceiver, Settings};
use query_samples::TapThread;
use server_status::command::{Command, CommandOutcome};
use server_status::{NetworkStatus, Status};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use sync::Publisher;
use upstream::StatusView;
use worker::{ConnectionSink, Connections, HandedConnection, IsProxy, OnFailure};

/// Error of a command before the threads answer.
pub const STARTING: &str = "the server is starting: wait until it serves (`dunlin status`)";

/// Error during the end.
pub const ENDING: &str = "the server is about to end: its last settings hold until then";

/// The threads that answer, and what they run on.
pub struct DataPlane {
    /// The addresses that it answers on.
    listen: Vec<SocketAddr>,
    /// How datagrams are distributed to the workers.
    steering: Steering,
    /// The number of streams and of bytes in their buffers.
    stream_limits: (usize, u64),
    /// Samples of queries.
    tap: TapThread,
    /// Empty until the threads are started.
    counters: OnceLock<Vec<ThreadCounters>>,
    /// Sends commands to the threads; empty until they are started.
    commands: OnceLock<Commands>,
    /// `None` before zones are loaded and after the threads are stopped.
    threads: Mutex<Option<Threads>>,
    /// Another descriptor of each socket, for a new process. Empty once the server ends: a new
    /// connection would wait in vain.
    shared: Mutex<Vec<SharedSocket>>,
    /// A new process has the sockets and does not serve yet.
    is_offered: AtomicBool,
    /// The AF_XDP interface.
    bypass: Mutex<Bypass>,
    /// The devices of DPDK.
    dpdk: Mutex<DpdkDevices>,
    placement: Mutex<Placement>,
    pulses: Pulses,
    upstream_log: Mutex<UpstreamLog>,
}

/// What the threads need to be started, beside what [`DataPlane`] has.
pub struct ThreadSetup<'s> {
    /// Limits of streams.
    pub streams: &'s Streams,
    /// The sockets, one for each worker and address.
    pub listening: Vec<Listening>,
    /// The ports of AF_XDP queues.
    pub queues: Vec<QueuePort>,
    /// The published zones.
    pub zones: ZoneReaders<'s>,
    /// The published settings.
    pub settings: &'s mut Publisher<Settings>,
    /// Whether queries are forwarded.
    pub forwards: bool,
    /// Wakes the handler of the messages that the threads pass on.
    pub control_waker: Arc<OwnedFd>,
    /// Takes connections that ask for transfers; `None`: there are none.
    pub transfers: Option<ConnectionSink>,
    /// Whether an address belongs to a proxy.
    pub is_proxy: IsProxy,
    /// Called if a thread ends unexpectedly.
    pub on_failure: OnFailure,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DataPlane {
    /// A data plane whose threads are not started yet.
    pub fn new(
        config: &Config,
        (listening, shared): (&[Listening], Vec<SharedSocket>),
        (placement, bypass, dpdk): (Placement, Bypass, DpdkDevices),
        streams_max: usize,
        tap: TapThread,
    ) -> Self {
        Self {
            listen: listening.iter().map(|all| all.address).collect(),
            steering: config.server.steering,
            stream_limits: (streams_max, config.streams.memory),
            tap,
            counters: OnceLock::new(),
            commands: OnceLock::new(),
            threads: Mutex::default(),
            shared: Mutex::new(shared),
            is_offered: AtomicBool::new(false),
            bypass: Mutex::new(bypass),
            dpdk: Mutex::new(dpdk),
            placement: Mutex::new(placement),
            pulses: Pulses::default(),
            upstream_log: Mutex::default(),
        }
    }

    /// Starts the workers and stream threads. Returns the messages that they pass on, and whether
    /// each worker gets the datagrams of its CPU.
    ///
    /// # Errors
    /// A thread cannot be started, or a socket cannot be used.
    pub fn start(
        &self,
        setup: ThreadSetup<'_>,
    ) -> Result<(Vec<ControlReceiver>, bool), Box<dyn Error>> {
        let cpus = self.worker_cpus();
        let first = Listening::first_sockets(&setup.listening);
        let is_steered = placement::steer(self.steering, &cpus, &first);
        // Stream threads have few clients or none. Without another worker there is no owner shard
        // to query.
        let peers = match setup.forwards {
            true => upstream::peer_shards(cpus.len(), setup.streams.threads)?.into_iter(),
            false => Vec::new().into_iter(),
        };
        let (zones, settings, control_waker) = (setup.zones, setup.settings, setup.control_waker);
        let (tap, transfers) = (&self.tap, setup.transfers);
        let deps = WorkerDeps { zones, settings, tap, control_waker, transfers, peers };
        let (is_proxy, on_failure) = (setup.is_proxy, setup.on_failure);
        let started =
            Threads::start(setup.streams, deps, &cpus, setup.listening, is_proxy, on_failure)?;
        let StartedThreads { threads, counters, commanders, controls } = started;
        lock(&self.bypass).begin(&threads, setup.queues);
        self.serve_devices(&threads, cpus.len());
        // Set only here.
        let _ = (self.counters.set(counters), self.commands.set(Commands::new(commanders)));
        *lock(&self.threads) = Some(threads);
        Ok((controls, is_steered))
    }

    /// Opens the devices of DPDK, if any are configured, and gives each worker its queues.
    fn serve_devices(&self, threads: &Threads, workers: usize) {
        let mut dpdk = lock(&self.dpdk);
        if dpdk.is_configured() {
            let ports = dpdk.open(workers, &self.listen);
            threads.serve_devices(ports).unwrap_or_else(|error| dpdk.fail(&error));
        }
    }

    /// The addresses that it answers on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// The CPU of each worker.
    pub fn worker_cpus(&self) -> Vec<Option<usize>> {
        lock(&self.placement).cpus().to_vec()
    }

    /// The samples of queries.
    pub fn tap(&self) -> &TapThread {
        &self.tap
    }

    fn counters(&self) -> &[ThreadCounters] {
        self.counters.get().map_or(&[], |counters| counters)
    }

    fn views(&self) -> Vec<StatusView> {
        self.counters().iter().filter_map(|all| all.forwarded.clone()).collect()
    }

    /// The names of its threads.
    pub fn thread_names(&self) -> impl Iterator<Item = String> {
        self.counters().iter().map(|counters| counters.name.clone())
    }

    /// Counts what the threads have answered of the server's own queries. To be called before each
    /// thread gets the next one.
    pub fn note_self_answers(&self) {
        if self.is_handed_over() {
            self.pulses.clear();
        } else {
            self.pulses.note(self.counters());
        }
    }

    /// The answers to queries of the server itself through its announced addresses.
    pub fn probe_answers(&self) -> u64 {
        gather::probe_answers(self.counters())
    }

    /// The thread that hangs, so that the process should be restarted.
    pub fn hung_thread(&self) -> Option<String> {
        self.pulses.hung()
    }

    /// The thread that answers nothing, so that clients wait in vain.
    pub fn silent_thread(&self) -> Option<String> {
        self.pulses.silent()
    }

    /// Fills in its part of a status.
    pub fn fill_status(&self, status: &mut Status, forwards: &ForwardTable, cache: &Cache) {
        let connections = lock(&self.threads)
            .as_ref()
            .map_or_else(Connections::default, |threads| threads.streams().connections());
        let (open_max, memory_max) = self.stream_limits;
        let views = self.views();
        status.listen = self.listen.iter().map(SocketAddr::to_string).collect();
        status.upstreams = forwarding::upstreams(forwards, &views);
        status.cache = forwarding::cache(cache, &views);
        status.xdp = lock(&self.bypass).status();
        status.dpdk = lock(&self.dpdk).status();
        status.streams = gather::streams(&connections, open_max, memory_max);
        status.threads = self.counters().iter().map(gather::thread).collect();
        status.imbalance = gather::imbalance(&status.threads);
        status.stuck = self.pulses.silent();
        status.panics = gather::panics(self.counters());
        status.tap = self.tap.status();
        status.hot = self.tap.hot();
    }

    /// Replies by network: `names` are those of the counters, the last is of all others. Counters
    /// without a reply are left out.
    pub fn networks(&self, names: &[String]) -> Vec<NetworkStatus> {
        gather::networks(self.counters(), names)
    }

    /// Logs new faults of upstreams and their ends.
    pub fn log_upstreams(&self, forwards: &ForwardTable) {
        lock(&self.upstream_log).look(&forwarding::upstreams(forwards, &self.views()));
    }

    /// Runs a command on all threads, and waits until it is done.
    ///
    /// # Errors
    /// Why it is not done, and what to do.
    pub async fn command(
        &self,
        command: &Command,
        forwards: &ForwardTable,
    ) -> Result<CommandOutcome, String> {
        let commands = self.commands.get().ok_or_else(|| STARTING.to_owned())?;
        if self.is_handed_over() {
            return Err(ENDING.to_owned());
        }
        commands.command(command, forwards).await
    }

    /// Waits until all threads use changed forward rules, and flushes the names that have other
    /// rules now.
    pub async fn finish_forward_change(&self, change: &ForwardChange) {
        let Some(commands) = self.commands.get() else { return };
        if let Err(why) = commands.finish_forward_change(change).await {
            tracing::warn!("changed [forward] rules are not in use everywhere: {why}");
        }
    }

    /// Attaches AF_XDP as the config says, unless it is attached so already. Takes some hundredths
    /// of a second, in which no status or reload is possible; queries are answered.
    pub fn change_bypass(&self, config: &Config) {
        let mut bypass = lock(&self.bypass);
        if let Some(threads) = &*lock(&self.threads) {
            bypass.change(config, self.listen.clone(), threads);
        }
    }

    /// If the CPUs that this process may use have changed, moves the workers.
    pub fn follow_cpus(&self, config: &Config) {
        if self.is_handed_over() || !lock(&self.placement).follow(config) {
            return;
        }
        // Until a new process serves, its sockets must not receive anything.
        if !self.is_offered() {
            let shared = lock(&self.shared);
            placement::steer(self.steering, &self.worker_cpus(), &first_sockets(&shared));
        }
    }

    /// Passes each socket to a receiver, so that a service manager keeps it.
    pub fn share(&self, receive: impl FnOnce(&[SharedSocket])) {
        receive(&lock(&self.shared));
    }

    /// Whether a new process has the sockets and does not serve yet.
    pub fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Relaxed)
    }

    /// Another descriptor of each socket, for a new process.
    ///
    /// # Errors
    /// The server is about to end, or no descriptor is left.
    pub fn offer_sockets(&self) -> io::Result<Vec<SharedSocket>> {
        if lock(&self.dpdk).is_configured() {
            let why = "[server] port = \"dpdk\" has devices that only one process can open: start \
                       it anew, while another server answers its addresses (`[anycast]`)";
            return Err(io::Error::other(why));
        }
        let shared = lock(&self.shared);
        if shared.is_empty() {
            let why = "the server is about to end: start without --hot-restart";
            return Err(io::Error::other(why));
        }
        let offered = shared.iter().map(SharedSocket::try_clone).collect::<io::Result<_>>()?;
        self.is_offered.store(true, Ordering::Relaxed);
        Ok(offered)
    }

    /// The new process failed before it served: gives all sockets back to this process's workers.
    pub fn take_back(&self) {
        let shared = lock(&self.shared);
        let sockets = first_sockets(&shared);
        placement::restore_steering(self.steering, &self.worker_cpus(), &sockets);
        self.is_offered.store(false, Ordering::Relaxed);
    }

    /// Whether a new process has, or is about to have, all sockets and connections.
    pub fn is_handed_over(&self) -> bool {
        lock(&self.threads).is_none()
    }

    /// Takes the threads out for a new process. The returned function ends them, which blocks, and
    /// returns the open connections.
    pub fn hand_over(&self) -> impl FnOnce() -> Vec<Connection> + Send + use<> {
        lock(&self.bypass).end();
        let threads = lock(&self.threads).take();
        let connection = |HandedConnection { stream, peer, client, header_due, inbox }| {
            Connection { fd: stream, peer, client, header_due, inbox }
        };
        move || threads.map(Threads::hand_over).into_iter().flatten().map(connection).collect()
    }

    /// Continues with the connections of the old process.
    pub fn adopt(&self, connections: Vec<Connection>) {
        let handed = |Connection { fd, peer, client, header_due, inbox }| HandedConnection {
            stream: fd,
            peer,
            client,
            header_due,
            inbox,
        };
        self.serve_again(connections.into_iter().map(handed).collect());
    }

    /// Continues with connections that were passed on.
    pub fn serve_again(&self, connections: Vec<HandedConnection>) {
        if let Some(threads) = &*lock(&self.threads) {
            threads.streams().adopt(connections);
        }
    }

    /// Answers received queries, and ends workers and stream threads. Blocks.
    pub fn stop(&self) {
        lock(&self.shared).clear();
        lock(&self.bypass).end();
        lock(&self.dpdk).end();
        let threads = lock(&self.threads).take();
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
