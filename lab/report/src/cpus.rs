//! Experiments with CPUs of their own: raw results of each run, and what follows from them.

use lab::record::{RunRecord, SparseHistogram};
use lab::statistics::median;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::study::{Finding, FindingOutcome, Range};

/// Experiments of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuExperiments {
    /// Whether there were fewer and shorter runs.
    pub quick: bool,
    /// CPUs of the machine.
    pub cpus: usize,
    /// The experiments.
    pub steps: Vec<CpuStep>,
    /// Whether each pair of settings differs.
    pub findings: Vec<Finding>,
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuStep {
    /// A short key, such as `victim`.
    pub key: String,
    /// Its title.
    pub title: String,
    /// Which workloads run together.
    pub about: String,
    /// Repeated runs of each setting.
    pub series: Vec<CpuSeries>,
    /// The runs that were left out, and why.
    pub skipped: Vec<String>,
}

/// Repeated runs of a workload in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuSeries {
    /// What was measured, such as `memory-bound kernel`.
    pub workload: String,
    /// The quality of service of each workload.
    pub setting: String,
    /// Whether the manager ran.
    pub is_managed: bool,
    /// Its runs.
    pub runs: Vec<CpuRun>,
    /// Each run relative to the best of this workload in all settings: 1 is the best.
    pub normalized: Vec<f64>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuRun {
    /// Raw results.
    pub raw: CpuResult,
    /// `nr_throttled` of the group during the run.
    pub throttled: u64,
}

/// Raw results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuResult {
    /// Units of work, and how long they took.
    Work {
        /// Units.
        units: u64,
        /// Seconds.
        seconds: f64,
    },
    /// Times of bursts, ns, from when each was due.
    Bursts(SparseHistogram),
    /// The index of a run of queries.
    Queries(usize),
}

/// The share of answers and bursts that a latency covers.
const SHARE: f64 = 0.99;

impl CpuResult {
    /// Its figure: work a second, or the 99th percentile of times in ms.
    ///
    /// # Errors
    /// It names a run that is not there, or has nothing in it.
    pub fn value(&self, runs: &[RunRecord]) -> Result<f64> {
        let p99 = |times: &SparseHistogram| {
            let p99 = times.is_valid().then(|| times.quantile(SHARE)).flatten();
            p99.map(|ns| ns as f64 / 1e6).ok_or_else(|| "cpus: a run without times".to_owned())
        };
        match self {
            Self::Work { units, seconds } if *seconds > 0.0 && *units > 0 => {
                Ok(*units as f64 / seconds)
            }
            Self::Work { .. } => Err("cpus: a run without work".into()),
            Self::Bursts(times) => p99(times),
            Self::Queries(index) => {
                let run = runs.get(*index).ok_or("cpus: a run that is not there")?;
                p99(&run.response)
            }
        }
    }

    /// Whether more is better, and the unit.
    pub const fn unit(&self) -> (bool, &'static str) {
        match self {
            Self::Work { .. } => (true, "units/s"),
            Self::Bursts(_) | Self::Queries(_) => (false, "ms, p99"),
        }
    }
}

impl CpuSeries {
    /// Figures of its runs, and their unit.
    ///
    /// # Errors
    /// As [`CpuResult::value`].
    pub fn values(&self, runs: &[RunRecord]) -> Result<Vec<f64>> {
        self.runs.iter().map(|run| run.raw.value(runs)).collect()
    }

    /// Whether more is better, and the unit.
    pub fn unit(&self) -> (bool, &'static str) {
        self.runs.first().map_or((true, ""), |run| run.raw.unit())
    }

    /// Periods in which the group was throttled, in all runs.
    pub fn throttled(&self) -> u64 {
        self.runs.iter().map(|run| run.throttled).fold(0, u64::saturating_add)
    }

