//! HdrHistogram's interval log: what its own tools read and plot.

use std::io::{self, Write};
use std::time::SystemTime;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::Period;

/// A run's log: each interval's times under the tags `response`, `service` and `lateness`.
#[derive(Debug)]
pub struct Hlog;

impl Hlog {
    /// Writes all intervals of a run that began at `start`. Maxima are in ms, as the tools expect.
    ///
    /// # Errors
    /// What `out` fails with.
    pub fn write(
        out: &mut impl Write,
        start: SystemTime,
        stretches: &[Period<'_>],
    ) -> io::Result<()> {
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment("[written by dunlin lab; times in ns, maxima in ms]")
            .with_start_time(start)
            .with_base_time(start)
            .with_max_value_divisor(1e6)
            .begin_log_with(out, &mut serializer)?;
        for period in stretches {
            let begun = period.since.duration_since(start).unwrap_or_default();
            let length = period.until.duration_since(period.since).unwrap_or_default();
            for (tag, histogram) in [
                ("response", period.response),
                ("service", period.service),
                ("lateness", period.lateness),
            ] {
                log.write_histogram(histogram, begun, length, Tag::new(tag)).map_err(told)?;
            }
        }
        Ok(())
    }
}

fn told<E: std::fmt::Debug>(error: IntervalLogWriterError<E>) -> io::Error {
    match error {
        IntervalLogWriterError::IoError(error) => error,
        IntervalLogWriterError::SerializeError(error) => io::Error::other(format!("{error:?}")),
    }
}
