//! Reads values with a unit or a mask: durations, sizes, prefixes.
use crate::values::{Wrong, describe};
use command_line::{read_bytes, read_duration};
use limit::{AclRule, Prefix, PrefixError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::de::DeValue;

fn expected<T>(what: &str, value: &DeValue<'_>) -> Result<T, Wrong> {
    Err(format!("expected {what}, found {}", describe(value)).into())
}

/// Splits `"10s"` into its number and its unit.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// `"250ms"`, `"10s"`, `"5m"` or `"1h"`, within a range.
pub fn duration(
    range: RangeInclusive<Duration>,
) -> impl Fn(&DeValue<'_>) -> Result<Duration, Wrong> {
    move |value| match value.as_str().and_then(read_duration) {
        Some(duration) if range.contains(&duration) => Ok(duration),
        Some(_) => {
            let what = format!("{:?} to {:?}", range.start(), range.end());
            expected(&what, value)
        }
        None => expected("a duration such as \"250ms\", \"10s\", \"5m\" or \"1h\"", value)
            .map_err(|wrong: Wrong| Wrong { help: likely_duration(value), ..wrong }),
    }
}

/// The number and the unit of a text that must have both.
fn parts<'v>(value: &'v DeValue<'_>) -> Option<(u64, &'v str)> {
    match value.as_integer() {
        Some(number) => Some((number.as_str().parse().ok()?, "")),
        None => split(value.as_str()?),
    }
}

/// A suggestion for an invalid duration.
fn likely_duration(value: &DeValue<'_>) -> Option<String> {
    let (number, unit) = parts(value)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => return Some(format!("with its unit: \"{number}s\"")),
        "msec" | "millis" | "milliseconds" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        _ => return None,
    };
    Some(format!("did you mean \"{number}{unit}\"?"))
}

/// A suggestion for an invalid size.
fn likely_size(value: &DeValue<'_>) -> Option<String> {
    let (number, unit) = parts(value)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "b" if number >= 1 << 16 => {
            return Some(format!("with its unit: \"{}KiB\"", number >> 10));
        }
        "" => return Some(format!("with its unit: \"{number}MiB\"")),
        "k" | "kb" | "ki" | "kib" => "KiB",
        "m" | "mb" | "mi" | "mib" => "MiB",
        "g" | "gb" | "gi" | "gib" => "GiB",
        _ => return None,
    };
    Some(format!("did you mean \"{number}{unit}\"?"))
}

/// `"64KiB"`, `"32MiB"` or `"1GiB"`, within a range of bytes.
pub fn bytes(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Result<u64, Wrong> {
    move |value| match value.as_str().and_then(read_bytes) {
        Some(bytes) if range.contains(&bytes) => Ok(bytes),
        Some(_) => expected(&sizes(&range), value),
        None => expected(&sizes(&range), value)
            .map_err(|wrong: Wrong| Wrong { help: likely_size(value), ..wrong }),
    }
}

/// `a size from "1MiB" to "256GiB"`: bounds as they can be written.
fn sizes(range: &RangeInclusive<u64>) -> String {
    let size = |bytes: u64| {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let unit = units.into_iter().find(|(bits, _)| bytes.trailing_zeros() >= *bits);
        match unit.filter(|_| bytes > 0) {
            Some((bits, unit)) => format!("{}{unit}", bytes >> bits),
            None => format!("{}KiB", bytes >> 10),
        }
    };
    format!("a size from {:?} to {:?}", size(*range.start()), size(*range.end()))
}

/// `"10.0.0.0/8"`, `"2001:db8::/32"`, or one address.
pub fn prefix(value: &DeValue<'_>) -> Result<Prefix, Wrong> {
    match value.as_str() {
        Some(text) => parse_prefix(text, value),
        None => expected("a prefix such as \"10.0.0.0/8\" or \"2001:db8::/32\"", value),
    }
}

fn parse_prefix(text: &str, value: &DeValue<'_>) -> Result<Prefix, Wrong> {
    text.parse().map_err(|error| {
        let found = describe(value);
        match error {
            PrefixError::HostBits { meant } => {
                let help = Some(format!("did you mean \"{meant}\"?"));
                Wrong { help, ..format!("host bits are set in {found}").into() }
            }
            other => format!("{other}, found {found}").into(),
        }
    })
}

/// All addresses.
pub fn anybody(listed: bool) -> Vec<AclRule> {
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)]
        .map(|address| AclRule { prefix: Prefix::new(address, 0).expect("it has no bits"), listed })
        .into()
}

/// Networks that are not reachable from the Internet: RFC 1918, RFC 6598, RFC 4193, link-local and
/// loopback addresses.
const PRIVATE: [(&str, u8); 9] = [
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.168.0.0", 16),
    ("::1", 128),
    ("fc00::", 7),
    ("fe80::", 10),
];

/// Addresses of these networks.
pub fn private() -> Vec<AclRule> {
    PRIVATE.map(listed).into()
}

/// Addresses of this host alone.
pub fn loopback() -> Vec<AclRule> {
    [("127.0.0.0", 8), ("::1", 128)].map(listed).into()
}

/// The rule that lets a prefix in.
fn listed((address, len): (&str, u8)) -> AclRule {
    let address = address.parse().expect("an address");
    AclRule { prefix: Prefix::new(address, len).expect("no bits behind it"), listed: true }
}

/// A prefix to allow, or with `!` before it to deny; `"any"` is every client, `"private"` every
/// client that is not reachable from the Internet.
pub fn rules(value: &DeValue<'_>) -> Result<Vec<AclRule>, Wrong> {
    let Some(text) = value.as_str() else {
        let what = "a prefix to allow such as \"10.0.0.0/8\", one to deny such as \
                    \"!192.0.2.0/24\", or \"any\"";
        return expected(what, value);
    };
    let (text, listed) = text.strip_prefix('!').map_or((text, true), |rest| (rest, false));
    match text {
        "any" => Ok(anybody(listed)),
        "private" => Ok(private().into_iter().map(|rule| AclRule { listed, ..rule }).collect()),
        _ => Ok(vec![AclRule { prefix: parse_prefix(text, value)?, listed }]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> DeValue<'_> {
        DeValue::String(text.into())
    }

    #[test]
    fn durations_and_sizes_have_units() {
        let ms = |told| duration(Duration::ZERO..=Duration::MAX)(&text(told)).ok();
        assert_eq!(ms("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(ms("2 h"), Some(Duration::from_secs(7200)));
        assert_eq!([ms("10"), ms("s"), ms("-1s"), ms("99999999999999999999h")], [None; 4]);
        let size = |told| bytes(0..=u64::MAX)(&text(told)).ok();
        assert_eq!(size("64KiB"), Some(65536));
        assert_eq!([size("64"), size("64KB"), size("99999999999GiB")], [None; 3]);
        for wrong in ["1KiB", "100TiB", "512GiB"] {
            let error = bytes(1 << 20..=256 << 30)(&text(wrong)).expect_err(wrong);
            let expected = "expected a size from \"1MiB\" to \"256GiB\"";
            assert!(error.message.starts_with(expected), "{}", error.message);
        }
    }

    #[test]
    fn bits_after_a_prefix_are_an_error_with_a_suggestion() {
        let help = |told| prefix(&text(told)).err().and_then(|wrong| wrong.help);
        assert_eq!(help("10.1.2.3/8").as_deref(), Some("did you mean \"10.0.0.0/8\"?"));
        let whole = prefix(&text("2001:db8::1")).ok().expect("an address is a prefix");
        assert_eq!(whole.len(), 128);
        assert!(prefix(&text("10.0.0.0/33")).is_err());
    }
}
