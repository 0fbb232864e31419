//! Reads values that carry a unit or a mask: durations, sizes, prefixes.
use crate::config::values::{Wrong, describe};
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
        None => expected("a duration such as \"250ms\", \"10s\", \"5m\" or \"1h\"", value),
    }
}

/// Reads `"250ms"`, `"10s"`, `"5m"` or `"1h"`.
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

/// `"64KiB"`, `"32MiB"` or `"1GiB"`, within a range of octets.
pub fn octets(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Result<u64, Wrong> {
    move |value| {
        let read = |text: &str| {
            let (number, unit) = split(text)?;
            let octets: u64 = match unit {
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                _ => return None,
            };
            number.checked_mul(octets)
        };
        match value.as_str().and_then(read) {
            Some(octets) if range.contains(&octets) => Ok(octets),
            Some(_) => {
                let kib = |octets: &u64| octets >> 10;
                let what = format!("{} KiB to {} KiB", kib(range.start()), kib(range.end()));
                expected(&what, value)
            }
            None => expected("a size such as \"64KiB\", \"32MiB\" or \"1GiB\"", value),
        }
    }
}

/// A network: all addresses whose first `len` bits are those of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub address: IpAddr,
    /// 0 to 32, or 0 to 128.
    pub len: u8,
}

impl Prefix {
    /// Whether an address is in it.
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.len);
                (own.to_bits() ^ other.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.len);
                (own.to_bits() ^ other.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// The address without the bits behind the prefix.
    fn masked(address: IpAddr, len: u8) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
        }
    }
}

/// One entry of an access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub prefix: Prefix,
    pub allow: bool,
}

/// Whether the entries let an address in: the longest prefix that holds it decides, and what none
/// holds stays out.
pub fn allows(rules: &[Rule], address: IpAddr) -> bool {
    let holding = rules.iter().filter(|rule| rule.prefix.holds(address));
    holding.max_by_key(|rule| rule.prefix.len).is_some_and(|rule| rule.allow)
}

/// `"10.0.0.0/8"`, `"2001:db8::/32"`, or one address.
pub fn prefix(value: &DeValue<'_>) -> Result<Prefix, Wrong> {
    let what = "a prefix such as \"10.0.0.0/8\" or \"2001:db8::/32\"";
    let Some(text) = value.as_str() else { return expected(what, value) };
    parse_prefix(text).unwrap_or_else(|| expected(what, value))
}

/// Nothing: this is no prefix.
fn parse_prefix(text: &str) -> Option<Result<Prefix, Wrong>> {
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let len_max = if address.is_ipv4() { 32 } else { 128 };
    let len = match len {
        Some(len) => len.parse().ok().filter(|len| *len <= len_max)?,
        None => len_max,
    };
    let masked = Prefix::masked(address, len);
    Some(if masked == address {
        Ok(Prefix { address, len })
    } else {
        let message = format!("{text:?} has bits set behind its prefix");
        Err(Wrong { help: Some(format!("did you mean \"{masked}/{len}\"?")), ..message.into() })
    })
}

/// Every address there is.
pub fn anybody(allow: bool) -> Vec<Rule> {
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)]
        .map(|address| Rule { prefix: Prefix { address, len: 0 }, allow })
        .into()
}

/// A prefix to let in, with a `!` before it one to keep out; `"any"` is everybody.
pub fn rules(value: &DeValue<'_>) -> Result<Vec<Rule>, Wrong> {
    let what = "a prefix to let in such as \"10.0.0.0/8\", one to keep out such as \
                \"!192.0.2.0/24\", or \"any\"";
    let Some(text) = value.as_str() else { return expected(what, value) };
    let (text, allow) = text.strip_prefix('!').map_or((text, true), |rest| (rest, false));
    if text == "any" {
        return Ok(anybody(allow));
    }
    match parse_prefix(text) {
        Some(prefix) => Ok(vec![Rule { prefix: prefix?, allow }]),
        None => expected(what, value),
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
        let size = |told| octets(0..=u64::MAX)(&text(told)).ok();
        assert_eq!(size("64KiB"), Some(65536));
        assert_eq!([size("64"), size("64KB"), size("99999999999GiB")], [None; 3]);
    }

    #[test]
    fn the_longest_prefix_decides() {
        let list: Vec<Rule> = ["any", "!10.0.0.0/8", "10.1.0.0/16", "!2001:db8::/32"]
            .iter()
            .flat_map(|rule| rules(&text(rule)).ok().expect("a rule"))
            .collect();
        let allowed = |address: &str| allows(&list, address.parse().expect("an address"));
        assert!(allowed("192.0.2.1") && allowed("10.1.2.3") && allowed("::1"));
        assert!(!allowed("10.2.0.1") && !allowed("2001:db8::1"));
        assert!(!allows(&[], "192.0.2.1".parse().expect("an address")), "nobody is let in by none");
    }

    #[test]
    fn bits_behind_a_prefix_are_told_with_what_was_meant() {
        let wrong = prefix(&text("10.1.2.3/8")).err().expect("wrong");
        assert_eq!(wrong.help.as_deref(), Some("did you mean \"10.0.0.0/8\"?"));
        let whole = prefix(&text("2001:db8::1")).ok().expect("an address is a prefix");
        assert_eq!(whole.len, 128);
        assert!(prefix(&text("10.0.0.0/33")).is_err());
    }
}
