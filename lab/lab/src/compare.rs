//! Comparison of servers by interleaved runs.
//!
//! All servers run all the time, each with sockets of its own; an idle one sleeps. Each round
//! measures every server in turn, and the next round reverses the order, so that other work on the
//! machine and its warm-up affect all equally. The first server runs as two processes (A/A): the
//! difference between them is the noise.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::limits::{BEGIN_STEPS, ROUNDS_MAX, SEARCH_STEPS, TRIES};
use crate::servers::Version;
use crate::verdict::{Cause, Ceiling, Measurements, Verdict, judge};

mod against;
mod authority;
mod limits;
mod page;
mod runner;
mod summary;

pub use against::{against, comparable, differences};
pub use limits::{Limit, LimitResult, limit_results};
pub use page::{page, tables};
pub use runner::{CompareOptions, CompareResult, compare, configs};
pub use summary::{Cell, Row, Summary, summarise};

/// One run at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Queries a second that were due.
    pub rate: f64,
    /// Share of the due queries that were answered in time, 0 to 1.
    pub in_time: f64,
    /// Right answers in time, a second.
    pub answered: f64,
    /// The median of times from when a query was due, ns; absent where it is a timeout.
    pub p50_ns: Option<u64>,
    /// The 99th percentile of the same.
    pub p99_ns: Option<u64>,
    /// CPU time of the server's side per answer, µs.
    pub cpu_us: Option<f64>,
    /// Bytes of the server's processes in RAM.
    pub resident: Option<u64>,
    /// Queries that a forwarder sent to the server it forwards to, over those it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<f64>,
    /// The measurements behind the verdict.
    pub measurements: Measurements,
    /// The verdict.
    pub verdict: Verdict,
}

impl Trial {
    /// Adds the rate of an echo, and judges again.
    fn beside(&mut self, ceiling: &Ceiling) {
        self.measurements.ceiling = Some(ceiling.clone());
        self.verdict = judge(&self.measurements);
    }
}

/// A server's results of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The highest tried rate at which enough queries were answered in time; absent if there was
    /// none.
    pub best: Option<Trial>,
    /// Whether this held at every tried rate, so that the server may be faster.
    pub best_is_least: bool,
    /// Under overload.
    pub most: Trial,
    /// At a common rate: half of the slowest server's maximum in the initial search.
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
pub struct ServerResult {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// How it was started.
    pub command: String,
    /// A comment that a fair reading of its results needs.
    pub remark: String,
    /// Maximum of answers per second in the initial search; its rates are derived from it.
    pub beginning: f64,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// A whole comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
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
    /// The seed of all random numbers.
    pub seed: u64,
    /// Servers, the first one first.
    pub servers: Vec<ServerResult>,
    /// The second process of the first server.
    pub again: ServerResult,
    /// Limits of ratios.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// The machine, before.
    pub manifest: serde_json::Value,
    /// Its description as text.
    pub machine: Vec<String>,
}

/// A rate counts as reached if at least this share is answered in time.
pub const IN_TIME: f64 = 0.99;

/// The rate of `most`, as a multiple of the highest answer rate in the initial search.
pub const OVERLOAD: f64 = 1.5;

/// Runs trials. Server `n` is the nth one; the last is the first one again.
pub trait TrialRunner {
    /// Runs one.
    ///
    /// # Errors
    /// It cannot be run; not that a server answers little.
    fn trial(&mut self, server: usize, rate: f64) -> Result<Trial>;

    /// Answers a second of a bare echo that receives and sends as the entrant does, in its place;
    /// and the name of that way.
    ///
    /// # Errors
    /// As with [`TrialRunner::trial`].
    fn echo(&mut self, server: usize) -> Result<(String, f64)>;

    /// Reports progress: the server that is next, and how much of all is done.
    fn progress(&mut self, server: usize, done: usize, of: usize);
}

