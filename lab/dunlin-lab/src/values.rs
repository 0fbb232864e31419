//! Values on the command line that carry a unit.
use command_line::{read_bytes, read_duration};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Between two reports of what runs.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

/// `500ms`, `2s` or `1m`: the time between two reports.
///
/// # Errors
/// The expected form.
pub fn read_interval(text: &str) -> Result<Duration, String> {
    let interval = read_duration(text).filter(|interval| INTERVALS.contains(interval));
    interval.ok_or_else(|| "expected 100ms to 1h, such as \"500ms\", \"2s\" or \"1m\"".into())
}

/// `64KiB`, `4MiB` or `1GiB`, in bytes.
///
/// # Errors
/// The expected form.
pub fn read_size(text: &str) -> Result<usize, String> {
    let bytes = read_bytes(text).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "expected a size such as \"64KiB\", \"4MiB\" or \"1GiB\"".into())
}

/// `50us`, `1ms` or longer.
///
/// # Errors
/// The expected form.
pub fn read_time(text: &str) -> Result<Duration, String> {
    let micros = text.strip_suffix("us").filter(|digits| !digits.starts_with('+'));
    let micros = micros.and_then(|digits| digits.parse().ok()).map(Duration::from_micros);
    micros
        .or_else(|| read_duration(text))
        .ok_or_else(|| "expected a time such as \"50us\", \"1ms\" or \"2s\"".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(read_size("64KiB"), Ok(65_536));
        assert_eq!(read_size("0MiB"), Ok(0));
        assert_eq!(read_time("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(read_time("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["", "64", "64kb", "-1KiB", "+1KiB", "99999999999999999999KiB"] {
            assert!(read_size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "us", "-1us", "+1us", "1"] {
            assert!(read_time(wrong).is_err(), "{wrong}");
        }
    }
}
