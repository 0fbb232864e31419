//! The page of a comparison: everything on it follows from the results.

use std::fmt::Write;

use super::field::CHECK_ONE_IN;
use super::summary::FIGURES;
use super::{Campaign, Cell, IN_TIME, Summary, summarise};
use crate::Result;
use crate::limits::TRIES;
use crate::output::Table;
use crate::statistics::{self, Difference, Middle};
use crate::verdict::{Ceiling, percent, thousands};

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
    let reasons: String = summary.reasons.iter().map(|reason| format!("{reason}\n")).collect();
    Ok(format!(
        "{}\n{}{reasons}\n{}\n{}",
        figures(&summary),
        ratios(&summary),
        echoes(campaign),
        verdicts(&summary)
    ))
}

fn write_all(text: &mut String, campaign: &Campaign, summary: &Summary) -> std::fmt::Result {
    let rounds = campaign.entrants.first().map_or(&[][..], |entrant| &entrant.rounds);
    let common_rate = rounds.first().map_or(0.0, |round| round.common.rate);
    let rounds = rounds.len();
    writeln!(
        text,
        "{}, {rounds} round{} of trials of {} s, servers on CPU {}: `{}`\n\n{}\n",
        campaign.date,
        if rounds == 1 { "" } else { "s" },
        campaign.seconds,
        campaign.cpus,
        campaign.command,
        campaign.data.join("; ")
    )?;
    writeln!(text, "## Figures\n\n{}", figures(summary).markdown())?;
    writeln!(
        text,
        "`best`: answers a second at the highest rate tried of which {} were answered in time, in \
         one of {TRIES} tries. `most`: answers a second when far more was asked. Common rate: {} \
         questions a second, half of what the slowest answers at most; CPU and latency are of it, \
         so that all had the same to do. CPU: of its processes and of the kernel's threads and \
         interrupts on its CPUs. Memory: what its processes have in RAM after all rounds, shared \
         pages once (PSS). Medians of the rounds, with 95 % intervals. No answer was refused, \
         failed or cut, and of one in {CHECK_ONE_IN} the records were what the zone says.\n",
        percent(IN_TIME),
        thousands(common_rate.round() as u64)
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
    summary.reasons.iter().try_for_each(|reason| writeln!(text, "{reason}\n"))?;
    writeln!(text, "## Beside an echo\n\n{}", echoes(campaign).markdown())?;
    writeln!(
        text,
        "What the same generator got from a bare echo that receives and sends as the server does, \
         in its place, right before each round and right after it: the ceiling. `share`: what \
         `most` is of it. `drift`: the farthest that before and after lay apart.\n"
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
        let cells = row.cells.iter().map(|cell| match &cell.middle {
            Some(figure) if cell.is_least => format!("≥ {}", middle(figure, number)),
            Some(figure) => middle(figure, number),
            None => "unknown".to_owned(),
        });
        let resident = row.resident.map_or("unknown".to_owned(), |octets| {
            format!("{:.1}", octets as f64 / f64::from(1 << 20))
        });
        table.row([row.name.clone()].into_iter().chain(cells).chain([resident]));
    }
    table
}

/// What a bare echo came to in each server's place, and the servers beside it.
fn echoes(campaign: &Campaign) -> Table {
    let head = ["server", "echo", "answers a second", "share", "drift"];
    let mut table = Table::new(head).texts(2);
    for entrant in &campaign.entrants {
        let ceilings: Vec<(&Ceiling, f64)> = entrant
            .rounds
            .iter()
            .filter_map(|round| Some((round.most.evidence.ceiling.as_ref()?, round.most.answered)))
            .collect();
        let Some((Ceiling { model, .. }, _)) = ceilings.first() else { continue };
        let of = |figure: fn(&(&Ceiling, f64)) -> f64| {
            statistics::middle(&ceilings.iter().map(figure).collect::<Vec<_>>())
        };
        let told = |figure: Option<Middle>, number: fn(f64) -> String| {
            figure.map_or("unknown".to_owned(), |figure| middle(&figure, number))
        };
        let rate = told(of(|(ceiling, _)| ceiling.middle()), number);
        let share = told(of(|(ceiling, most)| most / ceiling.middle()), percent);
        let drift = ceilings.iter().map(|(ceiling, _)| ceiling.drift()).fold(0.0, f64::max);
        table.row([&entrant.name, model, &rate, &share, &percent(drift)].map(String::from));
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

/// What bounded each figure.
fn verdicts(summary: &Summary) -> Table {
    let mut table = Table::new(["server", "figure", "bounded by", "because"]).texts(4);
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
