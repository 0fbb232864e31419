//! A load from its beginning to its end: threads, and who gathers what they report.

use crate::book::Part;
use crate::clock::{Clock, thread_cpu_ns, wall_ns};
use crate::limits::SERIES_MAX;
use crate::options::{Options, Path};
use crate::report::{Quantile, Report, Second, Snapshot, Thread};
use crate::tally::{Tally, Times};
use crate::way::{Door, Lanes, Tcp, Udp, Uring, Way, Xdp};
use crate::worker::{Left, Line, Worker};
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
/// What the names of a load's threads begin with.
pub const THREAD: &str = "load-";

/// Runs a load; shows `seen` each interval, and stops when `stop` is set.
///
/// # Errors
/// What is asked for makes no sense, or sockets cannot be had: why, and what to do.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    seen: &mut dyn FnMut(&Snapshot),
) -> Result<Report, String> {
    run_watched(options, stop, &mut || Ok(()), seen)
}

/// The same; `ready` is called when all threads have what they need, and the load begins
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
    let door = Arc::new(Door::default());
    scope(|scope| {
        // Dropping what a thread begins by has it end without having begun.
        let (mut backs, mut starts, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..options.threads {
            let (give, back) = sync_channel(PARTS);
            (0..PARTS).for_each(|_| give.send(Box::default()).expect("there is room"));
            backs.push(give);
            let (begin, start) = sync_channel(1);
            starts.push(begin);
            let line = Line { index, out: out.clone(), back };
            let tell_ready = tell_ready.clone();
            let door = door.clone();
            let body = move || work(options, line, (&tell_ready, &start), &door, stop);
            let thread = Builder::new().name(format!("{THREAD}{index}")).spawn_scoped(scope, body);
            threads.push(thread.map_err(|error| format!("no thread for a load: {error}"))?);
        }
        drop((out, tell_ready));
        // Nobody begins before all have their sockets, and nobody if one has not.
        for _ in 0..options.threads {
            told.recv().map_err(|_| "a thread of the load panicked")??;
        }
        ready()?;
        let (clock, began_ns) = (Clock::ahead(LEAD_NS), wall_ns() + LEAD_NS);
        for start in &starts {
            start.send(clock).map_err(|_| "a thread of the load panicked")?;
        }
        let mut gathered = Gathered::new(options, began_ns);
        gathered.all(&parts, &backs, seen);
        let mut report = gathered.report(options);
        for (index, thread) in threads.into_iter().enumerate() {
            let ended = thread.join().map_err(|_| "a thread of the load panicked")?;
            let ended = ended.expect("it was told to begin");
            if let Some(failure) = ended.left.failure {
                return Err(format!("{}: {failure}", options.server));
            }
            report.add(index, ended);
        }
        report.stopped = stop.load(Ordering::Relaxed);
        Ok(report)
    })
}

/// What a thread has done.
struct Ended {
    left: Left,
    cpu: Option<usize>,
    cpu_ns: u64,
    delay_ns: u64,
}

/// A thread's life. Nothing: it was not told to begin.
fn work(
    options: &Options,
    line: Line,
    (ready, start): (&SyncSender<Result<(), String>>, &Receiver<Clock>),
    door: &Arc<Door>,
    stop: &AtomicBool,
) -> Option<Ended> {
    let cpu = options.cpus.get(line.index % options.cpus.len().max(1)).copied();
    let (begin, told) = match prepare(options, line, cpu, door, stop) {
        Ok(begin) => (Some(begin), Ok(())),
        Err(why) => (None, Err(why)),
    };
    // There is room for one word of each.
    let _ = ready.send(told);
    let (begin, clock) = (begin?, start.recv().ok()?);
    let before = (thread_cpu_ns(), run_delay_ns());
    let left = begin(clock);
    let cpu_ns = thread_cpu_ns() - before.0;
    Some(Ended { left, cpu, cpu_ns, delay_ns: run_delay_ns().saturating_sub(before.1) })
}

/// What a thread does as soon as it knows when the load begins.
type Begin<'a> = Box<dyn FnOnce(Clock) -> Left + 'a>;

/// Enters the namespace, pins the thread, opens its sockets, and makes its tables: what takes time
/// and is not to be late for what is due first.
fn prepare<'a>(
    options: &'a Options,
    line: Line,
    cpu: Option<usize>,
    door: &Arc<Door>,
    stop: &'a AtomicBool,
) -> Result<Begin<'a>, String> {
    let index = line.index;
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
    let count = options.lanes_each();
    let sources = sources(options, index);
    let lanes = Lanes { server: options.server, sources, next: 0, buffer: options.buffer };
    let begin = match options.path {
        Path::Udp { segments } => {
            Udp::new(lanes, count, segments).map(|way| begin(options, way, stop, line))
        }
        Path::Uring { segments } => {
            Uring::new(lanes, count, segments).map(|way| begin(options, way, stop, line))
        }
        Path::Xdp => {
            Xdp::new(options, lanes, index, door).map(|way| begin(options, way, stop, line))
        }
        Path::Tcp { queries_per_connection } => {
            let way = Tcp::new(lanes, count, queries_per_connection);
            way.map(|way| begin(options, way, stop, line))
        }
    };
    begin.map_err(|error| match error.raw_os_error() {
        Some(libc::EMFILE) => {
            format!("{count} sockets a thread are more than ulimit -n allows: {error}")
        }
        _ => format!("{}: {error}", options.server),
    })
}

