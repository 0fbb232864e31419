//! A run as stored in bundles: raw counts and histograms, and the numbers derived from them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;
use lab_host::counters::Interrupts;
use lab_load::{Options, QueryCounts, Snapshot};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::ceiling::EchoBaseline;
use crate::limits::INTERVALS_MAX;
use crate::observer::{RunResult, measure};
use crate::verdict::{Measurements, Verdict, judge};

/// A histogram: the lowest value of each bucket that is in use, ns, and its count. A bucket is at
/// most 1/64 of its value wide. The list alternates the distance of a bucket from the one before,
/// in buckets and for the first from 0 ns, and its count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct SparseHistogram(pub Vec<(u64, u64)>);

impl From<SparseHistogram> for Vec<u64> {
    fn from(from: SparseHistogram) -> Self {
        let mut before = 0;
        let step = |(lowest, count): (u64, u64)| {
            let number = SparseHistogram::number(lowest);
            let further = number - std::mem::replace(&mut before, number);
            [further, count]
        };
        from.0.into_iter().flat_map(step).collect()
    }
}

impl TryFrom<Vec<u64>> for SparseHistogram {
    type Error = String;

    fn try_from(stored: Vec<u64>) -> std::result::Result<Self, String> {
        let mut number = 0_u64;
        let mut buckets = Vec::with_capacity(stored.len() / 2);
        for pair in stored.chunks(2) {
            let [further, count] = pair else { return Err("a bucket has no count".into()) };
            number = number.saturating_add(*further);
            let lowest = Self::lowest(number).ok_or("a bucket is beyond 64 bits")?;
            buckets.push((lowest, *count));
        }
        Ok(Self(buckets))
    }
}

impl SparseHistogram {
    /// The number of the bucket that begins at `lowest`.
    fn number(lowest: u64) -> u64 {
        let shift = (64 - lowest.leading_zeros()).saturating_sub(7);
        u64::from(shift) * 64 + (lowest >> shift)
    }

    /// The lowest value of the bucket with this number; `None` if it does not exist.
    fn lowest(number: u64) -> Option<u64> {
        let shift = (number / 64).saturating_sub(1);
        (shift <= 57).then(|| (number - shift * 64) << shift)
    }

    /// The lowest value of the bucket that `value` is in.
    pub fn bucket(value: u64) -> u64 {
        let shift = (64 - value.leading_zeros()).saturating_sub(7);
        value >> shift << shift
    }

    /// The highest value of the bucket that begins at `lowest`.
    pub fn highest(lowest: u64) -> u64 {
        let shift = (64 - lowest.leading_zeros()).saturating_sub(7);
        lowest + ((1u64 << shift) - 1)
    }

    /// All values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The highest value of the bucket in which this share of all values ends; none if empty.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|(lowest, count)| {
            seen += count;
            (seen >= rank).then(|| Self::highest(*lowest))
        })
    }

    /// Whether the buckets are valid, in order, and not empty.
    pub fn is_valid(&self) -> bool {
        let in_order = self.0.windows(2).all(|two| two[0].0 < two[1].0);
        in_order && self.0.iter().all(|(v, count)| *count > 0 && Self::bucket(*v) == *v)
    }
}

impl From<&Histogram<u64>> for SparseHistogram {
    fn from(from: &Histogram<u64>) -> Self {
        let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
        for value in from.iter_recorded() {
            let lowest = from.lowest_equivalent(value.value_iterated_to());
            *buckets.entry(Self::bucket(lowest)).or_default() += value.count_at_value();
        }
        Self(buckets.into_iter().collect())
    }
}

/// Outcomes of queries, as in `lab_load::QueryCounts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcomes {
    /// Due by the plan.
    pub planned: u64,
    /// Sent: accepted by the kernel.
    pub sent: u64,
    /// Due and not sent.
    pub unsent: u64,
    /// Right answers in time.
    pub answered: u64,
    /// Right answers after their timeout.
    pub late: u64,
    /// No answer in time.
    pub timeouts: u64,
    /// Wrong answers.
    pub wrong: u64,
}

