//! Summary of a comparison.

use std::collections::BTreeSet;

use super::{Comparison, Round, ServerResult, common};
use crate::Result;
use crate::limits::ROUNDS_MAX;
use crate::statistics::{
    ALPHA, Difference, MEDIAN_MIN, MedianEstimate, difference, holm, least_probability,
    mann_whitney, median, middle, noise_floor, paired_ratio,
};
use crate::verdict::Verdict;

/// A figure that rounds give.
pub(super) struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Whether a higher value is better.
    pub more_is_better: bool,
    of: fn(&Round) -> Option<f64>,
    is_least: fn(&Round) -> bool,
    /// Why a round lacks it.
    lacks: &'static str,
    verdict: fn(&Round) -> Option<&Verdict>,
}

/// The figures, in the order of columns.
pub(super) const FIGURES: [Figure; 5] = [
    Figure {
        name: "best",
        more_is_better: true,
        // If no rate was reached, the sample is 0; it is not omitted.
        of: |round| Some(round.best.as_ref().map_or(0.0, |best| best.answered)),
        is_least: |round| round.best_is_least,
        lacks: "it was not run",
        verdict: |round| round.best.as_ref().map(|best| &best.verdict),
    },
    Figure {
        name: "most",
        more_is_better: true,
        of: |round| Some(round.most.answered),
        is_least: |_| false,
        lacks: "it was not run",
        verdict: |round| Some(&round.most.verdict),
    },
    Figure {
        name: "p50 at the common rate, µs",
        more_is_better: false,
        of: |round| round.common.p50_ns.map(|ns| ns as f64 / 1e3),
        is_least: |_| false,
        lacks: "it lies among the timeouts",
        verdict: |round| Some(&round.common.verdict),
    },
    Figure {
        name: "p99 at the common rate, µs",
        more_is_better: false,
        of: |round| round.common.p99_ns.map(|ns| ns as f64 / 1e3),
        is_least: |_| false,
        lacks: "it lies among the timeouts",
        verdict: |round| Some(&round.common.verdict),
    },
    Figure {
        name: "CPU an answer, µs",
        more_is_better: false,
        of: |round| round.common.cpu_us,
        is_least: |_| false,
        lacks: "nothing was answered, or the server is elsewhere",
        verdict: |round| Some(&round.common.verdict),
    },
];

/// A figure of a server, compared with the first server's.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its median and where that lies; absent where a round did not give it.
    pub middle: Option<MedianEstimate>,
    /// The ratio to the first server's, round by round.
    pub ratio: Option<MedianEstimate>,
    /// The corrected probability that such ranks are chance.
    pub p: Option<f64>,
    /// The verdict on the ratio; absent for the first server.
    pub difference: Option<Difference>,
    /// Whether it equaled the highest tried rate in some round, so that the true value may be
    /// higher.
    pub is_least: bool,
    /// Its limiting cause in most rounds.
    pub verdict: Option<Verdict>,
}

/// A server's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The figures, one per cell.
    pub cells: Vec<Cell>,
    /// Bytes in RAM after its rounds.
    pub resident: Option<u64>,
    /// For a forwarder, its queries to the upstream per received query.
    pub upstream: Option<f64>,
}

/// Summary of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Names of the figures.
    pub figures: Vec<&'static str>,
    /// The noise floor of each figure, as a share.
    pub floors: Vec<Option<f64>>,
    /// One row per server.
    pub rows: Vec<Row>,
    /// Reasons for unknown values, one sentence each.
    pub reasons: Vec<String>,
}

/// The samples of a figure; nothing unless every round gave it.
pub(super) fn samples(server: &ServerResult, figure: &Figure) -> Option<Vec<f64>> {
    server.rounds.iter().map(figure.of).collect()
}

/// Whether in some round a figure was as high as was asked for, so that it may be more.
pub(super) fn is_least(server: &ServerResult, figure: &Figure) -> bool {
    server.rounds.iter().any(figure.is_least)
}

/// Computes the summary. Tests are corrected over the whole table.
///
/// # Errors
/// There is no server, or their rounds are not the same number.
pub fn summarise(comparison: &Comparison) -> Result<Summary> {
    let Some(first) = comparison.servers.first() else { return Err("no server".into()) };
    let rounds = first.rounds.len();
    let all = || comparison.servers.iter().chain([&comparison.again]);
    if let Some(other) = all().find(|server| server.rounds.len() != rounds) {
        let (name, other) = (&other.name, other.rounds.len());
        return Err(format!("{name} has {other} rounds and {} has {rounds}", first.name));
    }
    let seed = comparison.seed;
    let floors: Vec<Option<f64>> = FIGURES
        .iter()
        .map(|f| noise_floor(&samples(first, f)?, &samples(&comparison.again, f)?, seed))
        .collect();
    let mut rows: Vec<Row> = comparison
        .servers
        .iter()
        .enumerate()
        .map(|(place, server)| row(server, (place > 0).then_some(first), seed))
        .collect();
    correct(&mut rows, &floors);
    let tests = rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.p.is_some()).count();
    let figures = FIGURES.iter().map(|f| f.name).collect();
    let mut reasons = reasons(comparison, rounds);
    reasons.extend(too_few(rounds, tests));
    Ok(Summary { figures, floors, rows, reasons })
}

