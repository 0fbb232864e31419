//! Metrics for the textfile collector of node_exporter.
use crate::limits::METRIC_PAIRS_MAX;
use crate::traffic::{Counters, Distance, Pair, RoundTrips, by_distance};
use durable::files::{self, Folder};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Writes what was counted since the start, whole or not at all.
pub(crate) fn write(path: &Path, pairs: &[Pair], counters: &Counters) -> Result<(), String> {
    let text = text(pairs, counters);
    let written = files::split(path).and_then(|(folder, name)| {
        // Another user reads it.
        Folder::open(folder)?.replace(name, 0o644, |file| file.write_all(text.as_bytes()))
    });
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn text(pairs: &[Pair], counters: &Counters) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, series: Vec<(String, u64)>| {
        _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in series {
            _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let sums = by_distance(pairs);
    let of_distance = |value: fn(&(Distance, crate::Traffic, RoundTrips)) -> u64| {
        let labels = |sum: &(Distance, _, _)| format!("{{distance=\"{}\"}}", sum.0.label());
        sums.iter().map(|sum| (labels(sum), value(sum))).collect::<Vec<_>>()
    };
    let of_pair = |value: fn(&Pair) -> u64| {
        let shown = pairs.iter().take(METRIC_PAIRS_MAX);
        shown.map(|pair| (labels(pair), value(pair))).collect::<Vec<_>>()
    };
    let name = "dunlin_fabric_bytes_total";
    family(name, "counter", "Bytes of frames.", of_distance(|sum| sum.1.bytes));
    let name = "dunlin_fabric_packets_total";
    family(name, "counter", "Packets of a wire.", of_distance(|sum| sum.1.packets));
    let name = "dunlin_fabric_retransmissions_total";
    let help = "Segments of TCP that were sent again.";
    family(name, "counter", help, of_distance(|sum| sum.2.retransmissions));
    let name = "dunlin_fabric_pair_bytes_total";
    family(name, "counter", "Bytes of frames from one to another.", of_pair(|p| p.traffic.bytes));
    let name = "dunlin_fabric_pair_packets_total";
    let help = "Packets of a wire from one to another.";
    family(name, "counter", help, of_pair(|p| p.traffic.packets));
    let none = String::new();
    let name = "dunlin_fabric_not_counted_total";
    let help = "Frames that were not counted, since there are too many pairs.";
    family(name, "counter", help, vec![(none.clone(), counters.not_counted)]);
    let name = "dunlin_fabric_switched_packets_total";
    let help = "Packets that the switch has moved.";
    family(name, "counter", help, vec![(none, counters.switch.packets)]);
    let name = "dunlin_fabric_round_trip_seconds";
    _ = writeln!(text, "# HELP {name} Round trips that TCP has measured.");
    _ = writeln!(text, "# TYPE {name} histogram");
    for (distance, _, trips) in &sums {
        write_histogram(&mut text, name, distance.label(), trips);
    }
    text
}

fn write_histogram(text: &mut String, name: &str, distance: &str, trips: &RoundTrips) {
    let mut sum = 0;
    // The last range has no upper limit.
    for (bits, number) in trips.buckets.iter().enumerate().take(trips.buckets.len() - 1) {
        sum += number;
        let limit = (1_u64 << bits) as f64 / 1e6;
        _ = writeln!(text, "{name}_bucket{{distance=\"{distance}\",le=\"{limit}\"}} {sum}");
    }
    let (all, seconds) = (trips.number, trips.sum_us as f64 / 1e6);
    _ = writeln!(text, "{name}_bucket{{distance=\"{distance}\",le=\"+Inf\"}} {all}");
    _ = writeln!(text, "{name}_sum{{distance=\"{distance}\"}} {seconds}");
    _ = writeln!(text, "{name}_count{{distance=\"{distance}\"}} {all}");
}

fn labels(pair: &Pair) -> String {
    let name = |name: &Option<String>| escape(name.as_deref().unwrap_or_default());
    let (from, to) = (name(&pair.from), name(&pair.to));
    format!("{{from=\"{from}\",to=\"{to}\",distance=\"{}\"}}", pair.distance.label())
}

/// A value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Traffic;

    #[test]
    fn names_of_containers_cannot_break_the_format() {
        let pair = Pair {
            from: Some("a\"b\\c\nd".into()),
            to: None,
            distance: Distance::Outside,
            traffic: Traffic { frames: 1, packets: 2, bytes: 300, payload: 100 },
            round_trips: RoundTrips::default(),
        };
        let text = text(&[pair], &Counters::default());
        let labels = r#"{from="a\"b\\c\nd",to="",distance="outside"}"#;
        assert!(text.contains(&format!("dunlin_fabric_pair_bytes_total{labels} 300\n")), "{text}");
        assert!(text.contains("dunlin_fabric_packets_total{distance=\"outside\"} 2\n"), "{text}");
    }

    #[test]
    fn histogram_is_cumulative_and_ends_with_all() {
        let mut trips = RoundTrips { number: 4, sum_us: 30, ..RoundTrips::default() };
        (trips.buckets[1], trips.buckets[3], trips.buckets[crate::BUCKETS - 1]) = (1, 2, 1);
        let mut text = String::new();
        write_histogram(&mut text, "t", "d", &trips);
        for line in [
            "t_bucket{distance=\"d\",le=\"0.000002\"} 1",
            "t_bucket{distance=\"d\",le=\"0.000008\"} 3",
            "t_bucket{distance=\"d\",le=\"+Inf\"} 4",
            "t_sum{distance=\"d\"} 0.00003",
            "t_count{distance=\"d\"} 4",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
