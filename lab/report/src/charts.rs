//! Charts and tables of a report. Each chart is followed by a table of its data.

use std::collections::BTreeMap;
use std::fmt::Write;

use lab::record::RunRecord;
use serde_json::Value;

use crate::limits::ROWS_MAX;
use crate::svg::{WIDTH, escape, short, svg};
use crate::sweep::Sweep;

mod boxes;
mod costs;
mod latency;
mod load;
mod machine;
mod time;

pub use boxes::{cpu_boxes, cpu_plot, step_boxes, sweep_boxes};
pub use costs::costs;
pub use latency::latency;
pub use load::{load_curve, scaling, settings_map};
pub use machine::{interrupts, topology};
pub use time::over_time;

/// A table of data.
pub struct Data {
    caption: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Data {
    /// An empty one.
    pub fn new(caption: &str, head: &[&str]) -> Self {
        let head = head.iter().map(ToString::to_string).collect();
        Self { caption: caption.into(), head, rows: Vec::new() }
    }

    /// Adds a row, a text for each column.
    pub fn row(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// HTML that can be scrolled by keyboard.
    pub fn table(&self) -> String {
        let caption = escape(&self.caption);
        let head = self.head.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name)));
        let mut text = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\
             <caption>{caption}</caption><thead><tr>{}</tr></thead><tbody>",
            head.collect::<String>()
        );
        for row in &self.rows {
            text.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let _ = match column {
                    0 => write!(text, "<th scope=\"row\">{}</th>", escape(cell)),
                    _ => write!(text, "<td>{}</td>", escape(cell)),
                };
            }
            text.push_str("</tr>");
        }
        text.push_str("</tbody></table></div>\n");
        text
    }
}

/// A drawing with its caption and explanation, and its data in a table that opens. On a narrow
/// screen the drawing scrolls.
pub fn figure((caption, about): (&str, &str), drawing: &str, data: &Data) -> String {
    let (caption, about) = (escape(caption), escape(about));
    format!(
        "<figure>\n<figcaption>{caption}</figcaption>\n<p class=\"about\">{about}</p>\n\
         <div class=\"drawing\" tabindex=\"0\" role=\"region\" aria-label=\"Chart: {caption}\">\n\
         {drawing}</div>\n<details>\n<summary>Data: {}</summary>\n{}</details>\n</figure>\n",
        escape(&data.caption),
        data.table()
    )
}

/// Names of the series of a drawing, each beside its line.
pub fn legend<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::from("<ul class=\"legend\">");
    for (series, name) in names.into_iter().enumerate() {
        let _ = write!(
            text,
            "<li><svg class=\"key\" viewBox=\"0 0 30 8\" aria-hidden=\"true\">\
             <polyline class=\"line s{0} d{0}\" points=\"0,4 30,4\"/></svg> {1}</li>",
            series % 7,
            escape(name)
        );
    }
    text + "</ul>\n"
}

/// Settings in one line.
pub fn settings(settings: &BTreeMap<String, String>) -> String {
    if settings.is_empty() {
        return "no other setting".into();
    }
    settings.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// The values inside a JSON value, each with its path.
pub fn flatten(path: &str, value: &Value, row: &mut impl FnMut(&str, &str)) {
    let join = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&join(name), value, row));
        }
        Value::Array(items) if items.iter().all(is_word) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            row(path, &items.join("; "));
        }
        Value::Array(items) => {
            let named = items.iter().enumerate();
            named.for_each(|(index, value)| flatten(&join(&index.to_string()), value, row));
        }
        value => row(path, &plain(value)),
    }
}

/// Whether a value is short: sentences are easier to read one by one.
fn is_word(value: &Value) -> bool {
    !value.is_object() && !value.is_array() && !plain(value).contains(' ')
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// A run's name in tables: its label, and its number among runs of that label.
pub fn names(runs: &[RunRecord]) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = Vec::with_capacity(runs.len());
    for run in runs {
        let number = seen.entry(&run.label).or_default();
        *number += 1;
        names.push(format!("{} #{number}", run.label));
    }
    names
}

