//! A bundle as a Markdown page: where it was measured, and its tables.

use std::fmt::Write;

use lab::compare;
use lab::verdict::thousands;

use crate::bundle::{Body, Bundle, SearchRecord};
use crate::charts::{cpu_plot, settings};
use crate::cpus::{COLUMNS, CpuExperiments, CpuStep, rows};
use crate::fabric::FabricStudy;
use crate::study::{STEP_COLUMNS, Study, noise, step_comment, step_rows};
use crate::sweep::Sweep;

/// The page of a bundle. Every figure on it follows from the bundle.
pub fn markdown(bundle: &Bundle) -> String {
    let header = &bundle.header;
    let mut page = format!("# {}\n\n", header.title);
    let _ = writeln!(page, "Measured on {}, {} runs.\n\n```", header.date, bundle.run_count());
    header.command_lines().iter().for_each(|line| page.push_str(&format!("{line}\n")));
    page.push_str("```\n\n");
    let lists = [&header.machine, &header.remarks, &header.data];
    lists.into_iter().flatten().for_each(|line| page.push_str(&format!("* {line}\n")));
    if !header.changes.is_empty() {
        let _ = writeln!(page, "* The machine changed meanwhile: {}", header.changes.join("; "));
    }
    match &bundle.body {
        Body::Compare(comparison) => {
            let text = compare::page(comparison).unwrap_or_else(|why| why);
            // Its first line is a title, which the page has already.
            let text = text.split_once('\n').map_or(text.as_str(), |(_, rest)| rest);
            page.push_str(text);
        }
        Body::Search(search) => write_search(&mut page, search, bundle),
        Body::Sweep(sweep) => write_sweep(&mut page, sweep),
        Body::Study(study) => write_study(&mut page, study, bundle),
        Body::Cpus(all) => write_cpus(&mut page, all, bundle),
        Body::Fabric(study) => write_fabric(&mut page, study),
    }
    page
}

/// The plots that the page of a bundle shows: the name of each file, and its SVG.
pub fn plots(bundle: &Bundle) -> Vec<(String, String)> {
    let Body::Cpus(all) = &bundle.body else { return Vec::new() };
    let drawn = all.steps.iter().filter(|step| !step.series.is_empty());
    drawn.map(|step| (plot_name(step), cpu_plot(step))).collect()
}

fn plot_name(step: &CpuStep) -> String {
    format!("{}.svg", step.id())
}

fn table(page: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|name| cell(name)).collect();
    page.push_str(&line(&head));
    page.push_str(&line(&vec!["---".to_owned(); head.len()]));
    for row in rows {
        page.push_str(&line(&row.iter().map(|text| cell(text)).collect::<Vec<_>>()));
    }
}

/// Text inside a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn write_search(page: &mut String, search: &SearchRecord, bundle: &Bundle) {
    page.push_str("\n## Results\n\n");
    let rate = |rate: Option<f64>| rate.map_or("none".into(), |r| thousands(r.round() as u64));
    let row = |result: &lab_search::GoalResult| {
        vec![
            result.goal.clone(),
            rate(result.lower.map(|bound| bound.load)),
            rate(result.upper.map(|bound| bound.load)),
            rate(result.conditional_throughput),
        ]
    };
    let rows: Vec<_> = search.results.iter().map(row).collect();
    table(page, &["goal", "lower bound/s", "upper bound/s", "answers/s"], &rows);
    let soak = search.soak.as_ref().and_then(|s| Some(s.sentence(bundle.runs.get(s.run)?)));
    let event = search.event.as_ref().map(|event| event.sentence());
    for sentence in [soak, event].into_iter().flatten() {
        let _ = writeln!(page, "\n{sentence}.");
    }
}

fn write_sweep(page: &mut String, sweep: &Sweep) {
    page.push_str("\n## Points\n\n");
    let row = |point: &crate::sweep::Point| {
        let rate = point.rate;
        let interval = rate.and_then(|rate| rate.interval);
        let count = |rate: f64| thousands(rate.round() as u64);
        let low_high =
            |i: lab::statistics::Interval| format!("{} to {}", count(i.low), count(i.high));
        vec![
            settings(&point.settings),
            point.runs.len().to_string(),
            rate.map_or_else(|| "not measured".into(), |rate| count(rate.median)),
            interval.map_or("none".into(), low_high),
        ]
    };
    let rows: Vec<_> = sweep.points.iter().map(row).collect();
    table(page, &["setting", "runs", "median/s", "95 % interval"], &rows);
    let laws = sweep.fits.iter().filter_map(|fit| Some((fit, fit.law?)));
    for (fit, law) in laws {
        let _ = writeln!(
            page,
            "\nScalability over {} ({}): one {}/s, contention {:.4}, coherence {:.6}.",
            sweep.scale,
            settings(&fit.group),
            thousands(law.lambda.round() as u64),
            law.alpha,
            law.beta
        );
    }
}

fn write_study(page: &mut String, study: &Study, bundle: &Bundle) {
    page.push_str("\n## Findings\n\n");
    let findings: Vec<_> = study.findings.iter().map(|one| one.row().to_vec()).collect();
    table(page, &["finding of the original", "here", "because"], &findings);
    page.push('\n');
    noise(study, &bundle.runs).iter().for_each(|line| page.push_str(&format!("* {line}\n")));
    let _ = writeln!(page, "\n{}", step_comment(&bundle.runs));
    for (number, step) in study.steps.iter().enumerate() {
        let _ = writeln!(page, "\n## Step {}: {}\n", number + 1, step.title);
        let _ = writeln!(page, "The original: {}\n", step.original);
        match step.skipped.is_empty() {
            false => {
                let _ = writeln!(page, "Not run: {}.", step.skipped);
            }
            true => table(page, &STEP_COLUMNS, &step_rows(step, &bundle.runs)),
        }
    }
}

fn write_cpus(page: &mut String, all: &CpuExperiments, bundle: &Bundle) {
    page.push_str("\n## Findings\n\n");
    let findings: Vec<_> = all.findings.iter().map(|one| one.row().to_vec()).collect();
    table(page, &["finding", "here", "because"], &findings);
    for step in &all.steps {
        let _ = writeln!(page, "\n## {}\n\n{}\n", step.title, step.about);
        step.skipped.iter().for_each(|why| page.push_str(&format!("* Not run: {why}\n")));
        if !step.skipped.is_empty() {
            page.push('\n');
        }
        if !step.series.is_empty() {
            table(page, &COLUMNS, &rows(step, &bundle.runs));
            let _ = writeln!(page, "\n![{}]({})", step.title, plot_name(step));
        }
    }
}

fn write_fabric(page: &mut String, study: &FabricStudy) {
    for one in study.tables() {
        let _ = writeln!(page, "\n## {}\n\n{}\n", one.title, one.about);
        table(page, one.head, &one.rows);
    }
    if !study.skipped.is_empty() {
        page.push_str("\n## Not run\n\n");
        study.skipped.iter().for_each(|why| page.push_str(&format!("* {why}\n")));
    }
}
