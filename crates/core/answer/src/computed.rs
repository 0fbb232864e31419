//! Names whose answer is computed from the query: a label that is an address with hyphens, as the
//! names of pods in Kubernetes.
use crate::reply::{OwnerName, ReplyWriter};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::{FromStr, from_utf8};
use wire::{Name, Rtype};

/// The address that a label spells, with hyphens in place of dots or colons.
pub(crate) fn address_of(label: &[u8]) -> Option<IpAddr> {
    let v4 = parsed::<Ipv4Addr>(label, b'.').map(IpAddr::V4);
    v4.or_else(|| parsed::<Ipv6Addr>(label, b':').map(IpAddr::V6))
}

/// Puts the record of an address, if the query asks for its type.
pub(crate) fn put_address(
    address: IpAddr,
    owner: OwnerName<'_>,
    ttl: u32,
    reply: &mut ReplyWriter<'_>,
) -> bool {
    let rtype = if address.is_ipv4() { Rtype::A } else { Rtype::AAAA };
    if ![rtype, Rtype::ANY].contains(&reply.query.rtype) {
        return false;
    }
    let put = match address {
        IpAddr::V4(ip) => reply.put_single(owner, rtype, ttl, &ip.octets()),
        IpAddr::V6(ip) => reply.put_single(owner, rtype, ttl, &ip.octets()),
    };
    if put.is_err() {
        reply.truncate();
    }
    true
}

fn parsed<A: FromStr>(label: &[u8], separator: u8) -> Option<A> {
    let mut room = [0; Name::LABEL_MAX];
    let text = room.get_mut(..label.len())?;
    for (to, from) in text.iter_mut().zip(label) {
        match *from {
            b'-' => *to = separator,
            from if from.is_ascii_hexdigit() => *to = from,
            _ => return None,
        }
    }
    from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_with_hyphens_are_addresses() {
        let cases = [
            ("10-0-0-1", Some("10.0.0.1")),
            ("255-255-255-255", Some("255.255.255.255")),
            ("fd00--1", Some("fd00::1")),
            ("1-2-3-4-5-6-7-8", Some("1:2:3:4:5:6:7:8")),
            ("--1", Some("::1")),
            ("FD00--A", Some("fd00::a")),
            ("fd00-1--0", Some("fd00:1::")),
            ("1--2-3", Some("1::2:3")),
            ("10.0.0.1", None),
            ("fd00::1", None),
            ("10-0-0", None),
            ("10-0-0-256", None),
            ("10-0-0-01", None),
            ("web-0", None),
            ("", None),
            ("-", None),
            ("1-2-3-4-5-6-7-8-9", None),
        ];
        for (label, expected) in cases {
            let found = address_of(label.as_bytes());
            assert_eq!(found, expected.map(|text| text.parse().expect("an address")), "{label}");
        }
        assert_eq!(address_of(&[b'0'; 64]), None);
    }
}
