//! Values on the command line that carry a unit.
use crate::config::read_duration;
use std::time::Duration;

/// `64KiB`, `4MiB` or `1GiB`, in octets.
///
/// # Errors
/// What was expected.
pub fn read_size(text: &str) -> Result<usize, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit: Option<usize> = match unit {
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let octets = number.parse().ok().zip(unit);
    octets
        .and_then(|(number, unit): (usize, usize)| number.checked_mul(unit))
        .ok_or_else(|| "expected a size such as \"64KiB\", \"4MiB\" or \"1GiB\"".into())
}

/// `50us`, `1ms` or longer.
///
/// # Errors
/// What was expected.
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
