//! Values of keys, in the forms that the config takes.
use crate::limits::{LABEL_LEN_MAX, PATH_LEN_MAX};
use import_report::{domain_name, shown};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// A switch, as gcfg reads it; a key alone is on.
pub fn switch(value: Option<&str>) -> Result<bool, String> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "yes" | "on" | "1") => Ok(true),
        Some("false" | "no" | "off" | "0") => Ok(false),
        Some(other) => Err(format!("{:?} is not true or false", shown(other))),
    }
}

/// A number.
pub fn number(value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    number.ok_or_else(|| format!("{:?} is not a number from {least} to {most}", shown(value)))
}

/// An address with its port. A port alone is one of all addresses.
pub fn address(value: &str) -> Result<SocketAddr, String> {
    let text = match value.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => value.to_owned(),
    };
    let address = text.parse().ok().filter(|address: &SocketAddr| address.port() > 0);
    let is_plain = |address: &SocketAddr| !text.contains('%') && address.port() > 0;
    address
        .filter(is_plain)
        .ok_or_else(|| format!("{:?} is not an address and a port, IP:PORT", shown(value)))
}

/// The name of a zone.
pub fn zone(value: &str) -> Result<String, String> {
    if value.trim().is_empty() {
        return Err("a name is missing".to_owned());
    }
    let name = domain_name(value.trim()).map_err(|why| shown(&why))?;
    if name == "." {
        return Err("the root is no zone of a server like this".to_owned());
    }
    Ok(name)
}

/// The name of a server.
pub fn server_name(value: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=LABEL_LEN_MAX).contains(&value.len()) && value.bytes().all(is_plain) {
        return Ok(value.to_owned());
    }
    Err(format!(
        "{:?} is not up to {LABEL_LEN_MAX} letters, digits, `-`, `_` and `.`",
        shown(value)
    ))
}

/// The name of a cluster.
pub fn cluster(value: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_short = (1..=LABEL_LEN_MAX).contains(&value.len());
    if is_short && value.bytes().all(is_plain) && !value.starts_with('-') && !value.ends_with('-') {
        return Ok(value.to_owned());
    }
    let help = "lower-case letters, digits and hyphens";
    Err(format!("{:?} is not up to {LABEL_LEN_MAX} {help}", shown(value)))
}

/// The path of a file.
pub fn path(value: &str) -> Result<String, String> {
    match value.len() <= PATH_LEN_MAX && !value.chars().any(char::is_control) {
        true => Ok(value.to_owned()),
        false => Err(format!("{:?} is not a path", shown(value))),
    }
}

/// The URL of a member of etcd; without a scheme, `scheme` is its scheme. It is in no error: it may
/// have a password.
pub fn endpoint(value: &str, scheme: &str) -> Result<String, String> {
    let value = value.trim().trim_end_matches('/');
    let (scheme, rest) = value.split_once("://").unwrap_or((scheme, value));
    if rest.contains('@') {
        let help = "write them as [etcd] user and password_file";
        return Err(format!("a URL has credentials, which are omitted with it: {help}"));
    }
    let has_port = |rest: &str| {
        let port = rest.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        let is_host = |host: &str| {
            let is_other = |byte: u8| !byte.is_ascii_graphic() || b"/?#\"\\".contains(&byte);
            (1..=255).contains(&host.len()) && !host.bytes().any(is_other)
        };
        matches!(port, Some((host, Ok(1..))) if is_host(host))
    };
    if matches!(scheme, "http" | "https") && has_port(rest) {
        return Ok(format!("{scheme}://{rest}"));
    }
    Err("a URL is not http:// or https:// with a host and a port".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_the_config_takes() {
        assert_eq!(switch(None), Ok(true));
        assert_eq!(switch(Some("NO")), Ok(false));
        assert!(switch(Some("")).is_err());
        assert_eq!(number("7", 1..=7), Ok(7));
        assert!(number("0", 1..=7).is_err() && number("-1", 0..=7).is_err());
        assert_eq!(address(":53").unwrap().to_string(), "[::]:53");
        for wrong in ["", "53", "1.2.3.4", "1.2.3.4:0", "host:53", "[fe80::1%2]:53"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert_eq!(zone(" Containerdns.LOCAL. ").as_deref(), Ok("containerdns.local"));
        assert!(zone("").is_err() && zone(".").is_err() && zone("a..b").is_err());
        assert_eq!(endpoint("a:1/", "http").as_deref(), Ok("http://a:1"));
        assert_eq!(endpoint("https://[::1]:2379", "http").as_deref(), Ok("https://[::1]:2379"));
        for wrong in ["", "a", "ftp://a:1", "http://a/b:1", "http://:1", "http://a:0"] {
            assert!(endpoint(wrong, "http").is_err(), "{wrong}");
        }
        let error = endpoint("http://user:secret@a:1", "http").unwrap_err();
        assert!(error.contains("credentials") && !error.contains("secret"), "{error}");
        assert!(cluster("Fra1").is_err() && cluster("a-").is_err() && cluster("fra1-a").is_ok());
        assert!(server_name("10.0.0.1").is_ok() && server_name("a b").is_err());
    }
}
