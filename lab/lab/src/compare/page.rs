//! The page of a comparison, computed from its results.

use std::fmt::Write;

use super::runner::CHECK_ONE_IN;
use super::summary::FIGURES;
use super::{Cell, Comparison, IN_TIME, Summary, limits, summarise};
use crate::Result;
use crate::limits::TRIES;
use crate::output::Table;
use crate::statistics::{self, Difference, MedianEstimate};
use crate::verdict::{Ceiling, percent, thousands};

/// Markdown.
///
/// # Errors
/// The results do not fit together.
pub fn page(comparison: &Comparison) -> Result<String> {
    let summary = summarise(comparison)?;
    let mut text = String::from("# Performance beside other servers\n\n");
    text.push_str("Written by `dunlin lab compare`. No figure on this page is typed by hand.\n\n");
    write_all(&mut text, comparison, &summary).map_err(|e| e.to_string())?;
    Ok(text)
}

/// The same tables for a terminal: figures, ratios to the first server's, limiting causes.
///
/// # Errors
/// The results do not fit together.
pub fn tables(comparison: &Comparison) -> Result<String> {
    let summary = summarise(comparison)?;
    let reasons: String = summary.reasons.iter().map(|reason| format!("{reason}\n")).collect();
    let limits = match comparison.limits.is_empty() {
        true => String::new(),
        false => format!("\n{}", limits::table(comparison)),
    };
    Ok(format!(
        "{}\n{}{reasons}\n{}\n{}{limits}",
        figures(&summary),
        ratios(&summary),
        echoes(comparison),
        verdicts(&summary)
    ))
}

fn write_all(text: &mut String, comparison: &Comparison, summary: &Summary) -> std::fmt::Result {
    let rounds = comparison.servers.first().map_or(&[][..], |server| &server.rounds);
    let common_rate = rounds.first().map_or(0.0, |round| round.common.rate);
    let rounds = rounds.len();
    writeln!(
        text,
        "{}, {rounds} round{} of trials of {} s, servers on CPU {}: `{}`\n\n{}\n",
        comparison.date,
        if rounds == 1 { "" } else { "s" },
        comparison.seconds,
        comparison.cpus,
        comparison.command,
        comparison.data.join("; ")
    )?;
    writeln!(text, "## Figures\n\n{}", figures(summary).markdown())?;
    writeln!(
        text,
        "`best`: answers a second at the highest tried rate at which {} of the queries were \
         answered in time, in one of {TRIES} tries. `most`: answers a second under overload. \
         Common rate: {} queries a second, half of the slowest server's maximum; latency and CPU \
         time are measured at this rate, so all servers do the same work. CPU time includes the \
         server's processes and the kernel's threads and interrupts on its CPUs. Memory: the RAM \
         of its processes after all rounds, shared pages once (PSS). Values are medians of the \
         rounds, with 95 % intervals. {}; the records of one answer in {CHECK_ONE_IN} were \
         compared with the zone.\n",
        percent(IN_TIME),
        thousands(common_rate.round() as u64),
        match summary.rows.iter().any(|row| row.upstream.is_some()) {
            true => {
                "Forwarders ask a Knot on the generator's CPU; the table has their queries for \
                 each that they got at the common rate. SERVFAIL counts as no answer, and no \
                 other answer was an error or truncated"
            }
            false => "No answer was refused, failed or truncated",
        }
    )?;
    let first = summary.rows.first().map_or("", |row| row.name.as_str());
    writeln!(text, "## Relative to {first}\n\n{}", ratios(summary).markdown())?;
    writeln!(
        text,
        "Medians of the ratios in each round, with 95 % bootstrap intervals. `=`: the difference \
         is below the noise floor, which is that of two processes of {first} (A/A). `?`: it is \
         larger, but may be chance: p ≥ 0.05 (Mann–Whitney, Holm over the table). All other \
         differences are significant.\n"
    )?;
    summary.reasons.iter().try_for_each(|reason| writeln!(text, "{reason}\n"))?;
    writeln!(text, "## Beside an echo\n\n{}", echoes(comparison).markdown())?;
    writeln!(
        text,
        "The ceiling: answers a second of a bare echo in the server's place, which receives and \
         sends as the server does, right before and after each round, with the same generator. \
         `share`: `most` divided by the ceiling. `drift`: the largest difference between before \
         and after.\n"
    )?;
    if !comparison.limits.is_empty() {
        writeln!(text, "## Limits\n\n{}", limits::table(comparison).markdown())?;
    }
    writeln!(text, "## What limited each figure\n\n{}", verdicts(summary).markdown())?;
    writeln!(text, "## Servers\n\n{}", servers(comparison).markdown())?;
    for server in &comparison.servers {
        let build = server.version.build.trim();
        if !build.is_empty() {
            writeln!(text, "{}:\n\n```text\n{build}\n```\n", server.name)?;
        }
    }
    writeln!(text, "## Machine\n")?;
    comparison.machine.iter().try_for_each(|line| writeln!(text, "* {line}"))
}

