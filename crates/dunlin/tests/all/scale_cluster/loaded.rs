//! The mode `load` with real replicas under a real load.
use super::bed::Bed;
use super::fleet::{Fleet, NAMES, Replica};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;

use lab_load::{LoadMode, Options, Quantile, QuerySource, Report};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use test_support::skip;
use test_support::wait;
use wire::Rtype;

/// The latency objective.
const P99_MS: u64 = 50;
/// How soon a step of the load must raise the count, in the campaign.
const RISE_MAX: Duration = Duration::from_secs(15);
/// How long no count may fall.
const QUIET: Duration = Duration::from_secs(600);

/// After this many seconds, clients learn of new replicas.
const SLICE_S: f64 = 3.0;

/// A number from an environment variable of the campaign.
fn number(variable: &str) -> Option<f64> {
    std::env::var(variable).ok().map(|count| count.parse().expect("a number"))
}

fn load(address: SocketAddr, when: LoadMode, seconds: f64) -> Report {
    let form = QueryFormat { recursion: true, ..QueryFormat::default() };
    let set = QuestionSet::from_pattern("n{i}.fleet.test", NAMES as usize, Rtype::A, form);
    let set = Arc::new(set.expect("names"));
    let what = QuestionSpec { set, order: Order::Uniform, unique: 0.0, nxdomain: 0.0, under: None };
    let options = Options {
        when,
        length_ns: (seconds * 1e9) as u64,
        channels: 32,
        timeout_ns: 200_000_000,
        ..Options::new(address, QuerySource::Questions(Box::new(what)))
    };
    lab_load::run(&options, &AtomicBool::new(false), &mut |_| {}).expect("a load")
}

fn steady(address: SocketAddr, qps: f64, seconds: f64) -> Report {
    let arrivals = Arrivals { rate: Rate::Constant(qps), spacing: Spacing::Poisson, burst: 1 };
    load(address, LoadMode::Open(arrivals), seconds)
}

/// A part of the course: what clients sent, what was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    seconds: f64,
    sent: u64,
    answered: u64,
    /// The same of its last seconds.
    last: (u64, u64),
}

/// Spreads a load over the replicas that are ready, of which clients learn every few seconds.
fn spread(ready: &Mutex<Vec<SocketAddr>>, qps: f64, seconds: f64) -> Phase {
    let begun = Instant::now();
    let mut phase = Phase::default();
    while begun.elapsed().as_secs_f64() < seconds {
        let replicas = || ready.lock().expect("no panic").clone();
        let replicas = wait::until_value("a ready replica", replicas, |some| !some.is_empty());
        let each = qps / replicas.len() as f64;
        let slice = SLICE_S.min(seconds - begun.elapsed().as_secs_f64()).max(0.5);
        let reports: Vec<Report> = scope(|scope| {
            let one = |address| scope.spawn(move || steady(address, each, slice));
            let threads: Vec<_> = replicas.into_iter().map(one).collect();
            threads.into_iter().map(|thread| thread.join().expect("a load")).collect()
        });
        let sent = reports.iter().map(|report| report.counts.sent).sum::<u64>();
        let answered = reports.iter().map(|report| report.counts.answered).sum::<u64>();
        (phase.sent, phase.answered) = (phase.sent + sent, phase.answered + answered);
        phase.last = (sent, answered);
    }
    phase.seconds = begun.elapsed().as_secs_f64();
    phase
}

/// Queries a second that one replica carries within the latency objective, as the lab measures
/// them: it falls from the most by a tenth until 99.9 % are answered in time.
fn measure_capacity() -> Result<f64, String> {
    let replica = Replica::start("measured", 0)?;
    let address = replica.served.address;
    let closed = LoadMode::Closed { outstanding: 64, rate_max: None };
    let most = load(address, closed, 3.0).rate();
    let fits = |qps: &f64| {
        let report = steady(address, *qps, 3.0);
        let p99 = report.quantile(&report.times.response, 0.99);
        let in_time = matches!(p99, Quantile::Of(p99_ns) if p99_ns <= 1_000_000 * P99_MS);
        in_time && report.counts.answered as f64 >= 0.999 * report.counts.sent as f64
    };
    let rates = (3..=10).rev().map(|tenths| most * f64::from(tenths) / 10.0);
    rates.into_iter().find(fits).ok_or_else(|| format!("30 % of {most:.0} queries/s do not fit"))
}

/// CPU seconds of a query at this rate, as the lab measures them.
fn measure_cost(qps: f64) -> f64 {
    let replica = Replica::start("measured", 1).expect("a replica");
    let before_s = replica.cpu_s();
    let report = steady(replica.served.address, qps, 10.0);
    (replica.cpu_s() - before_s) / report.counts.answered as f64
}

/// How the count changed: when, in seconds after the step up, and to what.
type Changes = Vec<(f64, usize)>;

