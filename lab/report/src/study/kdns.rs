//! Findings of the KDNS study about response times, with the cause of the slow ones.

use lab::record::{RunRecord, SparseHistogram};
use lab::verdict::{SideUse, thousands};

use super::findings::{finding, holds};
use super::{Finding, FindingOutcome, Step};

/// The slowest answer to one client of KDNS, µs.
const SLOWEST_US: f64 = 226.0;
/// By how much the times of own names may rise while forwarded queries hang.
const RISE: f64 = 1.5;
/// How many times as long as before a side waits for its CPU where something else holds it.
const HELD: f64 = 3.0;

/// Runs of the step's group with this label.
fn runs<'r>(step: Option<&Step>, label: &str, runs: &'r [RunRecord]) -> Vec<&'r RunRecord> {
    let groups = step.into_iter().flat_map(|step| &step.groups);
    let of_label = groups.filter(|group| group.label == label);
    of_label.flat_map(|group| &group.runs).filter_map(|index| runs.get(*index)).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn us(value: f64) -> String {
    format!("{} µs", thousands(value.round() as u64))
}

/// The slowest answer of a run, and how long the machine kept its CPUs from running anything: the
/// longest time that a CPU of the generator stood still, or the steal of the server's. Both in µs.
fn slowest_and_stall(run: &RunRecord) -> Option<(f64, f64)> {
    let (lowest, _) = run.response.0.last()?;
    let steal = |side: &SideUse| side.steal_s * 1e6;
    let server_us = run.measurements.server.as_ref().map_or(0.0, steal);
    let stall_us = run.measurements.load.stalled_us.unwrap_or(0.0).max(server_us);
    Some((SparseHistogram::highest(*lowest) as f64 / 1e3, stall_us))
}

/// The slowest answer to one client. A run in which the machine stood still for half of that time
/// says nothing about the server.
pub fn slowest(step: Option<&Step>, all: &[RunRecord]) -> Finding {
    let claim = "The slowest answer to one client takes 226 µs at KDNS, 1,140 µs at BIND";
    let times = |label: &str| -> Vec<(f64, f64)> {
        runs(step, label, all).into_iter().filter_map(slowest_and_stall).collect()
    };
    let most = |times: &[(f64, f64)]| times.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
    let own = times("dunlin");
    let (host, server): (Vec<_>, Vec<_>) =
        own.iter().copied().partition(|(slowest, stall)| *slowest <= 2.0 * stall);
    let mut because = Vec::new();
    if let Some((slowest, stall)) = most(&server) {
        because.push(format!(
            "{} in {} of {} runs whose CPUs did not stand still for half as long ({} in that one)",
            us(slowest),
            server.len(),
            own.len(),
            us(stall)
        ));
    }
    if let Some((slowest, stall)) = most(&host) {
        because.push(format!("{} in a run whose CPUs stood still for {}", us(slowest), us(stall)));
    }
    if let Some((slowest, stall)) = most(&times("bind")) {
        because.push(format!("bind {} with {}", us(slowest), us(stall)));
    }
    let outcome = match most(&server) {
        Some((slowest, _)) if slowest > SLOWEST_US => FindingOutcome::DoesNotHold,
        Some(_) if host.is_empty() => FindingOutcome::Holds,
        _ => FindingOutcome::NotVisible,
    };
    match own.is_empty() {
        true => finding(claim, FindingOutcome::NotVisible, "its step was not run"),
        false => finding(claim, outcome, because.join("; ")),
    }
}

/// p99 of own names, µs, and how long the generator and the server waited for their CPUs, ms: means
/// of some runs.
fn times(runs: &[&RunRecord]) -> Option<[f64; 3]> {
    let p99_us = mean(runs.iter().filter_map(|run| Some(run.derived.p99_ns? as f64 / 1e3)))?;
    let waited = |side: fn(&RunRecord) -> Option<&SideUse>| {
        mean(runs.iter().filter_map(|run| Some(side(run)?.waited_s * 1e3))).unwrap_or(0.0)
    };
    let generator_ms = waited(|run| run.measurements.generator.as_ref());
    Some([p99_us, generator_ms, waited(|run| run.measurements.server.as_ref())])
}

/// Own names while forwarded queries hang, which the article did not measure.
pub fn with_hanging_queries(step: Option<&Step>, all: &[RunRecord]) -> Finding {
    let claim = "Own names are answered as fast while 1,000 forwarded queries a second hang \
                 (not in the article)";
    let of = |label| times(&runs(step, label, all));
    let (Some(alone), Some(beside)) = (of("alone"), of("1,000 hanging/s")) else {
        return finding(claim, FindingOutcome::NotVisible, "its step was not run");
    };
    let [p99_us, generator_ms, server_ms] = alone;
    let [p99_beside_us, generator_beside_ms, server_beside_ms] = beside;
    let because = format!(
        "p99 {p99_us:.0} µs alone, {p99_beside_us:.0} µs beside them; in a run the generator \
         waited {generator_ms:.0} and {generator_beside_ms:.0} ms for its CPU, the server \
         {server_ms:.0} and {server_beside_ms:.0} ms"
    );
    let is_rise = p99_beside_us > p99_us * RISE;
    let is_generator = generator_beside_ms > generator_ms * HELD;
    match is_rise && is_generator && server_beside_ms < server_ms * HELD {
        true => {
            let why = format!("the second load kept the generator from its CPU: {because}");
            finding(claim, FindingOutcome::NotVisible, why)
        }
        false => finding(claim, holds(!is_rise), because),
    }
}