impl From<&QueryCounts> for Outcomes {
    fn from(counts: &QueryCounts) -> Self {
        let QueryCounts { planned, sent, unsent, answered, late, timeouts, wrong, .. } = *counts;
        Self { planned, sent, unsent, answered, late, timeouts, wrong }
    }
}

/// An interval of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntervalRecord {
    /// Its begin, ns since the run began.
    pub since_ns: u64,
    /// Its end.
    pub until_ns: u64,
    /// Right answers in it.
    pub answered: u64,
    /// Queries that timed out in it.
    pub timeouts: u64,
    /// Its response times; empty in all intervals of a record that leaves them out.
    pub response: SparseHistogram,
}

/// Numbers that follow from the raw data of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// The share of due queries with a right answer in time, 0 to 1.
    pub in_time: f64,
    /// Right answers a second.
    pub answered_rate: f64,
    /// Percentiles of response times, ns; none where they lie among timeouts.
    pub p50_ns: Option<u64>,
    /// As above.
    pub p90_ns: Option<u64>,
    /// As above.
    pub p99_ns: Option<u64>,
    /// As above.
    pub p999_ns: Option<u64>,
    /// What limited the run.
    pub verdict: Verdict,
}

/// A run: raw data first, then the numbers that follow from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// The group of repeated runs that it belongs to, such as `blocking, 2 processes`.
    pub label: String,
    /// Settings that differ between runs, such as `processes`: `2`.
    pub settings: BTreeMap<String, String>,
    /// The planned rate, queries a second; none for a closed loop.
    pub rate: Option<f64>,
    /// The length of the run, seconds.
    pub seconds: f64,
    /// The timeout, ns.
    pub timeout_ns: u64,
    /// Outcomes of queries.
    pub outcomes: Outcomes,
    /// Response times of all queries, unsent ones and timeouts at the timeout.
    pub response: SparseHistogram,
    /// The first intervals.
    pub intervals: Vec<IntervalRecord>,
    /// Interrupts during the run.
    pub interrupts: Interrupts,
    /// CPU time of the server's side for an answer, µs.
    pub cpu_us: Option<f64>,
    /// Memory of the server, bytes.
    pub resident: Option<u64>,
    /// The inputs of the verdict.
    pub measurements: Measurements,
    /// Numbers that follow from the above.
    pub derived: Derived,
}

/// The numbers that follow from raw data.
pub fn derive(
    outcomes: &Outcomes,
    seconds: f64,
    timeout_ns: u64,
    response: &SparseHistogram,
    measurements: &Measurements,
) -> Derived {
    let timeout = SparseHistogram::bucket(timeout_ns);
    let quantile = |share| response.quantile(share).filter(|value| *value < timeout);
    Derived {
        in_time: outcomes.answered as f64 / outcomes.planned.max(1) as f64,
        answered_rate: outcomes.answered as f64 / seconds.max(f64::EPSILON),
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        verdict: judge(measurements),
    }
}

impl RunRecord {
    /// Derives its numbers and its verdict from its raw data by the rules of this version.
    pub fn derive_again(&mut self) {
        let Self { outcomes, response, measurements, .. } = &*self;
        self.derived = derive(outcomes, self.seconds, self.timeout_ns, response, measurements);
    }

