//! Zone names in a Corefile: with scheme and port, or as a network.
use crate::limits::REVERSE_MAX;
pub use import_report::domain_name as name;
use std::net::{IpAddr, Ipv6Addr};

/// A zone before a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerKey {
    /// `dns`, `tls`, `https`, …
    pub scheme: String,
    /// In lower case, without the final dot; `.` is the root.
    pub zones: Vec<String>,
    pub port: u16,
}

/// Parses a zone.
pub fn key(text: &str) -> Result<ServerKey, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("dns", text));
    let usual = match scheme {
        "tls" | "quic" => 853,
        "https" | "grpc" | "https3" => 443,
        _ => 53,
    };
    // An IPv6 network has colons, and its length after them.
    let (zone, port) = match rest.rsplit_once(':') {
        Some((zone, port)) if rest.parse::<Ipv6Addr>().is_err() && !port.contains('/') => {
            (zone, port.parse().map_err(|_| format!("{port:?} is not a port"))?)
        }
        _ => (rest, usual),
    };
    let zone = if zone.is_empty() { "." } else { zone };
    Ok(ServerKey { scheme: scheme.to_owned(), zones: zones(zone)?, port })
}

/// The zones of a name or a network.
pub fn zones(text: &str) -> Result<Vec<String>, String> {
    match text.split_once('/') {
        None => Ok(vec![name(text)?]),
        // A reverse zone of a part of a network (RFC 2317 §4), such as 0/25.2.0.192.in-addr.arpa.
        Some((address, len)) if len.contains('.') && address.parse::<IpAddr>().is_err() => {
            Ok(vec![name(text)?])
        }
        Some((address, len)) => {
            let network = address.parse().ok().zip(len.parse().ok());
            let (address, len) = network.ok_or_else(|| format!("{text:?} is not a network"))?;
            reverse(address, len).ok_or_else(|| format!("{text:?} is not a network"))
        }
    }
}

/// Whether a zone is another one or below it.
pub fn is_within(zone: &str, of: &str) -> bool {
    of == "." || zone == of || zone.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'))
}

/// The reverse zones of a network; several if it does not end at a label.
fn reverse(address: IpAddr, len: u32) -> Option<Vec<String>> {
    let (bits, all, label, suffix) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32, 8, "in-addr.arpa"),
        IpAddr::V6(address) => (u128::from(address), 128, 4, "ip6.arpa"),
    };
    if len > all {
        return None;
    }
    let rounded = len.div_ceil(label) * label;
    let count = 1_u32 << (rounded - len);
    let kept = if len == 0 { 0 } else { bits & (u128::MAX << (128 - len)) };
    let zone = |nth: u32| {
        let step = if rounded == 0 { 0 } else { u128::from(nth) << (128 - rounded) };
        let bits = kept | step;
        let labels = (0..rounded / label).rev().map(|at| {
            let value = bits >> (128 - label * (at + 1)) & ((1 << label) - 1);
            if label == 4 { format!("{value:x}.") } else { format!("{value}.") }
        });
        labels.collect::<String>() + suffix
    };
    Some((0..count.min(REVERSE_MAX)).map(zone).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Vec<String>, u16) {
        let key = key(text).expect("a key");
        (key.scheme, key.zones, key.port)
    }

    #[test]
    fn keys_are_zones_and_ports() {
        let key = |scheme: &str, zones: &[&str], port| {
            (scheme.to_owned(), zones.iter().map(|z| (*z).to_owned()).collect(), port)
        };
        assert_eq!(read(".:53"), key("dns", &["."], 53));
        assert_eq!(read("Example.ORG."), key("dns", &["example.org"], 53));
        assert_eq!(read(":1053"), key("dns", &["."], 1053));
        assert_eq!(read("tls://example.org"), key("tls", &["example.org"], 853));
        assert_eq!(read("dns://.:5353"), key("dns", &["."], 5353));
        assert_eq!(read("10.0.0.0/8"), key("dns", &["10.in-addr.arpa"], 53));
        assert_eq!(read("10.1.0.0/16:54"), key("dns", &["1.10.in-addr.arpa"], 54));
        assert_eq!(read("2001:db8::/32"), key("dns", &["8.b.d.0.1.0.0.2.ip6.arpa"], 53));
        assert_eq!(read("192.0.2.0/31").1, ["0.2.0.192.in-addr.arpa", "1.2.0.192.in-addr.arpa"]);
        assert_eq!(read("0.0.0.0/0").1, ["in-addr.arpa"]);
        let part = "32/27.2.0.192.in-addr.arpa";
        assert_eq!(read(part), key("dns", &[part], 53));
        assert_eq!(read("32/27.2.0.192.in-addr.arpa:54"), key("dns", &[part], 54));
        assert_eq!(read("10.0.0.0/9").1.len(), 128);
        for wrong in ["a..b", ".:99999", "10.0.0.0/33", "x/8", "a:b"] {
            assert!(key_is_wrong(wrong), "{wrong}");
        }
    }

    fn key_is_wrong(text: &str) -> bool {
        super::key(text).is_err()
    }
}
