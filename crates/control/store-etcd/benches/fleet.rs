//! Costs of a fleet beside those of bare etcd, in one run: `make bench-fleet`.
//!
//! Three etcd members and three servers run on this machine. The bare figures are of a client that
//! knows nothing of Dunlin.
#[path = "../tests/all/node.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod node;

use etcd_client::{Client, CompactionOptions, DeleteOptions, Txn, TxnOp};
use node::{Node, name};
use records::{Edit, SetValue};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use tokio::runtime::Runtime;
use wire::Rtype;

/// Writes a second of the latency part, and how long each part lasts.
const RATE: u32 = 200;
const LASTS: Duration = Duration::from_secs(10);
/// Writers of the throughput part.
const WRITERS: usize = 64;
/// Writers that are on one server, and then on three.
const SPREAD_WRITERS: usize = 48;
/// How often they take turns.
const SPREAD_ROUNDS: u32 = 4;
/// Sets of an imported batch, and puts of a bare transaction.
const BATCH: usize = 1_000;
const PUTS: usize = 120;
/// What etcd has of a set.
const VALUE: &str =
    r#"{"ttl":60,"data":["192.0.2.1"],"view":"default","policy":"all","revision":2}"#;

/// A client of etcd that knows nothing of Dunlin.
struct Bare(Runtime, Client);

impl Bare {
    fn connect(etcd: &Etcd) -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect(etcd.endpoints(), None)).unwrap();
        Self(runtime, client)
    }

    fn put(&self, key: String) {
        self.0.block_on(self.1.kv_client().put(key, VALUE, None)).unwrap();
    }
}

fn put(at: &str, n: u32) -> Edit {
    let value = SetValue::new(60, vec![(n + (10 << 24)).to_be_bytes().into()]);
    Edit::put(name(at), Rtype::A, value)
}

/// The median and the 99th percentile in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    format!("{:.1} ms, {:.1} ms", at(50), at(99))
}

/// Does something at the fixed rate; late ones count from when they were due.
fn paced(mut act: impl FnMut(u32)) -> Vec<Duration> {
    let (began, mut times) = (Instant::now(), Vec::new());
    for n in 0..RATE * LASTS.as_secs() as u32 {
        let due = began + Duration::from_secs(1) * n / RATE;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        act(n);
        times.push(due.elapsed());
    }
    times
}

fn latency(bare: &Bare, nodes: &[Node]) {
    let puts = paced(|n| bare.put(format!("/bare/n{}", n % 1_000)));
    println!("| put of bare etcd at {RATE}/s: p50, p99 | {} |", percentiles(puts));
    let writes = paced(|n| {
        let edit = put(&format!("n{}.example.org.", n % 1_000), n);
        let written = nodes[0].write("example.org.", vec![edit]).unwrap();
        while nodes.iter().any(|node| node.revision() < written.revision) {
            thread::sleep(Duration::from_micros(100));
        }
    });
    let writes = percentiles(writes);
    println!("| write at {RATE}/s until all three servers have it: p50, p99 | {writes} |");
}

