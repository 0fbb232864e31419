//! The PROXY protocol, version 2: who a proxy in front of us forwards.
//!
//! The law is haproxy's `doc/proxy-protocol.txt`, §2.2 for the header and §2 for who may send one.
//! A header is believed from listed proxies only, and from those it is mandatory.

use crate::{Drop, Packet, Verdict};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What every header begins with: it cannot be a DNS message behind its length, nor text.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Octets in front of the addresses: signature, version and command, family, length.
const FIXED: usize = 16;
/// The most octets of a header that is taken. Addresses need 52 at most; the rest is for what
/// proxies append (TLVs), which is skipped.
pub const HEADER_MAX: usize = 4_096;

/// Commands, with the version in front (§2.2: "the highest four bits contain the version").
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// What stands at the beginning of some octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The beginning of one: more octets must come.
    Partial,
    /// A whole one of `len` octets.
    Whole {
        /// Octets of the header; what follows is the proxied message or stream.
        len: usize,
        /// Whom the proxy forwards; `None`: it speaks for itself, or does not say whom.
        client: Option<SocketAddr>,
    },
}

/// There is no valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeader;

/// Reads the header that `octets` begin with.
///
/// # Errors
/// What is there cannot become a valid header of at most [`HEADER_MAX`] octets: another signature,
/// version, command or family, or an address block shorter than its family's addresses.
pub fn parse(octets: &[u8]) -> Result<Header, NoHeader> {
    let known = octets.len().min(SIGNATURE.len());
    if octets[..known] != SIGNATURE[..known] {
        return Err(NoHeader);
    }
    let Some((fixed, rest)) = octets.split_first_chunk::<FIXED>() else {
        return Ok(Header::Partial);
    };
    let [.., command, family, high, low] = *fixed;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if FIXED + len > HEADER_MAX || !matches!(command, LOCAL | PROXY) {
        return Err(NoHeader);
    }
    let Some(block) = rest.get(..len) else {
        return Ok(Header::Partial);
    };
    // "The receiver must use the real connection endpoints and must discard the protocol block
    // including the family" (§2.2, LOCAL). Proxies use it to check our health.
    let client = if command == PROXY { source(family, block)? } else { None };
    Ok(Header::Whole { len: FIXED + len, client })
}

/// The source in an address block, if it is an Internet address; TLVs behind it are skipped.
fn source(family: u8, block: &[u8]) -> Result<Option<SocketAddr>, NoHeader> {
    let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    match family {
        // UNSPEC: no address that we could use.
        0x00 => Ok(None),
        // Two addresses, two ports, by TCP or UDP: the proxy's client may have come by either.
        0x11 | 0x12 if block.len() >= 12 => {
            let address = block.first_chunk::<4>().ok_or(NoHeader)?;
            Ok(Some(SocketAddr::new(Ipv4Addr::from(*address).into(), port(8))))
        }
        0x21 | 0x22 if block.len() >= 36 => {
            let address = block.first_chunk::<16>().ok_or(NoHeader)?;
            let address = IpAddr::from(Ipv6Addr::from(*address)).to_canonical();
            Ok(Some(SocketAddr::new(address, port(32))))
        }
        // Unix sockets: two names of 108 octets, and nobody who could be told apart by an address.
        0x31 | 0x32 if block.len() >= 216 => Ok(None),
        _ => Err(NoHeader),
    }
}