fn row(server: &ServerResult, first: Option<&ServerResult>, seed: u64) -> Row {
    let cell = |figure: &Figure| {
        let ours = samples(server, figure);
        let theirs = first.and_then(|first| samples(first, figure));
        let both = ours.as_ref().zip(theirs.as_ref());
        let verdicts: Vec<&Verdict> = server.rounds.iter().filter_map(figure.verdict).collect();
        Cell {
            middle: ours.as_ref().and_then(|ours| middle(ours)),
            ratio: both.and_then(|(ours, theirs)| paired_ratio(ours, theirs, seed)),
            p: both.and_then(|(ours, theirs)| mann_whitney(ours, theirs)),
            difference: None,
            is_least: is_least(server, figure),
            verdict: common(&verdicts),
        }
    };
    let resident = server.rounds.last().and_then(|round| round.most.resident);
    let upstream: Vec<f64> = server.rounds.iter().filter_map(|r| r.common.upstream).collect();
    let (name, cells) = (server.name.clone(), FIGURES.iter().map(cell).collect());
    Row { name, cells, resident, upstream: median(&upstream) }
}

/// Corrects all probabilities of the table at once, and judges every ratio by them.
fn correct(rows: &mut [Row], floors: &[Option<f64>]) {
    let firsts = rows.first().into_iter().flat_map(|row| &row.cells);
    let firsts: Vec<bool> = firsts.map(|cell| cell.is_least).collect();
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let asked: Vec<f64> = cells().filter_map(|cell| cell.p).collect();
    let mut corrected = holm(&asked).into_iter();
    for row in rows {
        for ((cell, floor), first) in row.cells.iter_mut().zip(floors).zip(&firsts) {
            if cell.p.is_some() {
                cell.p = corrected.next();
            }
            let known = cell.ratio.as_ref().zip(cell.p);
            // A lower bound does not say how much more there is.
            let floor = floor.filter(|_| !first && !cell.is_least);
            cell.difference = known.map(|(ratio, p)| difference(ratio.median, floor, p));
        }
    }
}

/// Why something in the tables is unknown, a sentence each.
fn reasons(comparison: &Comparison, rounds: usize) -> Vec<String> {
    let mut reasons = Vec::new();
    if rounds < 2 {
        reasons.push(
            "Noise floor, differences and intervals are unknown: one round cannot tell how \
             far it is off by random."
                .to_owned(),
        );
    } else if rounds < MEDIAN_MIN {
        reasons.push(format!(
            "Intervals of the medians are unknown: {rounds} rounds are fewer than {MEDIAN_MIN}."
        ));
    }
    for figure in &FIGURES {
        let who = names(comparison, |server| is_least(server, figure));
        if !who.is_empty() {
            reasons.push(format!(
                "{} of {who} is at least that: in some round all that was asked was answered.",
                figure.name
            ));
        }
        let lacks = |server: &&ServerResult| samples(server, figure).is_none();
        let who = names(comparison, lacks);
        if !who.is_empty() {
            let (name, why) = (figure.name, figure.lacks);
            reasons.push(format!("{name} is unknown of {who}: in some round {why}."));
        }
    }
    reasons
}

/// Whether so many rounds can prove nothing in a table of so many tests, and how many could.
fn too_few(rounds: usize, tests: usize) -> Option<String> {
    // Holm: the smallest of them is multiplied by how many there are.
    let least = |rounds: usize| (least_probability(rounds) * tests as f64).min(1.0);
    if rounds < 2 || tests == 0 || least(rounds) < ALPHA {
        return None;
    }
    let enough = (rounds..=ROUNDS_MAX).find(|rounds| least(*rounds) < ALPHA)?;
    Some(format!(
        "No difference can be proven: even wholly apart, {rounds} rounds come by random with \
         p = {:.2} among {tests} tests; {enough} rounds can prove it.",
        least(rounds)
    ))
}

/// The servers for which it holds.
fn names(comparison: &Comparison, is_so: impl Fn(&&ServerResult) -> bool) -> String {
    let all = comparison.servers.iter().chain([&comparison.again]);
    let names: BTreeSet<&str> = all.filter(is_so).map(|server| server.name.as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