/// The order of a round: every other one backwards.
pub fn order(servers: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// The minimum number of trials of a comparison, with the initial search. There are more if a rate
/// is not reached at once, and if a server loses much under the first overload or becomes faster.
pub fn trials(servers: usize, rounds: usize) -> usize {
    servers * (BEGIN_TRIALS + rounds * (2 + SEARCH_STEPS))
}

/// Minimum number of trials of an entrant's initial search.
const BEGIN_TRIALS: usize = 2 + BEGIN_STEPS;

/// Finds the initial maximum of each entrant.
///
/// At the rate `highest` it may be far below its best. So the next rate is above its answer rate,
/// and rises as long as it keeps up; the best rate is searched between the last two.
///
/// # Errors
/// A trial cannot be run, or a server answers nothing.
pub fn begin(
    runner: &mut dyn TrialRunner,
    servers: usize,
    highest: f64,
    all: usize,
) -> Result<Vec<f64>> {
    let mut found = Vec::with_capacity(servers);
    for server in 0..servers {
        runner.progress(server, server * BEGIN_TRIALS, all);
        let mut most = runner.trial(server, highest)?.answered;
        if most <= 0.0 {
            return Err(format!("server {} answered nothing at {highest} a second", server + 1));
        }
        let (mut kept_up, mut rate) = (most, most);
        while rate < highest {
            rate = (rate * OVERLOAD).min(highest);
            let trial = runner.trial(server, rate)?;
            most = most.max(trial.answered);
            if trial.in_time < IN_TIME {
                break;
            }
            kept_up = rate;
        }
        let best = search(runner, server, (kept_up, rate), BEGIN_STEPS)?;
        found.push(best.map_or(most, |best| best.answered.max(most)));
    }
    Ok(found)
}

/// Halves the interval between two rates this many times. Returns the highest rate at which enough
/// was answered in time, if there was one.
fn search(
    runner: &mut dyn TrialRunner,
    server: usize,
    (mut low, mut high): (f64, f64),
    steps: usize,
) -> Result<Option<Trial>> {
    let mut best = None;
    for _ in 0..steps {
        let rate = f64::midpoint(low, high);
        match reach(runner, server, rate)? {
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
fn reach(runner: &mut dyn TrialRunner, server: usize, rate: f64) -> Result<Option<Trial>> {
    for _ in 0..TRIES {
        let trial = runner.trial(server, rate)?;
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
pub fn rounds(
    runner: &mut dyn TrialRunner,
    beginning: &[f64],
    rounds: usize,
) -> Result<Vec<Vec<Round>>> {
    if rounds == 0 || rounds > ROUNDS_MAX {
        return Err(format!("{rounds} rounds: there are 1 to {ROUNDS_MAX}"));
    }
    let servers = beginning.len();
    let common = beginning.iter().copied().fold(f64::INFINITY, f64::min) * 0.5;
    let all = trials(servers, rounds);
    let mut done = BEGIN_TRIALS * servers;
    let mut found = vec![Vec::with_capacity(rounds); servers];
    for round in 0..rounds {
        for server in order(servers, round) {
            runner.progress(server, done, all);
            let (_, before) = runner.echo(server)?;
            let mut round = one_round(runner, server, beginning[server], common)?;
            let (model, after) = runner.echo(server)?;
            round.beside(&Ceiling { model, before, after });
            found[server].push(round);
            done += 2 + SEARCH_STEPS;
        }
    }
    Ok(found)
}

fn one_round(
    runner: &mut dyn TrialRunner,
    server: usize,
    beginning: f64,
    common: f64,
) -> Result<Round> {
    let common = runner.trial(server, common)?;
    let mut best = (common.in_time >= IN_TIME).then(|| common.clone());
    let mut best_is_least = false;
    let [low, middle, high] = [0.5, 1.1, OVERLOAD].map(|times| beginning * times);
    // A server that has become faster since the beginning gets a higher range.
    for (low, high) in [(low, middle), (middle, high)] {
        let found = search(runner, server, (low, high), SEARCH_STEPS)?;
        // If all halvings went up, the last half of the range remains.
        let last = (high - low) / f64::from(1 << SEARCH_STEPS);
        best_is_least = found.as_ref().is_some_and(|best| best.rate > high - 1.5 * last);
        best = found.or(best);
        if !best_is_least {
            break;
        }
    }
    let most = runner.trial(server, beginning * OVERLOAD)?;
    Ok(Round { best, best_is_least, most, common })
}

/// The most frequent cause, and the last reason given for it.
pub fn common(verdicts: &[&Verdict]) -> Option<Verdict> {
    let count = |cause: Cause| verdicts.iter().filter(|v| v.cause == cause).count();
    let cause = Cause::ALL.into_iter().max_by_key(|cause| count(*cause))?;
    verdicts.iter().rfind(|v| v.cause == cause).map(|verdict| (*verdict).clone())
}

#[cfg(test)]
mod tests;
