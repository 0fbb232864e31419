//! A load from beginning to end: its threads, and the collector of their reports.

use crate::clock::{Clock, thread_cpu_ns, wall_ns};
use crate::counts::{QueryCounts, Times};
use crate::limits::SERIES_MAX;
use crate::options::{Options, Path};
use crate::recorder::IntervalPart;
use crate::report::{Quantile, Report, SecondStats, Snapshot, Thread};
use crate::transport::{
    AttachOnce, ChannelOptions, Dpdk, OpenOnce, Tcp, Transport, Udp, Uring, Xdp,
};
use crate::worker::{ReportLink, ThreadResult, Worker};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space, set_current_timer_slack};
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, scope};

/// Parts each thread may have handed over and not got back yet.
const PARTS: usize = 3;
/// From when all threads are ready to the beginning of the load.
pub const LEAD_NS: u64 = 20_000_000;
/// The prefix of thread names of a load.
pub const THREAD: &str = "load-";

/// Runs a load; shows `seen` each interval, and stops when `stop` is set.
///
/// # Errors
/// The options are invalid, or sockets cannot be opened: why, and what to do.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    seen: &mut dyn FnMut(&Snapshot),
) -> Result<Report, String> {
    run_watched(options, stop, &mut || Ok(()), seen)
}

