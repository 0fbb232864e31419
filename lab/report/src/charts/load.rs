//! Rates: against load, against cores, and by two settings.

use std::collections::BTreeMap;

use lab::record::RunRecord;
use lab::verdict::Cause;

use super::{Data, figure, legend, settings};
use crate::bundle::SearchRecord;
use crate::svg::{Plot, Scale, cells};
use crate::sweep::Sweep;

/// Answers against load of all trials, with the bounds of each goal.
pub fn load_curve(search: &SearchRecord, runs: &[RunRecord]) -> String {
    let trials: Vec<(f64, &RunRecord)> =
        search.trials.iter().filter_map(|trial| Some((trial.load, runs.get(trial.run)?))).collect();
    let x = Scale::log(trials.iter().map(|(load, _)| *load));
    let y = Scale::linear(trials.iter().map(|(_, run)| run.derived.answered_rate));
    let mut plot = Plot::new(320.0, (x, "queries a second"), (y, "answers a second"), true);
    for result in &search.results {
        if let (Some(low), Some(high)) = (result.lower, result.upper) {
            let (left, right) = (plot.spot(low.load, 0.0), plot.spot(high.load, 0.0));
            let (width, top) = ((right.x - left.x).max(1.5), plot.spot(low.load, f64::MAX).y);
            plot.add(format_args!(
                "<rect class=\"band\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{:.1}\"/>",
                left.x,
                left.y - top
            ));
        }
    }
    let head = ["trial", "queries/s", "seconds", "answers/s", "in time", "limited by"];
    let mut data = Data::new("Trials of the search", &head);
    for (number, (load, run)) in trials.iter().enumerate() {
        let is_hollow = !matches!(run.derived.verdict.cause, Cause::Server | Cause::Offered);
        plot.point(0, *load, run.derived.answered_rate, is_hollow);
        data.row([
            (number + 1).to_string(),
            format!("{load:.0}"),
            format!("{}", run.seconds),
            format!("{:.0}", run.derived.answered_rate),
            format!("{:.3} %", run.derived.in_time * 100.0),
            run.derived.verdict.cause.name().to_owned(),
        ]);
    }
    let about = "One point for each trial; hollow points were not limited by the server. Shaded: \
                 the interval between the lower and upper bound of each goal.";
    let title = "Answers against load";
    figure((title, about), &plot.finish("load-curve", title, about), &data)
}

/// Answers over the scale of a sweep, with the fitted law, and answers for each.
pub fn scaling(sweep: &Sweep) -> String {
    let number =
        |settings: &BTreeMap<String, String>| settings.get(&sweep.scale)?.parse::<f64>().ok();
    let mut groups: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for point in &sweep.points {
        if let (Some(number), Some(rate)) = (number(&point.settings), point.rate) {
            let mut others = point.settings.clone();
            others.remove(&sweep.scale);
            groups.entry(others).or_default().push((number, rate.median));
        }
    }
    let all = || groups.values().flatten();
    let x = Scale::linear(all().map(|(n, _)| *n));
    let y = Scale::linear(all().map(|(_, rate)| *rate));
    let mut plot = Plot::new(320.0, (x, &sweep.scale), (y, "answers a second"), true);
    let head = ["settings", sweep.scale.as_str(), "answers/s", "answers/s for each"];
    let mut data = Data::new(&format!("Answers by {}", sweep.scale), &head);
    let mut laws = Data::new(
        "Universal Scalability Law",
        &["settings", "of one (λ)", "contention (α)", "coherence (β)", "peak at"],
    );
    for (series, (group, points)) in groups.iter().enumerate() {
        for (n, rate) in points {
            plot.point(series, *n, *rate, false);
            data.row([
                settings(group),
                n.to_string(),
                format!("{rate:.0}"),
                format!("{:.0}", rate / n),
            ]);
        }
        let fit = sweep.fits.iter().find(|fit| fit.group == *group);
        let Some(law) = fit.and_then(|fit| fit.law) else {
            let few = "no fit: fewer than three numbers".to_owned();
            laws.row([settings(group), few, String::new(), String::new(), String::new()]);
            continue;
        };
        let most = points.iter().map(|(n, _)| *n).fold(1.0, f64::max);
        let curve: Vec<(f64, f64)> = (0..=40)
            .map(|step| 1.0 + (most - 1.0) * f64::from(step) / 40.0)
            .map(|n| (n, law.at(n)))
            .collect();
        plot.line(series, &curve);
        laws.row([
            settings(group),
            format!("{:.0}", law.lambda),
            format!("{:.4}", law.alpha),
            format!("{:.6}", law.beta),
            law.peak.map_or("none".into(), |peak| format!("{peak:.1}")),
        ]);
    }
    let title = format!("Answers by {}", sweep.scale);
    let about = "Points: medians. Lines: the fitted Universal Scalability Law of each group.";
    let names: Vec<String> = groups.keys().map(settings).collect();
    let drawing = plot.finish("scaling", &title, about) + &legend(names.iter().map(String::as_str));
    figure((&title, about), &drawing, &data) + &laws.table()
}

/// A heat map of the two settings with most values, the best median of each pair.
pub fn settings_map(sweep: &Sweep) -> String {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in sweep.points.iter().flat_map(|point| &point.settings) {
        let own = values.entry(name).or_default();
        if !own.contains(&value.as_str()) {
            own.push(value);
        }
    }
    let mut names: Vec<(&str, Vec<&str>)> =
        values.into_iter().filter(|(_, v)| v.len() > 1).collect();
    names.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
    let [(across, columns), (down, rows), ..] = &names[..] else {
        return "<p>Fewer than two settings have several values, so there is no map.</p>\n".into();
    };
    let best = |column: &str, row: &str| {
        let own = sweep.points.iter().filter(|point| {
            point.settings.get(*across).is_some_and(|value| value == column)
                && point.settings.get(*down).is_some_and(|value| value == row)
        });
        own.filter_map(|point| Some(point.rate?.median)).max_by(f64::total_cmp)
    };
    let title = format!("Best answers a second by {across} and {down}");
    let head: Vec<&str> = [*down].into_iter().chain(columns.iter().copied()).collect();
    let mut data = Data::new(&title, &head);
    let mut cells_of = Vec::new();
    for row in rows {
        let values: Vec<Option<f64>> = columns.iter().map(|column| best(column, row)).collect();
        let text = values.iter().map(|value| value.map_or("none".into(), |v| format!("{v:.0}")));
        data.row([(*row).to_owned()].into_iter().chain(text));
        cells_of.push((format!("{down} {row}"), values));
    }
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let about =
        format!("Columns: {across}. Rows: {down}. Bright is more. The table has all numbers.");
    let drawing = cells("settings-map", (&title, &about), &columns, &cells_of, true);
    figure((&title, &about), &drawing, &data)
}