fn begin<'a, W: Way + 'a>(
    options: &'a Options,
    way: W,
    stop: &'a AtomicBool,
    line: Line,
) -> Begin<'a> {
    let worker = Worker::new(options, way, stop, line);
    Box::new(|clock| worker.run(clock))
}

/// Where a thread asks from, as many addresses as its sockets can use.
fn sources(options: &Options, index: usize) -> Vec<SocketAddr> {
    if let Some(first) = options.source_port {
        let lanes = options.lanes_each();
        let any = if options.server.is_ipv4() { IpAddr::from([0; 4]) } else { [0u16; 8].into() };
        let ip = |nth| options.sources.map_or(any, |sources| sources.get(nth));
        let own = index * lanes..(index + 1) * lanes;
        return own.map(|nth| SocketAddr::new(ip(nth), first + nth as u16)).collect();
    }
    let Some(sources) = options.sources else { return Vec::new() };
    // With churn every renewed socket goes on to the next one.
    let wanted = if options.churn_ns.is_some() { 1 << 16 } else { options.lanes_each() };
    let count = (sources.count() / options.threads as u128).clamp(1, wanted as u128) as usize;
    let address = |own| SocketAddr::new(sources.get(own * options.threads + index), 0);
    (0..count).map(address).collect()
}

/// Time for which the calling thread was ready to run and did not, in nanoseconds; 0 where the
/// kernel does not tell.
fn run_delay_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// What threads have handed over.
struct Gathered {
    times: Times,
    now: Snapshot,
    /// Which threads have handed over their part of `now`.
    heard: Vec<bool>,
    series: Vec<Second>,
    timeout_ns: u64,
    tallies: Vec<Tally>,
}

impl Gathered {
    fn new(options: &Options, began_ns: u64) -> Self {
        let now = Snapshot {
            began_ns,
            since_ns: 0,
            until_ns: 0,
            tally: Tally::default(),
            times: Times::new(),
            whole: Tally::default(),
        };
        Self {
            times: Times::new(),
            now,
            heard: vec![false; options.threads],
            series: Vec::new(),
            timeout_ns: options.timeout_ns,
            tallies: vec![Tally::default(); options.threads],
        }
    }

    /// Gathers until all threads have ended.
    fn all(
        &mut self,
        parts: &Receiver<(usize, Box<Part>)>,
        backs: &[SyncSender<Box<Part>>],
        seen: &mut dyn FnMut(&Snapshot),
    ) {
        for (index, mut part) in parts {
            if self.heard[index] {
                self.close(seen); // another thread is an interval behind
            }
            self.take(index, &part);
            part.tally = Tally::default();
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

    fn take(&mut self, index: usize, part: &Part) {
        self.now.tally += &part.tally;
        self.now.whole += &part.tally;
        self.now.times.add(&part.times);
        self.now.until_ns = self.now.until_ns.max(part.until_ns);
        self.tallies[index] += &part.tally;
        self.heard[index] = true;
    }

    /// The interval is over: shows it, and begins another one.
    fn close(&mut self, seen: &mut dyn FnMut(&Snapshot)) {
        self.times.add(&self.now.times);
        seen(&self.now);
        if self.series.len() < SERIES_MAX {
            let quantile = |share| Quantile::of(&self.now.times.response, share, self.timeout_ns);
            self.series.push(Second {
                since_ns: self.now.since_ns,
                until_ns: self.now.until_ns,
                tally: self.now.tally,
                p50: quantile(0.5),
                p99: quantile(0.99),
            });
        }
        self.now.since_ns = self.now.until_ns;
        self.now.tally = Tally::default();
        self.now.times.clear();
        self.heard.fill(false);
    }

    fn report(self, options: &Options) -> Report {
        let thread = |tally| Thread { tally, ..Thread::default() };
        Report {
            began_ns: self.now.began_ns,
            busy_ns: 0,
            whole_ns: self.now.until_ns,
            stopped: false,
            tally: self.now.whole,
            times: self.times,
            timeout_ns: options.timeout_ns,
            series: self.series,
            threads: self.tallies.into_iter().map(thread).collect(),
        }
    }
}

impl Report {
    fn add(&mut self, index: usize, ended: Ended) {
        self.busy_ns = self.busy_ns.max(ended.left.busy_ns);
        let thread = &mut self.threads[index];
        thread.cpu = ended.cpu;
        thread.cpu_ns = ended.cpu_ns;
        thread.delay_ns = ended.delay_ns;
        thread.table_octets = ended.left.table_octets;
        thread.dropped = ended.left.dropped;
        thread.detoured = ended.left.detoured;
    }
}
