//! Metrics of replicas, and the demand that follows from them.
use crate::decision::Demand;
use std::collections::BTreeMap;

/// The counters of one replica that matter, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Queries that were offered: received, or dropped by the kernel before.
    pub queries: f64,
    /// Of them, those that the kernel dropped, and replies that could not be sent.
    pub dropped: f64,
    /// Cache misses.
    pub misses: f64,
    /// CPU time of the process in seconds.
    pub cpu_s: f64,
    /// Latencies: counts up to a bound, in seconds.
    pub latencies: Vec<(f64, f64)>,
}

/// Reads metrics of Dunlin or CoreDNS in Prometheus' text format.
///
/// # Errors
/// There is no counter of queries, or a value that counts is not a finite positive number.
pub fn parse(text: &str) -> Result<Sample, String> {
    let mut sample = Sample::default();
    let mut has_queries = false;
    let mut latencies: BTreeMap<u64, f64> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name_end = line.find(['{', ' ']).unwrap_or(line.len());
        let (name, rest) = line.split_at(name_end);
        let label = |wanted: &str| rest.contains(wanted);
        let sum = match name {
            "dunlin_messages_received_total" | "coredns_dns_requests_total" => {
                has_queries = true;
                &mut sample.queries
            }
            // The server has not received these.
            "dunlin_socket_dropped_datagrams_total" => {
                let value = value(rest).ok_or_else(|| refused(line))?;
                sample.queries += value;
                &mut sample.dropped
            }
            "dunlin_messages_dropped_total" if label("reason=\"unsent\"") => &mut sample.dropped,
            "dunlin_cache_lookups_total" if label("result=\"miss\"") => &mut sample.misses,
            "coredns_cache_misses_total" => &mut sample.misses,
            "process_cpu_seconds_total" => &mut sample.cpu_s,
            "dunlin_reply_duration_seconds_bucket"
            | "coredns_dns_request_duration_seconds_bucket" => {
                let Some(bound) = bound(rest) else { continue };
                latencies.entry(bound.to_bits()).or_default()
            }
            _ => continue,
        };
        let value = value(rest).ok_or_else(|| refused(line))?;
        *sum += value;
    }
    // Positive numbers have the order of their bits.
    sample.latencies =
        latencies.into_iter().map(|(bits, count)| (f64::from_bits(bits), count)).collect();
    match has_queries {
        true => Ok(sample),
        false => Err("no counter of queries: expected dunlin_messages_received_total or \
                      coredns_dns_requests_total"
            .into()),
    }
}

fn refused(line: &str) -> String {
    let line: String = line.chars().take(120).collect();
    format!("not a finite positive number: {}", command_line::plain(&line))
}

/// The value after the labels, before a timestamp.
fn value(rest: &str) -> Option<f64> {
    let after = rest.rsplit_once('}').map_or(rest, |(_, after)| after);
    let value: f64 = after.split_ascii_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// The bound of a bucket: positive, or infinite.
fn bound(rest: &str) -> Option<f64> {
    let (_, after) = rest.split_once("le=\"")?;
    let bound: f64 = after.split_once('"')?.0.parse().ok()?;
    (bound > 0.0).then_some(bound)
}

/// How old the last metrics of a replica may be, in seconds.
const RATE_AGE_MAX_S: f64 = 60.0;

/// What one replica did between two of its samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Queries a second.
    pub qps: f64,
    /// Dropped ones a second.
    pub dropped: f64,
    /// Cache misses a second.
    pub misses: f64,
    /// CPUs.
    pub cpus: f64,
    /// Latencies: counts up to a bound, in seconds.
    pub latencies: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
struct Known {
    time_s: f64,
    sample: Sample,
    work: Option<Work>,
}

/// Adds up what all replicas say. Replicas are known by any unique name.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    known: BTreeMap<String, Known>,
}

impl Meter {
    /// Takes the sample of a replica. What it did since its last sample is returned, unless this is
    /// its first, or its counters have begun again.
    pub fn add(&mut self, replica: &str, time_s: f64, sample: Sample) -> Option<Work> {
        let before = self.known.get(replica);
        let work = before.and_then(|before| work(before, time_s, &sample));
        // The last rate stands in for one that is not known.
        let kept = work.clone().or_else(|| before.and_then(|before| before.work.clone()));
        self.known.insert(replica.to_owned(), Known { time_s, sample, work: kept });
        work
    }

    /// The demand of all ready replicas; those that are gone are forgotten. `None` where fewer than
    /// half of them are known: metrics are stale then. A replica that has just come counts as 0.
    pub fn demand(&mut self, time_s: f64, ready: &[String]) -> Option<Demand> {
        self.known.retain(|replica, _| ready.contains(replica));
        let is_fresh = |known: &&Known| time_s - known.time_s <= RATE_AGE_MAX_S;
        let fresh: Vec<&Known> = self.known.values().filter(is_fresh).collect();
        if fresh.is_empty() || 2 * fresh.len() < ready.len() {
            return None;
        }
        let works: Vec<&Work> = fresh.iter().filter_map(|known| known.work.as_ref()).collect();
        if works.is_empty() {
            return None;
        }
        let sum = |of: fn(&Work) -> f64| works.iter().map(|work| of(work)).sum::<f64>();
        let (qps, dropped) = (sum(|work| work.qps), sum(|work| work.dropped));
        let dropped = if qps > 0.0 { (dropped / qps).min(1.0) } else { 0.0 };
        Some(Demand { qps, dropped, p99_ms: p99_ms(&works) })
    }

    /// The share of cache misses of the last rates, 0 to 1.
    pub fn misses(&self) -> f64 {
        let works = || self.known.values().filter_map(|known| known.work.as_ref());
        let (queries, misses) =
            works().fold((0.0, 0.0), |(q, m), work| (q + work.qps, m + work.misses));
        if queries > 0.0 { (misses / queries).clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn work(before: &Known, time_s: f64, sample: &Sample) -> Option<Work> {
    let old = &before.sample;
    let span = time_s - before.time_s;
    let has_begun_anew = sample.queries < old.queries || sample.cpu_s < old.cpu_s;
    if span < 0.1 || has_begun_anew {
        return None;
    }
    let rate = |new: f64, old: f64| ((new - old) / span).max(0.0);
    let latencies = match sample.latencies.len() == old.latencies.len() {
        true => {
            let pairs = sample.latencies.iter().zip(&old.latencies);
            pairs.map(|((bound, new), (_, old))| (*bound, (new - old).max(0.0))).collect()
        }
        false => Vec::new(),
    };
    Some(Work {
        qps: rate(sample.queries, old.queries),
        dropped: rate(sample.dropped, old.dropped),
        misses: rate(sample.misses, old.misses),
        cpus: rate(sample.cpu_s, old.cpu_s),
        latencies,
    })
}

/// The 99th percentile of all replicas together: the bound of its bucket.
fn p99_ms(works: &[&Work]) -> Option<f64> {
    let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
    for (bound, count) in works.iter().flat_map(|work| &work.latencies) {
        *counts.entry(bound.to_bits()).or_default() += count;
    }
    let all = *counts.values().next_back()?;
    let reached = counts.iter().find(|(_, count)| all > 0.0 && **count >= 0.99 * all);
    reached.map(|(bits, _)| 1e3 * f64::from_bits(*bits)).filter(|p99_ms| p99_ms.is_finite())
}
