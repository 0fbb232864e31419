//! `dunlin-lab search`: the highest rate at which a server meets its goals.
mod event;
mod soak;

use crate::bundles::{header, list_changes, write};
use crate::compare::{Bar, digest};
use crate::load::{Target, seconds};
use crate::signals::stop_when_interrupted;
use clap::Args;
use event::{Event, Watch};
use lab::record::{RunRecord, record};
use lab_load::arrivals::{Arrivals, Rate, Spacing, read_number};
use lab_load::{LoadMode, Options};
use lab_report::bundle::{Body, SearchRecord, SearchTrial};
use lab_report::soak::SoakRecord;
use lab_search::{Config, End, Goal, GoalResult, Outcome, Request, Search as Searching};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin-lab search -s 10.99.0.1 -d queries\n  \
    dunlin-lab search -s 10.99.0.1 -d queries --goal ndr --latency 1ms --max 500k\n  \
    dunlin-lab search -s 10.99.0.1 -d queries --quick --bundle search.json\n  \
    dunlin-lab search -s 10.99.0.1 -d queries --quick --soak 20m\n  \
    dunlin-lab search -s 10.99.0.1 -d queries --repeat 3\n  \
    dunlin-lab search -s 10.99.0.1 -d queries --quick --event zone-change \\\n    \
    --event-command 'knotc zone-reload' --watch changed.example=192.0.2.7";

#[derive(Args, Debug)]
pub struct Search {
    #[command(flatten)]
    target: Target,
    /// Goal: ndr (no loss), pdr (0.5 % loss), rfc2544 or tst009. Several are searched together.
    #[arg(long, value_name = "GOAL", value_parser = goal, default_values = ["ndr", "pdr"])]
    goal: Vec<Goal>,
    /// Add a goal: at most 0.5 % of the answers are later than this, or lost.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    latency: Vec<u64>,
    /// Lowest rate.
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = read_number)]
    min: f64,
    /// Highest rate.
    #[arg(long, value_name = "RATE", default_value = "500k", value_parser = read_number)]
    max: f64,
    /// Relative width between the bounds of a result, instead of the goal's own.
    #[arg(long, value_name = "SHARE")]
    width: Option<f64>,
    /// Trial time of a load, instead of the goal's own.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    duration_sum: Option<u64>,
    /// Use short trials (200 ms, 1 s for each load, width 10 %), to test the setup.
    #[arg(long)]
    quick: bool,
    /// End the search after this much trial time.
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = seconds)]
    time_max: u64,
    /// Afterwards send queries for this long at 90 % of the first goal's lower bound, and report
    /// the rate, gaps, the worst second, and the growth of memory.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    soak: Option<u64>,
    /// Afterwards run --event-command under half of that load, and report seconds with errors, the
    /// longest gap, and with --watch the time from the command to the first right answer.
    #[arg(long, value_enum, value_name = "EVENT", requires = "event_command")]
    event: Option<Event>,
    /// Command of the event, such as `knotc reload`.
    #[arg(long, value_name = "COMMAND", requires = "event")]
    event_command: Option<String>,
    /// Name whose A record the event changes, and its new address. Without an address, the first
    /// answer that differs is right.
    #[arg(long, value_name = "NAME[=ADDRESS]", requires = "event")]
    watch: Option<Watch>,
    /// Write a bundle, and its report under the same name with .html. With --repeat, a bundle for
    /// each search: NAME-1.json and so on.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Search this many times, and exit with status 1 if the intervals of a goal do not overlap.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

fn goal(text: &str) -> Result<Goal, String> {
    Goal::named(text).ok_or_else(|| "expected ndr, pdr, rfc2544 or tst009".into())
}

