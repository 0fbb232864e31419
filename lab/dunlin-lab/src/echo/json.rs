//! JSON lines of the echo. Names are those of DNS-OARC's dns-metrics where it has one
//! for the thing: queries, responses, discarded, since and until.
use lab_echo::{Counts, Echo, Reason, Snapshot};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The type of a line.
#[derive(Clone, Copy, Serialize)]
pub enum Kind {
    /// One interval.
    #[serde(rename = "stats_periodic")]
    Periodic,
    /// All of it.
    #[serde(rename = "stats_sum")]
    Sum,
}

#[derive(Serialize)]
struct Header {
    r#type: &'static str,
    generator: &'static str,
    generator_version: &'static str,
    stats_interval: f64,
    time_units_per_sec: u64,
    listen: String,
    model: &'static str,
    processes: usize,
    threads: usize,
    shared: bool,
    batch: usize,
    cpus: Option<String>,
    receive_buffer: usize,
    send_buffer: usize,
    busy_poll_ns: u64,
    spin_ns: u64,
    netns: Option<String>,
}

#[derive(Serialize)]
struct Stats {
    r#type: Kind,
    since: u64,
    until: u64,
    #[serde(flatten)]
    counts: Line,
    cpu_ns: Option<u64>,
    threads: Vec<OneThread>,
}

#[derive(Serialize)]
struct OneThread {
    process: usize,
    thread: usize,
    cpu: Option<usize>,
    #[serde(flatten)]
    counts: Line,
    cpu_ns: Option<u64>,
}

#[derive(Serialize)]
struct Line {
    queries: u64,
    responses: u64,
    discarded: u64,
    discarded_by_reason: BTreeMap<&'static str, u64>,
    bursts: u64,
}

impl Line {
    fn of(counts: &Counts) -> Self {
        let by_reason = Reason::ALL.map(|reason| (reason.name(), counts.dropped[reason as usize]));
        Self {
            queries: counts.received,
            responses: counts.answered,
            discarded: counts.dropped(),
            discarded_by_reason: by_reason.into(),
            bursts: counts.bursts,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The running echo.
pub fn write_header(out: &mut impl Write, interval: Duration, echo: &Echo) -> io::Result<()> {
    let options = echo.options();
    let (receive_buffer, send_buffer) = echo.queues();
    let header = Header {
        r#type: "header",
        generator: "dunlin-lab echo",
        generator_version: env!("CARGO_PKG_VERSION"),
        stats_interval: interval.as_secs_f64(),
        time_units_per_sec: 1_000_000_000,
        listen: echo.address().to_string(),
        model: options.model.name(),
        processes: options.processes,
        threads: options.threads,
        shared: options.shared,
        batch: options.batch(),
        cpus: options.cpus.as_ref().map(ToString::to_string),
        receive_buffer,
        send_buffer,
        busy_poll_ns: nanos(options.busy_poll),
        spin_ns: nanos(options.spin),
        netns: options.netns.clone(),
    };
    write_line(out, &header)
}

/// The change between two samples.
pub fn write_stats(
    out: &mut impl Write,
    kind: Kind,
    before: &Snapshot,
    now: &Snapshot,
) -> io::Result<()> {
    let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = until.saturating_sub(now.elapsed.saturating_sub(before.elapsed));
    let spent = |before: Option<Duration>, now: Option<Duration>| {
        before.zip(now).map(|(before, now)| nanos(now.saturating_sub(before)))
    };
    let threads = before.threads.iter().zip(&now.threads).map(|(before, now)| OneThread {
        process: now.process,
        thread: now.number,
        cpu: now.cpu,
        counts: Line::of(&now.counts.since(&before.counts)),
        cpu_ns: spent(before.cpu_time, now.cpu_time),
    });
    let stats = Stats {
        r#type: kind,
        since: nanos(since),
        until: nanos(until),
        counts: Line::of(&now.total().since(&before.total())),
        cpu_ns: spent(before.cpu_time(), now.cpu_time()),
        threads: threads.collect(),
    };
    write_line(out, &stats)
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)?;
    out.flush()
}
