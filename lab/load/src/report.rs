//! Results of a load, in total and by interval.

use crate::counts::{QueryCounts, Times};
use hdrhistogram::Histogram;

/// An interval of a load that runs.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When the load began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// Its beginning and its end, in nanoseconds since the load began.
    pub since_ns: u64,
    /// See above.
    pub until_ns: u64,
    /// Counts of the interval.
    pub counts: QueryCounts,
    /// Of it.
    pub times: Times,
    /// Counts since the load began.
    pub whole: QueryCounts,
}

/// A snapshot as a report keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondStats {
    /// As in [`Snapshot`].
    pub since_ns: u64,
    /// As in [`Snapshot`].
    pub until_ns: u64,
    /// Counts of the interval.
    pub counts: QueryCounts,
    /// Of its response times.
    pub p50: Quantile,
    /// As above.
    pub p99: Quantile,
}

/// One thread of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The CPU it was pinned to.
    pub cpu: Option<usize>,
    /// CPU time it used, in nanoseconds.
    pub cpu_ns: u64,
    /// Time for which it could have run and did not, in nanoseconds (`schedstat`).
    pub delay_ns: u64,
    /// Bytes of its table.
    pub table_bytes: usize,
    /// Frames that came without the network stack and that there was no room for; those for sockets
    /// the kernel counts.
    pub dropped: u64,
    /// Answers that came through the network stack, though queries went past it.
    pub detoured: u64,
    /// Its counts.
    pub counts: QueryCounts,
}

/// A load that is over.
#[derive(Clone, Debug)]
pub struct Report {
    /// When it began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// From its beginning to the last sent query or the last answer, whichever was later.
    pub busy_ns: u64,
    /// From its beginning until no query was under way.
    pub whole_ns: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Counts of all queries.
    pub counts: QueryCounts,
    /// How long that took.
    pub times: Times,
    /// The timeout of a query, in nanoseconds: a time of this value means this long or longer.
    pub timeout_ns: u64,
    /// Interval by interval, the first [`crate::limits::SERIES_MAX`].
    pub series: Vec<SecondStats>,
    /// Of each thread.
    pub threads: Vec<Thread>,
}

impl Report {
    /// Answers a second, right ones in time.
    pub fn rate(&self) -> f64 {
        self.counts.answered as f64 / self.seconds()
    }

    /// Queries a second that were sent.
    pub fn sent_rate(&self) -> f64 {
        self.counts.sent as f64 / self.seconds()
    }

    fn seconds(&self) -> f64 {
        self.busy_ns.max(1) as f64 / 1e9
    }

    /// CPU time of all threads for each query that was sent, in nanoseconds.
    pub fn cpu_ns_a_query(&self) -> f64 {
        let used: u64 = self.threads.iter().map(|thread| thread.cpu_ns).sum();
        used as f64 / self.counts.sent.max(1) as f64
    }

    /// The quantile of response or service times at this share.
    pub fn quantile(&self, of: &Histogram<u64>, share: f64) -> Quantile {
        Quantile::of(of, share, self.timeout_ns)
    }

    /// The mean of the times of answers: what timed out has none, and is left out. An answer in
    /// time to a query that was sent late may have taken longer than the timeout from when it was
    /// due.
    /// Nothing where there was no answer.
    pub fn mean_of_answered(&self, of: &Histogram<u64>) -> Option<f64> {
        let (mut sum, mut count) = (0.0, 0);
        for bucket in of.iter_recorded() {
            let value = of.median_equivalent(bucket.value_iterated_to());
            if !of.equivalent(value, self.timeout_ns) {
                sum += value as f64 * bucket.count_since_last_iteration() as f64;
                count += bucket.count_since_last_iteration();
            }
        }
        (count > 0).then(|| sum / count as f64)
    }
}

/// A time below which a share of all lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// There was nothing.
    None,
    /// This many nanoseconds.
    Of(u64),
    /// More than this, in nanoseconds; how much more is not known, as queries timed out.
    MoreThan(u64),
}

impl Quantile {
    /// Of a histogram in which everything from `censored_ns` on is only known to be more.
    pub fn of(histogram: &Histogram<u64>, share: f64, censored_ns: u64) -> Self {
        if histogram.is_empty() {
            return Self::None;
        }
        let value = histogram.value_at_quantile(share);
        // A value stands for all that fall into its bucket.
        match value >= histogram.lowest_equivalent(censored_ns) {
            true => Self::MoreThan(censored_ns),
            false => Self::Of(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_sent_answers_count_in_the_mean() {
        let mut times = Times::new();
        times.response.record_n(1_000_000, 2).unwrap();
        times.response.record_n(5_000_000_000, 7).unwrap();
        times.response.record_n(8_000_000_000, 2).unwrap();
        let report = Report {
            began_ns: 0,
            busy_ns: 0,
            whole_ns: 0,
            stopped: false,
            counts: QueryCounts::default(),
            times,
            timeout_ns: 5_000_000_000,
            series: Vec::new(),
            threads: Vec::new(),
        };
        let mean = report.mean_of_answered(&report.times.response).unwrap();
        assert!((4.0e9..4.01e9).contains(&mean), "{mean}");
    }

    #[test]
    fn a_quantile_among_timeouts_is_no_number() {
        let mut times = Times::new().response;
        assert_eq!(Quantile::of(&times, 0.5, 5_000_000_000), Quantile::None);
        (1..=98).for_each(|time| times.record(time * 1_000).unwrap());
        times.record_n(5_000_000_000, 2).unwrap();
        assert_eq!(Quantile::of(&times, 0.98, 5_000_000_000), Quantile::Of(98_047));
        assert_eq!(Quantile::of(&times, 0.99, 5_000_000_000), Quantile::MoreThan(5_000_000_000));
    }
}
