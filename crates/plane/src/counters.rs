//! What every thread of the plane counts.

use door::{Counters, CountersView};
use packet::Drop;
use port::Burst;
use std::time::Duration;

/// Counters of one thread: bursts, received, replied, waits, wakes, one for each [`Drop`], and the
/// [`Latency`].
pub const COUNTERS: usize = LATENCY_SUM + 1;
const BURSTS: usize = 0;
const RECEIVED: usize = 1;
const REPLIED: usize = 2;
const WAITS: usize = 3;
const WAKES: usize = 4;
const FIRST_DROP: usize = 5;
const FIRST_LATENCY: usize = FIRST_DROP + Drop::COUNT;
const LATENCY_SUM: usize = FIRST_LATENCY + Latency::BUCKETS;

/// Counts a burst that was not empty, and how long it took from being read until its replies were
/// with the kernel.
#[inline]
pub fn count(counters: &mut Counters<COUNTERS>, burst: &Burst, took: Duration) {
    counters.add(BURSTS, 1);
    counters.add(RECEIVED, burst.received as u64);
    count_done(counters, burst, took);
}

/// Counts what became of packets that were received, or put off, so long ago.
#[inline]
pub fn count_done(counters: &mut Counters<COUNTERS>, burst: &Burst, took: Duration) {
    let done = (burst.replied + burst.dropped.iter().sum::<usize>()) as u64;
    counters.add(REPLIED, burst.replied as u64);
    counters.add(FIRST_LATENCY + Latency::bucket(took), done);
    let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    counters.add(LATENCY_SUM, nanos.saturating_mul(done));
    for (reason, &n) in burst.dropped.iter().enumerate() {
        if n > 0 {
            counters.add(FIRST_DROP + reason, n as u64);
        }
    }
}

/// Tells that the thread is about to wait.
pub fn parked(counters: &mut Counters<COUNTERS>) {
    counters.add(WAITS, 1);
}

/// Tells that it goes on.
pub fn woken(counters: &mut Counters<COUNTERS>) {
    counters.add(WAKES, 1);
}

/// What one thread, or several together, has done. Every message is counted once: `received` =
/// `replied` + all of `dropped`, which are all of `latency`, + those that wait for somebody else's
/// answer, once the thread is between two bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bursts that were not empty; `received / bursts` tells how loaded a worker is.
    pub bursts: u64,
    /// Messages received.
    pub received: u64,
    /// Replies sent.
    pub replied: u64,
    /// Messages not answered, by reason ([`Drop`] is the index).
    pub dropped: [u64; Drop::COUNT],
    /// How long messages took.
    pub latency: Latency,
}

impl Totals {
    /// The sums over the threads that `views` belong to.
    pub fn sum<'a>(views: impl IntoIterator<Item = &'a CountersView<COUNTERS>>) -> Self {
        let sums = CountersView::sum(views);
        Self {
            bursts: sums[BURSTS],
            received: sums[RECEIVED],
            replied: sums[REPLIED],
            dropped: std::array::from_fn(|reason| sums[FIRST_DROP + reason]),
            latency: Latency {
                counts: std::array::from_fn(|bucket| sums[FIRST_LATENCY + bucket]),
                sum: Duration::from_nanos(sums[LATENCY_SUM]),
            },
        }
    }
}

/// How long messages took, from being read until their replies were with the kernel. Those that
/// were dropped are counted too: they took their time as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Messages that took longer than the bound before and no longer than the one at the same
    /// index; those in the last bucket took longer than any bound.
    pub counts: [u64; Latency::BUCKETS],
    /// All of them together.
    pub sum: Duration,
}

impl Latency {
    /// Buckets: one more than there are bounds.
    pub const BUCKETS: usize = 25;

    /// The buckets' upper ends: 1 µs, and each twice the one before, up to 8.4 s.
    pub fn bounds() -> [Duration; Self::BUCKETS - 1] {
        std::array::from_fn(|bucket| Duration::from_micros(1 << bucket))
    }

    /// The bucket of what took so long.
    #[inline]
    fn bucket(took: Duration) -> usize {
        let micros = took.as_nanos().div_ceil(1_000);
        let micros = u32::try_from(micros).map_or(1 << 31, |micros| micros.min(1 << 31));
        (micros.next_power_of_two().trailing_zeros() as usize).min(Self::BUCKETS - 1)
    }
}

/// A thread's heartbeat, for a watchdog: two equal ones some seconds apart, not parked, are those
/// of a thread that is stuck. They are taken from what it counts anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Grows with every burst and every wait.
    pub beats: u64,
    /// It waits for something to do.
    pub parked: bool,
}

impl Pulse {
    /// The heartbeat of the thread that `view` belongs to.
    pub fn of(view: &CountersView<COUNTERS>) -> Self {
        let counts = view.read();
        let beats = counts[BURSTS].wrapping_add(counts[WAITS]).wrapping_add(counts[WAKES]);
        Self { beats, parked: counts[WAITS] != counts[WAKES] }
    }

    /// Whether a thread that showed `earlier` and now shows `self` did nothing since, though it
    /// does not wait.
    pub fn is_stuck_since(self, earlier: Self) -> bool {
        self == earlier && !self.parked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_ends_with_its_bound() {
        let bounds = Latency::bounds();
        assert_eq!(bounds[0], Duration::from_micros(1));
        assert_eq!(bounds[23], Duration::from_micros(8_388_608));
        assert_eq!(Latency::bucket(Duration::ZERO), 0);
        for (bucket, bound) in bounds.into_iter().enumerate() {
            assert_eq!(Latency::bucket(bound), bucket);
            assert_eq!(Latency::bucket(bound + Duration::from_nanos(1)), bucket + 1);
        }
        assert_eq!(Latency::bucket(Duration::MAX), Latency::BUCKETS - 1);
    }

    #[test]
    fn every_message_of_a_burst_is_timed() {
        let mut counters = Counters::new();
        let burst = Burst { received: 3, replied: 3, ..Default::default() };
        count(&mut counters, &burst, Duration::from_micros(5));
        count(&mut counters, &Burst { received: 1, replied: 1, ..burst }, Duration::from_secs(60));
        let latency = Totals::sum([&counters.view()]).latency;
        assert_eq!((latency.counts[3], latency.counts[24]), (3, 1));
        assert_eq!(latency.counts.iter().sum::<u64>(), 4);
        assert_eq!(latency.sum, Duration::from_micros(60_000_015));
    }

    #[test]
    fn who_neither_waits_nor_gets_on_is_stuck() {
        let mut counters = Counters::new();
        let view = counters.view();
        let begun = Pulse::of(&view);
        assert!(Pulse::of(&view).is_stuck_since(begun));
        count(&mut counters, &Burst::default(), Duration::ZERO);
        assert!(!Pulse::of(&view).is_stuck_since(begun));
        parked(&mut counters);
        let waiting = Pulse::of(&view);
        assert!(waiting.parked && !Pulse::of(&view).is_stuck_since(waiting));
        woken(&mut counters);
        let awake = Pulse::of(&view);
        assert!(Pulse::of(&view).is_stuck_since(awake));
    }
}