/// What so many writers do in a second, each one thing after another.
fn rate_of_all(writers: usize, lasts: Duration, act: impl Fn(usize) + Sync) -> f64 {
    let (count, began) = (AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        for writer in 0..writers {
            let (count, act) = (&count, &act);
            scope.spawn(move || {
                while began.elapsed() < lasts {
                    act(writer);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    count.into_inner() as f64 / began.elapsed().as_secs_f64()
}

fn throughput(etcd: &Etcd, node: &Node) {
    let clients: Vec<Bare> = (0..WRITERS).map(|_| Bare::connect(etcd)).collect();
    let clients: Vec<_> = clients.into_iter().map(std::sync::Mutex::new).collect();
    let bare = rate_of_all(WRITERS, LASTS, |writer| {
        clients[writer].lock().unwrap().put(format!("/bare/w{writer}"));
    });
    drop(clients);
    println!("| single puts of {WRITERS} bare clients | {bare:.0}/s |");
    let next = AtomicU64::new(0);
    let ours = rate_of_all(WRITERS, LASTS, |writer| {
        let edit = put(
            &format!("w{writer}.example.org."),
            next.fetch_add(1, Ordering::Relaxed) as u32 % (1 << 24),
        );
        node.write("example.org.", vec![edit]).unwrap();
    });
    let ratio = ours / bare;
    println!(
        "| single writes of {WRITERS} writers on one server | {ours:.0}/s, {ratio:.2} times |"
    );
}

/// Writers on one server, the same number spread over all, and the share of one server alone, by
/// turns: a commit of the share has a third of the writes, also without another writer.
fn spread(nodes: &[Node]) {
    let (next, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let rate = |nodes: &[Node], writers: usize| {
        rate_of_all(writers, LASTS / 2, |writer| {
            let n = next.fetch_add(1, Ordering::Relaxed) as u32 % (1 << 24);
            let edit = put(&format!("s{writer}.example.org."), n);
            let written = nodes[writer % nodes.len()].write("example.org.", vec![edit]);
            refused.fetch_add(u64::from(written.is_err()), Ordering::Relaxed);
        })
    };
    let (all, share) = (SPREAD_WRITERS, SPREAD_WRITERS / nodes.len());
    let parts = [(&nodes[..1], all), (nodes, all), (&nodes[..1], share)];
    let mut rates = [0.0; 3];
    for _ in 0..SPREAD_ROUNDS {
        for (sum, (nodes, writers)) in rates.iter_mut().zip(parts) {
            *sum += rate(nodes, writers) / f64::from(SPREAD_ROUNDS);
        }
    }
    let [one, three, alone] = rates;
    let (written, refused) = (next.into_inner(), refused.into_inner());
    println!("| single writes of {all} writers on one server | {one:.0}/s |");
    println!(
        "| the same on three servers; refused of all | {three:.0}/s, {:.2} times; {refused} of \
         {written} |",
        three / one
    );
    println!("| {share} writers on one server alone | {alone:.0}/s, {:.2} times |", alone / one);
}

fn import(bare: &Bare, node: &Node, sets: usize) {
    let (began, count) = (Instant::now(), 24_000);
    for first in (0..count).step_by(PUTS) {
        let key = |n| format!("/bare/sets/example.org./n{n}/A");
        let ops: Vec<TxnOp> =
            (first..first + PUTS).map(|n| TxnOp::put(key(n), VALUE, None)).collect();
        bare.0.block_on(bare.1.kv_client().txn(Txn::new().and_then(ops))).unwrap();
    }
    let plain = count as f64 / began.elapsed().as_secs_f64();
    println!("| sets a second in bare transactions of {PUTS} puts | {plain:.0} |");
    let began = Instant::now();
    for first in (0..sets).step_by(BATCH) {
        let edit = |n| put(&format!("i{n}.example.org."), n as u32);
        node.write("example.org.", (first..first + BATCH).map(edit).collect()).unwrap();
    }
    let ours = sets as f64 / began.elapsed().as_secs_f64();
    let ratio = ours / plain;
    println!(
        "| sets a second in batches of {BATCH}, {sets} in all | {ours:.0}, {ratio:.2} times |"
    );
}

fn size(bare: &Bare, sets: usize) {
    let prefix = Some(DeleteOptions::new().with_prefix());
    let in_use = bare.0.block_on(async {
        let gone = bare.1.kv_client().delete("/bare/", prefix).await.unwrap();
        let revision = gone.header().unwrap().revision();
        let physical = CompactionOptions::new().with_physical();
        bare.1.kv_client().compact(revision, Some(physical)).await.unwrap();
        bare.1.maintenance_client().status().await.unwrap().raft_used_db_size()
    });
    let each = in_use as f64 / sets as f64;
    println!("| bytes of etcd in use for each of {sets} sets, compacted | {each:.0} |");
}

fn starts(etcd: &mut Etcd, sets: usize) {
    let began = Instant::now();
    let mut node = Node::start(etcd);
    while node.service().health().unavailable.is_some() {
        thread::sleep(Duration::from_millis(10));
    }
    let seconds = began.elapsed().as_secs_f64();
    assert!(node.service().held().unwrap().sets >= sets as u64, "it has all");
    println!("| a new server has {sets} sets | {seconds:.1} s after its start |");
    node.stop();
    (0..3).for_each(|member| etcd.kill(member));
    let began = Instant::now();
    node.restart();
    let seconds = began.elapsed().as_secs_f64();
    assert!(node.get(&format!("i{}.example.org.", sets - 1)).is_some(), "it has the last one");
    println!("| a restarted server has them, without etcd | {seconds:.2} s after its start |");
}

fn main() {
    let sets = std::env::var("SETS").map_or(100_000, |sets| sets.parse().expect("a number"));
    let Some(mut etcd) = Etcd::start_or_skip(3) else { return };
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    node::eventually(|| nodes[0].create("example.org.").is_ok());
    node::eventually(|| nodes.iter().all(|node| node.revision().0 >= 1));
    println!("| figure | measured |\n| --- | --- |");
    let bare = Bare::connect(&etcd);
    latency(&bare, &nodes);
    throughput(&etcd, &nodes[0]);
    spread(&nodes);
    import(&bare, &nodes[0], sets);
    drop(nodes);
    size(&bare, sets);
    starts(&mut etcd, sets);
}
