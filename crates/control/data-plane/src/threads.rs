//! The threads that answer: workers, and streams beside them.
use compile::Image;
use handler::{Answerer, COUNTERS, ControlReceiver, NETWORK_COUNTERS};

use crate::bypass::QueuePort;
use crate::dpdk::DpdkPort;
use crate::limits::HTTP_NICENESS;
use crate::panics::PanicLog;
use crate::placement::WorkerCpus;
use crate::ports::Port;
use crate::sockets::Listening;
use config::Streams as StreamConfig;
use handler::Settings;
use port_socket::SocketPort;
use query_samples::TapThread;
use rustix::process::{Pid, setpriority_process};
use std::error::Error;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::vec::IntoIter;
use sync::{CountersView, Publisher, Reader, ReadersFull};
use upstream::{CommandSender, PeerShards, StatusView};
use worker::{
    ConnectionSink, HandedConnection, IsProxy, OnFailure, StreamLimits, Streams, WorkerSetup,
    Workers,
};

/// The counters of one thread that answers queries.
pub struct ThreadCounters {
    pub name: String,
    pub transport: &'static str,
    /// The CPU that it is bound to.
    pub cpu: Option<usize>,
    pub plane: CountersView<{ worker::COUNTERS }>,
    pub answers: CountersView<COUNTERS>,
    /// Replies by the network of the client.
    pub by_network: CountersView<NETWORK_COUNTERS>,
    /// The status of its upstream client, if forward rules exist.
    pub forwarded: Option<StatusView>,
    /// The last panic of all threads.
    pub panics: PanicLog,
}

/// The running workers and streams.
pub struct Threads {
    fleet: Workers<Port>,
    streams: Streams,
}

/// A thread's name, and the sender of its commands.
pub type ThreadCommander = (String, CommandSender);

/// The name of the n-th worker thread, as the crate `worker` sets it.
fn worker(nth: usize) -> String {
    format!("worker-{nth}")
}

fn stream(nth: usize) -> String {
    format!("streams-{nth}")
}

/// Threads that were just started.
pub struct StartedThreads {
    pub threads: Threads,
    /// The counters of each thread, workers first.
    pub counters: Vec<ThreadCounters>,
    /// Their command senders, if forward rules exist.
    pub commanders: Vec<ThreadCommander>,
    /// The messages that they pass on.
    pub controls: Vec<ControlReceiver>,
}

/// Gives each thread a reader of the published zones.
pub type ZoneReaders<'k> = &'k dyn Fn() -> Result<Reader<Image>, ReadersFull>;

/// Everything that a thread needs to answer queries.
pub struct WorkerDeps<'k> {
    pub zones: ZoneReaders<'k>,
    pub settings: &'k mut Publisher<Settings>,
    pub tap: &'k TapThread,
    /// Wakes the handler of the messages that they pass on.
    pub control_waker: Arc<OwnedFd>,
    /// Takes connections that ask for transfers; `None`: there are none.
    pub transfers: Option<ConnectionSink>,
    /// The channels to the other threads, workers first. Empty: each thread queries upstreams
    /// itself.
    pub peers: IntoIter<PeerShards>,
}

impl WorkerDeps<'_> {
    fn answerer(&mut self, panics: &PanicLog) -> Result<Answerer<Image>, Box<dyn Error>> {
        let (image, settings) = ((self.zones)()?, self.settings.reader()?);
        let (tap, seed) = (self.tap.tap(getrandom::u64()?), getrandom::u64()?);
        let mut app = Answerer::new(image, settings, tap, seed)?;
        app.report_panics(panics.reporter());
        if let Some(transfers) = &self.transfers {
            app.pass_connections_to(Arc::clone(transfers));
        }
        if let Some(peers) = self.peers.next() {
            app.join(peers)?;
        }
        Ok(app)
    }
}

impl Threads {
    /// Starts the threads on these sockets.
    ///
    /// # Errors
    /// A thread cannot be started, or a socket cannot be used.
    pub fn start(
        config: &StreamConfig,
        mut deps: WorkerDeps<'_>,
        worker_cpus: &WorkerCpus,
        listening: Vec<Listening>,
        is_proxy: IsProxy,
        on_failure: OnFailure,
    ) -> Result<StartedThreads, Box<dyn Error>> {
        let (listeners, ports) = deal(worker_cpus.len(), listening)?;
        let (mut setups, mut answers, mut commanders) = (Vec::new(), Vec::new(), Vec::new());
        let (mut controls, panics) = (Vec::new(), PanicLog::default());
        for (n, (ports, cpu)) in ports.into_iter().zip(worker_cpus).enumerate() {
            let mut app = deps.answerer(&panics)?;
            answers.push((app.counters(), app.by_network(), app.forwarded()));
            commanders.extend(app.command()?.map(|commander| (worker(n), commander)));
            controls.push(app.control(Arc::clone(&deps.control_waker))?);
            setups.push(WorkerSetup { ports, app, cpu: *cpu });
        }
        let mut apps = Vec::new();
        for n in 0..config.threads {
            let mut app = deps.answerer(&panics)?;
            answers.push((app.counters(), app.by_network(), app.forwarded()));
            commanders.extend(app.command()?.map(|commander| (stream(n), commander)));
            controls.push(app.control(Arc::clone(&deps.control_waker))?);
            apps.push(app);
        }
        let fleet = Workers::start(setups, Arc::clone(&on_failure))?;
        let limits = limits(config);
        let streams = Streams::start(listeners, apps, limits, is_proxy, on_failure)?;
        let workers = worker_cpus.iter().enumerate().map(|(n, cpu)| (worker(n), "udp", *cpu));
        let beside = (0..config.threads).map(|n| (stream(n), "tcp", None));
        let plane = fleet.counters().iter().chain(streams.counters()).cloned();
        let counters = workers
            .chain(beside)
            .zip(plane.zip(answers))
            .map(|((name, transport, cpu), (plane, (answers, by_network, forwarded)))| {
                ThreadCounters {
                    name,
                    transport,
                    cpu,
                    plane,
                    answers,
                    by_network,
                    forwarded,
                    panics: panics.clone(),
                }
            })
            .collect();
        Ok(StartedThreads { threads: Self { fleet, streams }, counters, commanders, controls })
    }

