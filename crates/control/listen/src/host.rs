//! Whether a request was meant for this server. A web page can make a browser send requests to a
//! loopback address under a name of its own ("DNS rebinding"), and read the answers.
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri};
use std::net::IpAddr;

/// Whether all hosts that a request names are an address, `localhost`, or one of `names`. A
/// request without a Host (HTTP/1.0) comes from no browser.
pub fn is_expected_host(uri: &Uri, headers: &HeaderMap, names: &[String]) -> bool {
    let is_known = |host: &str| {
        let host = host.trim_matches(['[', ']']);
        let name = host.strip_suffix('.').unwrap_or(host);
        let is_name =
            |known: &str| known.strip_suffix('.').unwrap_or(known).eq_ignore_ascii_case(name);
        host.parse::<IpAddr>().is_ok() || is_name("localhost") || names.iter().any(|n| is_name(n))
    };
    let is_known_field = |field: &HeaderValue| {
        let authority = field.to_str().ok().and_then(|text| text.parse::<Authority>().ok());
        authority.is_some_and(|authority| is_known(authority.host()))
    };
    uri.host().is_none_or(is_known) && headers.get_all(HOST).iter().all(is_known_field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).expect("a field"));
        }
        let names = ["ns1.example.org".to_owned()];
        is_expected_host(&target.parse().expect("a target"), &headers, &names)
    }

    #[test]
    fn only_addresses_localhost_and_listed_names_are_expected() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9153",
            "[::1]:9153",
            "[::1]",
            "192.0.2.1",
            "localhost",
            "LocalHost:9153",
            "localhost.",
            "ns1.example.org:9153",
            "NS1.Example.org.",
        ] {
            assert!(check("/metrics", &[host]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9153",
            "localhost.evil.example",
            "",
            "x@evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "a b",
            "example.org",
        ] {
            assert!(!check("/metrics", &[host]), "{host}");
        }
        assert!(check("/metrics", &[]), "HTTP/1.0");
        assert!(!check("/metrics", &["localhost", "evil.example"]));
        assert!(!check("http://evil.example/metrics", &["localhost"]));
        assert!(check("http://localhost:9153/metrics", &["localhost:9153"]));
    }
}
