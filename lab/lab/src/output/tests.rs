use super::*;
use crate::verdict::{Cause, Measurements, Verdict};
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use lab_host::manifest::Manifest;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(2);

fn histogram(values: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    for (value, count) in values {
        histogram.record_n(*value, *count).unwrap();
    }
    histogram
}

/// A second of 1,000 queries, of which 20 had no answer in time, from 2026-11-21 on.
struct Second {
    response: Histogram<u64>,
    lateness: Histogram<u64>,
}

impl Second {
    fn new() -> Self {
        let response = histogram(&[(80_000, 970), (1_250_000, 10), (2_000_000_000, 20)]);
        Self { response, lateness: histogram(&[(5_000, 1_000)]) }
    }

    fn period(&self, at: u64) -> Period<'_> {
        let since = UNIX_EPOCH + Duration::from_secs(1_795_219_200 + at);
        Period {
            since,
            until: since + Duration::from_secs(1),
            counts: Counts {
                planned: 1_000,
                sent: 1_000,
                answered: 980,
                timeouts: 20,
                unexpected: 3,
                rcodes: vec![("NOERROR", 900), ("NXDOMAIN", 80)],
                ..Counts::default()
            },
            response: &self.response,
            service: &self.response,
            lateness: &self.lateness,
        }
    }
}

fn header() -> Header {
    Header {
        run: "1795219200-7".into(),
        version: "0.1.0".into(),
        words: vec!["load".into(), "--rate".into(), "1000".into()],
        interval: Duration::from_secs(1),
        timeout: TIMEOUT,
        transport: "udp",
        manifest: Manifest { fingerprint: "b5bb9d80".into(), ..Manifest::default() },
    }
}

#[test]
fn json_lines_match_the_schema() {
    let second = Second::new();
    let mut out = Vec::new();
    let mut metrics = Metrics::begin(&mut out, header()).unwrap();
    metrics.periodic(&second.period(0)).unwrap();
    metrics.event(UNIX_EPOCH + Duration::from_secs(1), "rate", "2000 a second").unwrap();
    let verdict = Verdict { cause: Cause::Server, because: "it was slow".into() };
    metrics.sum(&second.period(0), &verdict, &Measurements::default()).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["header", "stats_periodic", "event", "stats_sum"]);
    assert!(lines.iter().all(|line| line["runid"] == "1795219200-7"), "a string, as it must be");
    for required in ["schema_version", "generator", "generator_version", "stats_interval"] {
        assert!(!lines[0][required].is_null(), "{required}");
    }
    let sum = &lines[3];
    assert_eq!(sum["until"].as_u64().unwrap() - sum["since"].as_u64().unwrap(), 1_000_000_000);
    assert_eq!(sum["sent"]["queries"], 1_000);
    assert_eq!(sum["received"]["responses"], 980);
    assert_eq!(sum["timeouts"]["queries"], 20);
    assert_eq!(sum["response_rcodes"]["NXDOMAIN"], 80);
    assert_eq!(sum["verdict"]["cause"], "server");
    let latency = &sum["response_latency"];
    let p50 = latency["percentiles"]["p50"].as_u64().unwrap();
    assert!((79_900..=80_100).contains(&p50), "{p50}");
    assert!(latency["percentiles"]["p99"].is_null(), "beyond the timeout nothing is known");
    // 970 of 80 µs and 10 of 1.25 ms; how long the others took, and so the longest, is not known.
    let mean = latency["avg"].as_u64().unwrap();
    assert!((91_000..93_000).contains(&mean), "{mean}");
    assert!((115_000..119_000).contains(&latency["stddev"].as_u64().unwrap()), "{latency}");
    assert_eq!((&latency["censored"], &latency["max"]), (&20.into(), &Value::Null));
    assert_eq!(
        (&lines[0]["manifest"], &lines[0]["machine"]["schema"]),
        (&"b5bb9d80".into(), &0.into())
    );
    assert_eq!(sum["measurements"]["balance"]["sent"], Value::Null, "what is not known is absent");
    let counts = latency["buckets"].as_array().unwrap().iter();
    assert_eq!(counts.map(|bucket| bucket[2].as_u64().unwrap()).sum::<u64>(), 1_000);
}

