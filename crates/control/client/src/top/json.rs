//! `dunlin top -o json`: one object per sample and line, for programs such as jq.
use super::rates::{Rates, ThreadRates};
use serde::Serialize;
use server_status::{HottestNames, ServerState, Status, StatusHistogram, ZoneState};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// One sample. Rates are per second, since the sample before.
#[derive(Serialize)]
struct Sample<'a> {
    version: &'a str,
    pid: u32,
    state: ServerState,
    started_seconds: f64,
    gathered_seconds: f64,
    received_per_second: f64,
    replied_per_second: f64,
    dropped_per_second: f64,
    accepted_per_second: f64,
    latency: Latency,
    threads: Vec<Thread<'a>>,
    /// Only counters that changed, as in the next two maps.
    rcodes_per_second: BTreeMap<&'a str, f64>,
    types_per_second: BTreeMap<&'a str, f64>,
    reasons_per_second: BTreeMap<&'a str, f64>,
    hot: &'a HottestNames,
    zones: usize,
    zones_of_store: u64,
    zones_not_current: usize,
    streams_open: u64,
    streams_open_max: u64,
    resident_bytes: u64,
    imbalance: f64,
}

#[derive(Serialize)]
struct Thread<'a> {
    name: &'a str,
    cpu: Option<usize>,
    received_per_second: f64,
    replied_per_second: f64,
    dropped_per_second: f64,
    latency: Latency,
}

/// Upper bounds of buckets; null without events (`count` is 0), or beyond the last bucket.
#[derive(Serialize)]
struct Latency {
    count: u64,
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    p999_seconds: Option<f64>,
}

/// Writes one sample and the end of its line.
///
/// # Errors
/// `out` fails.
pub fn write(out: &mut impl Write, status: &Status, rates: &Rates) -> io::Result<()> {
    let sample = Sample {
        version: &status.version,
        pid: status.pid,
        state: status.state,
        started_seconds: status.started_seconds,
        gathered_seconds: status.gathered_seconds,
        received_per_second: rates.received,
        replied_per_second: rates.replied,
        dropped_per_second: rates.dropped,
        accepted_per_second: rates.accepted,
        latency: latency(&rates.latency),
        threads: rates.threads.iter().map(thread).collect(),
        rcodes_per_second: by_name(&rates.rcodes),
        types_per_second: by_name(&rates.types),
        reasons_per_second: by_name(&rates.reasons),
        hot: &status.hot,
        zones: status.zones.len(),
        zones_of_store: status.store.as_ref().map_or(0, |store| store.zones),
        zones_not_current: status.zones.iter().filter(|z| z.state != ZoneState::Current).count(),
        streams_open: status.streams.open,
        streams_open_max: status.streams.open_max,
        resident_bytes: status.process.resident_bytes,
        imbalance: status.imbalance,
    };
    // In one write, so that the reader of a pipe never sees half an object.
    let mut line = serde_json::to_vec(&sample)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

fn thread(rates: &ThreadRates) -> Thread<'_> {
    Thread {
        name: &rates.name,
        cpu: rates.cpu,
        received_per_second: rates.received,
        replied_per_second: rates.replied,
        dropped_per_second: rates.dropped,
        latency: latency(&rates.latency),
    }
}

fn latency(histogram: &StatusHistogram) -> Latency {
    let quantile = |share| histogram.quantile(share).filter(|time| time.is_finite());
    Latency {
        count: histogram.counts.iter().sum(),
        p50_seconds: quantile(0.5),
        p99_seconds: quantile(0.99),
        p999_seconds: quantile(0.999),
    }
}

fn by_name(ranked: &[(String, f64)]) -> BTreeMap<&str, f64> {
    ranked.iter().map(|(name, rate)| (name.as_str(), *rate)).collect()
}
