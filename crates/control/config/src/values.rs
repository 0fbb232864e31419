//! Reads single values: each function takes a TOML value, or says what it expected.
use crate::limits::{PATH_LEN_MAX, TEXT_SHOWN_MAX};
use answer::CookieSecret;
use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use toml::de::DeValue;
use wire::NameBuf;
use zonefile::InvalidName;

/// Why a value is refused.
pub struct Wrong {
    pub message: String,
    pub help: Option<String>,
}

impl From<String> for Wrong {
    fn from(message: String) -> Self {
        Self { message, help: None }
    }
}

/// The begin of a text, short enough for a message.
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(TEXT_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// The kind of a value, for a message.
pub fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {:?}", shorten(text)),
        DeValue::Integer(number) => format!("the number {}", shorten(number.as_str())),
        DeValue::Boolean(value) => format!("{value}"),
        other => format!("a value of type {}", other.type_str()),
    }
}

pub fn expected<T>(what: impl Display, value: &DeValue<'_>) -> Result<T, Wrong> {
    Err(format!("expected {what}, found {}", describe(value)).into())
}

/// `true` or `false`.
pub fn boolean(value: &DeValue<'_>) -> Result<bool, Wrong> {
    value.as_bool().map_or_else(|| expected("true or false", value), Ok)
}

pub fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A number within a range.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&DeValue<'_>) -> Result<T, Wrong>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| {
        let number = integer(value).and_then(|number| T::try_from(number).ok());
        let what = || format!("a number from {} to {}", range.start(), range.end());
        number.filter(|number| range.contains(number)).map_or_else(|| expected(what(), value), Ok)
    }
}

/// A text of up to `max` bytes.
pub fn text(max: usize) -> impl Fn(&DeValue<'_>) -> Result<String, Wrong> {
    move |value| match value.as_str() {
        Some(text) if text.len() <= max => Ok(text.to_owned()),
        Some(text) => Err(format!("at most {max} bytes, found {}", text.len()).into()),
        None => expected("a text", value),
    }
}

/// The path of a file.
pub fn file(value: &DeValue<'_>) -> Result<PathBuf, Wrong> {
    match text(PATH_LEN_MAX)(value)? {
        empty if empty.is_empty() => expected("the path of a file", value),
        path => Ok(path.into()),
    }
}

/// One of a few words, each with a value. Case does not matter.
pub fn word<T: Copy, const N: usize>(
    words: [(&'static str, T); N],
) -> impl Fn(&DeValue<'_>) -> Result<T, Wrong> {
    move |value| {
        let found = words
            .iter()
            .find(|(word, _)| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(word)));
        let all = || {
            let mut words = words.map(|(word, _)| format!("\"{word}\"")).to_vec();
            match (words.pop(), words.join(", ")) {
                (Some(last), others) if !others.is_empty() => format!("{others} or {last}"),
                (last, _) => last.unwrap_or_default(),
            }
        };
        found.map_or_else(|| expected(all(), value), |(_, meaning)| Ok(*meaning))
    }
}

/// `"192.0.2.1:53"`, `"[2001:db8::1]:53"`, or the same without a port, which then is 53.
pub fn address(value: &DeValue<'_>) -> Result<SocketAddr, Wrong> {
    let Some(text) = value.as_str() else { return expected("an address and port", value) };
    socket_address(text, 53).or_else(|Wrong { help, .. }| {
        let what = "an address such as \"192.0.2.1:53\" or \"[2001:db8::1]:53\"";
        expected(what, value).map_err(|wrong: Wrong| Wrong { help, ..wrong })
    })
}

/// The address, and its port or the default.
pub fn socket_address(text: &str, port: u16) -> Result<SocketAddr, Wrong> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    text.parse().or_else(|_| bare.parse().map(|ip: IpAddr| SocketAddr::new(ip, port))).map_err(
        |_| {
            let message = format!("it needs an address such as \"192.0.2.1:{port}\"");
            Wrong { message, help: likely_address(text) }
        },
    )
}

/// A suggestion for an invalid address.
fn likely_address(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Some(format!("for all addresses: \"0.0.0.0:{port}\", \"[::]:{port}\""));
    }
    match host {
        "localhost" => {
            let port = if port.is_empty() { "53" } else { port };
            Some(format!("names are not looked up here: \"127.0.0.1:{port}\""))
        }
        "*" => Some(format!("for all addresses: \"0.0.0.0:{port}\", \"[::]:{port}\"")),
        _ if host.parse::<Ipv6Addr>().is_ok() => {
            Some(format!("an IPv6 address with a port has brackets: \"[{host}]:{port}\""))
        }
        _ if host.parse::<IpAddr>().is_ok() => Some("a port is a number up to 65535".into()),
        _ => None,
    }
}

/// A cookie secret: 128 bits in hexadecimal. An invalid one is not quoted.
pub fn secret(value: &DeValue<'_>) -> Result<CookieSecret, Wrong> {
    let digits = value.as_str().unwrap_or_default().as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut secret = [0; 16];
    let wrong = || {
        let help = Some("`openssl rand -hex 16` makes one".into());
        let message = match digits.len() {
            32 => "expected 32 hexadecimal digits, found others".to_owned(),
            count => format!("expected 32 hexadecimal digits, found {count} characters"),
        };
        Wrong { message, help }
    };
    if digits.len() != 32 {
        return Err(wrong());
    }
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let (high, low) = digit(pair[0]).zip(digit(pair[1])).ok_or_else(wrong)?;
        *byte = high << 4 | low;
    }
    Ok(CookieSecret(secret))
}

/// The name of a zone, in lower case; the final dot may be left out.
pub fn zone_name(value: &DeValue<'_>) -> Result<NameBuf, Wrong> {
    let Some(text) = value.as_str() else { return expected("the name of a zone", value) };
    name(text)
}

/// A name, in lower case; the final dot may be left out.
pub fn name(text: &str) -> Result<NameBuf, Wrong> {
    let mut name = zonefile::read_name(text).map_err(|InvalidName { what, help }| Wrong {
        message: format!("{:?} {what}", shorten(text)),
        help: help.map(str::to_owned),
    })?;
    name.make_lowercase();
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_lower_case_and_its_u_labels_are_a_labels() {
        let read = |text: &str| zone_name(&DeValue::String(text.into()));
        let name = read("Bücher.Example.ORG").ok().map(|name| name.to_string());
        assert_eq!(name.as_deref(), Some("xn--bcher-kva.example.org."));
        let Err(Wrong { message, help }) = read("a b.example") else { panic!("it has a space") };
        assert_eq!(message, "\"a b.example\" is not a name: it has a space");
        assert!(help.is_some_and(|help| help.contains("\\032")));
    }

    #[test]
    fn address_has_a_port_or_the_default() {
        let read = |text: &str| address(&DeValue::String(text.into())).ok().map(|a| a.to_string());
        assert_eq!(read("127.0.0.1:5300").as_deref(), Some("127.0.0.1:5300"));
        assert_eq!(read("::1").as_deref(), Some("[::1]:53"));
        assert_eq!(read("[::1]").as_deref(), Some("[::1]:53"));
        assert_eq!(read("127.0.0.1:").as_deref(), None);
        assert_eq!(read("localhost:53").as_deref(), None);
    }
}