/// Packets at each counting place, of the run that lost most and in a table of all.
pub fn packets(runs: &[RunRecord]) -> String {
    let names = names(runs);
    let head = [
        "run",
        "sent",
        "left generator",
        "arrived server",
        "read",
        "answered",
        "left server",
        "arrived generator",
        "read back",
    ];
    let mut data = Data::new("Packets at each counting place", &head);
    for (name, run) in names.iter().zip(runs).take(ROWS_MAX) {
        let counts = run.measurements.balance.places().map(|(_, count)| count);
        let counts = counts.map(|count| count.map_or("unknown".into(), |count| count.to_string()));
        data.row([name.clone()].into_iter().chain(counts));
    }
    let lost = |run: &&RunRecord| run.outcomes.planned.saturating_sub(run.outcomes.answered);
    let Some(run) = runs.iter().max_by_key(lost) else { return String::new() };
    let places = run.measurements.balance.places();
    let most = places.iter().filter_map(|(_, count)| *count).max().unwrap_or(1).max(1) as f64;
    let mut body = String::new();
    for (row, (place, count)) in places.iter().enumerate() {
        let y = 8.0 + 26.0 * row as f64;
        let width = count.map_or(0.0, |count| count as f64 / most) * (WIDTH - 290.0);
        let text = count.map_or("unknown".into(), |count| short(count as f64));
        let _ = write!(
            body,
            "<text class=\"end\" x=\"220\" y=\"{:.1}\">{place}</text>\
             <rect class=\"bar\" x=\"226\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"18\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
            y + 13.0,
            232.0 + width,
            y + 13.0
        );
    }
    let (title, about) = match lost(&run) {
        0 => (
            format!("Packets of one run: {}", run.label),
            "No run lost a query: each got a right answer in time.".into(),
        ),
        count => (
            format!("Packets of the run that lost most: {}", run.label),
            format!("{count} of {} queries got no right answer in time.", run.outcomes.planned),
        ),
    };
    let drawing = svg("packets-chart", &title, &about, 220.0, &body);
    figure((&title, &about), &drawing, &data)
}

/// The verdict of each run.
pub fn verdicts(runs: &[RunRecord]) -> String {
    let mut data = Data::new(
        "What limited each run",
        &["run", "answers/s", "in time", "limited by", "because"],
    );
    for (name, run) in names(runs).into_iter().zip(runs).take(ROWS_MAX) {
        let derived = &run.derived;
        data.row([
            name,
            format!("{:.0}", derived.answered_rate),
            format!("{:.2} %", derived.in_time * 100.0),
            derived.verdict.cause.name().to_owned(),
            derived.verdict.because.clone(),
        ]);
    }
    let mut text = data.table();
    if runs.len() > ROWS_MAX {
        let _ = writeln!(text, "<p>The first {ROWS_MAX} of {} runs.</p>", runs.len());
    }
    text
}

/// The points of a sweep.
pub fn points(sweep: &Sweep) -> String {
    let head = ["point", "answers/s", "95 % interval", "runs", "equal core sets"];
    let mut data = Data::new("Points of the sweep", &head);
    for point in &sweep.points {
        let interval = point.rate.and_then(|rate| rate.interval);
        let rate = match (point.rate, &point.skipped) {
            (Some(rate), _) => format!("{:.0}", rate.median),
            (None, Some(why)) => format!("not measured: {why}"),
            (None, None) => "not measured yet".into(),
        };
        let class = point.class.as_ref();
        data.row([
            settings(&point.settings),
            rate,
            interval.map_or("none".into(), |i| format!("{:.0} to {:.0}", i.low, i.high)),
            point.runs.len().to_string(),
            class
                .map_or("".into(), |class| format!("{}: {}", class.name, class.members.join("; "))),
        ]);
    }
    data.table()
}
