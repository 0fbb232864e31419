//! Latency: percentiles on logarithmic axes, and heat maps over time.

use std::collections::BTreeMap;

use lab::output::time;
use lab::record::{RunRecord, SparseHistogram};

use super::{Data, figure, legend};
use crate::limits::{CURVES_MAX, ROWS_MAX, TIME_MAPS_MAX};
use crate::svg::{Plot, Scale, cells};

const SHARES: [f64; 9] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999];

/// Percentile curves of the runs with most answers of each label, and latency over time.
pub fn latency(runs: &[RunRecord]) -> String {
    let mut best: BTreeMap<&str, &RunRecord> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.response.count() > 0) {
        let entry = best.entry(&run.label).or_insert(run);
        if run.outcomes.answered > entry.outcomes.answered {
            *entry = run;
        }
    }
    let mut all: Vec<&RunRecord> = best.into_values().collect();
    all.sort_by_key(|run| std::cmp::Reverse(run.outcomes.answered));
    let mut text = percentiles(&all);
    for (number, run) in
        all.iter().filter(|run| run.intervals.len() > 1).take(TIME_MAPS_MAX).enumerate()
    {
        text.push_str(&over_time(number, run));
    }
    text
}

fn percentiles(all: &[&RunRecord]) -> String {
    let shown = &all[..all.len().min(CURVES_MAX)];
    let values = |run: &&RunRecord| {
        let quantile = |share: f64| run.response.quantile(share).map(|ns| (share, ns));
        SHARES.iter().copied().filter_map(quantile).collect::<Vec<_>>()
    };
    let timeout = |run: &RunRecord| SparseHistogram::bucket(run.timeout_ns);
    let known = |run: &&RunRecord| {
        let is_known = |(_, ns): &(f64, u64)| *ns < timeout(run);
        values(run).into_iter().filter(is_known).collect::<Vec<_>>()
    };
    let y = shown.iter().flat_map(&known).map(|(_, ns)| ns as f64 / 1e3);
    // From the left: half of all answers are slower, a tenth, a hundredth.
    let x = Scale::from_to(0.3, 4.0);
    let axes = ((x, "slowest share of answers"), (Scale::log(y), "response time, µs"));
    let mut plot = Plot::new(320.0, axes.0, axes.1, false);
    for (share, name) in
        [(0.5, "50 %"), (0.9, "10 %"), (0.99, "1 %"), (0.999, "0.1 %"), (0.9999, "0.01 %")]
    {
        let at = plot.spot(-f64::log10(1.0 - share), 1.0).x;
        plot.label(at - 8.0, name);
    }
    let head = ["run", "p50", "p75", "p90", "p95", "p99", "p99.5", "p99.9", "p99.95", "p99.99"];
    let mut data = Data::new("Response times by percentile", &head);
    for (number, run) in shown.iter().enumerate() {
        let points =
            known(run).into_iter().map(|(share, ns)| (-f64::log10(1.0 - share), ns as f64 / 1e3));
        plot.line(number, &points.collect::<Vec<_>>());
    }
    for run in all.iter().take(ROWS_MAX) {
        let text = |(_, ns): (f64, u64)| match ns < timeout(run) {
            true => time(ns),
            false => format!("> {}", time(run.timeout_ns)),
        };
        data.row([run.label.clone()].into_iter().chain(values(run).into_iter().map(text)));
    }
    let about = "Response times from the due time of each query, both axes logarithmic. Curves end \
                 where timeouts begin. Settings with most answers first.";
    let title = "Latency by percentile";
    let names = shown.iter().map(|run| run.label.as_str());
    let drawing = plot.finish("percentiles", title, about) + &legend(names);
    figure((title, about), &drawing, &data)
}

fn over_time(number: usize, run: &RunRecord) -> String {
    let octave = |ns: u64| 63 - ns.max(1).leading_zeros();
    let all = run.intervals.iter().flat_map(|interval| interval.response.0.iter());
    let (low, high) =
        all.map(|(ns, _)| octave(*ns)).fold((63, 0), |(a, b), v| (a.min(v), b.max(v)));
    let columns: Vec<String> = run
        .intervals
        .iter()
        .map(|interval| format!("{:.0} s", interval.since_ns as f64 / 1e9))
        .collect();
    let mut rows = Vec::new();
    let head: Vec<&str> = ["from"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let mut data = Data::new(&format!("Answers by response time and second: {}", run.label), &head);
    for bits in (low..=high).rev() {
        let count = |histogram: &SparseHistogram| {
            let own = histogram.0.iter().filter(|(ns, _)| octave(*ns) == bits);
            own.map(|(_, count)| *count).sum::<u64>()
        };
        let counts: Vec<u64> =
            run.intervals.iter().map(|interval| count(&interval.response)).collect();
        let name = time(1 << bits);
        data.row([name.clone()].into_iter().chain(counts.iter().map(ToString::to_string)));
        // Rare slow answers stay visible on a logarithmic color scale.
        let cell = |count: u64| (count > 0).then(|| (1.0 + count as f64).log10());
        rows.push((name, counts.into_iter().map(cell).collect()));
    }
    let title = format!("Latency over time: {}", run.label);
    let about = "Columns: time of the run. Rows: response time, each twice the one below. Colors: \
                 logarithm of the number of answers, dark is few.";
    let drawing = cells(&format!("time-{number}"), (&title, about), &columns, &rows, false);
    figure((&title, about), &drawing, &data)
}
