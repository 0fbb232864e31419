//! Queries that two workers send to an upstream, where one worker would send one.
//!
//! This is the short form: each name is queried once, whichever worker was queried. `docs/cache.md`
//! has the figures of a minute, with a release build.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_HOMES_SECONDS` | how long names are queried, by Zipf's law (3) |
//! | `DUNLIN_HOMES_RATE` | queries a second (5000) |
//! | `DUNLIN_HOMES_MISSES` | unique names, one after the other and at once (3000) |

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use conformance::environment::{TestFolder, number};
use conformance::paced_client::{self, answer, wait_for};
use conformance::random::Random;
use conformance::server::{Launch, Server, Software};
use test_support::wait;

/// Seconds that answers live, each for as many names.
const TTLS: [u32; 4] = [10, 20, 100, 1_000];
/// Names by Zipf's law, for each query a second.
const NAMES_PER_RATE: u64 = 7;
/// Queries in a hundred for unique names.
const SCANNED: u64 = 10;
/// Clients' sockets: flows, each of which the kernel gives to a worker.
const SOCKETS: usize = 16;
/// How long a flow lasts.
const FLOW: Duration = Duration::from_millis(50);
/// Queries that are sent together.
const TOGETHER: Duration = Duration::from_millis(2);
/// Misses under way at once.
const WINDOW: usize = 64;

/// The other server, which answers anything.
struct Other {
    socket: UdpSocket,
    asked: AtomicU64,
    ends: AtomicBool,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    queries: u64,
    answered: u64,
    names: u64,
    asked: u64,
    /// Told by homes, and asked alone although there are some.
    told: u64,
    alone: u64,
    /// Misses one after the other: how long half of them and 99 of 100 took, microseconds.
    p50: f64,
    p99: f64,
    /// Processor time of the server, microseconds: for a query by Zipf's law,
    popular: f64,
    /// for one of those misses,
    single: f64,
    /// and for one of many at once.
    many: f64,
}

#[test]
#[ignore = "slow: statistical, under load"]
fn two_workers_send_one_query() {
    let sums = [1, 2].map(|workers| run(workers).unwrap());
    println!("| workers | questions | names | asked of others | told by another worker | alone |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (workers, sum) in [1, 2].iter().zip(&sums) {
        let Sum { queries, names, asked, told, alone, .. } = *sum;
        let share = asked as f64 * 100.0 / queries as f64;
        println!("| {workers} | {queries} | {names} | {share:.1} % | {told} | {alone} |");
    }
    println!("\n| workers | µs: a miss, p50 | p99 | CPU, Zipf | a miss alone | of {WINDOW} |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (workers, sum) in [1, 2].iter().zip(&sums) {
        let Sum { p50, p99, popular, single, many, .. } = *sum;
        println!("| {workers} | {p50:.0} | {p99:.0} | {popular:.1} | {single:.1} | {many:.1} |");
    }
    let [one, two] = sums;
    let more = two.asked as f64 / one.asked as f64 - 1.0;
    println!("\nmore than one worker: {:+.1} %", more * 100.0);
    assert!(two.told > two.names / 10, "{two:?}");
    if number("DUNLIN_HOMES_SECONDS", 3) < u64::from(TTLS[0]) {
        // Some may have to be sent again on a machine that is busy.
        assert!(two.asked - two.alone.min(two.asked) <= two.names * 105 / 100, "{two:?}");
    }
}

fn run(workers: usize) -> Result<Sum> {
    let folder = TestFolder::new(&format!("homes-{workers}"))?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    let other = Other { socket, asked: AtomicU64::new(0), ends: AtomicBool::new(false) };
    thread::scope(|scope| {
        scope.spawn(|| other.serve());
        let sections = format!("[forward]\n\".\" = [\"{address}\"]\n[cache]\nmemory = \"64MiB\"\n");
        let keys = format!("workers = {workers}");
        let launch =
            Launch { sections: &sections, keys: &keys, ..Launch::new(Software::Dunlin, &[]) };
        let start = || launch.start(&folder.path).map_err(Box::from);
        let sum = start().and_then(|mut dunlin| {
            let sum = measure(&mut dunlin, &other);
            dunlin.check_alive()?;
            sum
        });
        other.ends.store(true, Ordering::Relaxed);
        sum
    })
}

fn measure(dunlin: &mut Server, other: &Other) -> Result<Sum> {
    wait_for(dunlin, "ready.test")?;
    let before = other.asked.load(Ordering::Relaxed);
    let begun = processor_time(dunlin.id())?;
    let mut sum = ask_popular(dunlin.address)?;
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    sum.popular = micros(processor_time(dunlin.id())? - begun) / sum.queries as f64;
    sum.asked = other.asked.load(Ordering::Relaxed) - before;
    let status = dunlin.status()?;
    let homes = |what: &str| status["cache"]["homes"][what].as_u64().unwrap_or_default();
    sum.told = homes("answered");
    sum.alone = homes("full") + homes("late") + homes("refused");
    let misses = number("DUNLIN_HOMES_MISSES", 3_000);
    let begun = processor_time(dunlin.id())?;
    let mut took = ask_one_by_one(dunlin.address, misses)?;
    took.sort_unstable();
    sum.p50 = micros(took[took.len() / 2]);
    sum.p99 = micros(took[took.len() * 99 / 100]);
    let between = processor_time(dunlin.id())?;
    ask_many(dunlin.address, misses)?;
    let end = processor_time(dunlin.id())?;
    sum.single = micros(between - begun) / misses as f64;
    sum.many = micros(end - between) / misses as f64;
    Ok(sum)
}