    /// Errors in it: contradictory raw data, or numbers that do not follow from it.
    pub fn errors(&self) -> Vec<String> {
        let Self { label, outcomes: o, response, measurements, .. } = self;
        let mut errors = Vec::new();
        let mut expect = |is_right: bool, what: &str| {
            if !is_right {
                errors.push(format!("run {label:?}: {what}"));
            }
        };
        let ends = [o.unsent, o.answered, o.wrong, o.timeouts].into_iter();
        let sum = ends.fold(0u64, u64::saturating_add);
        expect(o.planned == sum, "planned queries are not the sum of their outcomes");
        expect(o.sent.saturating_add(o.unsent) == o.planned, "sent + unsent is not planned");
        expect(response.is_valid(), "response: buckets are out of order, empty or misplaced");
        expect(response.count() == o.planned, "response: its count is not planned");
        let load = &measurements.load;
        let counted = (load.planned, load.sent, load.unsent, load.answered, load.late);
        let same = counted == (o.planned, o.sent, o.unsent, o.answered, o.late);
        expect(same, "measurements.load differs from outcomes");
        let same = (load.timeouts, load.wrong) == (o.timeouts, o.wrong);
        expect(same, "measurements.load differs from outcomes");
        expect(self.seconds > 0.0 && self.seconds.is_finite(), "its length is not a time");
        let is_open = self.rate.is_some();
        expect(is_open == load.open, "the planned rate contradicts measurements.load.open");
        if let Some(rate) = self.rate {
            let planned = rate * self.seconds;
            let is_near = (planned - o.planned as f64).abs() <= 2.0 + 1e-6 * planned;
            expect(is_near, "the planned rate contradicts the planned queries");
        }
        self.check_intervals(&mut expect);
        let cpu = load.answered;
        let side = measurements.server.as_ref().filter(|_| cpu > 0);
        let cpu_us = side.map(|side| (side.process_s + side.kernel_s) * 1e6 / cpu as f64);
        let is_near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        let same = cpu_us.is_none() == self.cpu_us.is_none();
        let same = same && cpu_us.zip(self.cpu_us).is_none_or(is_near);
        expect(same, "cpu_us does not follow from the measurements");
        let derived = derive(o, self.seconds, self.timeout_ns, response, measurements);
        expect(derived == self.derived, "derived numbers do not follow from the raw data");
        errors
    }

    fn check_intervals(&self, expect: &mut impl FnMut(bool, &str)) {
        let mut until_ns = 0;
        let (mut answered, mut timeouts) = (0u64, 0u64);
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for interval in &self.intervals {
            expect(interval.since_ns == until_ns, "an interval does not begin where one ended");
            expect(interval.until_ns > interval.since_ns, "an interval has no length");
            expect(interval.response.is_valid(), "an interval's buckets are invalid");
            until_ns = interval.until_ns;
            answered = answered.saturating_add(interval.answered);
            timeouts = timeouts.saturating_add(interval.timeouts);
            interval.response.0.iter().for_each(|(v, count)| *all.entry(*v).or_default() += count);
        }
        if self.intervals.is_empty() {
            return;
        }
        let is_cut = self.intervals.len() == INTERVALS_MAX;
        let fits = |part: u64, whole: u64| part == whole || is_cut && part < whole;
        expect(fits(answered, self.outcomes.answered), "intervals: answers do not add up");
        expect(fits(timeouts, self.outcomes.timeouts), "intervals: timeouts do not add up");
        let whole: BTreeMap<u64, u64> = self.response.0.iter().copied().collect();
        let is_part = |(value, count): (&u64, &u64)| whole.get(value).is_some_and(|w| count <= w);
        expect(
            all.iter().all(is_part),
            "intervals: their response times are not in the histogram \
                                         of the run",
        );
        let is_all = is_cut || all.is_empty() || all == whole;
        expect(is_all, "intervals: response times do not add up");
    }
}

