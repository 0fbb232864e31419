//! How a report looks.
use crate::limits::TABLE_PAIRS_MAX;
use crate::traffic::{Distance, Pair, RoundTrips, SwitchCounts, Traffic, by_distance};
use command_line::{Side, align, count, format_bytes, percent, rate};
use serde::Serialize;
use std::io::{self, Write};

/// What was counted in an interval.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How long the interval was.
    pub seconds: f64,
    /// Interfaces that are watched.
    pub interfaces: usize,
    /// Frames that were not counted so far, since the table of pairs is full.
    pub not_counted: u64,
    /// All pairs with traffic; most bytes first.
    pub pairs: Vec<Pair>,
    /// The sums of each distance, nearest first.
    pub distances: Vec<DistanceShare>,
    /// What the switch has done so far.
    pub switch: SwitchCounts,
}

/// The traffic of a distance.
#[derive(Debug, Serialize)]
pub struct DistanceShare {
    /// How far.
    pub distance: Distance,
    /// Its share of all bytes: 0 to 1.
    pub share: f64,
    /// What is sent over it.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Its round trips.
    pub round_trips: RoundTrips,
}

/// The shares of all distances.
pub fn shares(pairs: &[Pair]) -> Vec<DistanceShare> {
    let sums = by_distance(pairs);
    let all: u64 = sums.iter().map(|(_, traffic, _)| traffic.bytes).sum();
    sums.into_iter()
        .map(|(distance, traffic, round_trips)| DistanceShare {
            distance,
            share: traffic.bytes as f64 / (all.max(1) as f64),
            traffic,
            round_trips,
        })
        .collect()
}

impl Report {
    /// Writes it as text.
    ///
    /// # Errors
    /// The output is gone.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let interfaces = count(self.interfaces as u64);
        writeln!(out, "{interfaces} interfaces watched, {:.1} s", self.seconds)?;
        if self.not_counted > 0 {
            let lost = count(self.not_counted);
            writeln!(out, "{lost} frames are not counted: there are too many pairs")?;
        }
        let head = ["DISTANCE", "SHARE", "BYTES/S", "PACKETS/S", "RTT P50", "RTT P99", "RESENT"];
        let mut rows = vec![head.map(str::to_owned)];
        for one in &self.distances {
            rows.push([
                one.distance.to_string(),
                percent(one.share),
                self.bytes_per_second(&one.traffic),
                rate(one.traffic.packets as f64 / self.seconds),
                time(&one.round_trips, 0.5),
                time(&one.round_trips, 0.99),
                count(one.round_trips.retransmissions),
            ]);
        }
        use Side::{Left, Right};
        for line in align([Left, Right, Right, Right, Right, Right, Right], &rows) {
            writeln!(out, "{line}")?;
        }
        self.write_pairs(out)
    }

    fn write_pairs(&self, out: &mut impl Write) -> io::Result<()> {
        let head = ["BYTES/S", "PACKETS/S", "RTT P50", "DISTANCE", "FROM", "TO"];
        let mut rows = vec![head.map(str::to_owned)];
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "(outside)".into());
        for pair in self.pairs.iter().take(TABLE_PAIRS_MAX) {
            rows.push([
                self.bytes_per_second(&pair.traffic),
                rate(pair.traffic.packets as f64 / self.seconds),
                time(&pair.round_trips, 0.5),
                pair.distance.to_string(),
                name(&pair.from),
                name(&pair.to),
            ]);
        }
        writeln!(out)?;
        use Side::{Left, Right};
        for line in align([Right, Right, Right, Left, Left, Left], &rows) {
            writeln!(out, "{line}")?;
        }
        match self.pairs.len().saturating_sub(TABLE_PAIRS_MAX) {
            0 => Ok(()),
            more => writeln!(out, "and {} more (-o json has all)", count(more as u64)),
        }
    }

    fn bytes_per_second(&self, traffic: &Traffic) -> String {
        format_bytes((traffic.bytes as f64 / self.seconds) as u64)
    }
}

/// An upper limit of a share of round trips.
fn time(trips: &RoundTrips, share: f64) -> String {
    match trips.quantile_us(share).filter(|_| trips.number > 0) {
        Some(us) => format!("< {} us", count(us)),
        None => "-".into(),
    }
}