#[test]
fn late_sent_answers_in_time_count_in_the_mean() {
    let mut second = Second::new();
    second.response = histogram(&[(4_000_000_000, 10), (2_000_000_000, 20)]);
    let mut out = Vec::new();
    let mut metrics = Metrics::begin(&mut out, header()).unwrap();
    metrics.periodic(&second.period(0)).unwrap();
    let text = String::from_utf8(out).unwrap();
    let line: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let latency = &line["response_latency"];
    assert_eq!(latency["censored"], 20);
    for known in ["avg", "min"] {
        let value = latency[known].as_u64().unwrap();
        assert!((3_990_000_000..4_010_000_000).contains(&value), "{known} {latency}");
    }
}

#[test]
fn csv_leaves_out_unknown_values() {
    let second = Second::new();
    let mut out = Vec::new();
    let mut csv = Csv::begin(&mut out, TIMEOUT).unwrap();
    csv.line(&second.period(0)).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (names, fields) = text.split_once('\n').unwrap();
    let names: Vec<_> = names.split(',').collect();
    let fields: Vec<_> = fields.trim_end().split(',').collect();
    assert_eq!(names.len(), fields.len());
    let field = |name| fields[names.iter().position(|n| *n == name).unwrap()];
    assert_eq!(field("planned"), "1000");
    assert_eq!(field("response_p99_ns"), "");
    assert!(
        field("response_p50_ns").starts_with("800") || field("response_p50_ns").starts_with("799")
    );
    assert_ne!(field("lateness_p9999_ns"), "");
}

#[test]
fn the_log_is_read_back_by_hdrhistogram() {
    let second = Second::new();
    let stretches = [second.period(0), second.period(1)];
    let mut out = Vec::new();
    Hlog::write(&mut out, stretches[0].since, &stretches).unwrap();
    let mut intervals = Vec::new();
    for entry in IntervalLogIterator::new(&out) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            intervals.push(interval);
        }
    }
    assert_eq!(intervals.len(), 6);
    assert_eq!(intervals[3].start_timestamp(), Duration::from_secs(1));
    assert_eq!(intervals[3].tag().unwrap().as_str(), "response");
    let mut bytes = Vec::new();
    // RFC 4648 by hand, as the reader hands out what it read.
    base64(intervals[3].encoded_histogram(), &mut bytes);
    let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(read, second.response);
}

fn base64(text: &str, bytes: &mut Vec<u8>) {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut held) = (0u32, 0);
    for digit in text.bytes().filter_map(|c| digits.iter().position(|d| *d == c)) {
        (bits, held) = (bits << 6 | digit as u32, held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
}

#[test]
fn percentile_among_timeouts_is_not_a_number() {
    let times = histogram(&[(100_000, 98), (2_000_000_000, 2)]);
    assert_eq!(Percentile::of(&times, 99.0, TIMEOUT).to_string(), "> 2 s");
    assert_eq!(Percentile::of(&times, 99.0, TIMEOUT).known(), None);
    let Percentile::KnownTimes(p50) = Percentile::of(&times, 50.0, TIMEOUT) else {
        panic!("known")
    };
    assert!(p50.abs_diff(100_000) < 100);
}

#[test]
fn times_are_written_with_three_digits() {
    for (ns, text) in [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 µs"),
        (85_400, "85.4 µs"),
        (300_000, "300 µs"),
        (1_250_000, "1.25 ms"),
        (100_000_000, "100 ms"),
        (2_000_000_000, "2 s"),
    ] {
        assert_eq!(time(ns), text);
    }
}

#[test]
fn tables_stand_in_columns() {
    let mut table = Table::new(["server", "best"]);
    table.row(["dunlin", "180,000"]).row(["a|b"]);
    assert_eq!(table.to_string(), "server     best\ndunlin  180,000\na|b\n");
    let markdown = "| server | best |\n| --- | ---: |\n| dunlin | 180,000 |\n| a\\|b |  |\n";
    assert_eq!(table.markdown(), markdown);
}