/// One step of the load up and one down. Replicas rise, none falls within 10 minutes, and the cost
/// of a query is learned. `make bench-scale-replicas` runs it for longer than these 10 minutes,
/// with the usual period; they rise within 15 seconds there.
#[test]
#[ignore = "cluster: it starts an API server and loads real servers"]
fn replicas_follow_a_step_of_the_load() {
    let after_s = number("DUNLIN_SCALE_SECONDS");
    let Some(bed) = Bed::start("loaded", 1) else { return };
    bed.set_nodes(3, "4");
    bed.cluster.create(&cluster::objects::node(cluster::objects::NODE));
    let capacity = match measure_capacity() {
        Ok(capacity) => capacity,
        Err(why) => return skip::skip(&why),
    };
    let (low, high) = (capacity / 20.0, number("DUNLIN_SCALE_QPS").unwrap_or(3.0 * capacity));
    eprintln!("one replica: {capacity:.0} answers/s");
    let params = format!("{{\"capacity\": {capacity:.0}, \"p99Ms\": {P99_MS}, \"max\": 12}}");
    bed.configure("load", &params);
    let admin = bed.cluster.kubeconfig();
    let period = format!("--poll-period-seconds={}", if after_s.is_some() { 10 } else { 1 });
    let scaler = bed.scaler("loaded", &admin, &["--target=deployment/dns", &period]);
    let mut fleet = Fleet::new(&bed);
    fleet.follow();
    let ready = fleet.ready();
    let (is_over, mut changes) = (AtomicBool::new(false), Changes::new());
    let (step, phases) = scope(|scope| {
        let loads = scope.spawn(|| {
            let before = spread(&ready, low, 20.0);
            let step = Instant::now();
            let crowd = spread(&ready, high, 60.0);
            let after = spread(&ready, low, after_s.unwrap_or(20.0));
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            (step, [before, crowd, after])
        });
        let begun = Instant::now();
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            // Before replicas are started, which takes a while.
            let seen_s = begun.elapsed().as_secs_f64();
            let count = fleet.follow();
            if changes.last().is_none_or(|(_, last)| *last != count) {
                changes.push((seen_s, count));
            }
            sleep(Duration::from_millis(100));
        }
        let (step, phases) = loads.join().expect("a load");
        let step_s = step.duration_since(begun).as_secs_f64();
        changes.iter_mut().for_each(|(time_s, _)| *time_s -= step_s);
        (step, phases)
    });
    show(&fleet, &phases, &changes);
    let status: Value = serde_json::from_str(&scaler.page("/status").1).expect("a status");
    let log = scaler.log();
    check(&changes, capacity, high, &log);
    if after_s.is_some() {
        let rise_s = rise(&changes, &log);
        assert!(rise_s <= RISE_MAX.as_secs_f64(), "it rises {rise_s:.1} s after the step\n{log}");
    }
    let learned_s = status["targets"][0]["cpu_seconds_per_query"].as_f64();
    let learned_s = learned_s.unwrap_or_else(|| panic!("no cost is learned: {status}\n{log}"));
    // How near it is to the lab's depends on what else the machine does.
    // What a replica is planned to use, by the defaults.
    let cost_s = measure_cost(capacity * 0.8 / 1.2);
    let ratio = learned_s / cost_s;
    let [learned_us, cost_us] = [learned_s, cost_s].map(|cost_s| 1e6 * cost_s);
    eprintln!("a query costs {learned_us:.1} us, {cost_us:.1} us in the lab: {ratio:.2}");
    eprintln!("{:.0} s after the step", step.elapsed().as_secs_f64());
}

/// How many seconds after the step the count rises.
fn rise(changes: &Changes, log: &str) -> f64 {
    let before = changes.iter().rev().find(|(time_s, _)| *time_s <= 0.0).expect("a count").1;
    let (rise_s, _) = *changes
        .iter()
        .find(|(time_s, count)| *time_s > 0.0 && *count > before)
        .unwrap_or_else(|| panic!("nothing rises: {changes:?}\n{log}"));
    rise_s
}

fn check(changes: &Changes, capacity: f64, high: f64, log: &str) {
    eprintln!("it rises {:.1} s after the step", rise(changes, log));
    let most = changes.iter().map(|(_, count)| *count).max().expect("a count");
    assert!(most as f64 * capacity > high, "{most} replicas do not carry the load\n{log}");
    let last_rise_s = changes.windows(2).rfind(|pair| pair[1].1 > pair[0].1);
    let last_rise_s = last_rise_s.map_or(0.0, |pair| pair[1].0);
    let falls = changes.windows(2).filter(|pair| pair[1].1 < pair[0].1);
    for fall in falls {
        let quiet_s = fall[1].0 - last_rise_s;
        // Changes are seen within a second.
        assert!(
            quiet_s >= QUIET.as_secs_f64() - 1.0,
            "it falls {quiet_s:.0} s after a rise\n{log}"
        );
    }
}

fn show(fleet: &Fleet<'_>, phases: &[Phase; 3], changes: &Changes) {
    for Phase { seconds, sent, answered, last } in phases {
        let share = |sent: u64, answered: u64| 100.0 * answered as f64 / sent.max(1) as f64;
        eprintln!(
            "{:.0} queries/s for {seconds:.0} s, {:.2} % answered, {:.2} % at the end",
            *sent as f64 / seconds,
            share(*sent, *answered),
            share(last.0, last.1)
        );
    }
    for (time_s, count) in changes {
        eprintln!("{time_s:8.1} s: {count} replicas");
    }
    let throttled = fleet.replicas().iter().map(|replica| replica.group.throttled());
    let shares: Vec<String> = throttled.map(|share| format!("{:.0} %", 100.0 * share)).collect();
    eprintln!("periods without CPU time left: {}", shares.join(", "));
}
