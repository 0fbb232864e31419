//! The bundle: one JSON file with the raw data of all runs and the results that follow from it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use lab::compare::Comparison;
use lab::record::{Outcomes, RunRecord};
use lab_host::manifest::Manifest;
use lab_search::{Config, GoalResult, Outcome, Search};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Result;
use crate::cpus::CpuExperiments;
use crate::event::EventRecord;
use crate::fabric::FabricStudy;
use crate::limits::{BUNDLE_BYTES_MAX, RUNS_MAX};
use crate::soak::SoakRecord;
use crate::study::Study;
use crate::sweep::Sweep;

/// The value of `format`.
pub const FORMAT: &str = "dunlin-lab bundle";
/// The version that this program reads and writes.
pub const VERSION: u32 = 3;
/// The share of due queries that a generator may fail to send before a trial is void.
pub const UNSENT_MAX: f64 = 0.001;

/// A bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Where and how it was measured.
    pub header: Header,
    /// All runs, raw.
    pub runs: Vec<RunRecord>,
    /// Results.
    pub body: Body,
    /// SHA-256 of the file with this field empty.
    pub sha256: String,
}

/// Where and how a bundle was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// A title.
    pub title: String,
    /// When it began, such as `2026-11-21`.
    pub date: String,
    /// Commands that measure the same again, a word each.
    pub commands: Vec<Vec<String>>,
    /// Input files: names, sizes and hashes.
    pub data: Vec<String>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The machine, in lines for a reader.
    pub machine: Vec<String>,
    /// The machine, before the first run.
    pub manifest: Manifest,
    /// Differences of the machine after the last run.
    pub changes: Vec<String>,
    /// Limits of these measurements, such as a scaled-down length.
    pub remarks: Vec<String>,
}

/// Results by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A comparison of servers; its trials hold their own raw data.
    Compare(Box<Comparison>),
    /// A throughput search.
    Search(Box<SearchRecord>),
    /// A sweep over settings.
    Sweep(Sweep),
    /// A reproduced study.
    Study(Study),
    /// Experiments with CPUs of their own.
    Cpus(CpuExperiments),
    /// Traffic between two ends of a machine.
    Fabric(FabricStudy),
}

impl Header {
    /// The commands as a shell takes them, a line each.
    pub fn command_lines(&self) -> Vec<String> {
        self.commands.iter().map(|words| command_line(words)).collect()
    }
}

/// Words as a shell takes them: those with other characters than usual ones are quoted.
pub fn command_line(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

impl Body {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compare(_) => "compare",
            Self::Search(_) => "search",
            Self::Sweep(_) => "sweep",
            Self::Study(_) => "study",
            Self::Cpus(_) => "cpus",
            Self::Fabric(_) => "fabric",
        }
    }
}

/// A search with its trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchRecord {
    /// Its goals and range.
    pub config: Config,
    /// Its trials in their order.
    pub trials: Vec<SearchTrial>,
    /// The result of each goal.
    pub results: Vec<GoalResult>,
    /// The soak after it, if there was one.
    pub soak: Option<SoakRecord>,
    /// The event under load after it, if there was one.
    pub event: Option<EventRecord>,
}

/// A trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchTrial {
    /// Its index in the runs.
    pub run: usize,
    /// The requested load, queries a second.
    pub load: f64,
    /// The requested duration, seconds.
    pub duration_s: f64,
}

impl SearchRecord {
    /// The outcome of a run for the goals of a search.
    pub fn outcome(config: &Config, run: &RunRecord) -> Outcome {
        let Outcomes { planned, unsent, answered, .. } = run.outcomes;
        let planned_f = planned.max(1) as f64;
        if unsent as f64 > planned_f * UNSENT_MAX {
            return Outcome::Void;
        }
        let loss = |bound: Option<u64>| {
            let within = bound.map_or(answered, |bound| {
                let highest = lab::record::SparseHistogram::highest;
                let buckets = run.response.0.iter().filter(|(lowest, _)| highest(*lowest) <= bound);
                buckets.map(|(_, count)| count).sum::<u64>().min(answered)
            });
            1.0 - within as f64 / planned_f
        };
        Outcome::Losses(config.goals.iter().map(|goal| loss(goal.latency_bound_ns)).collect())
    }

