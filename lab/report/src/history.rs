//! A history of results: one line for each series and day, trends, and change points.

use std::collections::BTreeMap;
use std::fmt::Write;

use lab::statistics::{change_points, median};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::bundle::{Body, Bundle};
use crate::charts::{Data, figure, settings};
use crate::cpus::{CpuSeries, CpuStep};
use crate::html::STYLE;
use crate::svg::{Plot, Scale, escape};
use crate::sweep::rates;

/// The smallest change that counts, a share, also where runs repeat better.
pub const FLOOR_MIN: f64 = 0.03;

/// A line of the history: the runs of one setting on one day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The series, such as `Sweep: processes 2`.
    pub series: String,
    /// The machine, so that results of two are two series.
    pub machine: String,
    /// The day.
    pub date: String,
    /// The measured version.
    pub version: String,
    /// Answers a second of each run.
    pub samples: Vec<f64>,
}

/// A series in its order, and where it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// The series and its machine.
    pub name: String,
    /// Its lines.
    pub entries: Vec<Entry>,
    /// The median of each line.
    pub medians: Vec<f64>,
    /// The change that equal runs show, a share.
    pub floor: f64,
    /// Indexes at which new levels begin.
    pub changes: Vec<usize>,
}

impl Trend {
    /// The last level against the one before it, as a share; none without a change.
    pub fn last_change(&self) -> Option<f64> {
        let at = *self.changes.last()?;
        let before = self.changes.iter().rev().nth(1).copied().unwrap_or(0);
        Some(median(&self.medians[at..])? / median(&self.medians[before..at])? - 1.0)
    }
}

/// The lines that a bundle adds.
///
/// # Errors
/// It names a run that is not there, or has no series: searches and comparisons.
pub fn entries_of(bundle: &Bundle) -> Result<Vec<Entry>> {
    let header = &bundle.header;
    let entry = |name: String, samples: Vec<f64>| Entry {
        series: format!("{}: {name}", header.title),
        machine: header.machine.first().cloned().unwrap_or_default(),
        date: header.date.clone(),
        version: header.manifest.software.commit.clone(),
        samples,
    };
    let all: Result<Vec<Entry>> = match &bundle.body {
        Body::Sweep(sweep) => {
            let own = |point: &crate::sweep::Point| {
                Ok(entry(settings(&point.settings), rates(&point.runs, &bundle.runs)?))
            };
            sweep.points.iter().filter(|point| !point.runs.is_empty()).map(own).collect()
        }
        Body::Study(study) => {
            let groups = study.steps.iter().flat_map(|s| s.groups.iter().map(move |g| (s, g)));
            let own = |(step, group): (&crate::study::Step, &crate::study::Group)| {
                Ok(entry(format!("{}, {}", step.key, group.label), group.rates(&bundle.runs)?))
            };
            groups.map(own).collect()
        }
        Body::Cpus(all) => {
            let every = all.steps.iter().flat_map(|s| s.series.iter().map(move |one| (s, one)));
            let own = |(step, one): (&CpuStep, &CpuSeries)| {
                Ok(entry(format!("{}, {}", step.key, one.name()), one.values(&bundle.runs)?))
            };
            every.map(own).collect()
        }
        Body::Search(search) => {
            let result = |r: &lab_search::GoalResult| {
                Some(entry(r.goal.clone(), vec![r.conditional_throughput?]))
            };
            Ok(search.results.iter().filter_map(result).collect())
        }
        Body::Fabric(study) => {
            let rate = |one: &crate::fabric::FabricCell| {
                let runs = one.runs.iter().map(|run| run.page_rate.per_second());
                Ok(entry(one.name(), runs.collect()))
            };
            study.cells.iter().map(rate).collect()
        }
        Body::Compare(_) => Err("a comparison is kept by `compare --with`, not by history".into()),
    };
    all
}

