//! One line per interval, for spreadsheets and plots (RFC 4180, without quoted fields).

use std::io::{self, Write};
use std::time::Duration;

use super::{PERCENTILES, Percentile, Period, since_1970};

/// Writes a run as comma-separated values.
#[derive(Debug)]
pub struct Csv<W> {
    out: W,
    timeout: Duration,
}

const COUNTS: [&str; 10] = [
    "since_ns",
    "until_ns",
    "planned",
    "sent",
    "unsent",
    "answered",
    "late",
    "timeouts",
    "wrong",
    "unexpected",
];

impl<W: Write> Csv<W> {
    /// Begins with the names of the columns.
    ///
    /// # Errors
    /// What `out` fails with; so with the lines.
    pub fn begin(mut out: W, timeout: Duration) -> io::Result<Self> {
        let names: Vec<String> = ["response", "service", "lateness"]
            .iter()
            .flat_map(|time| PERCENTILES.map(|(p, _)| format!("{time}_{p}_ns")))
            .collect();
        writeln!(out, "{},{}", COUNTS.join(","), names.join(","))?;
        Ok(Self { out, timeout })
    }

    /// An interval. A time longer than the timeout is unknown, and is written as an empty field.
    ///
    /// # Errors
    /// As with [`Csv::begin`].
    pub fn line(&mut self, period: &Period<'_>) -> io::Result<()> {
        let c = &period.counts;
        let counts = [
            since_1970(period.since),
            since_1970(period.until),
            c.planned,
            c.sent,
            c.unsent,
            c.answered,
            c.late,
            c.timeouts,
            c.wrong,
            c.unexpected,
        ];
        let times = [
            (period.response, self.timeout),
            (period.service, self.timeout),
            (period.lateness, Duration::MAX),
        ];
        let times = times.into_iter().flat_map(|(histogram, timeout)| {
            PERCENTILES.map(|(_, p)| match histogram.is_empty() {
                true => None,
                false => Percentile::of(histogram, p, timeout).known(),
            })
        });
        let fields: Vec<String> = counts
            .into_iter()
            .map(Some)
            .chain(times)
            .map(|field| field.map_or(String::new(), |number| number.to_string()))
            .collect();
        writeln!(self.out, "{}", fields.join(","))
    }
}
