//! Tables of a study's steps: for the report and for the Markdown page.

use std::collections::BTreeMap;

use lab::record::RunRecord;
use lab::verdict::{CHANGED, HEADROOM, percent, thousands};

use super::findings::mean_ns;
use super::{Group, Range, Step, Study};

/// Columns of the table of a step.
pub const STEP_COLUMNS: [&str; 12] = [
    "setting",
    "runs",
    "min/s",
    "mean/s",
    "max/s",
    "times the first",
    "lowest time",
    "mean time",
    "mean p99",
    "highest time",
    "CPU of processes",
    "limited by",
];

/// How to read the columns, and the rule by which the echo was judged.
pub fn step_comment(all: &[RunRecord]) -> String {
    let mut text = "Times are of all runs of a setting, the mean p99 that of each run. Where \
                    queries are sent at a fixed rate, a time begins when its query was due, so a \
                    late generator adds to it. “Times the first” is the mean rate beside that of \
                    the first row. The CPU of processes leaves out what the kernel did for them in \
                    interrupts; the verdicts count that, too. What limited a setting is the most \
                    frequent verdict of its runs; “offered” means that all that was sent was \
                    answered in time. Where a finding quotes a verdict, its figures are those of \
                    one run."
        .to_owned();
    if all.iter().any(|run| run.measurements.ceiling.is_some()) {
        text.push_str(&format!(
            " Where both sides are busy, the limit is the server if its rate is below {} of that \
             of an echo in its place, else the generator; it is the host if the echo's rate \
             changed by more than {} during the run.",
            percent(HEADROOM),
            percent(CHANGED)
        ));
    }
    text
}

/// How far equal runs lie apart: differences below that mean nothing.
pub fn noise(study: &Study, all: &[RunRecord]) -> Vec<String> {
    let groups = study.steps.iter().flat_map(|step| step.groups.iter().map(move |g| (step, g)));
    let spread = |range: &Range| range.max / range.min.max(f64::EPSILON) - 1.0;
    let repeated = groups.filter(|(_, group)| group.runs.len() > 1);
    let widest = repeated
        .filter_map(|(step, group)| Some((spread(group.range.as_ref()?), step, group)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let mut text: Vec<String> = widest
        .map(|(spread, step, group)| {
            let share = percent(spread);
            format!("Runs of one setting differ by up to {share} ({}, {})", step.key, group.label)
        })
        .into_iter()
        .collect();
    let mut echoes: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in all {
        if let Some((client, echo)) =
            run.settings.get("client").zip(run.measurements.ceiling.as_ref())
        {
            echoes.entry(client).or_default().extend([echo.before, echo.after]);
        }
    }
    let most = echoes.iter().max_by_key(|(_, rates)| rates.len());
    if let Some((client, Some(range))) = most.map(|(client, rates)| (client, Range::of(rates))) {
        text.push(format!(
            "The machine itself: an echo by recvmmsg in the servers' place, asked before and after \
             each run by a client with {client}, gave {} to {} answers/s, {} on average",
            thousands(range.min.round() as u64),
            thousands(range.max.round() as u64),
            thousands(range.mean.round() as u64),
        ));
    }
    text
}

/// Rows of the table of a step.
pub fn step_rows(step: &Step, all: &[RunRecord]) -> Vec<Vec<String>> {
    let first = step.groups.first().and_then(|group| group.range).map(|range| range.mean);
    step.groups.iter().map(|group| row(group, first, all)).collect()
}

fn row(group: &Group, first: Option<f64>, all: &[RunRecord]) -> Vec<String> {
    let runs: Vec<&RunRecord> = group.runs.iter().filter_map(|index| all.get(*index)).collect();
    let mean = |of: &dyn Fn(&RunRecord) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let range = group.range.map(|range| [range.min, range.mean, range.max]);
    let rates = range.map_or_else(
        || ["none", "none", "none"].map(str::to_owned),
        |range| range.map(|rate| thousands(rate.round() as u64)),
    );
    let times = range.zip(first).map_or("none".into(), |([_, mean, _], first)| {
        format!("{:.2}", mean / first.max(f64::EPSILON))
    });
    let us = |ns: Option<f64>| ns.map_or("unknown".into(), |ns| format!("{:.0} µs", ns / 1e3));
    // The lowest and highest of all runs; times above the timeout are not known.
    let least = runs.iter().filter_map(|run| run.response.0.first().map(|(ns, _)| *ns)).min();
    let most = runs.iter().filter_map(|run| run.response.quantile(1.0)).max();
    let is_timeout = runs.iter().any(|run| run.outcomes.timeouts + run.outcomes.unsent > 0);
    let p99 = mean(&|run| run.derived.p99_ns.map(|ns| ns as f64));
    let above = || "above the timeout".to_owned();
    let cpu = mean(&|run| {
        let side = run.measurements.server.as_ref()?;
        Some(100.0 * side.process_s / run.measurements.load.seconds)
    });
    let verdicts: Vec<_> = runs.iter().map(|run| &run.derived.verdict).collect();
    let limit = lab::compare::common(&verdicts).map_or("unknown", |verdict| verdict.cause.name());
    let mut row = vec![group.label.clone(), runs.len().to_string()];
    row.extend(rates);
    row.extend([
        times,
        us(least.map(|ns| ns as f64)),
        us(mean(&|run| mean_ns(run))),
        if p99.is_some() { us(p99) } else { above() },
        if is_timeout { above() } else { us(most.map(|ns| ns as f64)) },
        cpu.map_or("unknown".into(), |share| format!("{share:.0} %")),
        limit.to_owned(),
    ]);
    row
}
