//! Counters of the API, for the status and the metrics.
use crate::limits::WRITE_BUCKETS;
use server_status::{ApiStatus, StatusHistogram};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counters of the API; they only grow.
#[derive(Default)]
pub struct ApiCounters {
    open: AtomicU64,
    accepted: AtomicU64,
    full: AtomicU64,
    evicted: AtomicU64,
    rest: Mutex<WriteCounters>,
}

#[derive(Default)]
struct WriteCounters {
    codes: BTreeMap<u16, u64>,
    durable: LatencyHistogram,
    live: LatencyHistogram,
}

/// A histogram of durations.
#[derive(Default)]
struct LatencyHistogram {
    counts: [u64; WRITE_BUCKETS + 1],
    all: Duration,
}

impl LatencyHistogram {
    fn count(&mut self, took: Duration) {
        let bucket = bounds().take_while(|bound| took > *bound).count();
        self.counts[bucket] += 1;
        self.all += took;
    }

    fn told(&self) -> StatusHistogram {
        StatusHistogram {
            bounds_seconds: bounds().map(|bound| bound.as_secs_f64()).collect(),
            counts: self.counts.to_vec(),
            sum_seconds: self.all.as_secs_f64(),
        }
    }
}

/// The upper ends of the buckets: 100 µs, then each twice the one before.
fn bounds() -> impl Iterator<Item = Duration> {
    (0..WRITE_BUCKETS as u32).map(|bucket| Duration::from_micros(100) * (1 << bucket))
}

/// An open connection, counted until it is dropped.
pub struct OpenConnection<'c>(&'c ApiCounters);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl ApiCounters {
    /// A connection was accepted.
    pub fn open(&self) -> OpenConnection<'_> {
        self.accepted.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        OpenConnection(self)
    }

    /// A connection was closed at once: no permit was free.
    pub fn full(&self) {
        self.full.fetch_add(1, Relaxed);
    }

    /// An idle connection was closed for a new one.
    pub fn evicted(&self) {
        self.evicted.fetch_add(1, Relaxed);
    }

    /// A response was sent.
    pub fn answered(&self, status: u16) {
        *self.rest().codes.entry(status).or_default() += 1;
    }

    /// The time until a write was durable.
    pub fn durable(&self, took: Duration) {
        self.rest().durable.count(took);
    }

    /// The time until every worker served a write.
    pub fn live(&self, took: Duration) {
        self.rest().live.count(took);
    }

    fn rest(&self) -> MutexGuard<'_, WriteCounters> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status from the counters.
    pub fn status(&self) -> ApiStatus {
        let rest = self.rest();
        ApiStatus {
            fault: None,
            ended: None,
            connections: self.open.load(Relaxed),
            connections_accepted: self.accepted.load(Relaxed),
            connections_full: self.full.load(Relaxed),
            connections_evicted: self.evicted.load(Relaxed),
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
    fn requests_are_counted_by_outcome() {
        let counters = ApiCounters::default();
        let open = counters.open();
        drop(counters.open());
        counters.full();
        counters.answered(200);
        counters.answered(200);
        counters.answered(403);
        for micros in [1, 100, 101, 10_000_000_000] {
            counters.durable(Duration::from_micros(micros));
        }
        let told = counters.status();
        assert_eq!((told.connections, told.connections_accepted, told.connections_full), (1, 2, 1));
        assert_eq!((told.requests["200"], told.requests["403"]), (2, 1));
        assert_eq!((told.durable.counts[0], told.durable.counts[1]), (2, 1));
        assert_eq!(told.durable.counts[WRITE_BUCKETS], 1, "longer than the longest");
        assert_eq!(told.durable.counts.len(), told.durable.bounds_seconds.len() + 1);
        assert_eq!(told.live.counts.iter().sum::<u64>(), 0);
        drop(open);
        assert_eq!(counters.status().connections, 0);
    }
}
