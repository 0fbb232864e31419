//! Servers beside each other: interleaved runs, what they say and what they do not.
//!
//! All servers run all the time, each with sockets of its own; who is not asked sleeps. In each
//! round every one is asked in turn, in the next round in the opposite order, so that what else the
//! machine does and how it warms up meets all alike. The first one is there twice, as two processes
//! (A/A): what these two differ by is the noise.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::limits::{BEGIN_STEPS, ROUNDS_MAX, SEARCH_STEPS, TRIES};
use crate::servers::Version;
use crate::verdict::{Cause, Ceiling, Evidence, Verdict, judge};

mod against;
mod field;
mod page;
mod summary;

pub use against::{against, comparable, differences};
pub use field::{Compared, Wanted, compare, configs};
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
    /// Whether that was so at every rate tried: then more might have been answered.
    pub best_is_least: bool,
    /// Asked for far more than it can answer.
    pub most: Trial,
    /// At a rate that is the same for all: half of what the slowest answered at most in the
    /// beginning.
    pub common: Trial,
}

impl Round {
    fn beside(&mut self, ceiling: &Ceiling) {
        let Self { best, most, common, .. } = self;
        [most, common].into_iter().chain(best).for_each(|trial| trial.beside(ceiling));
    }
}

/// A server and all its rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// How many trials a comparison takes at least, those of the beginning included. More are taken
/// where a rate was not reached at once, and where a server loses much to the first overload or
/// becomes better.
pub fn trials(entrants: usize, rounds: usize) -> usize {
    entrants * (BEGIN_TRIALS + rounds * (2 + SEARCH_STEPS))
}

/// Trials of an entrant's beginning, at least.
const BEGIN_TRIALS: usize = 2 + BEGIN_STEPS;

/// Finds what each entrant answers at most, to begin with.
///
/// Asked `highest` a second, it may lose much of its best to that overload. So it is asked for more
/// than it answered, and for ever more as long as it keeps up; between the last two rates its best
/// is looked for.
///
/// # Errors
/// A trial cannot be run, or a server answers nothing.
pub fn begin(bench: &mut dyn Bench, entrants: usize, highest: f64, all: usize) -> Result<Vec<f64>> {
    let mut found = Vec::with_capacity(entrants);
    for entrant in 0..entrants {
        bench.progress(entrant, entrant * BEGIN_TRIALS, all);
        let mut most = bench.trial(entrant, highest)?.answered;
        if most <= 0.0 {
            return Err(format!("entrant {} answered nothing at {highest} a second", entrant + 1));
        }
        let (mut kept_up, mut rate) = (most, most);
        while rate < highest {
            rate = (rate * OVERLOAD).min(highest);
            let trial = bench.trial(entrant, rate)?;
            most = most.max(trial.answered);
            if trial.in_time < IN_TIME {
                break;
            }
            kept_up = rate;
        }
        let best = search(bench, entrant, (kept_up, rate), BEGIN_STEPS)?;
        found.push(best.map_or(most, |best| best.answered.max(most)));
    }
    Ok(found)
}

/// Halves what lies between a rate and a higher one, so many times; the highest at which enough was
/// answered in time, if there was one.
fn search(
    bench: &mut dyn Bench,
    entrant: usize,
    (mut low, mut high): (f64, f64),
    steps: usize,
) -> Result<Option<Trial>> {
    let mut best = None;
    for _ in 0..steps {
        let rate = f64::midpoint(low, high);
        match reach(bench, entrant, rate)? {
            Some(trial) => {
                low = rate;
                best = Some(trial);
            }
            None => high = rate,
        }
    }
    Ok(best)
}

/// The first trial at a rate in which enough was answered in time, if there was one.
fn reach(bench: &mut dyn Bench, entrant: usize, rate: f64) -> Result<Option<Trial>> {
    for _ in 0..TRIES {
        let trial = bench.trial(entrant, rate)?;
        if trial.in_time >= IN_TIME {
            return Ok(Some(trial));
        }
    }
    Ok(None)
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
    let common = beginning.iter().copied().fold(f64::INFINITY, f64::min) * 0.5;
    let all = trials(entrants, rounds);
    let mut done = BEGIN_TRIALS * entrants;
    let mut found = vec![Vec::with_capacity(rounds); entrants];
    for round in 0..rounds {
        for entrant in order(entrants, round) {
            bench.progress(entrant, done, all);
            let (_, before) = bench.echo(entrant)?;
            let mut round = one_round(bench, entrant, beginning[entrant], common)?;
            let (model, after) = bench.echo(entrant)?;
            round.beside(&Ceiling { model, before, after });
            found[entrant].push(round);
            done += 2 + SEARCH_STEPS;
        }
    }
    Ok(found)
}

fn one_round(bench: &mut dyn Bench, entrant: usize, beginning: f64, common: f64) -> Result<Round> {
    let common = bench.trial(entrant, common)?;
    let mut best = (common.in_time >= IN_TIME).then(|| common.clone());
    let mut best_is_least = false;
    let [low, middle, high] = [0.5, 1.1, OVERLOAD].map(|times| beginning * times);
    // Who has become better since the beginning is asked for more.
    for (low, high) in [(low, middle), (middle, high)] {
        let found = search(bench, entrant, (low, high), SEARCH_STEPS)?;
        // Of halvings that all went up, what is left of the range is the last half.
        let last = (high - low) / f64::from(1 << SEARCH_STEPS);
        best_is_least = found.as_ref().is_some_and(|best| best.rate > high - 1.5 * last);
        best = found.or(best);
        if !best_is_least {
            break;
        }
    }
    let most = bench.trial(entrant, beginning * OVERLOAD)?;
    Ok(Round { best, best_is_least, most, common })
}

/// What bounded most of these figures, and the reason of the last one that it did.
pub fn common(verdicts: &[&Verdict]) -> Option<Verdict> {
    let count = |cause: Cause| verdicts.iter().filter(|v| v.cause == cause).count();
    let cause = Cause::ALL.into_iter().max_by_key(|cause| count(*cause))?;
    verdicts.iter().rfind(|v| v.cause == cause).map(|verdict| (*verdict).clone())
}

#[cfg(test)]
mod tests;