    /// Replaces the AF_XDP queues that the workers serve. Worker n gets queue n, modulo the number
    /// of workers. The workers first answer everything that the old queues hold.
    ///
    /// # Errors
    /// A worker did not take its queue in time.
    pub fn serve_queues(&self, queues: Vec<QueuePort>) -> io::Result<()> {
        let workers = self.fleet.counters().len();
        let mut ports: Vec<Vec<Port>> = (0..workers).map(|_| Vec::new()).collect();
        for (n, queue) in queues.into_iter().enumerate() {
            ports[n % workers].push(Port::Xdp(Box::new(queue)));
        }
        self.fleet.lend(ports)
    }

    /// Gives each worker its queues of the devices of DPDK.
    ///
    /// # Errors
    /// A worker did not take its queues in time.
    pub fn serve_devices(&self, queues: Vec<Vec<DpdkPort>>) -> io::Result<()> {
        let port = |queue| Port::Dpdk(Box::new(queue));
        let ports = queues.into_iter().map(|queues| queues.into_iter().map(port).collect());
        self.fleet.lend(ports.collect())
    }

    /// Sets the niceness of the workers (setpriority(2)). Only workers that have run a command have
    /// their names already, and are found.
    ///
    /// # Errors
    /// The process lacks CAP_SYS_NICE and its RLIMIT_NICE is too low.
    pub fn set_nice(&self, nice: i32) -> io::Result<()> {
        for (thread, name) in tasks() {
            if name.starts_with("worker-") {
                setpriority_process(Pid::from_raw(thread), nice)?;
            }
        }
        Ok(())
    }

    /// The stream threads.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Stops receiving, answers the received queries, and ends.
    pub fn stop(self) {
        self.fleet.stop();
        self.streams.stop();
    }

    /// Answers the received queries, ends, and returns the open connections.
    pub fn hand_over(self) -> Vec<HandedConnection> {
        self.fleet.stop();
        self.streams.hand_over()
    }
}

/// Distributes sockets: listeners to the streams, UDP socket n of each address to worker n modulo
/// the number of workers.
fn deal(
    workers: usize,
    listening: Vec<Listening>,
) -> std::io::Result<(Vec<TcpListener>, Vec<Vec<Port>>)> {
    let mut listeners = Vec::new();
    let mut ports: Vec<Vec<Port>> = (0..workers).map(|_| Vec::new()).collect();
    for Listening { streams, datagrams, .. } in listening {
        listeners.push(streams);
        for (n, socket) in datagrams.into_iter().enumerate() {
            ports[n % workers].push(Port::Socket(SocketPort::new(socket)?));
        }
    }
    Ok((listeners, ports))
}

/// The threads of this process: number, and name as the kernel keeps it, its first 15 bytes
/// (`proc_pid_comm(5)`).
fn tasks() -> impl Iterator<Item = (i32, String)> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| {
        let number = task.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        Some((number, name.trim_end().to_owned()))
    })
}

/// Lowers the priority of the calling thread, and of those that it starts, below the workers'.
pub fn yield_to_workers() {
    if let Err(why) = setpriority_process(None, HTTP_NICENESS) {
        tracing::debug!(%why, "this thread has the same CPU priority as the workers");
    }
}

/// The first of these threads that is still alive.
pub fn first_alive(names: &[String]) -> Option<String> {
    let alive: Vec<String> = tasks().map(|(_, name)| name).collect();
    let kept = |name: &str| name.chars().take(15).collect::<String>();
    names.iter().find(|name| alive.contains(&kept(name))).cloned()
}

fn limits(config: &StreamConfig) -> StreamLimits {
    StreamLimits {
        connections_max: config.connections,
        per_client_max: config.per_client,
        memory_max: usize::try_from(config.memory).unwrap_or(usize::MAX),
        idle_max: config.idle,
        ..StreamLimits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn thread_that_does_not_end_is_found_by_name() {
        let names = ["hangs-10", "hangs-1", "hangs-and-has-a-long-name"].map(str::to_owned);
        assert_eq!(first_alive(&names), None);
        let mut ends = Vec::new();
        for at in [2, 1] {
            let ((end, hangs), (tell, started_up)) = (channel::<()>(), channel());
            let body = move || {
                tell.send(()).expect("the test listens");
                // Until the other end is dropped.
                hangs.recv()
            };
            let started = thread::Builder::new().name(names[at].clone()).spawn(body);
            started_up.recv().expect("it runs");
            assert_eq!(first_alive(&names).as_ref(), Some(&names[at]));
            ends.push((end, started.expect("a thread")));
        }
        for (end, thread) in ends {
            drop(end);
            thread.join().expect("it ends").expect_err("nothing is sent");
        }
        assert_eq!(first_alive(&names), None);
    }
}
