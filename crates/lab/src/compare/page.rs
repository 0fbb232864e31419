//! The page of a comparison: everything on it follows from the results.

use std::fmt::Write;

use super::summary::FIGURES;
use super::{Campaign, Cell, IN_TIME, Summary, summarise};
use crate::Result;
use crate::output::Table;
use crate::statistics::{Difference, Middle};
use crate::verdict::{percent, thousands};

/// Markdown.
///
/// # Errors
/// The results do not fit together.
pub fn page(campaign: &Campaign) -> Result<String> {
    let summary = summarise(campaign)?;
    let mut text = String::from("# Performance beside other servers\n\n");
    text.push_str("Written by `dunlin lab compare`; nothing on this page is typed.\n\n");
    write_all(&mut text, campaign, &summary).map_err(|e| e.to_string())?;
    Ok(text)
}

/// The same tables for a terminal: figures, ratios to the first server's, what bounded them.
///
/// # Errors
/// The results do not fit together.
pub fn tables(campaign: &Campaign) -> Result<String> {
    let summary = summarise(campaign)?;
    Ok(format!("{}\n{}\n{}", figures(&summary), ratios(&summary), verdicts(&summary)))
}

fn write_all(text: &mut String, campaign: &Campaign, summary: &Summary) -> std::fmt::Result {
    let rounds = campaign.entrants.first().map_or(0, |entrant| entrant.rounds.len());
    writeln!(
        text,
        "{}, {rounds} rounds of trials of {} s, servers on CPU {}: `{}`\n\n{}\n",
        campaign.date,
        campaign.seconds,
        campaign.cpus,
        campaign.command,
        campaign.data.join("; ")
    )?;
    writeln!(text, "## Figures\n\n{}", figures(summary).markdown())?;
    writeln!(
        text,
        "`best`: answers a second at the highest rate tried of which {} were answered in time. \
         `most`: answers a second when far more was asked. Half load: half of what it answered at \
         most. CPU: of its processes and of the kernel's threads and interrupts on its CPUs. \
         Memory: what its processes have in RAM after all rounds, shared pages once (PSS). \
         Medians of the rounds, with 95 % intervals where there are six rounds or more.\n",
        percent(IN_TIME)
    )?;
    let first = summary.rows.first().map_or("", |row| row.name.as_str());
    writeln!(text, "## Over {first}'s\n\n{}", ratios(summary).markdown())?;
    writeln!(
        text,
        "Medians of the ratios round by round, with 95 % bootstrap intervals. `=`: less than the \
         noise floor apart, which is what two processes of {first} differed by (A/A). `?`: farther \
         apart, but such ranks come by chance with p ≥ 0.05 (Mann–Whitney, Holm over the table). \
         All others differ.\n"
    )?;
    writeln!(text, "## What bounded them\n\n{}", verdicts(summary).markdown())?;
    writeln!(text, "## Servers\n\n{}", servers(campaign).markdown())?;
    for entrant in &campaign.entrants {
        let build = entrant.version.build.trim();
        if !build.is_empty() {
            writeln!(text, "{}:\n\n```text\n{build}\n```\n", entrant.name)?;
        }
    }
    writeln!(text, "## Machine\n")?;
    campaign.machine.iter().try_for_each(|line| writeln!(text, "* {line}"))
}

/// A number with as many digits as it deserves.
fn number(value: f64) -> String {
    match value {
        v if v >= 1_000.0 => thousands(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn middle(middle: &Middle, number: fn(f64) -> String) -> String {
    let interval = middle.interval.map_or(String::new(), |interval| {
        format!(" ({} – {})", number(interval.low), number(interval.high))
    });
    format!("{}{interval}", number(middle.median))
}

/// The figures of all servers.
fn figures(summary: &Summary) -> Table {
    let names = summary.figures.iter().copied();
    let mut table = Table::new(["server"].into_iter().chain(names).chain(["memory, MiB"]));
    for row in &summary.rows {
        let cells = row
            .cells
            .iter()
            .map(|cell| cell.middle.as_ref().map_or("unknown".to_owned(), |m| middle(m, number)));
        let resident = row.resident.map_or("unknown".to_owned(), |octets| {
            format!("{:.1}", octets as f64 / f64::from(1 << 20))
        });
        table.row([row.name.clone()].into_iter().chain(cells).chain([resident]));
    }
    table
}

fn ratio(cell: &Cell) -> String {
    let Some(ratio) = &cell.ratio else { return String::new() };
    let text = middle(ratio, |value| format!("{value:.2}"));
    match cell.difference {
        Some(Difference::WithinFloor) => format!("{text} ="),
        Some(Difference::Unproven) => format!("{text} ?"),
        _ => text,
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

/// What bounded each figure.
fn verdicts(summary: &Summary) -> Table {
    let mut table = Table::new(["server", "figure", "bounded by", "because"]).texts(4);
    for row in &summary.rows {
        // The last three are of the same run.
        for (name, cell) in summary.figures.iter().zip(&row.cells).take(3) {
            let Some(verdict) = &cell.verdict else { continue };
            let name = name.replace("p50 at half load, µs", "half load");
            table.row([&row.name, &name, verdict.cause.name(), &verdict.because].map(String::from));
        }
    }
    table
}

fn servers(campaign: &Campaign) -> Table {
    let mut table = Table::new(["server", "version", "command", "remark"]).texts(4);
    for entrant in &campaign.entrants {
        let command = format!("`{}`", entrant.command);
        table.row(
            [&entrant.name, &entrant.version.version, &command, &entrant.remark].map(String::from),
        );
    }
    table
}
