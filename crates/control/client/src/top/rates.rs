//! Rates: the difference of two samples of a server.
use server_status::{Status, StatusHistogram, ThreadStatus};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Events per second between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    pub received: f64,
    pub replied: f64,
    pub dropped: f64,
    /// Stream connections accepted.
    pub accepted: f64,
    /// As in the status: workers, then stream threads.
    pub threads: Vec<ThreadRates>,
    /// The greatest first, without zeros; so are the next two.
    pub rcodes: Vec<(String, f64)>,
    pub types: Vec<(String, f64)>,
    pub reasons: Vec<(String, f64)>,
    /// Of all threads, between the two samples.
    pub latency: StatusHistogram,
}

/// Events per second of one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadRates {
    pub name: String,
    pub cpu: Option<usize>,
    pub received: f64,
    pub replied: f64,
    pub dropped: f64,
    pub latency: StatusHistogram,
}

impl Rates {
    /// The rates between two samples of the same process.
    pub fn between(earlier: &Status, later: &Status, time: Duration) -> Self {
        let seconds = time.as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let mut all = Self {
            accepted: rate(later.streams.accepted, earlier.streams.accepted),
            ..Self::default()
        };
        let mut sums = [(); 3].map(|()| BTreeMap::new());
        let none = ThreadStatus::default();
        for now in &later.threads {
            let same = |before: &&ThreadStatus| before.name == now.name;
            let before = earlier.threads.iter().find(same).unwrap_or(&none);
            let sum = |counts: &BTreeMap<String, u64>| counts.values().sum();
            let thread = ThreadRates {
                name: now.name.clone(),
                cpu: now.cpu,
                received: rate(now.received, before.received),
                replied: rate(now.replied, before.replied),
                dropped: rate(sum(&now.dropped), sum(&before.dropped)),
                latency: now.latency.since(&before.latency),
            };
            all.received += thread.received;
            all.replied += thread.replied;
            all.dropped += thread.dropped;
            all.latency.add(&thread.latency);
            all.threads.push(thread);
            let kinds = [
                (&now.rcodes, &before.rcodes),
                (&now.types, &before.types),
                (&now.dropped, &before.dropped),
            ];
            for (sums, (now, before)) in sums.iter_mut().zip(kinds) {
                for (what, count) in now {
                    let before = before.get(what).copied().unwrap_or_default();
                    *sums.entry(what.clone()).or_default() += rate(*count, before);
                }
            }
        }
        [all.rcodes, all.types, all.reasons] = sums.map(ranked);
        all
    }
}

fn ranked(rates: BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let mut ranked: Vec<_> = rates.into_iter().filter(|(_, rate)| *rate > 0.0).collect();
    // The sort is stable: equal rates stay in the order of their names.
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked
}

/// The last sample, which the next one is compared with.
#[derive(Debug, Default)]
pub struct RateMeter(Option<(Status, Instant)>);

impl RateMeter {
    /// Adds a sample. Returns the rates since the last one, if both are of the same process.
    pub fn update(&mut self, status: Status, at: Instant) -> Option<Rates> {
        let rates = self.0.as_ref().and_then(|(earlier, then)| {
            let of = |status: &Status| (status.pid, status.started_seconds.to_bits());
            let same = of(earlier) == of(&status);
            same.then(|| Rates::between(earlier, &status, at.duration_since(*then)))
        });
        self.0 = Some((status, at));
        rates
    }

    /// The last sample.
    pub fn last(&self) -> Option<&Status> {
        self.0.as_ref().map(|(status, _)| status)
    }
}
