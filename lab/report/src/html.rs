//! The report: one HTML page that works offline and without scripts.

use std::fmt::Write;

use lab::compare::tables;
use lab_search::End;

use crate::Result;
use crate::bundle::{Body, Bundle, SearchRecord};
use crate::charts::{self, Data};
use crate::cpus::{COLUMNS, CpuExperiments, rows};
use crate::fabric::FabricStudy;
use crate::study::{STEP_COLUMNS, Study, noise, step_comment, step_rows};
use crate::svg::{escape, short};
use crate::sweep::Sweep;

pub(crate) const STYLE: &str = include_str!("report.css");
const OPEN: &str = "<script type=\"application/json\" id=\"bundle\">";
const CLOSE: &str = "</script>";

/// The sections of a page, and the list of them.
#[derive(Default)]
struct Page {
    contents: String,
    sections: String,
}

/// The page of a bundle.
pub fn report(bundle: &Bundle) -> String {
    let title = escape(&bundle.header.title);
    let mut page = Page::default();
    write_header(&mut page, bundle);
    match &bundle.body {
        Body::Compare(comparison) => {
            let text = tables(comparison).unwrap_or_else(|why| why);
            section(&mut page, "Results", &format!("{}\n", pre(&text)));
        }
        Body::Search(search) => write_search(&mut page, search, bundle),
        Body::Sweep(sweep) => write_sweep(&mut page, sweep, bundle),
        Body::Study(study) => write_study(&mut page, study, bundle),
        Body::Cpus(all) => write_cpus(&mut page, all, bundle),
        Body::Fabric(study) => write_fabric(&mut page, study),
    }
    if !bundle.runs.is_empty() {
        section(&mut page, "Latency", &charts::latency(&bundle.runs));
        section(&mut page, "Interrupts", &charts::interrupts(bundle));
        section(&mut page, "Packets", &charts::packets(&bundle.runs));
        section(&mut page, "Verdicts", &charts::verdicts(&bundle.runs));
    }
    write_manifest(&mut page, bundle);
    let Page { contents, sections } = page;
    let about = about(bundle);
    // `<` never ends the element early.
    let data = bundle.to_text().trim_end().replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{about}\
         <nav aria-label=\"Contents\">\n<ul>\n{contents}</ul>\n</nav>\n{sections}</main>\n\
         {OPEN}{data}{CLOSE}\n</body>\n</html>\n"
    )
}

/// The bundle inside a report.
///
/// # Errors
/// There is none, or it was changed.
pub fn bundle_of(page: &str) -> Result<Bundle> {
    let inside = page.split_once(OPEN).and_then(|(_, rest)| rest.split_once(CLOSE));
    let (data, _) = inside.ok_or("the report holds no bundle: it is cut off, or no report")?;
    let text = data.replace("\\u003c", "<") + "\n";
    Bundle::parse(&text).map_err(|why| format!("the report's data: {why}"))
}

fn section(page: &mut Page, title: &str, body: &str) {
    let id: String = title
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let title = escape(title);
    let _ = writeln!(page.contents, "<li><a href=\"#{id}\">{title}</a></li>");
    let _ = write!(
        page.sections,
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{body}</section>\n"
    );
}

/// Preformatted text that can be scrolled by keyboard.
fn pre(text: &str) -> String {
    format!(
        "<pre tabindex=\"0\" role=\"region\" aria-label=\"Table of results\">{}</pre>",
        escape(text)
    )
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>", with_code(item))).collect();
    format!("<ul>{items}</ul>\n")
}