/// The series of these lines, in their order.
pub fn trends(entries: &[Entry]) -> Vec<Trend> {
    let mut series: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        let name = format!("{} ({})", entry.series, entry.machine);
        series.entry(name).or_default().push(entry.clone());
    }
    let trend = |(name, entries): (String, Vec<Entry>)| {
        let middle = |entry: &Entry| median(&entry.samples).unwrap_or(0.0);
        let medians: Vec<f64> = entries.iter().map(middle).collect();
        let floor = floor(&entries);
        let changes = change_points(&medians, floor);
        Trend { name, entries, medians, floor, changes }
    };
    series.into_iter().map(trend).collect()
}

/// Half of the range that runs of one line usually have.
fn floor(entries: &[Entry]) -> f64 {
    let spread = |entry: &Entry| {
        let low = entry.samples.iter().copied().reduce(f64::min)?;
        let high = entry.samples.iter().copied().reduce(f64::max)?;
        Some((high - low) / 2.0 / median(&entry.samples).filter(|m| *m > 0.0)?)
    };
    let all: Vec<f64> = entries.iter().filter_map(spread).collect();
    median(&all).unwrap_or(0.0).max(FLOOR_MIN)
}

/// A page with a chart of each series.
pub fn page(trends: &[Trend]) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>History</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>History</h1>\n"
    );
    for (number, trend) in trends.iter().enumerate() {
        page.push_str(&chart(number, trend));
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn chart(number: usize, trend: &Trend) -> String {
    let x = Scale::from_to(0.0, trend.medians.len() as f64 + 1.0);
    let y = Scale::linear(trend.medians.iter().copied());
    let mut plot = Plot::new(220.0, (x, "result"), (y, "answers a second"), true);
    let head = ["result", "date", "version", "answers/s, median", "runs", "change"];
    let mut data = Data::new(&trend.name, &head);
    let mut begin = 0;
    for (index, (entry, median)) in trend.entries.iter().zip(&trend.medians).enumerate() {
        let is_change = trend.changes.contains(&index);
        plot.point(0, index as f64 + 1.0, *median, is_change);
        if is_change || index + 1 == trend.medians.len() {
            let end = if is_change { index } else { index + 1 };
            let level = lab::statistics::median(&trend.medians[begin..end]).unwrap_or(0.0);
            plot.line(1, &[(begin as f64 + 1.0, level), (end as f64, level)]);
            begin = index;
        }
        data.row([
            (index + 1).to_string(),
            entry.date.clone(),
            entry.version.clone(),
            format!("{median:.0}"),
            entry.samples.len().to_string(),
            if is_change { "a new level begins".into() } else { String::new() },
        ]);
    }
    let about = format!(
        "Points: medians; hollow: a new level begins. Lines: the median of each level. Changes up \
         to {:.1} % are within the noise of equal runs.",
        trend.floor * 100.0
    );
    let drawing = plot.finish(&format!("history-{number}"), &trend.name, &about);
    let mut text = String::new();
    let _ = write!(
        text,
        "<h2>{}</h2>\n{}",
        escape(&trend.name),
        figure((&trend.name, &about), &drawing, &data)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(series: &str, day: u32, rate: f64) -> Entry {
        Entry {
            series: series.into(),
            machine: "CPU: one".into(),
            date: format!("2026-11-{day:02}"),
            version: format!("v{day}"),
            samples: vec![rate * 0.99, rate, rate * 1.01],
        }
    }

    #[test]
    fn a_new_level_is_named_with_its_size() {
        let mut all: Vec<Entry> = (1..=6).map(|day| entry("a", day, 100.0)).collect();
        all.extend((7..=12).map(|day| entry("a", day, 80.0)));
        all.extend((1..=12).map(|day| entry("b", day, 50.0)));
        let found = trends(&all);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].changes, [6]);
        assert!((found[0].last_change().unwrap() + 0.2).abs() < 1e-9);
        assert_eq!((found[1].last_change(), found[0].floor), (None, FLOOR_MIN));
        let page = page(&found);
        assert!(page.contains("a new level begins") && page.contains("v7"), "{page}");
    }

    #[test]
    fn two_machines_are_two_series() {
        let other = Entry { machine: "CPU: two".into(), ..entry("a", 1, 70.0) };
        assert_eq!(trends(&[entry("a", 1, 100.0), other]).len(), 2);
    }
}
