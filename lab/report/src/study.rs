//! Reproduced studies: steps, their figures compared with the original's, and findings.

use lab::record::{IntervalRecord, RunRecord};
use lab_host::core_sets::Distance;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Result;
use crate::sweep::rates;

mod core_sets;
mod findings;
mod kdns;
mod page;

pub use page::{STEP_COLUMNS, noise, step_comment, step_rows};

/// A study that can be reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StudyName {
    /// ISC, "Benchmarking DNS reliably on multi-core systems" (2015).
    #[serde(rename = "isc-2015")]
    Isc2015,
    /// Sumisho Computer Systems, "BIND multi-core / process performance test" (2008).
    #[serde(rename = "bind-2008")]
    Bind2008,
    /// JD.com, "ContainerDNS performance: 170 k to 10 M QPS" (2018).
    #[serde(rename = "kdns")]
    Kdns,
    /// HereticOS, a virtual switch of containers (2019): its body is `crate::fabric`'s.
    #[serde(rename = "heretic-2019")]
    Heretic2019,
}

impl StudyName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Isc2015, Self::Bind2008, Self::Kdns, Self::Heretic2019];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Isc2015 => "isc-2015",
            Self::Bind2008 => "bind-2008",
            Self::Kdns => "kdns",
            Self::Heretic2019 => "heretic-2019",
        }
    }

    /// Figures of the original.
    pub fn original(self) -> Value {
        let all: Value = serde_json::from_str(include_str!("study/originals.json"))
            .expect("the file in the repository is JSON");
        all[self.name()].clone()
    }
}

/// A reproduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Which study.
    pub name: StudyName,
    /// Whether runs were shortened.
    pub quick: bool,
    /// CPUs that servers could use.
    pub cpus: usize,
    /// Figures of the original.
    pub original: Value,
    /// Its steps in the original's order.
    pub steps: Vec<Step>,
    /// Its findings, each with an outcome.
    pub findings: Vec<Finding>,
}

/// A step of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A short key, such as `default-client`.
    pub key: String,
    /// Its title.
    pub title: String,
    /// The original's words or figures.
    pub original: String,
    /// Groups of repeated runs.
    pub groups: Vec<Group>,
    /// Why it was not run; empty: it was.
    pub skipped: String,
}

/// Repeated runs of one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its label, such as `2 processes`.
    pub label: String,
    /// Its value on the x axis, such as the number of processes.
    pub number: f64,
    /// Indexes of its runs.
    pub runs: Vec<usize>,
    /// Whether a run counts by its best interval, as `resperf` has it, not by its mean.
    pub peak: bool,
    /// Lowest, mean and highest answers a second.
    pub range: Option<Range>,
    /// How near each CPU of its core set is to the CPU that receives packets; empty where the
    /// setting is not a core set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<Distance>,
}

/// Lowest, mean and highest of repeated runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The lowest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The highest.
    pub max: f64,
}

impl Range {
    /// That of some values; none for none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self { min, mean: values.iter().sum::<f64>() / values.len() as f64, max })
    }

    /// Whether every run of `self` is above every run of `other`.
    pub fn is_above(&self, other: &Self) -> bool {
        self.min > other.max
    }
}

/// A finding of the original, compared with today's runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The original's finding.
    pub claim: String,
    /// Whether it holds here.
    pub outcome: FindingOutcome,
    /// Why, with numbers.
    pub because: String,
}

impl Finding {
    /// Its row in a table: the claim, what holds here, and why.
    pub fn row(&self) -> [String; 3] {
        [self.claim.clone(), self.outcome.words().into(), self.because.clone()]
    }
}

/// Whether a finding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingOutcome {
    /// It is confirmed here.
    Holds,
    /// It does not.
    DoesNotHold,
    /// It cannot be seen on this machine or in these runs.
    NotVisible,
}

impl FindingOutcome {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotVisible => "cannot be seen here",
        }
    }
}

impl Step {
    /// A step that was not run.
    pub fn skipped(key: &str, title: &str, original: &str, why: &str) -> Self {
        Self {
            key: key.into(),
            title: title.into(),
            original: original.into(),
            groups: Vec::new(),
            skipped: why.into(),
        }
    }

    /// The group with the highest mean.
    pub fn best(&self) -> Option<(&Group, Range)> {
        let measured = self.groups.iter().filter_map(|group| Some((group, group.range?)));
        measured.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
    }

    /// The group of a number.
    pub fn at(&self, number: f64) -> Option<Range> {
        self.groups.iter().find(|group| group.number == number)?.range
    }
}

impl Group {
    /// Answers a second of its runs.
    ///
    /// # Errors
    /// It names a run that is not there.
    pub fn rates(&self, runs: &[RunRecord]) -> Result<Vec<f64>> {
        let means = rates(&self.runs, runs)?;
        if !self.peak {
            return Ok(means);
        }
        Ok(self
            .runs
            .iter()
            .map(|index| interval_rates(&runs[*index]).fold(0.0, f64::max))
            .collect())
    }
}

/// Answers a second of each interval, except a shorter last one.
pub fn interval_rates(run: &RunRecord) -> impl Iterator<Item = f64> {
    let length_ns = |interval: &IntervalRecord| interval.until_ns.saturating_sub(interval.since_ns);
    let longest_ns = run.intervals.iter().map(length_ns).max().unwrap_or(0);
    let is_whole = move |interval: &&IntervalRecord| length_ns(interval) * 10 >= longest_ns * 9;
    let rate = move |interval: &IntervalRecord| {
        interval.answered as f64 * 1e9 / length_ns(interval).max(1) as f64
    };
    run.intervals.iter().filter(is_whole).map(rate)
}

impl Study {
    /// A study whose numbers and findings follow from the runs.
    ///
    /// # Errors
    /// A group names a run that is not there.
    pub fn new(
        name: StudyName,
        quick: bool,
        cpus: usize,
        mut steps: Vec<Step>,
        runs: &[RunRecord],
    ) -> Result<Self> {
        for group in steps.iter_mut().flat_map(|step| &mut step.groups) {
            group.range = Range::of(&group.rates(runs)?);
        }
        let findings = findings::evaluate(name, cpus, &steps, runs);
        Ok(Self { name, quick, cpus, original: name.original(), steps, findings })
    }
}