    /// Its name in drawings and tables.
    pub fn name(&self) -> String {
        let manager = if self.is_managed { "with" } else { "without" };
        format!("{}, {}, {manager}", self.workload, self.setting)
    }
}

impl CpuStep {
    /// An experiment without runs.
    pub fn new(key: &str, title: &str, about: &str) -> Self {
        let (key, title, about) = (key.into(), title.into(), about.into());
        Self { key, title, about, series: Vec::new(), skipped: Vec::new() }
    }

    /// The name of its drawing.
    pub fn id(&self) -> String {
        format!("cpus-{}", self.key)
    }

    /// Adds a run to its series.
    pub fn add(&mut self, workload: &str, setting: &str, is_managed: bool, run: CpuRun) {
        let is_same = |one: &CpuSeries| {
            (one.workload.as_str(), one.setting.as_str(), one.is_managed)
                == (workload, setting, is_managed)
        };
        let at = self.series.iter().position(is_same).unwrap_or_else(|| {
            let (workload, setting) = (workload.into(), setting.into());
            let (runs, normalized) = (Vec::new(), Vec::new());
            self.series.push(CpuSeries { workload, setting, is_managed, runs, normalized });
            self.series.len() - 1
        });
        self.series[at].runs.push(run);
    }

    fn normalize(&mut self, runs: &[RunRecord]) -> Result<()> {
        let values = self.series.iter().map(|one| one.values(runs));
        let values = values.collect::<Result<Vec<Vec<f64>>>>()?;
        for at in 0..self.series.len() {
            let workload = &self.series[at].workload;
            let (is_more_better, unit) = self.series[at].unit();
            let same = self.series.iter().zip(&values).filter(|(one, _)| one.workload == *workload);
            if same.clone().any(|(one, _)| one.unit().1 != unit) {
                return Err(format!("cpus: {workload} is measured in two units"));
            }
            let all = same.flat_map(|(_, values)| values).copied();
            let best = if is_more_better { all.reduce(f64::max) } else { all.reduce(f64::min) };
            let best = best.ok_or_else(|| format!("cpus: {workload} has no run"))?;
            let share = |value: &f64| if is_more_better { value / best } else { best / value };
            let shares = values[at].iter().map(share).collect();
            self.series[at].normalized = shares;
        }
        Ok(())
    }

    /// A finding for each setting that was run with and without the manager.
    fn findings(&self) -> Vec<Finding> {
        let pairs = self.series.iter().filter(|one| one.is_managed).filter_map(|with| {
            let is_pair = |one: &&CpuSeries| {
                !one.is_managed && (&one.workload, &one.setting) == (&with.workload, &with.setting)
            };
            Some((with, self.series.iter().find(is_pair)?))
        });
        pairs.map(|(with, without)| finding(&self.title, with, without)).collect()
    }
}

fn finding(title: &str, with: &CpuSeries, without: &CpuSeries) -> Finding {
    let ranges = Range::of(&with.normalized).zip(Range::of(&without.normalized));
    let outcome = match ranges {
        Some((with, without)) if with.is_above(&without) => FindingOutcome::Holds,
        Some((with, without)) if without.is_above(&with) => FindingOutcome::DoesNotHold,
        _ => FindingOutcome::NotVisible,
    };
    let side = |one: &CpuSeries| {
        let range = Range::of(&one.normalized).unwrap_or(Range { min: 0.0, mean: 0.0, max: 0.0 });
        let median = median(&one.normalized).unwrap_or(0.0);
        format!("median {median:.3}, {:.3} to {:.3}", range.min, range.max)
    };
    Finding {
        claim: format!("{title}: {}, {}: better with the manager", with.workload, with.setting),
        outcome,
        because: format!(
            "with {}, throttled {} times; without {}, throttled {} times",
            side(with),
            with.throttled(),
            side(without),
            without.throttled()
        ),
    }
}

