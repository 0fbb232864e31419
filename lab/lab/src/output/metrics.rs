//! JSON lines in DNS-OARC's schema (<https://github.com/DNS-OARC/dns-metrics>).
//!
//! What the schema has no name for is added under names of our own, which it allows: `planned`,
//! `unsent`, `late`, `wrong`; `percentiles` and `max` of the three times; `verdict` and its
//! `measurements`; `manifest`, the hash of what matters of the `machine`, by which results of two
//! are reported as comparable or not. The time of a timed-out query is unknown: `censored` is their
//! number. `avg`, `min` and `stddev` omit them; `max` and percentiles among them are null. A query
//! that was sent late and answered in time may have taken longer than the timeout, counted from its
//! due time. `buckets`, whose meaning the schema leaves open, are `[from, to, count]` in ns, both
//! ends included, as its example has them.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use lab_host::manifest::Manifest;
use serde_json::{Map, Value, json};

use super::{PERCENTILES, Percentile, Period, ns, since_1970};
use crate::verdict::{Measurements, Verdict};

/// The version of the schema that its examples name.
const SCHEMA_VERSION: u32 = 20_221_207;

/// Description of a run.
#[derive(Clone, Debug)]
pub struct Header {
    /// The unique name of the run.
    pub run: String,
    /// The version of the generator.
    pub version: String,
    /// The command line.
    pub words: Vec<String>,
    /// Length of a period.
    pub interval: Duration,
    /// Timeout of a query.
    pub timeout: Duration,
    /// `udp` or `tcp`.
    pub transport: &'static str,
    /// The machine.
    pub manifest: Manifest,
}

/// Writes a run, one object per line.
#[derive(Debug)]
pub struct Metrics<W> {
    out: W,
    header: Header,
}

impl<W: Write> Metrics<W> {
    /// Begins with the header.
    ///
    /// # Errors
    /// What `out` fails with; so with all that follow.
    pub fn begin(out: W, header: Header) -> io::Result<Self> {
        let mut metrics = Self { out, header };
        let header = &metrics.header;
        let line = json!({
            "schema_version": SCHEMA_VERSION,
            "generator": "dunlin lab",
            "generator_version": header.version,
            "generator_params": header.words,
            "time_units_per_sec": 1_000_000_000,
            "stats_interval": header.interval.as_secs_f64(),
            "timeout": header.timeout.as_secs_f64(),
            "manifest": header.manifest.fingerprint,
            "machine": header.manifest,
        });
        metrics.line("header", line)?;
        Ok(metrics)
    }

    /// Writes an event.
    ///
    /// # Errors
    /// As with [`Metrics::begin`].
    pub fn event(&mut self, at: SystemTime, kind: &str, message: &str) -> io::Result<()> {
        self.line("event", json!({"msg": message, "msg_type": kind, "at": since_1970(at)}))
    }

    /// An interval.
    ///
    /// # Errors
    /// As with [`Metrics::begin`].
    pub fn periodic(&mut self, period: &Period<'_>) -> io::Result<()> {
        let stats = self.stats(period);
        self.line("stats_periodic", stats)
    }

    /// Writes the totals of the run, and its verdict.
    ///
    /// # Errors
    /// As with [`Metrics::begin`].
    pub fn sum(
        &mut self,
        period: &Period<'_>,
        verdict: &Verdict,
        measurements: &Measurements,
    ) -> io::Result<()> {
        let mut stats = self.stats(period);
        stats["verdict"] = json!(verdict);
        stats["measurements"] = json!(measurements);
        self.line("stats_sum", stats)
    }

    fn stats(&self, period: &Period<'_>) -> Value {
        let counts = &period.counts;
        let rcodes: Map<String, Value> =
            counts.rcodes.iter().map(|(name, count)| ((*name).into(), json!(count))).collect();
        let responses = counts.answered + counts.late + counts.wrong;
        let timeout = self.header.timeout;
        json!({
            "since": since_1970(period.since),
            "until": since_1970(period.until),
            "sent": {"queries": counts.sent},
            "received": {"responses": responses},
            "timeouts": {"queries": counts.timeouts},
            "unexpected": {"responses": counts.unexpected},
            "response_rcodes": rcodes,
            "response_latency": latency(period.response, timeout),
            "conn_info": {
                "type": self.header.transport,
                "packets_sent": counts.sent,
                "packets_received": responses + counts.unexpected,
            },
            "planned": counts.planned,
            "unsent": counts.unsent,
            "answered": counts.answered,
            "late": counts.late,
            "wrong": counts.wrong,
            "service_latency": latency(period.service, timeout),
            "send_lateness": latency(period.lateness, Duration::MAX),
        })
    }

    fn line(&mut self, kind: &str, mut object: Value) -> io::Result<()> {
        object["runid"] = json!(self.header.run);
        object["type"] = json!(kind);
        writeln!(self.out, "{object}")
    }
}

/// Statistics of times; those longer than the timeout are counted and omitted.
#[derive(Default)]
struct KnownTimes {
    count: u64,
    sum: f64,
    squares: f64,
    min: Option<u64>,
    censored: u64,
}

impl KnownTimes {
    /// Counts of times between two values, in order.
    fn add(&mut self, from: u64, to: u64, count: u64, timeout: Duration) {
        if (from..=to).contains(&ns(timeout)) {
            self.censored += count;
            return;
        }
        self.min.get_or_insert(from);
        let value = from.midpoint(to);
        let (value, times) = (value as f64, count as f64);
        self.count += count;
        self.sum += value * times;
        self.squares += value * value * times;
    }

    fn mean(&self) -> Option<u64> {
        (self.count > 0).then(|| (self.sum / self.count as f64) as u64)
    }

    fn deviation(&self) -> Option<u64> {
        let count = self.count as f64;
        let variance = self.squares / count - (self.sum / count).powi(2);
        (self.count > 0).then(|| variance.max(0.0).sqrt() as u64)
    }
}

fn latency(histogram: &Histogram<u64>, timeout: Duration) -> Value {
    if histogram.is_empty() {
        return json!({});
    }
    let percentiles: Map<String, Value> = PERCENTILES
        .iter()
        .map(|(name, p)| ((*name).into(), json!(Percentile::of(histogram, *p, timeout).known())))
        .collect();
    let (mut buckets, mut known) = (Vec::new(), KnownTimes::default());
    for bucket in histogram.iter_recorded() {
        let (value, count) = (bucket.value_iterated_to(), bucket.count_at_value());
        let (from, to) = (histogram.lowest_equivalent(value), histogram.highest_equivalent(value));
        buckets.push([from, to, count]);
        known.add(from, to, count, timeout);
    }
    json!({
        "avg": known.mean(),
        "min": known.min,
        "max": Some(histogram.max()).filter(|_| known.censored == 0),
        "stddev": known.deviation(),
        "censored": known.censored,
        "percentiles": percentiles,
        "buckets": buckets,
    })
}
