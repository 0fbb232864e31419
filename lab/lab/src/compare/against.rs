//! Comparison of results with earlier ones.

use lab_host::manifest::{Difference as Differs, Manifest, diff};

use super::summary::{FIGURES, is_least, samples};
use super::{Comparison, ServerResult, summarise};
use crate::Result;
use crate::output::Table;
use crate::statistics::{Difference, difference, holm, mann_whitney, median};

/// The relevant differences of two machines, one per line.
pub fn differences(then: &Manifest, now: &Manifest) -> Vec<String> {
    let word = |value: Option<String>| value.unwrap_or_else(|| "none".into());
    let told = |d: Differs| format!("{}: {} then, {} now", d.path, word(d.a), word(d.b));
    diff(then, now).into_iter().filter(|d| d.matters).map(told).collect()
}

/// Refuses to compare two results that are not comparable. It does not read rounds, so it can run
/// before there are any.
///
/// # Errors
/// In what they differ, or that a manifest cannot be read.
pub fn comparable(old: &Comparison, new: &Comparison) -> Result<()> {
    let read = |comparison: &Comparison| Manifest::parse(&comparison.manifest.to_string());
    let mut found = differences(&read(old)?, &read(new)?);
    for (what, then, now) in [
        ("data", old.data.join("; "), new.data.join("; ")),
        ("length of a trial", old.seconds.to_string(), new.seconds.to_string()),
        ("CPUs of the servers", old.cpus.clone(), new.cpus.clone()),
    ] {
        if then != now {
            found.push(format!("{what}: {then} then, {now} now"));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "these results cannot be compared, they differ in\n  {}",
            found.join("\n  ")
        )),
    }
}

/// The ratio of new to old results, for every server that both have.
///
/// The runs were not interleaved, so the ratio contains the difference of other work on the
/// machine. The floor is the larger of both.
///
/// # Errors
/// They differ in what matters, which the error lists.
pub fn against(old: &Comparison, new: &Comparison) -> Result<Table> {
    comparable(old, new)?;
    let floors: Vec<Option<f64>> = summarise(old)?
        .floors
        .into_iter()
        .zip(summarise(new)?.floors)
        .map(|(old, new)| old.zip(new).map(|(old, new)| old.max(new)))
        .collect();
    let both: Vec<(&ServerResult, &ServerResult)> = new
        .servers
        .iter()
        .filter_map(|now| Some((old.servers.iter().find(|then| then.name == now.name)?, now)))
        .collect();
    let mut cells = Vec::new();
    for (then, now) in &both {
        for (figure, floor) in FIGURES.iter().zip(&floors) {
            let pair = samples(then, figure).zip(samples(now, figure));
            // A lower bound has no maximum.
            let pair = pair.filter(|_| !is_least(then, figure) && !is_least(now, figure));
            cells.push(pair.and_then(|(then, now)| {
                let below = median(&then).filter(|then| *then > 0.0)?;
                let ratio = median(&now)? / below;
                Some((ratio, mann_whitney(&now, &then)?, *floor))
            }));
        }
    }
    let corrected = holm(&cells.iter().flatten().map(|(_, p, _)| *p).collect::<Vec<_>>());
    let mut corrected = corrected.into_iter();
    let mut texts = cells.iter().map(|cell| match cell {
        Some((ratio, _, floor)) => told(*ratio, *floor, corrected.next().unwrap_or(1.0)),
        None => "unknown".into(),
    });
    let mut table = Table::new(["now over then"].into_iter().chain(FIGURES.iter().map(|f| f.name)));
    for (_, now) in &both {
        let row: Vec<String> = texts.by_ref().take(FIGURES.len()).collect();
        table.row([now.name.clone()].into_iter().chain(row));
    }
    Ok(table)
}

fn told(ratio: f64, floor: Option<f64>, p: f64) -> String {
    match difference(ratio, floor, p) {
        Difference::WithinFloor => format!("{ratio:.2} ="),
        Difference::Unproven => format!("{ratio:.2} ?"),
        Difference::Unknown => format!("{ratio:.2} (unknown: no noise floor)"),
        Difference::More | Difference::Less => format!("{ratio:.2}"),
    }
}