impl Search {
    fn config(&self) -> Result<Config, String> {
        let mut goals = self.goal.clone();
        goals.extend(self.latency.iter().map(|ns| Goal::latency(*ns)));
        for goal in &mut goals {
            if self.quick {
                (goal.trial_s, goal.initial_s) = (0.2, 0.2);
                (goal.duration_sum_s, goal.width, goal.preceding) = (1.0, 0.1, 1);
            }
            if let Some(width) = self.width {
                goal.width = width;
            }
            if let Some(sum) = self.duration_sum {
                goal.duration_sum_s = sum as f64 / 1e9;
                goal.initial_s = goal.initial_s.min(goal.duration_sum_s);
                goal.trial_s = goal.trial_s.min(goal.duration_sum_s);
            }
        }
        let warmup_s = if self.quick { 0.2 } else { 1.0 };
        let time_max_s = self.time_max as f64 / 1e9;
        let config = Config { goals, min: self.min, max: self.max, warmup_s, time_max_s };
        Searching::new(config.clone()).map(|_| config)
    }
}

/// Runs the trials of a search.
///
/// # Errors
/// A trial cannot be run, or the search was stopped.
pub fn trials(
    config: &Config,
    load: &Options,
    pids: &[u32],
    stop: &AtomicBool,
    seen: &mut dyn FnMut(&str, usize, usize),
) -> Result<(SearchRecord, Vec<RunRecord>), String> {
    let mut search = Searching::new(config.clone())?;
    let (mut runs, mut trials) = (Vec::new(), Vec::new());
    while let Some(Request { load: rate, duration_s }) = search.next_trial() {
        let done = (search.done_share() * 100.0) as usize;
        seen(&format!("{rate:.0} queries/s, trial {}", search.count() + 1), done, 100);
        let options = at_rate(load, rate, (duration_s * 1e9) as u64, runs.len() as u64);
        let settings = BTreeMap::from([("rate".to_owned(), format!("{rate:.0}"))]);
        let run = record("search", settings, &options, pids, None, stop)?;
        if stop.load(Ordering::Relaxed) {
            return Err("stopped before the search had ended".into());
        }
        let outcome = SearchRecord::outcome(config, &run);
        if outcome == Outcome::Void {
            seen("the generator was late, again", done, 100);
        }
        search.record(outcome)?;
        trials.push(SearchTrial { run: runs.len(), load: rate, duration_s });
        runs.push(run);
    }
    let results = search.result();
    let config = config.clone();
    Ok((SearchRecord { config, trials, results, soak: None, event: None }, runs))
}

/// A load at a constant rate, with names from another place each time.
pub fn at_rate(load: &Options, rate: f64, length_ns: u64, number: u64) -> Options {
    let rate = Rate::Constant(rate);
    Options {
        when: LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 }),
        length_ns,
        interval_ns: load.interval_ns.min(length_ns),
        seed: load.seed.wrapping_add(number),
        ..load.clone()
    }
}

fn line(result: &GoalResult) -> String {
    let GoalResult { goal, lower, upper, conditional_throughput, end } = result;
    let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.0}"));
    let bounds = format!(
        "{goal}: between {} and {} queries/s, conditional throughput {} answers/s",
        rate(lower.map(|bound| bound.load)),
        rate(upper.map(|bound| bound.load)),
        rate(*conditional_throughput)
    );
    match end {
        End::Width => bounds,
        End::BelowLowest => format!("{goal}: not met at the lowest rate; lower --min"),
        End::AboveHighest => format!("{goal}: met at the highest rate; raise --max"),
        End::Generator => format!("{bounds}; the generator cannot send more"),
        End::Time => format!("{bounds}; out of time (--time-max)"),
    }
}

/// Goals whose intervals have no rate in common.
fn apart(searches: &[Vec<GoalResult>]) -> Vec<&str> {
    let Some(first) = searches.first() else { return Vec::new() };
    let is_apart = |goal: &str| {
        let own = || searches.iter().flatten().filter(|result| result.goal == goal);
        let lowest = own().map(|result| result.lower.map_or(0.0, |bound| bound.load));
        let highest = own().map(|result| result.upper.map_or(f64::INFINITY, |bound| bound.load));
        lowest.fold(0.0, f64::max) > highest.fold(f64::INFINITY, f64::min)
    };
    first.iter().map(|result| result.goal.as_str()).filter(|goal| is_apart(goal)).collect()
}

