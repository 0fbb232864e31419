//! A soak: one rate for a long time, and the memory of the server's processes meanwhile.

use lab::record::RunRecord;
use lab::verdict::{percent, thousands};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::study::interval_rates;

/// The share of the planned rate below which an interval is a gap.
pub const GAP: f64 = 0.99;

/// A soak, raw data first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakRecord {
    /// The index of its run.
    pub run: usize,
    /// Memory of the server's processes; empty for a server on another machine.
    pub memory: Vec<MemorySample>,
    /// Numbers that follow from the above.
    pub result: SoakResult,
}

/// Memory of the server's processes at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySample {
    /// Seconds since the soak began.
    pub at_s: f64,
    /// Resident bytes.
    pub bytes: u64,
}

/// Numbers of a soak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakResult {
    /// Answers a second of the worst interval.
    pub worst: f64,
    /// Intervals with less than [`GAP`] of the planned rate.
    pub gaps: usize,
    /// Whole intervals.
    pub intervals: usize,
    /// Seconds of an interval.
    pub interval_s: f64,
    /// Growth of memory, bytes a second; none for fewer than three samples.
    pub growth: Option<f64>,
}

impl SoakRecord {
    /// A soak whose numbers follow from its run and samples.
    ///
    /// # Errors
    /// There is no such run, or it has no intervals.
    pub fn new(run: usize, memory: Vec<MemorySample>, runs: &[RunRecord]) -> Result<Self> {
        let result = evaluate(runs.get(run).ok_or("soak: there is no such run")?, &memory);
        result.map(|result| Self { run, memory, result })
    }

    /// The result in a sentence.
    pub fn sentence(&self, run: &RunRecord) -> String {
        let SoakResult { worst, gaps, intervals, interval_s, growth } = self.result;
        let memory = match (growth, self.memory.last()) {
            (Some(growth), Some(last)) => {
                let mib = last.bytes as f64 / f64::from(1 << 20);
                format!("memory {mib:.1} MiB, {:+.1} KiB a minute", growth * 60.0 / 1_024.0)
            }
            _ => "memory unknown".into(),
        };
        let count = |rate: f64| thousands(rate.round() as u64);
        format!(
            "soak: {} answers/s for {} s at {} queries/s; the worst {interval_s:.0} s had {}/s; \
             {gaps} of {intervals} intervals below {}; {memory}",
            count(run.derived.answered_rate),
            run.seconds,
            count(run.rate.unwrap_or(0.0)),
            count(worst),
            percent(GAP)
        )
    }
}

fn evaluate(run: &RunRecord, memory: &[MemorySample]) -> Result<SoakResult> {
    let rates: Vec<f64> = interval_rates(run).collect();
    let planned = run.rate.ok_or("soak: its run has no planned rate")?;
    let first = run.intervals.first().ok_or("soak: its run has no intervals")?;
    let samples: Vec<(f64, f64)> = memory.iter().map(|m| (m.at_s, m.bytes as f64)).collect();
    let line = crate::statistics::line_through(&samples).filter(|_| samples.len() >= 3);
    Ok(SoakResult {
        worst: rates.iter().copied().fold(f64::INFINITY, f64::min),
        gaps: rates.iter().filter(|rate| **rate < planned * GAP).count(),
        intervals: rates.len(),
        interval_s: first.until_ns.saturating_sub(first.since_ns) as f64 / 1e9,
        growth: line.map(|(slope, _)| slope),
    })
}
