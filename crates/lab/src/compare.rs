//! Servers beside each other: interleaved runs, what they say and what they do not.
//!
//! All servers run all the time, each with sockets of its own; who is not asked sleeps. In each
//! round every one is asked in turn, in the next round in the opposite order, so that what else the
//! machine does and how it warms up meets all alike. The first one is there twice, as two processes
//! (A/A): what these two differ by is the noise.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::limits::{ROUNDS_MAX, SEARCH_STEPS};
use crate::servers::Version;
use crate::verdict::{Cause, Ceiling, Evidence, Verdict, judge};

mod against;
mod field;
mod page;
mod summary;

pub use against::{against, obstacles};
pub use field::{Compared, Wanted, compare};
pub use page::{page, tables};
pub use summary::{Cell, Row, Summary, summarise};

/// One run at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Questions a second that were due.
    pub rate: f64,
    /// Share of the due questions that were answered in time, 0 to 1.
    pub in_time: f64,
    /// Right answers in time, a second.
    pub answered: f64,
    /// The median of times from when a question was due, ns; absent where it is a timeout.
    pub p50_ns: Option<u64>,
    /// The 99th percentile of the same.
    pub p99_ns: Option<u64>,
    /// CPU time the server's side used for an answer, µs.
    pub cpu_us: Option<f64>,
    /// Octets of the server's processes in RAM.
    pub resident: Option<u64>,
    /// What it is judged by.
    pub evidence: Evidence,
    /// What bounded it.
    pub verdict: Verdict,
}

impl Trial {
    /// Adds what an echo came to, and judges again.
    fn beside(&mut self, ceiling: &Ceiling) {
        self.evidence.ceiling = Some(ceiling.clone());
        self.verdict = judge(&self.evidence);
    }
}

/// What a server came to in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The highest rate tried at which enough was answered in time; absent where none was.
    pub best: Option<Trial>,
    /// Asked for far more than it can answer.
    pub most: Trial,
    /// At half of what it answered at most in the beginning.
    pub half: Trial,
}

impl Round {
    fn beside(&mut self, ceiling: &Ceiling) {
        let Self { best, most, half } = self;
        [most, half].into_iter().chain(best).for_each(|trial| trial.beside(ceiling));
    }
}

/// A server and all its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    pub version: Version,
    /// How it was started.
    pub command: String,
    /// What one has to know to read its figures fairly.
    pub remark: String,
    /// Answers a second at most, before the first round: what its rates are derived from.
    pub beginning: f64,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// A whole comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// When it began, such as `2026-11-21`.
    pub date: String,
    /// The command line.
    pub command: String,
    /// The zone and the names, by their files' names and hashes.
    pub data: Vec<String>,
    /// Length of a trial, seconds.
    pub seconds: f64,
    /// CPUs of the servers.
    pub cpus: String,
    /// What chance comes from.
    pub seed: u64,
    /// Servers, the first one first.
    pub entrants: Vec<Entrant>,
    /// The first one, once more.
    pub again: Entrant,
    /// The machine, before.
    pub manifest: serde_json::Value,
    /// Its lines for people.
    pub machine: Vec<String>,
}

/// The least share answered in time of a rate that counts as reached.
pub const IN_TIME: f64 = 0.99;

/// What is asked in `most`, times what was answered at most in the beginning.
pub const OVERLOAD: f64 = 1.5;

/// Who runs trials. Entrant number `n` is the nth server; the last is the first one again.
pub trait Bench {
    /// Runs one.
    ///
    /// # Errors
    /// It cannot be run; not that a server answers little.
    fn trial(&mut self, entrant: usize, rate: f64) -> Result<Trial>;

    /// Answers a second of a bare echo that receives and sends as the entrant does, in its place;
    /// and the name of that way.
    ///
    /// # Errors
    /// As with [`Bench::trial`].
    fn echo(&mut self, entrant: usize) -> Result<(String, f64)>;

    /// Is told what comes next, and how much of all is done.
    fn progress(&mut self, entrant: usize, done: usize, of: usize);
}

/// The order of a round: every other one backwards.
pub fn order(entrants: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entrants).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// How many trials a comparison takes, those of the beginning included.
pub fn trials(entrants: usize, rounds: usize) -> usize {
    entrants * (2 + rounds * (2 + SEARCH_STEPS))
}

/// Finds what each entrant answers at most, to begin with: asked `highest` a second, then again far
/// more than it answered then, as an overload may take a server's best away.
///
/// # Errors
/// A trial cannot be run, or a server answers nothing.
pub fn begin(bench: &mut dyn Bench, entrants: usize, highest: f64, all: usize) -> Result<Vec<f64>> {
    let mut found = Vec::with_capacity(entrants);
    for entrant in 0..entrants {
        bench.progress(entrant, entrant * 2, all);
        let first = bench.trial(entrant, highest)?.answered;
        if first <= 0.0 {
            return Err(format!("entrant {} answered nothing at {highest} a second", entrant + 1));
        }
        let second = bench.trial(entrant, (first * OVERLOAD).min(highest))?.answered;
        found.push(first.max(second));
    }
    Ok(found)
}

/// Runs all rounds; for each entrant its rounds.
///
/// # Errors
/// A trial cannot be run, or too many rounds are asked for.
pub fn rounds(bench: &mut dyn Bench, beginning: &[f64], rounds: usize) -> Result<Vec<Vec<Round>>> {
    if rounds == 0 || rounds > ROUNDS_MAX {
        return Err(format!("{rounds} rounds: there are 1 to {ROUNDS_MAX}"));
    }
    let entrants = beginning.len();
    let all = trials(entrants, rounds);
    let mut done = 2 * entrants;
    let mut found = vec![Vec::with_capacity(rounds); entrants];
    for round in 0..rounds {
        for entrant in order(entrants, round) {
            bench.progress(entrant, done, all);
            let (_, before) = bench.echo(entrant)?;
            let mut round = one_round(bench, entrant, beginning[entrant])?;
            let (model, after) = bench.echo(entrant)?;
            round.beside(&Ceiling { model, before, after });
            found[entrant].push(round);
            done += 2 + SEARCH_STEPS;
        }
    }
    Ok(found)
}

fn one_round(bench: &mut dyn Bench, entrant: usize, beginning: f64) -> Result<Round> {
    let half = bench.trial(entrant, beginning * 0.5)?;
    let (mut low, mut high) = (beginning * 0.5, beginning * 1.1);
    let mut best = (half.in_time >= IN_TIME).then(|| half.clone());
    for _ in 0..SEARCH_STEPS {
        let trial = bench.trial(entrant, f64::midpoint(low, high))?;
        match trial.in_time >= IN_TIME {
            true => {
                low = trial.rate;
                best = Some(trial);
            }
            false => high = trial.rate,
        }
    }
    let most = bench.trial(entrant, beginning * OVERLOAD)?;
    Ok(Round { best, most, half })
}

/// What bounded most of these figures, and the reason of the last one that it did.
pub fn common(verdicts: &[&Verdict]) -> Option<Verdict> {
    let count = |cause: Cause| verdicts.iter().filter(|v| v.cause == cause).count();
    let cause = Cause::ALL.into_iter().max_by_key(|cause| count(*cause))?;
    verdicts.iter().rfind(|v| v.cause == cause).map(|verdict| (*verdict).clone())
}

#[cfg(test)]
mod tests;