/// Columns of an experiment's table.
pub const COLUMNS: [&str; 9] = [
    "box",
    "workload",
    "setting",
    "manager",
    "runs",
    "median",
    "lowest",
    "median of 1",
    "throttled",
];

impl CpuExperiments {
    /// Experiments whose numbers and findings follow from the runs.
    ///
    /// # Errors
    /// A series names a run that is not there, or a run is empty.
    pub fn new(
        quick: bool,
        cpus: usize,
        mut steps: Vec<CpuStep>,
        runs: &[RunRecord],
    ) -> Result<Self> {
        steps.iter_mut().try_for_each(|step| step.normalize(runs))?;
        let findings = steps.iter().flat_map(CpuStep::findings).collect();
        Ok(Self { quick, cpus, steps, findings })
    }
}

/// Rows of an experiment's table.
pub fn rows(step: &CpuStep, runs: &[RunRecord]) -> Vec<Vec<String>> {
    let row = |(number, one): (usize, &CpuSeries)| {
        let value = median(&one.values(runs).unwrap_or_default()).unwrap_or(0.0);
        let lowest = one.normalized.iter().copied().fold(f64::INFINITY, f64::min);
        vec![
            (number + 1).to_string(),
            one.workload.clone(),
            one.setting.clone(),
            if one.is_managed { "yes" } else { "no" }.into(),
            one.runs.len().to_string(),
            format!("{value:.3} {}", one.unit().1),
            format!("{lowest:.3}"),
            format!("{:.3}", median(&one.normalized).unwrap_or(0.0)),
            one.throttled().to_string(),
        ]
    };
    step.series.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(units: u64) -> CpuRun {
        CpuRun { raw: CpuResult::Work { units, seconds: 2.0 }, throttled: 0 }
    }

    fn bursts(ms: u64) -> CpuRun {
        let bucket = SparseHistogram::bucket(ms * 1_000_000);
        CpuRun { raw: CpuResult::Bursts(SparseHistogram(vec![(bucket, 10)])), throttled: 3 }
    }

    #[test]
    fn runs_are_normalized_to_the_best_of_their_workload() {
        let mut step = CpuStep::new("victim", "A victim", "");
        for (units, ms) in [(50, 20), (80, 40)] {
            step.add("kernel", "g", false, work(units));
            step.add("kernel", "g", true, work(units + 50));
            step.add("burst", "g", true, bursts(ms));
            step.add("burst", "g", false, bursts(ms * 4));
        }
        let done = CpuExperiments::new(false, 2, vec![step], &[]).unwrap();
        let of = |at: usize| &done.steps[0].series[at].normalized;
        assert_eq!((of(1)[1], of(0)[0]), (1.0, 50.0 / 130.0));
        assert!((of(2)[0] - 1.0).abs() < 1e-9 && (of(3)[1] - 0.125).abs() < 0.01, "{done:?}");
        let outcomes: Vec<_> = done.findings.iter().map(|finding| finding.outcome).collect();
        assert_eq!(outcomes, [FindingOutcome::Holds, FindingOutcome::Holds]);
        assert!(done.findings[1].because.contains("throttled 6 times"), "{:?}", done.findings);
    }

    #[test]
    fn runs_that_overlap_show_nothing_and_empty_ones_are_errors() {
        let mut step = CpuStep::new("victim", "A victim", "");
        for units in [50, 90] {
            step.add("kernel", "g", false, work(units));
            step.add("kernel", "g", true, work(70));
        }
        let done = CpuExperiments::new(false, 2, vec![step.clone()], &[]).unwrap();
        assert_eq!(done.findings[0].outcome, FindingOutcome::NotVisible);
        step.add("kernel", "g", true, work(0));
        assert!(CpuExperiments::new(false, 2, vec![step.clone()], &[]).is_err());
        step.series[1].runs[2].raw = CpuResult::Queries(7);
        assert!(CpuExperiments::new(false, 2, vec![step], &[]).is_err());
    }
}
