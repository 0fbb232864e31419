//! Output formats of a run: for other programs, for spreadsheets, for HdrHistogram's tools, and
//! text.
//!
//! All four are written from the same [`Period`]s, so they agree.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

mod csv;
mod hlog;
mod metrics;
mod table;

pub use csv::Csv;
pub use hlog::Hlog;
pub use metrics::{Header, Metrics};
pub use table::Table;

/// Outcomes of the queries of one period of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Due by the plan.
    pub planned: u64,
    /// Sent.
    pub sent: u64,
    /// Due and not sent.
    pub unsent: u64,
    /// Answered rightly and in time.
    pub answered: u64,
    /// Answered rightly after their time.
    pub late: u64,
    /// Without an answer in time.
    pub timeouts: u64,
    /// Answered wrongly.
    pub wrong: u64,
    /// Messages that match no query.
    pub unexpected: u64,
    /// Answers by RCODE, where there were any.
    pub rcodes: Vec<(&'static str, u64)>,
}

/// One period of a run: an interval, or the whole run.
#[derive(Clone, Debug)]
pub struct Period<'a> {
    /// When it began.
    pub since: SystemTime,
    /// When it ended.
    pub until: SystemTime,
    /// Outcomes of its queries.
    pub counts: Counts,
    /// From when a query was due to its answer, ns; timeouts at their value.
    pub response: &'a Histogram<u64>,
    /// From when it was sent to its answer, ns; timeouts at their value.
    pub service: &'a Histogram<u64>,
    /// From when it was due to when it was sent, ns.
    pub lateness: &'a Histogram<u64>,
}

impl Period<'_> {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.until.duration_since(self.since).unwrap_or_default().as_secs_f64()
    }
}

/// The percentiles that are written, and their names.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p999", 99.9), ("p9999", 99.99)];

/// A percentile of a histogram that counts timeouts at the timeout's value: a time, or more than
/// the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    /// So long, ns.
    KnownTimes(u64),
    /// Longer than the timeout, ns.
    Above(u64),
}

impl Percentile {
    /// That of `histogram`, of answers that were waited for `timeout`.
    pub fn of(histogram: &Histogram<u64>, percentile: f64, timeout: Duration) -> Self {
        let timeout = ns(timeout);
        let value = histogram.value_at_percentile(percentile);
        // The histogram rounds: a value that it cannot distinguish from the timeout counts as a
        // timeout.
        match value >= timeout || histogram.equivalent(value, timeout) {
            true => Self::Above(timeout),
            false => Self::KnownTimes(value),
        }
    }

    /// The time, where it is known.
    pub fn known(self) -> Option<u64> {
        match self {
            Self::KnownTimes(value) => Some(value),
            Self::Above(_) => None,
        }
    }
}

impl std::fmt::Display for Percentile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&match self {
            Self::KnownTimes(value) => time(*value),
            Self::Above(timeout) => format!("> {}", time(*timeout)),
        })
    }
}

/// Formats a time in ns: `85 µs`, `1.25 ms`, `2 s`.
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let text = match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text} {unit}")
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since 1970.
fn since_1970(time: SystemTime) -> u64 {
    ns(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests;
