//! The cost of a separate cache share for each worker: hits, and queries to upstreams, of 1 to 16
//! workers on one trace.
//!
//! Names follow Zipf's law; one query in ten is for a name that is queried only once. Each query
//! arrives at any worker, like the flows of clients. Answers live for the TTL of their name, and
//! one with two hits is refreshed in the last tenth of it, as in `answer`.
//!
//! By itself this is a short form. The tables of `docs/cache.md` are made by
//! `DUNLIN_QUESTIONS=20000000 cargo test --release -p cache --test all shares:: -- --nocapture`.

use crate::common::Owned;
use crate::trace::{Random, mix, zipf};
use cache::{CacheKey, Insertion, QueryKind};
use std::env;

const NAMES: usize = 1_000_000;
const VALUE_LEN: usize = 100;
/// Questions a second.
const RATE: u64 = 20_000;
/// Queries in a hundred for names that are queried only once.
const SCANNED: u64 = 10;
/// Seconds that answers live, each for as many names.
const TTLS: [u32; 4] = [30, 60, 300, 3600];
const WORKERS: [usize; 5] = [1, 2, 4, 8, 16];

/// What workers do about what they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each asks other servers.
    Alone,
    /// They look whether a neighbour knows it, and keep it too.
    Look,
    /// They leave it to the worker that the name's hash chooses, and keep what that says.
    Home,
}

/// What came of a trace.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    all: u64,
    /// In the cache of the worker that received the query.
    hits: u64,
    /// Questions to other servers.
    asked: u64,
}

impl Sum {
    fn hits(&self) -> f64 {
        self.hits as f64 / self.all as f64
    }

    fn asked(&self) -> f64 {
        self.asked as f64 / self.all as f64
    }
}

struct Workers {
    shares: Vec<Owned>,
    way: Way,
    sum: Sum,
}

impl Workers {
    fn new(count: usize, memory: usize, way: Way) -> Self {
        let shares = (0..count).map(|_| Owned::new(memory / count)).collect();
        Self { shares, way, sum: Sum::default() }
    }

    fn ask(&mut self, worker: usize, name: u64, now: u32) {
        let bytes = name.to_be_bytes();
        let key =
            CacheKey { hash: mix(name), kind: QueryKind::new(1, 1, false, false), name: &bytes };
        let known = self.find(worker, &key, now);
        self.sum.all += 1;
        self.sum.hits += u64::from(known.is_some());
        if known.is_none_or(|(_, renews)| renews) {
            let left = self.learn(worker, &key, known.is_some(), now);
            self.put(worker, &key, left, now);
        }
    }

    /// Finds out, by a neighbour or another server, and for how long it is good.
    fn learn(&mut self, worker: usize, key: &CacheKey<'_>, renews: bool, now: u32) -> u32 {
        let home = key.hash as usize % self.shares.len();
        let others = match self.way {
            Way::Alone => 0..0,
            Way::Look => 0..self.shares.len(),
            Way::Home => home..home + 1,
        };
        let mut others = others.filter(|other| *other != worker && !renews);
        if let Some((left, _)) = others.find_map(|other| self.find(other, key, now)) {
            return left;
        }
        self.sum.asked += 1;
        let ttl = TTLS[(key.hash >> 32) as usize % TTLS.len()];
        if self.way == Way::Home {
            self.put(home, key, ttl, now);
        }
        ttl
    }

    /// For how long what a worker has is good, and whether it is to be renewed.
    fn find(&mut self, worker: usize, key: &CacheKey<'_>, now: u32) -> Option<(u32, bool)> {
        let mut cache = self.shares[worker].lend();
        let found = cache.find(key, now).filter(|found| found.is_fresh())?;
        let is_late = found.age >= found.ttl - found.ttl / 10;
        Some((found.ttl - found.age, found.uses >= 2 && is_late))
    }

    fn put(&mut self, worker: usize, key: &CacheKey<'_>, ttl: u32, now: u32) {
        let put = self.shares[worker].lend().put(key, now, ttl, &[0; VALUE_LEN]);
        assert_eq!(put, Insertion::Done);
    }
}

fn names(exponent: f64, count: usize) -> Vec<u64> {
    let (mut popular, mut random) = (zipf(exponent, NAMES, 1), Random(2));
    let mut name = |time| match random.next() % 100 {
        0..SCANNED => (NAMES + time) as u64,
        _ => popular(),
    };
    (0..count).map(&mut name).collect()
}

fn run(trace: &[u64], workers: usize, memory: usize, way: Way) -> Sum {
    let mut all = Workers::new(workers, memory, way);
    let mut random = Random(3);
    // At first nothing is known to anybody, which is not counted.
    let warm = trace.len() / 10;
    for (time, name) in trace.iter().enumerate() {
        if time == warm {
            all.sum = Sum::default();
        }
        let worker = random.next() as usize % workers;
        all.ask(worker, *name, (time as u64 / RATE) as u32);
    }
    all.sum
}

/// Rows for each number of workers: hits, questions to others, and how many more than one worker's.
fn table(trace: &[u64], memory: usize, way: Way) -> Vec<(Sum, f64)> {
    let sums: Vec<Sum> = WORKERS.iter().map(|count| run(trace, *count, memory, way)).collect();
    let more = |sum: &Sum| sum.asked() / sums[0].asked() - 1.0;
    let rows: Vec<_> = sums.iter().map(|sum| (*sum, more(sum))).collect();
    for (workers, (sum, more)) in WORKERS.iter().zip(&rows) {
        let (hits, asked, more) = (100.0 * sum.hits(), 100.0 * sum.asked(), 100.0 * more);
        println!("| {way:?} | {workers} | {hits:.1} % | {asked:.1} % | {more:+.1} % |");
    }
    rows
}

#[test]
fn cost_of_shares_and_value_of_peers() {
    let count = env::var("DUNLIN_QUESTIONS").map_or(30_000, |text| text.parse().unwrap());
    for exponent in [0.8, 1.0, 1.2] {
        let trace = names(exponent, count);
        for mebi in [4, 64] {
            println!("\nZipf {exponent}, {mebi} MiB, {count} questions");
            let [alone, look, home] =
                [Way::Alone, Way::Look, Way::Home].map(|way| table(&trace, mebi << 20, way));
            for at in 1..WORKERS.len() {
                let [alone, look, home] = [&alone, &look, &home].map(|rows| rows[at].1);
                assert!(alone > home && alone > look, "{alone} {look} {home}");
            }
        }
    }
}
