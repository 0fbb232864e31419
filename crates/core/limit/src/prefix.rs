//! Address prefixes, and the network of a client.
use crate::limits::V6_LEN_MAX;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An address prefix: `192.0.2.0/24`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// Why a text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// No address before the slash.
    Address,
    /// The length is not a number, or too large for the family.
    Len {
        /// Bits of an address.
        max: u8,
    },
    /// Bits behind the prefix are set.
    HostBits {
        /// The prefix that was probably intended.
        meant: Prefix,
    },
    /// An IPv4-mapped IPv6 address. Clients are matched by the IPv4 address.
    Mapped,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => {
                f.write_str("expected an address or a prefix such as 192.0.2.0/24 or 2001:db8::/32")
            }
            Self::Len { max } => write!(f, "the length of a prefix must be 0 to {max}"),
            Self::HostBits { meant } => {
                write!(f, "host bits are set: did you mean {meant}?")
            }
            Self::Mapped => f.write_str("write IPv4 clients as IPv4, without ::ffff:"),
        }
    }
}

impl core::error::Error for PrefixError {}

impl Prefix {
    /// The prefix of `len` bits at the start of `address`.
    ///
    /// # Errors
    /// `len` is too large, bits behind it are set, or the address is IPv4-mapped.
    pub fn new(address: IpAddr, len: u8) -> Result<Self, PrefixError> {
        let max = bits(address);
        if len > max {
            return Err(PrefixError::Len { max });
        }
        if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(PrefixError::Mapped);
        }
        let first = match address {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & mask_v4(len)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & mask_v6(len)).into(),
        };
        let prefix = Self { address: first, len };
        match first == address {
            true => Ok(prefix),
            false => Err(PrefixError::HostBits { meant: prefix }),
        }
    }

    /// The first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// The length in bits.
    #[allow(clippy::len_without_is_empty, reason = "the length of a prefix: no container")]
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Whether it contains an address. An IPv4-mapped address counts as the IPv4 address.
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(v4)) => {
                v4.to_bits() & mask_v4(self.len) == first.to_bits()
            }
            (IpAddr::V6(first), IpAddr::V6(v6)) => {
                v6.to_bits() & mask_v6(self.len) == first.to_bits()
            }
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Address)?;
        let max = bits(address);
        let digits = |len: &&str| len.bytes().all(|byte| byte.is_ascii_digit());
        let len = match len {
            None => max,
            Some(len) => Some(len)
                .filter(digits)
                .and_then(|len| len.parse().ok())
                .ok_or(PrefixError::Len { max })?,
        };
        Self::new(address, len)
    }
}

/// The prefix lengths of client networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    v4_mask: u32,
    v6_mask: u64,
}

/// An invalid network length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworksError {
    /// IPv4: not 0 to 32.
    V4,
    /// IPv6: not 0 to 64. A client with a /64 has all its addresses.
    V6,
}

impl fmt::Display for NetworksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4 => f.write_str("an IPv4 network's length must be 0 to 32"),
            Self::V6 => write!(
                f,
                "an IPv6 network's length must be 0 to {V6_LEN_MAX}: \
                 who has a /64 has all its addresses"
            ),
        }
    }
}

impl core::error::Error for NetworksError {}

impl Networks {
    /// Single hosts: IPv4 /32 and IPv6 /56, a typical customer assignment (RFC 6177).
    pub const HOSTS: Self = Self { v4_mask: mask_v4(32), v6_mask: (mask_v6(56) >> 64) as u64 };
    /// IPv4 /24 and IPv6 /56, the networks of response rate limiting.
    pub const SITES: Self = Self { v4_mask: mask_v4(24), v6_mask: (mask_v6(56) >> 64) as u64 };

    /// Networks of these lengths, in bits.
    ///
    /// # Errors
    /// A length is out of its range.
    pub const fn new(v4_len: u8, v6_len: u8) -> Result<Self, NetworksError> {
        if v4_len > 32 {
            return Err(NetworksError::V4);
        }
        if v6_len > V6_LEN_MAX {
            return Err(NetworksError::V6);
        }
        Ok(Self { v4_mask: mask_v4(v4_len), v6_mask: (mask_v6(v6_len) >> 64) as u64 })
    }

    /// A number that identifies a client's network.
    #[inline]
    pub fn of(&self, client: IpAddr) -> u64 {
        // No IPv6 network is in 0:ffff::/32.
        let v4 = |v4: u32| 0xffff << 32 | u64::from(v4 & self.v4_mask);
        match client {
            IpAddr::V4(address) => v4(address.to_bits()),
            IpAddr::V6(address) => match mapped(address) {
                Some(address) => v4(address),
                None => (address.to_bits() >> 64) as u64 & self.v6_mask,
            },
        }
    }
}

/// The IPv4 address in ::ffff:0:0/96.
#[inline(always)]
pub(crate) fn mapped(address: Ipv6Addr) -> Option<u32> {
    let bits = address.to_bits();
    (bits >> 32 == 0xffff).then_some(bits as u32)
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

const fn mask_v4(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - len) }
}

const fn mask_v6(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn prefixes_are_read_and_mistakes_explained() {
        for good in ["192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "::/0", "2001:db8::1/128"] {
            assert_eq!(good.parse::<Prefix>().unwrap().to_string(), good);
        }
        assert_eq!("192.0.2.1".parse::<Prefix>().unwrap().to_string(), "192.0.2.1/32");
        for (bad, why) in [
            ("", "such as"),
            ("example.org", "such as"),
            ("192.0.2.0/33", "0 to 32"),
            ("192.0.2.0/", "0 to 32"),
            ("192.0.2.0/+8", "0 to 32"),
            ("::/129", "0 to 128"),
            ("192.0.2.1/24", "192.0.2.0/24?"),
            ("2001:db8::1/64", "2001:db8::/64?"),
            ("::ffff:192.0.2.1", "without ::ffff:"),
        ] {
            let reported = bad.parse::<Prefix>().unwrap_err().to_string();
            assert!(reported.contains(why), "{bad}: {reported}");
        }
    }

    #[test]
    fn a_client_is_known_by_its_network() {
        let of = |networks: Networks, text: &str| networks.of(text.parse().unwrap());
        let sites = |text| of(Networks::SITES, text);
        assert_eq!(sites("192.0.2.1"), sites("192.0.2.255"));
        assert_eq!(sites("192.0.2.1"), sites("::ffff:192.0.2.9"));
        assert_ne!(sites("192.0.2.1"), sites("192.0.3.1"));
        assert_eq!(sites("2001:db8:0:1::1"), sites("2001:db8:0:ff::2"));
        assert_ne!(sites("2001:db8:0:1::1"), sites("2001:db8:0:101::1"));
        let hosts = |text| of(Networks::HOSTS, text);
        assert_ne!(hosts("192.0.2.1"), hosts("192.0.2.2"));
        let one = Networks::new(0, 0).unwrap();
        assert_eq!(of(one, "192.0.2.1"), of(one, "198.51.100.1"));
        assert_ne!(of(one, "192.0.2.1"), of(one, "2001:db8::1"));
        assert_eq!(Networks::new(33, 0), Err(NetworksError::V4));
        assert_eq!(Networks::new(0, 65), Err(NetworksError::V6));
    }
}