/// Searches, soaks, and says whether repeated searches agree.
///
/// # Errors
/// The failed action, and a remedy.
pub fn run(command: &Search) -> Result<ExitCode, Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    stop_when_interrupted(stop.clone())?;
    let mut searches = Vec::new();
    for number in 1..=command.repeat {
        let bundle = command.bundle.as_ref().map(|path| match command.repeat {
            1 => path.clone(),
            _ => path.with_file_name(numbered(path, number)),
        });
        searches.push(run_once(command, bundle.as_deref(), &stop)?);
    }
    let apart = apart(&searches);
    if command.repeat > 1 {
        println!(
            "{} searches {}",
            command.repeat,
            match apart.is_empty() {
                true => "overlap in every goal".to_owned(),
                false => format!("do not overlap in {}", apart.join(", ")),
            }
        );
    }
    Ok(if apart.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `search.json` as `search-2.json`.
fn numbered(path: &Path, number: u32) -> String {
    let part =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, ending) = (part(path.file_stem()), part(path.extension()));
    format!("{stem}-{number}{}{ending}", if ending.is_empty() { "" } else { "." })
}

/// One search.
fn run_once(
    command: &Search,
    bundle: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Vec<GoalResult>, Box<dyn Error>> {
    let config = command.config()?;
    let load = command.target.options()?;
    let data = command.target.data().map(digest).transpose()?;
    let mut header = header("Throughput search", data.into_iter().collect(), load.seed)?;
    let mut bar = Bar::new();
    let pids = &command.target.server_pids;
    let found = trials(&config, &load, pids, stop, &mut |what, done, of| bar.show(what, done, of));
    bar.end();
    let (mut search, mut runs) = found?;
    for result in &search.results {
        println!("{}", line(result));
    }
    if let Some(length_ns) = command.soak {
        let lower = search.results.first().and_then(|result| result.lower);
        let rate = lower.ok_or("no rate for a soak was found; lower --min")?.load * 0.9;
        let options = at_rate(&load, rate, length_ns, runs.len() as u64);
        let (run, memory) = soak::run(&options, pids, stop)?;
        runs.push(run);
        let soak = SoakRecord::new(runs.len() - 1, memory, &runs)?;
        println!("{}", soak.sentence(&runs[soak.run]));
        search.soak = Some(soak);
    }
    if let (Some(event), Some(words)) = (command.event, &command.event_command) {
        let lower = search.results.first().and_then(|result| result.lower);
        let rate = lower.ok_or("no rate for an event was found; lower --min")?.load * 0.5;
        let event = event::run(event, words, command.watch.as_ref(), &load, rate, stop)?;
        println!("{}", event.sentence());
        search.event = Some(event);
    }
    let results = search.results.clone();
    if let Some(path) = bundle {
        list_changes(&mut header)?;
        write(path, header, runs, Body::Search(Box::new(search)))?;
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_search::Bound;

    fn result(goal: &str, low: Option<f64>, high: Option<f64>) -> GoalResult {
        let bound = |load: f64| Bound { load, trials: 1 };
        GoalResult {
            goal: goal.into(),
            lower: low.map(bound),
            upper: high.map(bound),
            conditional_throughput: low,
            end: End::Width,
        }
    }

    #[test]
    fn goals_whose_intervals_do_not_overlap_are_named() {
        let one = |low: f64, high: Option<f64>| {
            vec![result("NDR", Some(low), high), result("PDR", None, Some(9.0))]
        };
        assert!(apart(&[one(5.0, Some(7.0))]).is_empty());
        assert!(apart(&[one(5.0, Some(7.0)), one(6.0, None)]).is_empty());
        assert_eq!(apart(&[one(5.0, Some(7.0)), one(8.0, None), one(5.0, Some(6.0))]), ["NDR"]);
    }

    #[test]
    fn each_search_has_a_bundle_of_its_own() {
        assert_eq!(numbered(Path::new("a/search.json"), 2), "search-2.json");
        assert_eq!(numbered(Path::new("search"), 1), "search-1");
    }
}