/// Takes the header off a datagram whose peer is a proxy: the message moves to the front of the
/// buffer, and the client is who the header says. Without a valid one, the verdict is
/// [`Drop::ProxyHeader`]. What comes from anybody else stays as it is.
///
/// Returns whether there is a message to be answered.
#[inline]
pub fn strip(packet: &mut Packet<'_>, is_proxy: impl FnOnce(IpAddr) -> bool) -> bool {
    if !is_proxy(packet.peer.ip().to_canonical()) {
        return true;
    }
    let Ok(Header::Whole { len, client }) = parse(packet.message()) else {
        packet.verdict = Verdict::Drop(Drop::ProxyHeader);
        return false;
    };
    packet.buf.copy_within(len..packet.len, 0);
    packet.len -= len;
    packet.client = client.unwrap_or(packet.peer);
    true
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::Transport;
    use proptest::prelude::*;
    use std::vec::Vec;

    const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x34, 0, 53];

    fn header(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let mut octets = SIGNATURE.to_vec();
        octets.extend([command, family]);
        octets.extend((block.len() as u16).to_be_bytes());
        octets.extend(block);
        octets
    }

    fn v6(source: &str) -> Vec<u8> {
        let [source, target] = [source, "2001:db8::2"].map(|a| a.parse::<Ipv6Addr>().unwrap());
        let mut block = [source.octets(), target.octets()].concat();
        block.extend([0x12, 0x34, 0, 53]);
        block
    }

    fn client(octets: &[u8]) -> Option<SocketAddr> {
        match parse(octets).unwrap() {
            Header::Whole { len, client } if len == octets.len() => client,
            other => panic!("{other:?} of {} octets", octets.len()),
        }
    }

    #[test]
    fn every_family_is_read_and_tlvs_are_skipped() {
        let four = Some("192.0.2.1:4660".parse().unwrap());
        let six = Some("[2001:db8::1]:4660".parse().unwrap());
        for transport in [1, 2] {
            assert_eq!(client(&header(PROXY, 0x10 | transport, &V4)), four);
            assert_eq!(client(&header(PROXY, 0x20 | transport, &v6("2001:db8::1"))), six);
            assert_eq!(client(&header(PROXY, 0x30 | transport, &[b'/'; 216])), None);
        }
        let with_tlv = [&V4[..], &[4, 0, 3, 1, 2, 3]].concat();
        assert_eq!(client(&header(PROXY, 0x11, &with_tlv)), four);
        assert_eq!(client(&header(PROXY, 0x21, &v6("::ffff:192.0.2.1"))), four);
    }

    #[test]
    fn a_proxy_that_speaks_for_itself_names_no_client() {
        assert_eq!(client(&header(LOCAL, 0x11, &V4)), None);
        assert_eq!(client(&header(LOCAL, 0x00, &[])), None);
        assert_eq!(client(&header(LOCAL, 0x11, &[])), None, "its family says nothing");
        assert_eq!(client(&header(LOCAL, 0xff, &[7])), None);
        assert_eq!(client(&header(PROXY, 0x00, &[1, 2, 3])), None);
    }

    #[test]
    fn what_is_no_header_is_told_as_soon_as_it_shows() {
        let whole = header(PROXY, 0x11, &V4);
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), Ok(Header::Partial), "{len} octets");
        }
        for at in 0..SIGNATURE.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert_eq!(parse(&wrong[..=at]), Err(NoHeader));
        }
        for (command, family, len) in [
            (0x11, 0x11, 12),
            (0x31, 0x11, 12),
            (0x22, 0x11, 12),
            (PROXY, 0x13, 12),
            (PROXY, 0x41, 36),
            (PROXY, 0x11, 11),
            (PROXY, 0x22, 35),
            (PROXY, 0x31, 215),
            (PROXY, 0x11, HEADER_MAX),
        ] {
            let wrong = header(command, family, &[0; HEADER_MAX][..len]);
            assert_eq!(parse(&wrong), Err(NoHeader), "{command:#x} {family:#x} {len}");
        }
    }

    #[test]
    fn a_datagram_loses_its_header_and_gains_its_client() {
        let query = b"a message";
        let mut buf = [header(PROXY, 0x12, &V4), query.to_vec()].concat();
        let (len, peer) = (buf.len(), "203.0.113.9:4000".parse().unwrap());
        let mut packet = Packet::new(&mut buf, len, peer, Transport::Datagram);
        assert!(strip(&mut packet, |_| true));
        assert_eq!(packet.message(), query);
        assert_eq!(packet.client, "192.0.2.1:4660".parse().unwrap());
        assert_eq!(packet.peer, peer);
    }

    #[test]
    fn a_header_is_mandatory_for_proxies_and_nothing_to_others() {
        let mut buf = *b"a message";
        let peer = "203.0.113.9:4000".parse().unwrap();
        let mut packet = Packet::new(&mut buf, 9, peer, Transport::Datagram);
        assert!(strip(&mut packet, |_| false));
        assert_eq!((packet.message(), packet.client), (&b"a message"[..], peer));
        assert!(!strip(&mut packet, |address| address == peer.ip()));
        assert_eq!(packet.verdict, Verdict::Drop(Drop::ProxyHeader));
    }

    proptest! {
        /// Whatever comes: no panic, and never more octets than there are.
        #[test]
        fn arbitrary_octets_are_read_within_their_bounds(
            octets in proptest::collection::vec(any::<u8>(), 0..80),
            signed: bool,
            known in proptest::option::of((0x20..0x22u8, 0..0x34u8, 0..60u16)),
        ) {
            let mut octets = octets;
            if signed {
                octets.splice(..0, SIGNATURE);
            }
            if let (true, Some((command, family, len))) = (octets.len() >= FIXED, known) {
                octets[12..14].copy_from_slice(&[command, family]);
                octets[14..16].copy_from_slice(&len.to_be_bytes());
            }
            if let Ok(Header::Whole { len, .. }) = parse(&octets) {
                prop_assert!((FIXED..=octets.len()).contains(&len));
                prop_assert_eq!(parse(&octets[..len]), parse(&octets), "what follows matters not");
                for cut in 0..len {
                    prop_assert_eq!(parse(&octets[..cut]), Ok(Header::Partial));
                }
            }
            let len = octets.len();
            let peer = "203.0.113.9:4000".parse().unwrap();
            let mut packet = Packet::new(&mut octets, len, peer, Transport::Datagram);
            strip(&mut packet, |_| true);
            prop_assert!(packet.len <= len);
        }
    }
}
