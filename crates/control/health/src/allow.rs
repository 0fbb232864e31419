//! The addresses that may be probed. Record sets come from many clients: a check must not reach
//! what their authors cannot.
use limit::Prefix;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Why an address is not probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAllowed {
    /// No prefix of `[health] allow` contains it.
    NotListed,
    /// It is special, and no prefix of `[health] allow` names its range.
    Special(&'static str),
    /// It is a port of this server, and no prefix of `[health] allow` names the address.
    OwnPort,
}

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed => f.write_str("no prefix of [health] allow contains it"),
            Self::Special(what) => {
                write!(f, "it is {what}: [health] allow has to name a prefix within that range")
            }
            Self::OwnPort => f.write_str(
                "the port is one of this server: [health] allow has to name exactly the address",
            ),
        }
    }
}

/// The metadata of a cloud's machine, often with its credentials.
const METADATA: &str = "the metadata service of a cloud";
const TRANSLATED: &str = "a translated IPv4 address";

/// Ranges that are probed only if they are named.
const SPECIAL: [(IpAddr, u8, &str); 20] = [
    (IpAddr::V4(Ipv4Addr::new(0, 0, 0, 0)), 8, "this network"),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8, "loopback"),
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16, "link-local"),
    (IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), 32, METADATA),
    (IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), 32, METADATA),
    (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 4, "multicast"),
    (IpAddr::V4(Ipv4Addr::new(240, 0, 0, 0)), 4, "reserved or broadcast"),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 128, "unspecified"),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128, "loopback"),
    (IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)), 96, "a mapped IPv4 address"),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 96, "an address with an IPv4 address in it"),
    (IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0)), 96, TRANSLATED),
    (IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0)), 96, TRANSLATED),
    // RFC 8215.
    (IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0)), 48, TRANSLATED),
    (IpAddr::V6(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0)), 32, "a Teredo address"),
    (IpAddr::V6(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0)), 16, "a 6to4 address"),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), 128, METADATA),
    (IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), 128, METADATA),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10, "link-local"),
    (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8, "multicast"),
];

/// The addresses that may be probed.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    /// The listed prefixes; empty: all addresses that are not special.
    pub prefixes: Vec<Prefix>,
    /// The addresses that this server listens on.
    pub own: Vec<SocketAddr>,
}

impl Allow {
    /// Checks whether a target may be probed.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, address: IpAddr, port: u16) -> Result<(), NotAllowed> {
        let listing = || self.prefixes.iter().filter(|prefix| prefix.holds(address));
        if !self.prefixes.is_empty() && listing().next().is_none() {
            return Err(NotAllowed::NotListed);
        }
        for (network, len, what) in SPECIAL {
            let is_within = |prefix: &&Prefix| prefix.len() >= len;
            if has_prefix(network, len, address) && !listing().any(|prefix| is_within(&prefix)) {
                return Err(NotAllowed::Special(what));
            }
        }
        let max = if address.is_ipv4() { 32 } else { 128 };
        if self.is_own(address, port) && !listing().any(|prefix| prefix.len() == max) {
            return Err(NotAllowed::OwnPort);
        }
        Ok(())
    }

    fn is_own(&self, address: IpAddr, port: u16) -> bool {
        let mut own = self.own.iter().filter(|own| own.port() == port).map(SocketAddr::ip);
        own.any(|own| own == address || own.is_unspecified() && is_local(address))
    }
}

/// Whether this host has the address.
fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

fn has_prefix(network: IpAddr, len: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let shift = 32 - u32::from(len);
            (network.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let shift = 128 - u32::from(len);
            (network.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(prefixes: &[&str]) -> Allow {
        let prefixes = prefixes.iter().map(|text| text.parse().expect("a prefix")).collect();
        Allow {
            prefixes,
            own: vec!["0.0.0.0:53".parse().unwrap(), "10.0.0.1:8053".parse().unwrap()],
        }
    }

    fn check(prefixes: &[&str], target: &str) -> bool {
        let target: SocketAddr = target.parse().expect("an address");
        allow(prefixes).check(target.ip(), target.port()).is_ok()
    }

    #[test]
    fn special_addresses_are_probed_only_if_they_are_named() {
        for target in [
            "127.0.0.1:80",
            "127.9.9.9:80",
            "0.0.0.0:80",
            "169.254.169.254:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "[::1]:80",
            "[::]:80",
            "[::ffff:127.0.0.1]:80",
            "[64:ff9b::7f00:1]:80",
            "[64:ff9b:1::7f00:1]:80",
            "[64:ff9b:1:fffe:7f:0:100:0]:80",
            "[::ffff:0:127.0.0.1]:80",
            "[::127.0.0.1]:80",
            "[2001:0:102:304::1]:80",
            "[2002:7f00:1::1]:80",
            "[fd00:ec2::254]:80",
            "[fd20:ce::254]:80",
            "100.100.100.200:80",
            "168.63.129.16:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
        ] {
            assert!(!check(&[], target), "{target}");
            assert!(!check(&["0.0.0.0/0", "::/0"], target), "{target}");
        }
        for beside in ["100.100.100.201:80", "[fd00:ec2::253]:80", "[64:ff9c::1]:80"] {
            assert!(check(&[], beside), "{beside}");
        }
        assert!(check(&["fd00:ec2::254/128"], "[fd00:ec2::254]:80"));
        assert!(check(&["64:ff9b:1::/48"], "[64:ff9b:1::7f00:1]:80"));
        assert!(check(&["127.0.0.0/8"], "127.0.0.1:80"));
        assert!(check(&["169.254.169.254/32"], "169.254.169.254:80"));
        assert!(!check(&["169.254.169.254/32"], "169.254.169.253:80"));
    }

    #[test]
    fn only_listed_prefixes_are_probed() {
        assert!(check(&[], "192.0.2.1:80") && check(&[], "[2001:db8::1]:80"));
        assert!(check(&["10.0.0.0/8"], "10.9.9.9:80"));
        assert!(!check(&["10.0.0.0/8"], "192.0.2.1:80"));
        assert!(!check(&["10.0.0.0/8"], "[2001:db8::1]:80"));
    }

    #[test]
    fn ports_of_this_server_are_probed_only_if_the_address_is_named() {
        assert!(!check(&[], "10.0.0.1:8053") && check(&[], "10.0.0.1:8054"));
        assert!(!check(&["10.0.0.0/8"], "10.0.0.1:8053"));
        assert!(check(&["10.0.0.1/32"], "10.0.0.1:8053"));
        assert!(!check(&["127.0.0.0/8"], "127.0.0.1:53"), "the host has the address");
        assert!(check(&["127.0.0.1/32"], "127.0.0.1:53"));
    }
}
