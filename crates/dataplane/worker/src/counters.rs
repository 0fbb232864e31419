//! Counters of every data plane thread.

use packet::DropReason;
use port::Burst;
use std::time::Duration;
use sync::{Counters, CountersView};

/// Counters of one thread: bursts, received, replied, one for each [`DropReason`], and the
/// [`LatencyHistogram`].
pub const COUNTERS: usize = LATENCY_SUM + 1;
const BURSTS: usize = 0;
const RECEIVED: usize = 1;
const REPLIED: usize = 2;
const FIRST_DROP: usize = 3;
const FIRST_LATENCY: usize = FIRST_DROP + DropReason::COUNT;
const LATENCY_SUM: usize = FIRST_LATENCY + LatencyHistogram::BUCKETS;

/// Counts a burst that was not empty. `took` is the time from reading it until the kernel had its
/// replies.
#[inline]
pub fn count(counters: &mut Counters<COUNTERS>, burst: &Burst, took: Duration) {
    counters.add(BURSTS, 1);
    counters.add(RECEIVED, burst.received as u64);
    count_done(counters, burst, took);
}

/// Counts the results of packets that were received, or deferred, `took` ago.
#[inline]
pub fn count_done(counters: &mut Counters<COUNTERS>, burst: &Burst, took: Duration) {
    let done = (burst.replied + burst.dropped.iter().sum::<usize>()) as u64;
    counters.add(REPLIED, burst.replied as u64);
    counters.add(FIRST_LATENCY + LatencyHistogram::bucket(took), done);
    let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    counters.add(LATENCY_SUM, nanos.saturating_mul(done));
    for (reason, &n) in burst.dropped.iter().enumerate() {
        if n > 0 {
            counters.add(FIRST_DROP + reason, n as u64);
        }
    }
}

/// Totals of one or several threads. Every message is counted once. Between two bursts, `received`
/// = `replied` + all of `dropped` + deferred messages; `latency` counts the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerTotals {
    /// Bursts that were not empty; `received / bursts` shows the load of a worker.
    pub bursts: u64,
    /// Messages received.
    pub received: u64,
    /// Replies sent.
    pub replied: u64,
    /// Messages not answered, by reason ([`DropReason`] is the index).
    pub dropped: [u64; DropReason::COUNT],
    /// Processing times of messages.
    pub latency: LatencyHistogram,
}

impl WorkerTotals {
    /// The sums over the threads of `views`.
    pub fn sum<'a>(views: impl IntoIterator<Item = &'a CountersView<COUNTERS>>) -> Self {
        let sums = CountersView::sum(views);
        Self {
            bursts: sums[BURSTS],
            received: sums[RECEIVED],
            replied: sums[REPLIED],
            dropped: std::array::from_fn(|reason| sums[FIRST_DROP + reason]),
            latency: LatencyHistogram {
                counts: std::array::from_fn(|bucket| sums[FIRST_LATENCY + bucket]),
                sum: Duration::from_nanos(sums[LATENCY_SUM]),
            },
        }
    }
}

/// Processing times of messages, from reading them until the kernel has their replies. Dropped
/// messages are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Messages that took longer than the bound before and at most the bound at the same index; the
    /// last bucket has no bound.
    pub counts: [u64; LatencyHistogram::BUCKETS],
    /// The sum of all times.
    pub sum: Duration,
}

impl LatencyHistogram {
    /// Buckets: one more than there are bounds.
    pub const BUCKETS: usize = 25;

    /// The buckets' upper bounds: 1 µs, each twice the one before, up to 8.4 s.
    pub fn bounds() -> [Duration; Self::BUCKETS - 1] {
        std::array::from_fn(|bucket| Duration::from_micros(1 << bucket))
    }

    /// The bucket of a time.
    #[inline]
    fn bucket(took: Duration) -> usize {
        let micros = took.as_nanos().div_ceil(1_000);
        let micros = u32::try_from(micros).map_or(1 << 31, |micros| micros.min(1 << 31));
        (micros.next_power_of_two().trailing_zeros() as usize).min(Self::BUCKETS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_ends_with_its_bound() {
        let bounds = LatencyHistogram::bounds();
        assert_eq!(bounds[0], Duration::from_micros(1));
        assert_eq!(bounds[23], Duration::from_micros(8_388_608));
        assert_eq!(LatencyHistogram::bucket(Duration::ZERO), 0);
        for (bucket, bound) in bounds.into_iter().enumerate() {
            assert_eq!(LatencyHistogram::bucket(bound), bucket);
            assert_eq!(LatencyHistogram::bucket(bound + Duration::from_nanos(1)), bucket + 1);
        }
        assert_eq!(LatencyHistogram::bucket(Duration::MAX), LatencyHistogram::BUCKETS - 1);
    }

    #[test]
    fn every_message_of_a_burst_is_timed() {
        let mut counters = Counters::new();
        let burst = Burst { received: 3, replied: 3, ..Default::default() };
        count(&mut counters, &burst, Duration::from_micros(5));
        count(&mut counters, &Burst { received: 1, replied: 1, ..burst }, Duration::from_secs(60));
        let latency = WorkerTotals::sum([&counters.view()]).latency;
        assert_eq!((latency.counts[3], latency.counts[24]), (3, 1));
        assert_eq!(latency.counts.iter().sum::<u64>(), 4);
        assert_eq!(latency.sum, Duration::from_micros(60_000_015));
    }
}