/// Processor time of all threads that there are.
fn processor_time(process: u32) -> Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text.split(' ').next().ok_or("schedstat has numbers")?;
        nanos += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

impl Other {
    /// Answers with an address whatever is asked.
    fn serve(&self) {
        let timeout = Some(Duration::from_millis(20));
        self.socket.set_read_timeout(timeout).expect("a socket has timeouts");
        let mut buffer = [0; 2048];
        while !self.ends.load(Ordering::Relaxed) {
            let Ok((len, from)) = self.socket.recv_from(&mut buffer) else { continue };
            self.asked.fetch_add(1, Ordering::Relaxed);
            // A digit of the name chooses, whatever its case.
            let ttl = TTLS[usize::from(buffer[14]) % TTLS.len()];
            // Who does not read it asks again.
            let _ = self.socket.send_to(&answer(&buffer[..len], ttl), from);
        }
    }
}

/// `what` and a number, whose digits begin with the last one.
fn query(what: char, nth: u64) -> Vec<u8> {
    let digits: String = nth.to_string().chars().rev().collect();
    paced_client::query(&format!("{what}{digits}.namespace.svc.cluster.local"))
}

fn socket(to: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(socket)
}

/// Takes what has come; how much.
fn drain(socket: &UdpSocket) -> io::Result<u64> {
    socket.set_nonblocking(true)?;
    let mut buffer = [0; 2048];
    Ok(std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count() as u64)
}

/// Names by Zipf's law, at a steady rate, from many ports that change.
fn ask_popular(to: SocketAddrV4) -> Result<Sum> {
    let seconds = number("DUNLIN_HOMES_SECONDS", 3);
    let rate = number("DUNLIN_HOMES_RATE", 5_000);
    let (mut random, mut sum) = (Random::new(1), Sum::default());
    let names = rate * NAMES_PER_RATE;
    let ranks: Vec<f64> = (1..=names)
        .scan(0.0, |upto, rank| {
            *upto += 1.0 / rank as f64;
            Some(*upto)
        })
        .collect();
    let (mut sockets, mut seen) = (Vec::new(), HashSet::new());
    for _ in 0..SOCKETS {
        sockets.push(socket(to)?);
    }
    let mut left = socket(to)?;
    let begun = Instant::now();
    let (mut flow_ends, mut oldest) = (FLOW, 0);
    while begun.elapsed().as_secs() < seconds {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        for nth in sum.queries..due {
            let drawn = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
            let name = match random.bits() % 100 {
                0..SCANNED => ('s', nth),
                _ => {
                    let upto = drawn * ranks[ranks.len() - 1];
                    ('p', ranks.partition_point(|rank| *rank < upto) as u64)
                }
            };
            seen.insert(name);
            let from = random.below(SOCKETS);
            sockets[from].send(&query(name.0, name.1))?;
        }
        sum.queries = sum.queries.max(due);
        thread::sleep(TOGETHER);
        for socket in &sockets {
            sum.answered += drain(socket)?;
        }
        if begun.elapsed() > flow_ends {
            flow_ends += FLOW;
            oldest = (oldest + 1) % SOCKETS;
            // What is under way there comes until the next one is replaced.
            sum.answered += drain(&left)?;
            left = std::mem::replace(&mut sockets[oldest], socket(to)?);
        }
    }
    sockets.push(left);
    let queries = sum.queries;
    wait::try_until_ok(&format!("answers to most of {queries} questions"), || {
        for socket in &sockets {
            sum.answered += drain(socket).map_err(|why| why.to_string())?;
        }
        let has_most = sum.answered * 100 >= queries * 99;
        if has_most { Ok(()) } else { Err(format!("{} answers", sum.answered)) }
    })?;
    sum.names = seen.len() as u64;
    Ok(sum)
}

/// Queries unique names one after the other, from many ports; returns the time of each.
fn ask_one_by_one(to: SocketAddrV4, count: u64) -> Result<Vec<Duration>> {
    let sockets: Vec<_> = (0..SOCKETS).map(|_| socket(to)).collect::<io::Result<_>>()?;
    let mut buffer = [0; 2048];
    let mut took = Vec::new();
    for nth in 0..count {
        let socket = &sockets[nth as usize % SOCKETS];
        let begun = Instant::now();
        socket.send(&query('u', nth))?;
        socket.recv(&mut buffer)?;
        took.push(begun.elapsed());
    }
    Ok(took)
}

/// The same, many at once.
fn ask_many(to: SocketAddrV4, count: u64) -> Result<()> {
    let sockets: Vec<_> = (0..SOCKETS).map(|_| socket(to)).collect::<io::Result<_>>()?;
    let mut buffer = [0; 2048];
    for nth in 0..count + WINDOW as u64 {
        let socket = &sockets[nth as usize % SOCKETS];
        if nth >= WINDOW as u64 {
            socket.recv(&mut buffer)?;
        }
        if nth < count {
            socket.send(&query('v', nth))?;
        }
    }
    Ok(())
}
