//! The client subnet option of EDNS (RFC 7871).
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of a client behind a resolver (RFC 7871 §6), as a query names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet {
    /// Its first address.
    pub address: IpAddr,
    /// Bits of the prefix; 0: the client does not want to be located.
    pub source_len: u8,
}

impl ClientSubnet {
    /// The longest data.
    pub const LEN_MAX: usize = 20;
    const V4: u16 = 1;
    const V6: u16 = 2;

    /// Reads the data of the option; `None` if RFC 7871 §6 and §7.1.2 do not allow it in a query:
    /// an unknown family, a scope, a length that does not fit the address, or bits behind the
    /// prefix.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let (head, address) = data.split_first_chunk::<4>()?;
        let [f0, f1, source_len, scope_len] = *head;
        let family = u16::from_be_bytes([f0, f1]);
        let bits_max = match family {
            Self::V4 => 32,
            Self::V6 => 128,
            _ => return None,
        };
        let len = usize::from(source_len.div_ceil(8));
        if source_len > bits_max || scope_len != 0 || address.len() != len {
            return None;
        }
        let mut filled = [0; 16];
        filled.get_mut(..len)?.copy_from_slice(address);
        let bits = u128::from_be_bytes(filled);
        let mask = u128::MAX.checked_shl(128 - u32::from(source_len)).unwrap_or(0);
        if bits & !mask != 0 {
            return None;
        }
        let address = match family {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        };
        Some(Self { address, source_len })
    }

    /// The data of the option in the response, and its length.
    pub fn response(&self, scope_len: u8) -> ([u8; Self::LEN_MAX], usize) {
        let (family, bits) = match self.address {
            IpAddr::V4(v4) => (Self::V4, u128::from(v4.to_bits()) << 96),
            IpAddr::V6(v6) => (Self::V6, v6.to_bits()),
        };
        let mut data = [0; Self::LEN_MAX];
        data[..2].copy_from_slice(&family.to_be_bytes());
        (data[2], data[3]) = (self.source_len, scope_len);
        data[4..].copy_from_slice(&bits.to_be_bytes());
        (data, 4 + usize::from(self.source_len.div_ceil(8)))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn option_is_read_and_answered() {
        for (data, text) in [
            (&[0, 1, 24, 0, 192, 0, 2][..], "192.0.2.0/24"),
            (&[0, 1, 32, 0, 192, 0, 2, 1], "192.0.2.1/32"),
            (&[0, 1, 0, 0], "0.0.0.0/0"),
            (&[0, 1, 9, 0, 10, 128], "10.128.0.0/9"),
            (&[0, 2, 32, 0, 0x20, 1, 0xd, 0xb8], "2001:db8::/32"),
            (&[0, 2, 0, 0], "::/0"),
        ] {
            let subnet = ClientSubnet::parse(data).expect(text);
            let shown = subnet.address.to_string() + "/" + &subnet.source_len.to_string();
            assert_eq!(shown, text);
            let (mut response, len) = subnet.response(7);
            assert_eq!(response[3], 7);
            response[3] = 0;
            assert_eq!(&response[..len], data);
        }
    }

    #[test]
    fn malformed_option_is_refused() {
        for data in [
            &[][..],
            &[0, 1, 24],
            &[0, 0, 0, 0],
            &[0, 3, 8, 0, 1],
            &[0, 1, 33, 0, 1, 2, 3, 4, 5],
            &[0, 2, 129, 0],
            &[0, 1, 24, 1, 192, 0, 2],
            &[0, 1, 24, 0, 192, 0],
            &[0, 1, 24, 0, 192, 0, 2, 0],
            &[0, 1, 23, 0, 192, 0, 3],
        ] {
            assert_eq!(ClientSubnet::parse(data), None, "{data:?}");
        }
    }
}
