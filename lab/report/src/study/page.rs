//! A study as a Markdown page: findings, then each step's table.

use std::fmt::Write;

use lab::record::RunRecord;
use lab::verdict::thousands;

use super::findings::mean_ns;
use super::{Group, Study};
use crate::bundle::{Body, Bundle};

/// The page of a study's bundle; none for other bundles.
pub fn page(bundle: &Bundle) -> Option<String> {
    let Body::Study(study) = &bundle.body else { return None };
    let header = &bundle.header;
    let mut page = format!("# {}\n\n", header.title);
    let _ = writeln!(page, "Measured on {}, {} runs.\n\n```", header.date, bundle.runs.len());
    header.commands.iter().for_each(|words| page.push_str(&(words.join(" ") + "\n")));
    page.push_str("```\n\n");
    let lists = [&header.machine, &header.remarks, &header.data];
    lists.into_iter().flatten().for_each(|line| page.push_str(&format!("* {line}\n")));
    if !header.changes.is_empty() {
        let _ = writeln!(page, "* The machine changed meanwhile: {}", header.changes.join("; "));
    }
    page.push_str("\n## Findings\n\n| finding of the original | here | because |\n|---|---|---|\n");
    for finding in &study.findings {
        let [claim, because] = [&finding.claim, &finding.because].map(|text| cell(text));
        let _ = writeln!(page, "| {claim} | {} | {because} |", finding.outcome.words());
    }
    write_steps(&mut page, study, &bundle.runs);
    Some(page)
}

fn write_steps(page: &mut String, study: &Study, runs: &[RunRecord]) {
    for (number, step) in study.steps.iter().enumerate() {
        let _ = writeln!(page, "\n## Step {}: {}\n", number + 1, step.title);
        let _ = writeln!(page, "The original: {}\n", step.original);
        if !step.skipped.is_empty() {
            let _ = writeln!(page, "Not run: {}.", step.skipped);
            continue;
        }
        page.push_str(
            "| setting | runs | min/s | mean/s | max/s | mean time | p99 | server CPU | \
             limited by |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        step.groups.iter().for_each(|group| write_group(page, group, runs));
    }
}

fn write_group(page: &mut String, group: &Group, all: &[RunRecord]) {
    let runs: Vec<&RunRecord> = group.runs.iter().filter_map(|index| all.get(*index)).collect();
    let mean = |of: &dyn Fn(&RunRecord) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let text = |value: Option<f64>, unit: &str| {
        value.map_or("unknown".into(), |value| format!("{value:.0} {unit}"))
    };
    let range = group.range.map(|range| [range.min, range.mean, range.max]);
    let rates = range.map_or_else(
        || ["none", "none", "none"].map(str::to_owned),
        |range| range.map(|rate| thousands(rate.round() as u64)),
    );
    let p99 = mean(&|run| run.derived.p99_ns.map(|ns| ns as f64 / 1e3));
    let cpu = mean(&|run| {
        let side = run.measurements.server.as_ref()?;
        Some(100.0 * side.process_s / run.measurements.load.seconds)
    });
    let verdicts: Vec<_> = runs.iter().map(|run| &run.derived.verdict).collect();
    let limit = lab::compare::common(&verdicts).map_or("unknown", |verdict| verdict.cause.name());
    let _ = writeln!(
        page,
        "| {} | {} | {} | {} | {} | {limit} |",
        cell(&group.label),
        runs.len(),
        rates.join(" | "),
        text(mean(&|run| mean_ns(run).map(|ns| ns / 1e3)), "µs"),
        match p99 {
            Some(_) => text(p99, "µs"),
            None => "above the timeout".into(),
        } + &format!(" | {}", text(cpu, "%")),
    );
}

/// Text inside a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
