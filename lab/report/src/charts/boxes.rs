//! Box plots: lowest, quartiles, mean, highest of repeated runs; outliers beyond 1.5 IQR as points.

use lab::record::RunRecord;

use super::{Data, figure, settings};
use crate::cpus::{CpuSeries, CpuStep};
use crate::html::STYLE;
use crate::study::Step;
use crate::svg::{Plot, Scale, escape};
use crate::sweep::{Sweep, rates};
use std::fmt::Write;

/// Characters that fit below the whole x axis.
const LABELS: f64 = 64.0;

/// A box of repeated runs.
#[derive(Clone, Debug, PartialEq)]
struct Summary {
    low: f64,
    q1: f64,
    median: f64,
    mean: f64,
    q3: f64,
    high: f64,
    outliers: Vec<f64>,
}

impl Summary {
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        if sorted.is_empty() {
            return None;
        }
        let (q1, median, q3) = (at(0.25), at(0.5), at(0.75));
        let reach = 1.5 * (q3 - q1);
        let is_near = |value: &&f64| **value >= q1 - reach && **value <= q3 + reach;
        let near: Vec<f64> = sorted.iter().filter(is_near).copied().collect();
        Some(Self {
            low: near.first().copied().unwrap_or(median),
            high: near.last().copied().unwrap_or(median),
            outliers: sorted.iter().filter(|value| !is_near(value)).copied().collect(),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            q1,
            median,
            q3,
        })
    }
}

/// What the boxes of a drawing show.
struct Axes<'a> {
    x: &'a str,
    y: &'a str,
    /// Digits of numbers in the table.
    digits: usize,
}

impl<'a> Axes<'a> {
    fn rates(x: &'a str) -> Self {
        Self { x, y: "answers a second", digits: 0 }
    }
}

const ABOUT: &str = "Boxes: quartiles; line: median; diamond: mean; whiskers: lowest and highest \
                     within 1.5 interquartile ranges; circles: outliers. The table has all \
                     numbers.";

fn draw(id: &str, caption: &str, axes: &Axes<'_>, groups: &[(String, Vec<f64>)]) -> String {
    let (mut drawing, data, is_numbered) = plot(id, caption, axes, groups);
    if is_numbered {
        let items = groups.iter().map(|(label, _)| format!("<li>{}</li>", escape(label)));
        let _ = writeln!(drawing, "<ol class=\"legend\">{}</ol>", items.collect::<String>());
    }
    figure((caption, ABOUT), &drawing, &data)
}

/// The drawing, its data, and whether its boxes have numbers instead of names.
fn plot(
    id: &str,
    caption: &str,
    axes: &Axes<'_>,
    groups: &[(String, Vec<f64>)],
) -> (String, Data, bool) {
    let head =
        ["group", "runs", "min", "first quartile", "median", "mean", "third quartile", "max"];
    let mut data = Data::new(caption, &head);
    let all = groups.iter().flat_map(|(_, values)| values.iter().copied());
    let count = groups.len().max(1) as f64;
    let x = Scale::from_to(0.0, count);
    // Labels that would run into each other stand in a list below the drawing.
    let is_numbered = groups.iter().any(|(label, _)| label.chars().count() as f64 * count > LABELS);
    let mut plot = Plot::new(300.0, (x, axes.x), (Scale::linear(all), axes.y), false);
    for (number, (label, values)) in groups.iter().enumerate() {
        let Some(summary) = Summary::of(values) else { continue };
        let at = |y: f64| plot.spot(number as f64 + 0.5, y);
        let half = (180.0 / count).clamp(3.0, 24.0);
        let Summary { low, q1, median, mean, q3, high, outliers } = &summary;
        let (x, [low_y, q1_y, median_y, mean_y, q3_y, high_y]) =
            (at(0.0).x, [*low, *q1, *median, *mean, *q3, *high].map(|value| at(value).y));
        let (left, width, height) = (x - half, 2.0 * half, (q1_y - q3_y).max(0.5));
        plot.add(format_args!(
            "<path class=\"box s0\" d=\"M{x:.1} {low_y:.1}V{q1_y:.1}M{x:.1} {q3_y:.1}V{high_y:.1}\
             M{left:.1} {low_y:.1}h{width:.1}M{left:.1} {high_y:.1}h{width:.1}\"/>\
             <rect class=\"box s0\" x=\"{left:.1}\" y=\"{q3_y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>\
             <path class=\"box s1\" d=\"M{left:.1} {median_y:.1}h{width:.1}\"/>\
             <path class=\"box s1\" d=\"M{:.1} {mean_y:.1}l4 -4l4 4l-4 4z\"/>",
            x - 4.0
        ));
        outliers.iter().for_each(|value| plot.point(1, number as f64 + 0.5, *value, true));
        match is_numbered {
            true => plot.label(x, &(number + 1).to_string()),
            false => plot.label(x, label),
        }
        let numbers = [
            values.iter().copied().fold(f64::INFINITY, f64::min),
            *q1,
            *median,
            *mean,
            *q3,
            values.iter().copied().fold(0.0, f64::max),
        ];
        let numbers = numbers.map(|value| format!("{value:.0$}", axes.digits));
        data.row([label.clone(), values.len().to_string()].into_iter().chain(numbers));
    }
    (plot.finish(id, caption, ABOUT), data, is_numbered)
}

const CPU_AXES: Axes<'static> =
    Axes { x: "row of the table", y: "share of the best run", digits: 3 };

fn normalized(step: &CpuStep) -> Vec<(String, Vec<f64>)> {
    let group = |one: &CpuSeries| (one.name(), one.normalized.clone());
    step.series.iter().map(group).collect()
}

/// The series of an experiment, each run beside the best.
pub fn cpu_boxes(step: &CpuStep) -> String {
    let title = format!("{}, relative to the best run", step.title);
    draw(&step.id(), &title, &CPU_AXES, &normalized(step))
}

/// The same as a file of its own.
pub fn cpu_plot(step: &CpuStep) -> String {
    let (drawing, ..) = plot(&step.id(), &step.title, &CPU_AXES, &normalized(step));
    let drawing = drawing.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    let back = "<rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>";
    drawing.replacen("</desc>", &format!("</desc><style>{STYLE}</style>{back}"), 1)
}

/// The groups of a study's step.
pub fn step_boxes(number: usize, step: &Step, runs: &[RunRecord]) -> String {
    let groups = step
        .groups
        .iter()
        .map(|group| (group.label.clone(), group.rates(runs).unwrap_or_default()));
    draw(&format!("step-{number}"), &step.title, &Axes::rates("group"), &groups.collect::<Vec<_>>())
}

/// The points of a sweep, the best 24.
pub fn sweep_boxes(sweep: &Sweep, runs: &[RunRecord]) -> String {
    let mut groups: Vec<(String, Vec<f64>)> = sweep
        .points
        .iter()
        .filter(|point| !point.runs.is_empty())
        .map(|point| (settings(&point.settings), rates(&point.runs, runs).unwrap_or_default()))
        .collect();
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    groups.sort_by(|a, b| most(&b.1).total_cmp(&most(&a.1)));
    groups.truncate(24);
    draw("sweep-boxes", "Answers a second, the best points", &Axes::rates("point"), &groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_lie_beyond_one_and_a_half_interquartile_ranges() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 100.0]).unwrap();
        assert_eq!((summary.low, summary.high), (1.0, 5.0));
        assert_eq!((summary.q1, summary.median, summary.q3), (2.25, 3.5, 4.75));
        assert_eq!(summary.outliers, [100.0]);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[7.0]).unwrap().median, 7.0);
    }
}
