//! Reads values with a unit.
use std::time::Duration;

/// Splits `10s` into its number and its unit.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Reads `250ms`, `10s`, `5m` or `1h`.
pub fn read_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

/// Reads `64KiB`, `32MiB` or `1GiB`, in bytes.
pub fn read_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes: u64 = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_need_a_known_unit_and_no_sign() {
        assert_eq!(read_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(read_duration("1h"), Some(Duration::from_secs(3_600)));
        assert_eq!(read_bytes("64KiB"), Some(65_536));
        assert_eq!(read_bytes("0MiB"), Some(0));
        for wrong in ["", "64", "64kb", "-1KiB", "+1KiB", "99999999999GiB", "s", "-1s", "9d"] {
            assert_eq!((read_duration(wrong), read_bytes(wrong)), (None, None), "{wrong}");
        }
    }
}