/// Runs a load and records it; the rate of an echo before and after is its ceiling.
///
/// # Errors
/// As [`measure`] and [`EchoBaseline::around`].
pub fn record(
    label: &str,
    settings: BTreeMap<String, String>,
    options: &Options,
    pids: &[u32],
    echo: Option<&EchoBaseline>,
    stop: &AtomicBool,
) -> Result<RunRecord> {
    let mut intervals = Vec::new();
    let mut interrupts = Interrupts::default();
    let mut seen = |snapshot: &Snapshot| {
        if intervals.len() < INTERVALS_MAX && snapshot.until_ns > snapshot.since_ns {
            intervals.push(IntervalRecord {
                since_ns: snapshot.since_ns,
                until_ns: snapshot.until_ns,
                answered: snapshot.counts.answered,
                timeouts: snapshot.counts.timeouts,
                response: SparseHistogram::from(&snapshot.times.response),
            });
        }
    };
    let mut run = || {
        let before = Interrupts::take();
        let run = measure(options, pids, stop, &mut seen)?;
        interrupts = Interrupts::take().since(&before);
        Ok(run)
    };
    let run = match echo {
        Some(echo) => echo.around(options, stop, run)?,
        None => run()?,
    };
    if options.interval_ns >= options.length_ns {
        // One interval says what the whole says.
        intervals.clear();
    }
    Ok(of_run(label, settings, options, run, intervals, interrupts))
}

fn of_run(
    label: &str,
    settings: BTreeMap<String, String>,
    options: &Options,
    run: RunResult,
    intervals: Vec<IntervalRecord>,
    interrupts: Interrupts,
) -> RunRecord {
    let (cpu_us, resident) = (run.cpu_us(), run.resident);
    let outcomes = Outcomes::from(&run.report.counts);
    let response = SparseHistogram::from(&run.report.times.response);
    let seconds = options.length_ns as f64 / 1e9;
    let (timeout_ns, measurements) = (options.timeout_ns, run.measurements);
    let derived = derive(&outcomes, seconds, timeout_ns, &response, &measurements);
    let rate = match &options.when {
        lab_load::LoadMode::Open(arrivals) => {
            Some(arrivals.rate.queries(options.length_ns) / seconds)
        }
        lab_load::LoadMode::Closed { .. } => None,
    };
    RunRecord {
        label: label.into(),
        settings,
        rate,
        seconds,
        timeout_ns,
        outcomes,
        response,
        intervals,
        interrupts,
        cpu_us,
        resident,
        measurements,
        derived,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_one_64th_wide_at_most() {
        for value in [0, 1, 127, 128, 129, 1_000, 123_456, 5_000_000_000, u64::MAX >> 1] {
            let lowest = SparseHistogram::bucket(value);
            let highest = SparseHistogram::highest(lowest);
            assert!((lowest..=highest).contains(&value), "{value}: {lowest} {highest}");
            assert!(highest - lowest <= lowest / 64, "{value}: {lowest} {highest}");
            assert_eq!(SparseHistogram::bucket(lowest), lowest);
        }
    }

    #[test]
    fn buckets_are_stored_by_their_distance_and_read_again() {
        let values = [0, 1, 127, 128, 130, 255, 256, 1_000_000, 5_000_000_000, u64::MAX];
        let buckets = values.map(|value| (SparseHistogram::bucket(value), value / 2 + 1));
        let all = SparseHistogram(buckets.to_vec());
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.starts_with("[0,1,1,1,126,64,1,65,1,66,62,128,1,129,"), "{text}");
        assert_eq!(serde_json::from_str::<SparseHistogram>(&text).unwrap(), all);
        assert!(all.is_valid());
        let wrong = |text| serde_json::from_str::<SparseHistogram>(text).unwrap_err().to_string();
        assert!(wrong("[1,2,3]").contains("has no count"));
        assert!(wrong("[3775,1,1,1]").contains("beyond 64 bits"));
        assert!(wrong("[1,1,18446744073709551615,1]").contains("beyond 64 bits"));
        // Twice the same bucket.
        assert!(!serde_json::from_str::<SparseHistogram>("[7,1,0,1]").unwrap().is_valid());
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut from = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        (1..=1_000u64).for_each(|value| from.record(value * 1_000).unwrap());
        let sparse = SparseHistogram::from(&from);
        assert!(sparse.is_valid());
        assert_eq!(sparse.count(), 1_000);
        for (share, value) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = sparse.quantile(share).unwrap() as f64;
            assert!((found / value - 1.0).abs() < 1.0 / 64.0, "{share}: {found}");
        }
        assert_eq!(SparseHistogram::default().quantile(0.5), None);
    }
}
