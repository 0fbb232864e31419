//! What this room counts of itself, for the status and the metrics.
use crate::limits::WRITE_BUCKETS;
use control::status::{ApiStatus, Histogram};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counters of the API, which only grow.
#[derive(Default)]
pub struct Counts {
    open: AtomicU64,
    accepted: AtomicU64,
    full: AtomicU64,
    rest: Mutex<Rest>,
}

#[derive(Default)]
struct Rest {
    codes: BTreeMap<u16, u64>,
    durable: Took,
    live: Took,
}

/// How often something took how long.
#[derive(Default)]
struct Took {
    counts: [u64; WRITE_BUCKETS + 1],
    all: Duration,
}

impl Took {
    fn count(&mut self, took: Duration) {
        let bucket = bounds().take_while(|bound| took > *bound).count();
        self.counts[bucket] += 1;
        self.all += took;
    }

    fn told(&self) -> Histogram {
        Histogram {
            bounds_seconds: bounds().map(|bound| bound.as_secs_f64()).collect(),
            counts: self.counts.to_vec(),
            sum_seconds: self.all.as_secs_f64(),
        }
    }
}

/// The upper ends of the buckets: each twice the one before, from 100 µs on.
fn bounds() -> impl Iterator<Item = Duration> {
    (0..WRITE_BUCKETS as u32).map(|bucket| Duration::from_micros(100) * (1 << bucket))
}

/// A connection that is open, until it is dropped.
pub struct Open<'c>(&'c Counts);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Counts {
    /// A connection was accepted.
    pub fn open(&self) -> Open<'_> {
        self.accepted.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        Open(self)
    }

    /// A connection was closed at once: there was no place for it.
    pub fn full(&self) {
        self.full.fetch_add(1, Relaxed);
    }

    /// A request was answered.
    pub fn answered(&self, status: u16) {
        *self.rest().codes.entry(status).or_default() += 1;
    }

    /// A write took so long until no crash could undo it.
    pub fn durable(&self, took: Duration) {
        self.rest().durable.count(took);
    }

    /// A write took so long until every worker served it.
    pub fn live(&self, took: Duration) {
        self.rest().live.count(took);
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it.
    pub fn status(&self) -> ApiStatus {
        let rest = self.rest();
        ApiStatus {
            connections: self.open.load(Relaxed),
            connections_accepted: self.accepted.load(Relaxed),
            connections_full: self.full.load(Relaxed),
            requests: rest.codes.iter().map(|(code, count)| (code.to_string(), *count)).collect(),
            durable: rest.durable.told(),
            live: rest.live.told(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_counted() {
        let counts = Counts::default();
        let open = counts.open();
        drop(counts.open());
        counts.full();
        counts.answered(200);
        counts.answered(200);
        counts.answered(403);
        for micros in [1, 100, 101, 10_000_000_000] {
            counts.durable(Duration::from_micros(micros));
        }
        let told = counts.status();
        assert_eq!((told.connections, told.connections_accepted, told.connections_full), (1, 2, 1));
        assert_eq!((told.requests["200"], told.requests["403"]), (2, 1));
        assert_eq!((told.durable.counts[0], told.durable.counts[1]), (2, 1));
        assert_eq!(told.durable.counts[WRITE_BUCKETS], 1, "longer than the longest");
        assert_eq!(told.durable.counts.len(), told.durable.bounds_seconds.len() + 1);
        assert_eq!(told.live.counts.iter().sum::<u64>(), 0);
        drop(open);
        assert_eq!(counts.status().connections, 0);
    }
}
