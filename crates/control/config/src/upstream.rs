//! Upstreams: address and transport as the operator wrote them. `[upstream]`: trusted CA
//! certificates.
use super::operate;
use super::section::Section;
use super::values::{self, Wrong, describe, shorten};
use std::fmt;
use std::path::PathBuf;
use toml::de::DeValue;
use upstream::pki_types::ServerName;
use upstream::{QueryTransport, UpstreamAddress};

/// The port of DNS over TLS (RFC 7858 §3.1), also of transfers (RFC 9103 §6.2).
pub const TLS_PORT: u16 = 853;
const PORT: u16 = 53;

/// `[upstream]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    /// CA certificates for upstreams; `None`: the system's.
    pub ca: Option<PathBuf>,
}

/// An upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// As written in the config.
    text: String,
    /// Where and how it is queried.
    pub address: UpstreamAddress,
}

impl Upstream {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let upstream = Self { ca: section.read("ca", None, operate::path) };
        section.close();
        upstream
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ServerAddress {
    /// A server that is queried over UDP.
    pub(super) fn over_udp(text: &str, at: std::net::SocketAddr) -> Self {
        Self { text: text.to_owned(), address: at.into() }
    }

    /// `"192.0.2.1"`, `"tcp://[2001:db8::1]:53"`, `"tls://192.0.2.1:853#dns.example"`: the text
    /// after the
    /// # is the name in the server's certificate; without it, that is the address.
    pub(super) fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let Some(text) = value.as_str() else {
            return Err(format!("expected a server, found {}", describe(value)).into());
        };
        let address = Self::parse(text).map_err(|mut wrong| {
            let found = shorten(text);
            wrong.message = format!("{found:?} is not a server: {}", wrong.message);
            wrong
        })?;
        Ok(Self { text: text.to_owned(), address })
    }

    fn parse(text: &str) -> Result<UpstreamAddress, Wrong> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (place, name) = match rest.split_once('#') {
            Some((place, name)) => (place, Some(name)),
            None => (rest, None),
        };
        let port = match scheme {
            "" | "tcp" => PORT,
            "tls" => TLS_PORT,
            _ => {
                let message =
                    "it is queried over \"tcp://\" or \"tls://\", or over UDP with nothing before \
                               the address"
                        .to_owned();
                // The path of a URL is of DNS over HTTPS, which is not spoken.
                let place = rest.split('/').next().unwrap_or_default();
                let help = Some(format!("such as \"tls://{place}\""));
                return Err(Wrong { message, help });
            }
        };
        let at = values::socket_address(place, port).map_err(|mut wrong| {
            if scheme == "tls" && name.is_none() && !place.contains(':') {
                wrong.help = Some(format!(
                    "names are not looked up here: \"tls://192.0.2.1#{place}\", with its address"
                ));
            }
            wrong
        })?;
        if at.port() == 0 {
            let help = Some(format!("it is {port} unless another one is written"));
            return Err(Wrong { message: "port 0 cannot be queried".to_owned(), help });
        }
        let over = match (scheme, name) {
            ("tls", Some(name)) => QueryTransport::Tls(server_name(name)?),
            ("tls", None) => QueryTransport::Tls(ServerName::from(at.ip())),
            (_, Some(name)) => {
                let help = match name.parse::<u16>() {
                    Ok(port) => {
                        format!("a port stands behind a colon: \"{}\"", with_port(at, port))
                    }
                    Err(_) => format!("\"tls://{}#{name}\"", at.ip()),
                };
                let message = "a name behind # is for TLS".to_owned();
                return Err(Wrong { message, help: Some(help) });
            }
            ("tcp", None) => QueryTransport::Tcp,
            (_, None) => QueryTransport::Udp,
        };
        Ok(UpstreamAddress { at, over })
    }
}

fn with_port(mut at: std::net::SocketAddr, port: u16) -> std::net::SocketAddr {
    at.set_port(port);
    at
}

fn server_name(name: &str) -> Result<ServerName<'static>, Wrong> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(bare.to_owned()).map_err(|_| {
        let help = "it is the one in the server's certificate, such as dns.example; without #, \
                    that is the address";
        let message = format!("{:?} is not a name of a server", shorten(name));
        Wrong { message, help: Some(help.to_owned()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServerAddress, String> {
        ServerAddress::read(&DeValue::String(text.into()))
            .map_err(|Wrong { message, help }| format!("{message} ({})", help.unwrap_or_default()))
    }

    #[test]
    fn upstreams_are_parsed() {
        let check = |text: &str, at: &str, over: QueryTransport| {
            let server = read(text).expect("a server");
            assert_eq!((&*server.to_string(), &server.address.at.to_string()[..]), (text, at));
            assert_eq!(server.address.over, over);
        };
        let named = |name: &str| {
            QueryTransport::Tls(ServerName::try_from(name.to_owned()).expect("a name"))
        };
        check("192.0.2.1", "192.0.2.1:53", QueryTransport::Udp);
        check("[2001:db8::1]:5300", "[2001:db8::1]:5300", QueryTransport::Udp);
        check("tcp://10.0.0.53", "10.0.0.53:53", QueryTransport::Tcp);
        check("tcp://2001:db8::1", "[2001:db8::1]:53", QueryTransport::Tcp);
        check("tls://9.9.9.9#dns.quad9.net", "9.9.9.9:853", named("dns.quad9.net"));
        check(
            "tls://[2620:fe::fe]:853#dns.quad9.net.",
            "[2620:fe::fe]:853",
            named("dns.quad9.net"),
        );
        check("tls://1.1.1.1:8853", "1.1.1.1:8853", named("1.1.1.1"));
        check("tls://[2620:fe::fe]", "[2620:fe::fe]:853", named("2620:fe::fe"));
    }

    #[test]
    fn invalid_upstream_has_a_suggestion() {
        let wrong = |text: &str| read(text).expect_err("no server");
        assert!(wrong("tls://dns.quad9.net").contains("\"tls://192.0.2.1#dns.quad9.net\""));
        assert!(wrong("https://9.9.9.9/dns-query").contains("\"tls://\""));
        assert!(wrong("9.9.9.9#5300").contains("\"9.9.9.9:5300\""));
        assert!(wrong("9.9.9.9#dns.quad9.net").contains("\"tls://9.9.9.9#dns.quad9.net\""));
        assert!(wrong("tls://9.9.9.9#").contains("without #"));
        assert!(wrong("tls://9.9.9.9#a b").contains("\"a b\" is not a name"));
        assert!(wrong("tls://9.9.9.9:99999").contains("a port is a number"));
        assert!(wrong("9.9.9.9:0").contains("port 0"));
        assert!(wrong("").contains("address"));
    }
}