/// The same. `ready` is called when all threads are prepared, and the load begins
/// [`LEAD_NS`] after it has returned.
///
/// # Errors
/// As [`run`], and what `ready` fails with.
pub fn run_watched(
    options: &Options,
    stop: &AtomicBool,
    ready: &mut dyn FnMut() -> Result<(), String>,
    seen: &mut dyn FnMut(&Snapshot),
) -> Result<Report, String> {
    options.check()?;
    let (out, parts) = sync_channel(options.threads * (PARTS + 1));
    let (tell_ready, told) = sync_channel(options.threads);
    let shared = Arc::new(Shared::default());
    scope(|scope| {
        // A thread whose start message is dropped ends without having begun.
        let (mut backs, mut starts, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..options.threads {
            let (give, back) = sync_channel(PARTS);
            (0..PARTS).for_each(|_| give.send(Box::default()).expect("there is room"));
            backs.push(give);
            let (begin, start) = sync_channel(1);
            starts.push(begin);
            let link = ReportLink { index, out: out.clone(), back };
            let tell_ready = tell_ready.clone();
            let shared = shared.clone();
            let body = move || work(options, link, (&tell_ready, &start), &shared, stop);
            let thread = Builder::new().name(format!("{THREAD}{index}")).spawn_scoped(scope, body);
            threads.push(thread.map_err(|error| format!("no thread for a load: {error}"))?);
        }
        drop((out, tell_ready));
        // All threads have their sockets before any begins; if one fails, none begins.
        for _ in 0..options.threads {
            told.recv().map_err(|_| "a thread of the load panicked")??;
        }
        ready()?;
        let (clock, began_ns) = (Clock::ahead(LEAD_NS), wall_ns() + LEAD_NS);
        for start in &starts {
            start.send(clock).map_err(|_| "a thread of the load panicked")?;
        }
        let mut collector = ReportCollector::new(options, began_ns);
        collector.all(&parts, &backs, seen);
        let mut report = collector.report(options);
        for (index, thread) in threads.into_iter().enumerate() {
            let ended = thread.join().map_err(|_| "a thread of the load panicked")?;
            let ended = ended.expect("every thread has received its begin time");
            if let Some(failure) = ended.left.failure {
                return Err(format!("{}: {failure}", options.server));
            }
            report.add(index, ended);
        }
        report.stopped = stop.load(Ordering::Relaxed);
        Ok(report)
    })
}

/// Resources that the threads of a load open once.
#[derive(Default)]
struct Shared {
    attach: Arc<AttachOnce>,
    device: OpenOnce,
}

/// The result of a thread.
struct ThreadEnd {
    left: ThreadResult,
    cpu: Option<usize>,
    cpu_ns: u64,
    delay_ns: u64,
}

/// Runs a thread from start to end. None: the load did not begin.
fn work(
    options: &Options,
    link: ReportLink,
    (ready, start): (&SyncSender<Result<(), String>>, &Receiver<Clock>),
    shared: &Shared,
    stop: &AtomicBool,
) -> Option<ThreadEnd> {
    let cpu = options.cpus.get(link.index % options.cpus.len().max(1)).copied();
    let (begin, told) = match prepare(options, link, cpu, shared, stop) {
        Ok(begin) => (Some(begin), Ok(())),
        Err(why) => (None, Err(why)),
    };
    // There is room for one word of each.
    let _ = ready.send(told);
    let (begin, clock) = (begin?, start.recv().ok()?);
    let before = (thread_cpu_ns(), run_delay_ns());
    let left = begin(clock);
    let cpu_ns = thread_cpu_ns() - before.0;
    Some(ThreadEnd { left, cpu, cpu_ns, delay_ns: run_delay_ns().saturating_sub(before.1) })
}

/// The work of a thread once the begin time is known.
type Begin<'a> = Box<dyn FnOnce(Clock) -> ThreadResult + 'a>;

/// Enters the namespace, pins the thread, opens its sockets, and creates its tables: this takes
/// time, and must not delay the first query.
fn prepare<'a>(
    options: &'a Options,
    link: ReportLink,
    cpu: Option<usize>,
    shared: &Shared,
    stop: &'a AtomicBool,
) -> Result<Begin<'a>, String> {
    let index = link.index;
    if let Some(name) = &options.netns {
        let path = format!("/run/netns/{name}");
        let told = |error: io::Error| format!("cannot enter network namespace {path}: {error}");
        let space = File::open(&path).map_err(told)?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| told(error.into()))?;
    }
    if let Some(cpu) = cpu {
        cpu::pin(cpu).map_err(|error| format!("cannot pin a thread to CPU {cpu}: {error}"))?;
    }
    // Waking up is as punctual as the kernel can make it; without this 50 µs late.
    set_current_timer_slack(NonZeroU64::new(1)).map_err(|error| error.to_string())?;
    let count = options.channels_each();
    let sources = sources(options, index);
    let channels =
        ChannelOptions { server: options.server, sources, next: 0, buffer: options.buffer };
    let begin = match options.path {
        Path::Udp { segments } => Udp::new(channels, count, segments)
            .map(|transport| begin(options, transport, stop, link)),
        Path::Uring { segments } => Uring::new(channels, count, segments)
            .map(|transport| begin(options, transport, stop, link)),
        Path::Xdp => Xdp::new(options, channels, index, &shared.attach)
            .map(|transport| begin(options, transport, stop, link)),
        Path::Dpdk => Dpdk::new(options, &channels, index, &shared.device)
            .map(|transport| begin(options, transport, stop, link)),
        Path::Tcp { queries_per_connection } => {
            let transport = Tcp::new(channels, count, queries_per_connection);
            transport.map(|transport| begin(options, transport, stop, link))
        }
    };
    begin.map_err(|error| match error.raw_os_error() {
        Some(libc::EMFILE) => {
            format!("{count} sockets a thread are more than ulimit -n allows: {error}")
        }
        _ => format!("{}: {error}", options.server),
    })
}

fn begin<'a, W: Transport + 'a>(
    options: &'a Options,
    transport: W,
    stop: &'a AtomicBool,
    link: ReportLink,
) -> Begin<'a> {
    let worker = Worker::new(options, transport, stop, link);
    Box::new(|clock| worker.run(clock))
}

/// The source addresses of a thread, as many as its sockets can use.
fn sources(options: &Options, index: usize) -> Vec<SocketAddr> {
    if let Some(first) = options.source_port {
        let channels = options.channels_each();
        let any = if options.server.is_ipv4() { IpAddr::from([0; 4]) } else { [0u16; 8].into() };
        let ip = |nth| options.sources.map_or(any, |sources| sources.get(nth));
        let own = index * channels..(index + 1) * channels;
        return own.map(|nth| SocketAddr::new(ip(nth), first + nth as u16)).collect();
    }
    let Some(sources) = options.sources else { return Vec::new() };
    // With churn every renewed socket goes on to the next one.
    let wanted = if options.churn_ns.is_some() { 1 << 16 } else { options.channels_each() };
    let count = (sources.count() / options.threads as u128).clamp(1, wanted as u128) as usize;
    let address = |own| SocketAddr::new(sources.get(own * options.threads + index), 0);
    (0..count).map(address).collect()
}

