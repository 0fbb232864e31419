//! The mode `load` beside other autoscalers, each of them tuned.
mod courses;
mod plot;
mod world;

use courses::{CAPACITY, Course, make};
use scale_rules::{Dialect, Params};
use serde_json::{Value, json};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::thread;
use world::{Cost, run};

/// Seeds of each kind of course that judge.
const SEEDS: Range<u64> = 0..200;
/// Seeds on which the defaults of `load` are chosen; none of them judges.
const TUNING_SEEDS: Range<u64> = 10_000..10_200;

/// A policy with one tuning, and its costs.
pub struct Entry {
    /// Its name.
    pub rival: &'static str,
    /// Its parameters, for people.
    pub tuning: String,
    /// The costs in each kind of course.
    pub costs: [Cost; 6],
    /// Their sum.
    pub sum: Cost,
}

/// A policy: its name, its tuning for people, its parameters.
type Policy = (&'static str, String, Params);

fn params(value: &Value) -> Params {
    Params::from_file(&value.to_string(), Dialect::Strict).expect("parameters")
}

/// `load` with its defaults, and every tuning of each rival.
fn policies() -> Vec<Policy> {
    let mut all = vec![defaults()];
    for nodes in [2, 4, 8, 16, 32] {
        for cores in [16, 64, 256] {
            for min in [2, 6, 18] {
                let tuning = format!("{nodes} nodes, {cores} cores, min {min}");
                let keys = json!({"nodesPerReplica": nodes, "coresPerReplica": cores, "min": min});
                all.push(("linear", tuning.clone(), params(&json!({ "linear": keys }))));
                all.push(("EKS", tuning, params(&json!({ "eks": keys }))));
            }
        }
    }
    for target in [36.0, 40.0, 44.0, 46.0, 46.5, 47.0, 48.0, 50.0, 52.0, 55.0, 60.0, 70.0, 80.0] {
        for stabilization in [0, 15, 60, 300] {
            for min in [2, 3] {
                let tuning = format!("{target} % CPU, {stabilization} s, min {min}");
                let keys = json!({"capacity": CAPACITY, "target": target / 100.0,
                    "stabilizationSeconds": stabilization, "min": min});
                all.push(("HPA", tuning, params(&json!({ "hpa": keys }))));
            }
        }
    }
    all
}

fn defaults() -> Policy {
    ("load", "defaults".to_owned(), params(&json!({"load": {"capacity": CAPACITY}})))
}

/// `load` with its defaults, and other values of the keys that trade minutes for replicas.
fn tunings_of_load() -> Vec<Policy> {
    let mut all = vec![defaults()];
    for k in [0, 1, 2, 3] {
        for (headroom, utilization) in [(1.0, 0.8), (1.2, 0.8), (1.3, 0.8), (1.3, 0.7), (1.4, 0.6)]
        {
            let tuning = format!("k {k}, headroom {headroom}, utilization {utilization}");
            let keys = json!({"capacity": CAPACITY, "k": k, "headroom": headroom,
                "utilization": utilization});
            all.push(("load", tuning, params(&json!({ "load": keys }))));
        }
    }
    all
}

/// Runs every policy through every course, on all CPUs.
fn compare(policies: &[Policy], seeds: &Range<u64>) -> Vec<Entry> {
    let made: Vec<_> = Course::ALL
        .into_iter()
        .flat_map(|course| seeds.clone().map(move |seed| (course, make(course, seed))))
        .collect();
    let parts = thread::available_parallelism().map_or(1, usize::from);
    let one = |(rival, tuning, params): &Policy| {
        let mut costs = [Cost::default(); 6];
        let mut sum = Cost::default();
        for (course, made) in &made {
            let cost = run(params, made);
            costs[*course as usize].add(cost);
            sum.add(cost);
        }
        Entry { rival, tuning: tuning.clone(), costs, sum }
    };
    let one = &one;
    thread::scope(|scope| {
        let part = |part: &[_]| part.iter().map(one).collect::<Vec<_>>();
        let threads: Vec<_> = policies
            .chunks(policies.len().div_ceil(parts))
            .map(|policies| scope.spawn(move || part(policies)))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Of each rival the tunings that no other tuning of it beats, nearest to `load` first.
fn table(entries: &[Entry]) -> String {
    let mut text = String::from(
        "| policy | tuning | minutes over capacity | replica-hours |\n| --- | --- | --- | --- |\n",
    );
    let load = &entries[0];
    let mut row = |entry: &Entry| {
        let Entry { rival, tuning, sum, .. } = entry;
        writeln!(
            text,
            "| {rival} | {tuning} | {:.0} | {:.0} |",
            sum.minutes_over, sum.replica_hours
        )
        .expect("memory");
    };
    row(load);
    for rival in ["HPA", "EKS", "linear"] {
        let of = || entries.iter().filter(|entry| entry.rival == rival);
        let by = |cost: fn(&Cost) -> f64| {
            move |a: &&Entry, b: &&Entry| cost(&a.sum).total_cmp(&cost(&b.sum))
        };
        let within =
            |cost: fn(&Cost) -> f64| move |entry: &&Entry| cost(&entry.sum) <= cost(&load.sum);
        // The fewest minutes for at most the replica-hours of `load`, and the reverse.
        let minutes: fn(&Cost) -> f64 = |cost| cost.minutes_over;
        let hours: fn(&Cost) -> f64 = |cost| cost.replica_hours;
        of().filter(within(hours)).min_by(by(minutes)).into_iter().for_each(&mut row);
        of().filter(within(minutes)).min_by(by(hours)).into_iter().for_each(&mut row);
    }
    text.push_str(
        "\n| course | minutes over capacity: load | HPA, 70 % | replica-hours: load | HPA, 70 % |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    let usual = |entry: &&Entry| entry.tuning == "70 % CPU, 300 s, min 2";
    let hpa = entries.iter().find(usual).expect("the usual HPA");
    for (course, (ours, other)) in Course::ALL.iter().zip(load.costs.iter().zip(&hpa.costs)) {
        let (name, minutes, hours) = (course.name(), ours.minutes_over, ours.replica_hours);
        writeln!(
            text,
            "| {name} | {minutes:.0} | {:.0} | {hours:.0} | {:.0} |",
            other.minutes_over, other.replica_hours
        )
        .expect("memory");
    }
    text
}

/// Replaces what is between the two marks of a page.
fn write_page(page: &Path, table: &str) {
    let text = std::fs::read_to_string(page).expect("the page");
    let (begin, end) = ("<!-- rivals -->\n", "<!-- end of rivals -->");
    let (before, rest) = text.split_once(begin).expect("a mark");
    let (_, after) = rest.split_once(end).expect("a mark");
    std::fs::write(page, format!("{before}{begin}\n{table}\n{end}{after}")).expect("the page");
}

fn check(entries: &[Entry]) {
    let load = &entries[0];
    for entry in &entries[1..] {
        let (ours, theirs) = (&load.sum, &entry.sum);
        assert!(!theirs.beats(ours), "{} with {}: {theirs:?}, {ours:?}", entry.rival, entry.tuning);
    }
}

#[test]
#[ignore = "campaign: make bench-scale-rules; 195 tunings, each through 1,200 courses"]
fn no_tuning_of_a_rival_has_fewer_minutes_over_and_fewer_replica_hours() {
    let entries = compare(&policies(), &SEEDS);
    println!("{}", table(&entries));
    if let Some(page) = std::env::var_os("DUNLIN_SCALE_PAGE") {
        let page = Path::new(&page);
        write_page(page, &table(&entries));
        std::fs::write(page.with_extension("svg"), plot::draw(&entries)).expect("the plot");
    }
    check(&entries);
}

/// The defaults are chosen here, on courses that do not judge.
#[test]
#[ignore = "campaign: make bench-scale-rules; 21 tunings, each through 1,200 courses"]
fn no_other_tuning_of_load_has_fewer_minutes_over_and_fewer_replica_hours() {
    let entries = compare(&tunings_of_load(), &TUNING_SEEDS);
    for Entry { tuning, sum, .. } in &entries {
        println!("| {tuning} | {:.0} | {:.0} |", sum.minutes_over, sum.replica_hours);
    }
    check(&entries);
}

/// Courses and policies are alive, and a seed gives one result. Which policy is better is said of
/// all seeds together only: of one seed, a tuning of a rival can be better on both axes.
#[test]
fn seed_gives_one_result_in_which_every_policy_acts() {
    let (entries, again) = (compare(&policies(), &(0..1)), compare(&policies(), &(0..1)));
    assert!(entries[0].sum.minutes_over > 0.0, "a flash crowd takes time to answer");
    for (entry, again) in entries.iter().zip(&again) {
        let (one, other) = (&entry.sum, &again.sum);
        assert_eq!(
            (one.minutes_over, one.replica_hours),
            (other.minutes_over, other.replica_hours)
        );
        // Two replicas all the time would be 2 x 6 x 6 hours.
        assert!(one.replica_hours > 72.0, "{} with {} acts", entry.rival, entry.tuning);
    }
}