/// Text whose parts between backticks are code.
fn with_code(text: &str) -> String {
    let text = escape(text);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text;
    }
    let tag = |(index, part): (usize, &&str)| match index % 2 {
        0 => (*part).to_owned(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(tag).collect()
}

/// What was run, and when.
fn about(bundle: &Bundle) -> String {
    let header = &bundle.header;
    let mut text = format!(
        "<p>{}, {} runs, seed {}. Written by <code>dunlin-lab report</code>; <code>dunlin-lab \
         verify</code> recomputes every number.</p>\n",
        escape(&header.date),
        bundle.run_count(),
        header.seed
    );
    for command in header.command_lines() {
        let _ = writeln!(text, "<p><code>{}</code></p>", escape(&command));
    }
    text + &list(&header.data)
}

fn write_header(page: &mut Page, bundle: &Bundle) {
    let header = &bundle.header;
    section(page, "Machine", &list(&header.machine));
    if !header.remarks.is_empty() {
        section(page, "Limits of these results", &list(&header.remarks));
    }
    if !header.changes.is_empty() {
        let text =
            "<p>The machine changed during the measurement, so these results are unreliable:</p>\n";
        section(page, "Changes", &format!("{text}{}", list(&header.changes)));
    }
}

fn write_search(page: &mut Page, search: &SearchRecord, bundle: &Bundle) {
    let mut data = Data::new(
        "Result of each goal",
        &[
            "goal",
            "lower bound, queries/s",
            "upper bound, queries/s",
            "width",
            "throughput, answers/s",
            "end",
        ],
    );
    for result in &search.results {
        let number = |value: Option<f64>| value.map_or("none".into(), |v| format!("{v:.0}"));
        let end = match result.end {
            End::Width => "both bounds found",
            End::BelowLowest => "not reached at the lowest load",
            End::AboveHighest => "reached at the highest load",
            End::Generator => "limited by the generator",
            End::Time => "out of time",
        };
        data.row([
            result.goal.clone(),
            number(result.lower.map(|bound| bound.load)),
            number(result.upper.map(|bound| bound.load)),
            result.width().map_or("none".into(), |width| format!("{:.2} %", width * 100.0)),
            number(result.conditional_throughput),
            end.into(),
        ]);
    }
    section(page, "Results", &data.table());
    section(page, "Rate against load", &charts::load_curve(search, &bundle.runs));
    let over_time = charts::over_time(search, &bundle.runs);
    if !over_time.is_empty() {
        section(page, "Soak and events", &over_time);
    }
}

fn write_sweep(page: &mut Page, sweep: &Sweep, bundle: &Bundle) {
    let mut body = String::new();
    if let Some(point) = sweep.best() {
        let rate = point.rate.map_or(0.0, |rate| rate.median);
        let interval = point.rate.and_then(|rate| rate.interval);
        let interval = interval.map_or("no interval: fewer than six runs".into(), |interval| {
            format!("95 % interval {} to {}", short(interval.low), short(interval.high))
        });
        let _ = writeln!(
            body,
            "<p>Best: {}: {} answers a second ({interval}).</p>",
            escape(&charts::settings(&point.settings)),
            short(rate)
        );
    }
    body.push_str(&charts::sweep_boxes(sweep, &bundle.runs));
    section(page, "Results", &body);
    section(page, "Answers per core", &charts::scaling(sweep));
    let costs = charts::costs(sweep);
    if !costs.is_empty() {
        section(page, "Costs", &costs);
    }
    section(page, "Settings", &charts::settings_map(sweep));
    section(page, "Points", &charts::points(sweep));
}

fn write_study(page: &mut Page, study: &Study, bundle: &Bundle) {
    let mut findings = Data::new("Findings of the original", &["finding", "here", "because"]);
    study.findings.iter().for_each(|finding| findings.row(finding.row()));
    let noise = list(&noise(study, &bundle.runs));
    let note = escape(&step_comment(&bundle.runs));
    section(page, "Findings", &format!("{}{noise}<p>{note}</p>\n", findings.table()));
    let mut original = Data::new("The original", &["item", "as published"]);
    charts::flatten("", &study.original, &mut |name, value| {
        original.row([name.to_owned(), value.to_owned()]);
    });
    section(page, "Published figures", &original.table());
    for (number, step) in study.steps.iter().enumerate() {
        let title = format!("Step {}: {}", number + 1, step.title);
        let mut body = format!("<p>The original: {}</p>\n", escape(&step.original));
        match step.skipped.is_empty() {
            false => {
                let _ = writeln!(body, "<p>Not run: {}</p>", escape(&step.skipped));
            }
            true => {
                let caption = format!("Step {}", number + 1);
                let mut data = Data::new(&caption, &STEP_COLUMNS);
                step_rows(step, &bundle.runs).into_iter().for_each(|row| data.row(row));
                body.push_str(&data.table());
                body.push_str(&charts::step_boxes(number, step, &bundle.runs));
                if step.key == "pairs" || step.key == "each-core" {
                    body.push_str(&charts::topology(number, step, &bundle.header.manifest.cpu));
                }
            }
        }
        section(page, &title, &body);
    }
}

fn write_cpus(page: &mut Page, all: &CpuExperiments, bundle: &Bundle) {
    let mut findings = Data::new("Findings of all steps", &["finding", "here", "because"]);
    all.findings.iter().for_each(|finding| findings.row(finding.row()));
    section(page, "Findings", &findings.table());
    for step in &all.steps {
        // Regions of a page need names that differ.
        let caption = format!("Figures: {}", step.title);
        let mut data = Data::new(&caption, &COLUMNS);
        rows(step, &bundle.runs).into_iter().for_each(|row| data.row(row));
        let mut body = format!("<p>{}</p>\n{}", escape(&step.about), list(&step.skipped));
        body.push_str(&data.table());
        body.push_str(&charts::cpu_boxes(step));
        section(page, &step.title, &body);
    }
}

fn write_fabric(page: &mut Page, study: &FabricStudy) {
    for table in study.tables() {
        let mut data = Data::new(&format!("Figures: {}", table.title), table.head);
        table.rows.into_iter().for_each(|row| data.row(row));
        let body = format!("<p>{}</p>\n{}", escape(table.about), data.table());
        section(page, table.title, &body);
    }
    if !study.skipped.is_empty() {
        section(page, "Not run", &list(&study.skipped));
    }
}

fn write_manifest(page: &mut Page, bundle: &Bundle) {
    let mut data = Data::new("Manifest", &["item", "value"]);
    let manifest = serde_json::to_value(&bundle.header.manifest).unwrap_or_default();
    charts::flatten("", &manifest, &mut |name, value| {
        data.row([name.to_owned(), value.to_owned()]);
    });
    let body = format!("<details>\n<summary>All items</summary>\n{}</details>\n", data.table());
    section(page, "Manifest of the machine", &body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_backticks_is_code() {
        assert_eq!(with_code("`a <b>` and `c`"), "<code>a &lt;b&gt;</code> and <code>c</code>");
        assert_eq!(with_code("one ` alone"), "one ` alone");
    }

    #[test]
    fn title_with_markup_is_text_and_listed() {
        let mut page = Page::default();
        section(&mut page, "a\"><b>X", "<p>body</p>\n");
        assert_eq!(page.contents, "<li><a href=\"#a---b-x\">a&quot;&gt;&lt;b&gt;X</a></li>\n");
        assert_eq!(
            page.sections,
            "<section aria-labelledby=\"a---b-x\">\n<h2 id=\"a---b-x\">a&quot;&gt;&lt;b&gt;X</h2>\n\
             <p>body</p>\n</section>\n"
        );
    }
}