/// A number with two decimals below 10, with fewer above.
fn number(value: f64) -> String {
    match value {
        v if v >= 1_000.0 => thousands(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn middle(middle: &MedianEstimate, number: fn(f64) -> String) -> String {
    let interval = middle.interval.map_or(String::new(), |interval| {
        format!(" ({} – {})", number(interval.low), number(interval.high))
    });
    format!("{}{interval}", number(middle.median))
}

/// The figures of all servers.
fn figures(summary: &Summary) -> Table {
    let names = summary.figures.iter().copied();
    let forwards = summary.rows.iter().any(|row| row.upstream.is_some());
    let last = ["memory, MiB"].into_iter().chain(forwards.then_some("queries to the upstream"));
    let mut table = Table::new(["server"].into_iter().chain(names).chain(last));
    for row in &summary.rows {
        let cells = row.cells.iter().map(|cell| match &cell.middle {
            Some(figure) if cell.is_least => format!("≥ {}", middle(figure, number)),
            Some(figure) => middle(figure, number),
            None => "unknown".to_owned(),
        });
        let resident = row.resident.map_or("unknown".to_owned(), |bytes| {
            format!("{:.1}", bytes as f64 / f64::from(1 << 20))
        });
        let upstream = row.upstream.map_or("none".to_owned(), percent);
        let last = [resident].into_iter().chain(forwards.then_some(upstream));
        table.row([row.name.clone()].into_iter().chain(cells).chain(last));
    }
    table
}

/// The rate of a bare echo in each server's place, and the servers' share of it.
fn echoes(comparison: &Comparison) -> Table {
    let head = ["server", "echo", "answers a second", "share", "drift"];
    let mut table = Table::new(head).texts(2);
    for server in &comparison.servers {
        let ceilings: Vec<(&Ceiling, f64)> = server
            .rounds
            .iter()
            .filter_map(|round| {
                Some((round.most.measurements.ceiling.as_ref()?, round.most.answered))
            })
            .collect();
        let Some((Ceiling { model, .. }, _)) = ceilings.first() else { continue };
        let of = |figure: fn(&(&Ceiling, f64)) -> f64| {
            statistics::middle(&ceilings.iter().map(figure).collect::<Vec<_>>())
        };
        let told = |figure: Option<MedianEstimate>, number: fn(f64) -> String| {
            figure.map_or("unknown".to_owned(), |figure| middle(&figure, number))
        };
        let rate = told(of(|(ceiling, _)| ceiling.middle()), number);
        let share = told(of(|(ceiling, most)| most / ceiling.middle()), percent);
        let drift = ceilings.iter().map(|(ceiling, _)| ceiling.drift()).fold(0.0, f64::max);
        table.row([&server.name, model, &rate, &share, &percent(drift)].map(String::from));
    }
    table
}

fn ratio(cell: &Cell) -> String {
    let Some(ratio) = &cell.ratio else { return "unknown".into() };
    let text = middle(ratio, |value| format!("{value:.2}"));
    match cell.difference {
        Some(Difference::Unknown) | None => format!("{text} (unknown)"),
        Some(Difference::WithinFloor) => format!("{text} ="),
        Some(Difference::Unproven) => format!("{text} ?"),
        Some(Difference::More | Difference::Less) => text,
    }
}

/// The ratios to the first server's, and the noise floor below them.
fn ratios(summary: &Summary) -> Table {
    let names = FIGURES.iter().map(|figure| match figure.more_is_better {
        true => format!("{} (more is better)", figure.name),
        false => format!("{} (less is better)", figure.name),
    });
    let mut table = Table::new(["server".to_owned()].into_iter().chain(names));
    for row in summary.rows.iter().skip(1) {
        table.row([row.name.clone()].into_iter().chain(row.cells.iter().map(ratio)));
    }
    let floors = summary.floors.iter().map(|floor| match floor {
        Some(floor) => format!("± {}", percent(*floor)),
        None => "unknown".into(),
    });
    table.row(["noise floor".to_owned()].into_iter().chain(floors));
    table
}

/// The limiting cause of each figure.
fn verdicts(summary: &Summary) -> Table {
    let mut table = Table::new(["server", "figure", "limit", "evidence"]).texts(4);
    for row in &summary.rows {
        // The last three are of the same run.
        for (name, cell) in summary.figures.iter().zip(&row.cells).take(3) {
            let Some(verdict) = &cell.verdict else { continue };
            let name = name.replace("p50 at the common rate, µs", "common rate");
            table.row([&row.name, &name, verdict.cause.name(), &verdict.because].map(String::from));
        }
    }
    table
}

fn servers(comparison: &Comparison) -> Table {
    let mut table = Table::new(["server", "version", "command", "remark"]).texts(4);
    for server in &comparison.servers {
        let command = format!("`{}`", server.command);
        table.row(
            [&server.name, &server.version.version, &command, &server.remark].map(String::from),
        );
    }
    table
}