    /// Repeats the search with the recorded runs.
    ///
    /// # Errors
    /// The trials are not those that the search would have requested.
    pub fn replay(&self, runs: &[RunRecord]) -> Result<Vec<GoalResult>> {
        let mut search = Search::new(self.config.clone())?;
        for (number, trial) in self.trials.iter().enumerate() {
            let wrong = |what: &str| format!("search, trial {}: {what}", number + 1);
            let request =
                search.next_trial().ok_or_else(|| wrong("the search had ended before it"))?;
            if request.load != trial.load || request.duration_s != trial.duration_s {
                let lab_search::Request { load, duration_s } = request;
                return Err(wrong(&format!("expected {load} queries/s for {duration_s} s")));
            }
            let run = runs.get(trial.run).ok_or_else(|| wrong("it names no run"))?;
            let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b;
            let is_same = run.rate.is_some_and(|rate| is_near(rate, trial.load));
            if !is_same || !is_near(run.seconds, trial.duration_s) {
                return Err(wrong("its run has another rate or length"));
            }
            search.record(Self::outcome(&self.config, run))?;
        }
        Ok(search.result())
    }
}

impl Bundle {
    /// How many runs it has.
    pub fn run_count(&self) -> usize {
        match &self.body {
            Body::Fabric(study) => study.run_count(),
            _ => self.runs.len(),
        }
    }

    /// A bundle without its hash.
    pub fn new(header: Header, runs: Vec<RunRecord>, body: Body) -> Self {
        Self { format: FORMAT.into(), version: VERSION, header, runs, body, sha256: String::new() }
    }

    /// Its file's text, with the hash.
    pub fn to_text(&self) -> String {
        let unsigned = Self { sha256: String::new(), ..self.clone() };
        let signed = Self { sha256: hash(&json(&unsigned)), ..unsigned };
        json(&signed)
    }

    /// Reads a bundle's text and checks its hash. Numbers are not checked; see [`crate::verify`].
    ///
    /// # Errors
    /// It is not a bundle, of another version, cut off, or changed: which, and where.
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Kind {
            format: String,
            version: u32,
        }
        let kind: Kind = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => {
                format!("the bundle is cut off at its end ({error})")
            }
            _ => format!("this is not a bundle of dunlin-lab ({error})"),
        })?;
        if kind.format != FORMAT {
            return Err(format!("the format is {:?}, expected {FORMAT:?}", kind.format));
        }
        if kind.version != VERSION {
            let remedy = match kind.version > VERSION {
                true => "use a newer dunlin-lab",
                false => "use the dunlin-lab that wrote it, or measure again",
            };
            return Err(format!(
                "the bundle has version {}, this program reads version {VERSION}: {remedy}",
                kind.version
            ));
        }
        let bundle: Self = serde_json::from_str(text)
            .map_err(|error| format!("the bundle is damaged: {error}"))?;
        if bundle.runs.len() > RUNS_MAX {
            return Err(format!("{} runs are more than {RUNS_MAX}", bundle.runs.len()));
        }
        if bundle.to_text() != text {
            return Err("the bundle was changed after it was written: its SHA-256 or its form is \
                        not what its contents give"
                .into());
        }
        Ok(bundle)
    }

    /// Reads a bundle file.
    ///
    /// # Errors
    /// It cannot be read, is too long, or as [`Self::parse`]; with the path.
    pub fn read(path: &Path) -> Result<Self> {
        let told = |why: String| format!("{}: {why}", path.display());
        let text = read_text(path)?;
        Self::parse(&text).map_err(told)
    }

    /// Writes a bundle file: under another name, then renamed, so that an incomplete one never has
    /// its name.
    ///
    /// # Errors
    /// It cannot be written; with the path.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_file(path, &self.to_text())
    }
}

/// Replaces the contents of a file: first written under another name, then renamed.
///
/// # Errors
/// It cannot be written; with the path.
pub fn write_file(path: &Path, text: &str) -> Result<()> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut name = path.file_name().ok_or("a file name is missing")?.to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = File::create(&part)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.map_err(told)
}

/// Reads a text file up to the limit of bundles.
///
/// # Errors
/// It cannot be read, or is too long; with the path.
pub fn read_text(path: &Path) -> Result<String> {
    let told = |why: String| format!("{}: {why}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| told(error.to_string()))?;
    let read = file.take(BUNDLE_BYTES_MAX + 1).read_to_string(&mut text);
    let len = read.map_err(|error| told(error.to_string()))? as u64;
    match len > BUNDLE_BYTES_MAX {
        true => Err(told(format!("it is longer than {} MiB", BUNDLE_BYTES_MAX >> 20))),
        false => Ok(text),
    }
}

fn json(bundle: &Bundle) -> String {
    serde_json::to_string(bundle).expect("a bundle has only string keys") + "\n"
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