/// Time for which the calling thread was ready to run and did not, in nanoseconds; 0 where the
/// kernel does not report it.
fn run_delay_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Collects the parts that threads hand over.
struct ReportCollector {
    times: Times,
    now: Snapshot,
    /// Which threads have handed over their part of `now`.
    heard: Vec<bool>,
    series: Vec<SecondStats>,
    timeout_ns: u64,
    tallies: Vec<QueryCounts>,
}

impl ReportCollector {
    fn new(options: &Options, began_ns: u64) -> Self {
        let now = Snapshot {
            began_ns,
            since_ns: 0,
            until_ns: 0,
            counts: QueryCounts::default(),
            times: Times::new(),
            whole: QueryCounts::default(),
        };
        Self {
            times: Times::new(),
            now,
            heard: vec![false; options.threads],
            series: Vec::new(),
            timeout_ns: options.timeout_ns,
            tallies: vec![QueryCounts::default(); options.threads],
        }
    }

    /// Gathers until all threads have ended.
    fn all(
        &mut self,
        parts: &Receiver<(usize, Box<IntervalPart>)>,
        backs: &[SyncSender<Box<IntervalPart>>],
        seen: &mut dyn FnMut(&Snapshot),
    ) {
        for (index, mut part) in parts {
            if self.heard[index] {
                self.close(seen); // another thread is an interval behind
            }
            self.take(index, &part);
            part.counts = QueryCounts::default();
            part.times.clear();
            // A thread that has ended wants nothing back.
            let _ = backs[index].try_send(part);
            if self.heard.iter().all(|heard| *heard) {
                self.close(seen);
            }
        }
        if self.heard.contains(&true) {
            self.close(seen);
        }
    }

    fn take(&mut self, index: usize, part: &IntervalPart) {
        self.now.counts += &part.counts;
        self.now.whole += &part.counts;
        self.now.times.add(&part.times);
        self.now.until_ns = self.now.until_ns.max(part.until_ns);
        self.tallies[index] += &part.counts;
        self.heard[index] = true;
    }

    /// The interval is over: shows it, and begins another one.
    fn close(&mut self, seen: &mut dyn FnMut(&Snapshot)) {
        self.times.add(&self.now.times);
        seen(&self.now);
        if self.series.len() < SERIES_MAX {
            let quantile = |share| Quantile::of(&self.now.times.response, share, self.timeout_ns);
            self.series.push(SecondStats {
                since_ns: self.now.since_ns,
                until_ns: self.now.until_ns,
                counts: self.now.counts,
                p50: quantile(0.5),
                p99: quantile(0.99),
            });
        }
        self.now.since_ns = self.now.until_ns;
        self.now.counts = QueryCounts::default();
        self.now.times.clear();
        self.heard.fill(false);
    }

    fn report(self, options: &Options) -> Report {
        let thread = |counts| Thread { counts, ..Thread::default() };
        Report {
            began_ns: self.now.began_ns,
            busy_ns: 0,
            whole_ns: self.now.until_ns,
            stopped: false,
            counts: self.now.whole,
            times: self.times,
            timeout_ns: options.timeout_ns,
            series: self.series,
            threads: self.tallies.into_iter().map(thread).collect(),
        }
    }
}

impl Report {
    fn add(&mut self, index: usize, ended: ThreadEnd) {
        self.busy_ns = self.busy_ns.max(ended.left.busy_ns);
        let thread = &mut self.threads[index];
        thread.cpu = ended.cpu;
        thread.cpu_ns = ended.cpu_ns;
        thread.delay_ns = ended.delay_ns;
        thread.table_bytes = ended.left.table_bytes;
        thread.dropped = ended.left.dropped;
        thread.detoured = ended.left.detoured;
    }
}
