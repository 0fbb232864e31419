//! Bounds beside those of the PyPI package MLRsearch 1.2.1.
//!
//! `oracle.json` holds its answers for the cases below; `make test-cluster` asks the
//! package itself.

use lab_search::{Config, Goal, Outcome, Request, Search, Stat, Target, relevant_bounds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

const CASES: u64 = 400;
/// Recorded searches of simulated servers.
const SEARCHES: u64 = 40;
/// Those of the live oracle.
const LIVE_SEARCHES: u64 = 1_000;

#[derive(Serialize)]
struct Case {
    goal: Goal,
    min: f64,
    max: f64,
    /// Load, duration in seconds, loss ratio.
    trials: Vec<(f64, f64, f64)>,
    capacity: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    lower: Option<f64>,
    upper: Option<f64>,
    loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spent_s: Option<f64>,
}

fn goal(random: &mut fastrand::Rng) -> Goal {
    let presets = [Goal::ndr(), Goal::pdr(), Goal::tst009(), Goal::rfc2544()];
    let mut goal = presets[random.usize(..4)].clone();
    goal.exceed_ratio = [0.0, 0.125, 0.5, 0.75][random.usize(..4)];
    goal
}

/// Trials at up to eight loads, most lossy above some load, with chance.
fn case(seed: u64) -> Case {
    let mut random = fastrand::Rng::with_seed(seed);
    let goal = goal(&mut random);
    let mut trials = Vec::new();
    for load in 1..=random.u32(2..=8) {
        let bad = f64::from(load) / 8.0 + 0.3 * (random.f64() - 0.5);
        for _ in 0..random.u32(0..30) {
            // Halves and quarters have no rounding in sums.
            let duration_s = goal.trial_s * [0.25, 0.5, 1.0, 1.0, 2.0][random.usize(..5)];
            let loss = match random.f64() < bad {
                true => f64::from(random.u32(1..20)) / 100.0,
                false => [0.0, 0.001, 0.005][random.usize(..3)],
            };
            trials.push((f64::from(load) * 1_000.0, duration_s, loss));
        }
    }
    Case { goal, min: 1_000.0, max: 1e6, trials, capacity: None }
}

fn complete_search(seed: u64) -> Case {
    let mut random = fastrand::Rng::with_seed(seed);
    let goal = [Goal::ndr(), Goal::pdr()][seed as usize % 2].clone();
    let capacity = 2_000.0 * (random.f64() * 5.5).exp();
    Case { goal, min: 1_000.0, max: 1e6, trials: Vec::new(), capacity: Some(capacity) }
}

fn ours(case: &Case) -> Answer {
    let Goal { loss_ratio, exceed_ratio, trial_s, duration_sum_s, .. } = case.goal;
    let target = Target { loss_ratio, exceed_ratio, trial_s, duration_sum_s };
    let mut stats: BTreeMap<u64, Stat> = BTreeMap::new();
    for (load, duration_s, loss) in &case.trials {
        stats.entry(*load as u64).or_default().add(&target, *duration_s, *loss);
    }
    let (lower, upper) = relevant_bounds(&stats, &target);
    let loss = lower.map(|load| stats[&load].loss_at_quantile(&target));
    let load = |load: u64| load as f64;
    Answer { lower: lower.map(load), upper: upper.map(load), loss, spent_s: None }
}

fn our_search(case: &Case) -> Answer {
    let capacity = case.capacity.unwrap();
    let goals = vec![case.goal.clone()];
    let config = Config { goals, min: case.min, max: case.max, warmup_s: 0.0, time_max_s: 1e6 };
    let mut search = Search::new(config).unwrap();
    while let Some(Request { load, duration_s }) = search.next_trial() {
        let sent = (load * duration_s).round();
        let lost = (sent * (1.0 - capacity / load).max(0.0)).round();
        search.record(Outcome::Losses(vec![lost / sent])).unwrap();
    }
    let result = search.result().remove(0);
    let load = |bound: lab_search::Bound| bound.load;
    let (lower, upper) = (result.lower.map(load), result.upper.map(load));
    Answer { lower, upper, loss: None, spent_s: Some(search.spent_s()) }
}

fn cases(searches: u64) -> Vec<Case> {
    (0..CASES).map(case).chain((0..searches).map(complete_search)).collect()
}

fn compare(answers: &[Answer], searches: u64) {
    let cases = cases(searches);
    assert_eq!(answers.len(), cases.len());
    let (mut decided, mut times) = (0, (0.0, 0.0));
    for (seed, (case, theirs)) in cases.iter().zip(answers).enumerate() {
        if case.capacity.is_none() {
            assert_eq!(&ours(case), theirs, "case {seed}");
            decided += usize::from(theirs.lower.is_some() || theirs.upper.is_some());
            continue;
        }
        // Grids differ: both intervals hold the capacity, so they overlap.
        let ours = our_search(case);
        let (low, high) = (ours.lower.unwrap(), ours.upper.unwrap());
        let (their_low, their_high) = (theirs.lower.unwrap(), theirs.upper.unwrap());
        assert!(low <= their_high && their_low <= high, "search {seed}: {ours:?} {theirs:?}");
        assert!(1.0 - low / high <= case.goal.width + 1e-9, "search {seed}: {ours:?}");
        times.0 += ours.spent_s.unwrap();
        times.1 += theirs.spent_s.unwrap();
    }
    assert!(decided > 200, "only {decided} cases have a bound");
    println!("trial time of whole searches: {} s, the package {} s", times.0, times.1);
    assert!(times.0 < 1.5 * times.1, "{times:?}");
}

#[test]
fn bounds_agree_with_the_recorded_oracle() {
    compare(
        &serde_json::from_str::<Vec<Answer>>(include_str!("../oracle.json")).unwrap(),
        SEARCHES,
    );
}

/// Needs `DUNLIN_MLRSEARCH_PYTHON`, a Python with the package; `scripts/require test-cluster` makes
/// it. `DUNLIN_ORACLE_WRITE` names a file that the answers are written to.
#[test]
#[ignore = "slow: it needs the PyPI package MLRsearch"]
fn bounds_agree_with_the_live_oracle() {
    let python = std::env::var("DUNLIN_MLRSEARCH_PYTHON").expect("DUNLIN_MLRSEARCH_PYTHON is set");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // What is recorded has fewer.
    let is_recorded = std::env::var_os("DUNLIN_ORACLE_WRITE").is_some();
    let searches = if is_recorded { SEARCHES } else { LIVE_SEARCHES };
    let lines: Vec<String> =
        cases(searches).iter().map(|c| serde_json::to_string(c).unwrap()).collect();
    let writer = std::thread::spawn(move || input.write_all((lines.join("\n") + "\n").as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Answer> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    if let Ok(path) = std::env::var("DUNLIN_ORACLE_WRITE") {
        let lines: Vec<String> =
            answers.iter().map(|answer| serde_json::to_string(answer).unwrap()).collect();
        std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    compare(&answers, searches);
}
