//! The PROXY protocol, version 2, which transmits the address of a proxy's client.
//!
//! Defined by haproxy's `doc/proxy-protocol.txt`: §2.2 is the header, §2 who may send one. A header
//! is accepted from configured proxies only, and is mandatory for them.

use crate::{DropReason, Packet, Verdict, check_source_port};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The start of every header: it can be neither a DNS message behind its length, nor text.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses: signature, version and command, family, length.
const FIXED: usize = 16;
/// The longest accepted header. Addresses need at most 52 bytes; the rest is for TLVs, which are
/// skipped.
pub const HEADER_MAX: usize = 4_096;

/// Commands, with the version in front (§2.2: "the highest four bits contain the version").
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// The header at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// A part of a header: more bytes must follow.
    Partial,
    /// A whole header.
    Whole {
        /// Bytes of the header; the proxied message or stream follows.
        len: usize,
        /// The proxy's client; `None`: the proxy speaks for itself, or does not name the client.
        client: Option<SocketAddr>,
    },
}

/// There is no valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProxyHeader;

/// Reads the header at the start of `bytes`.
///
/// # Errors
/// The bytes cannot become a valid header of at most [`HEADER_MAX`] bytes: another signature,
/// version, command or family, or an address block shorter than its family's addresses.
pub fn parse(bytes: &[u8]) -> Result<ProxyHeader, NoProxyHeader> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(NoProxyHeader);
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>() else {
        return Ok(ProxyHeader::Partial);
    };
    let [.., command, family, high, low] = *fixed;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if FIXED + len > HEADER_MAX || !matches!(command, LOCAL | PROXY) {
        return Err(NoProxyHeader);
    }
    let Some(block) = rest.get(..len) else {
        return Ok(ProxyHeader::Partial);
    };
    // "The receiver must use the real connection endpoints and must discard the protocol block
    // including the family" (§2.2, LOCAL). Proxies use it for health checks.
    let client = if command == PROXY { source(family, block)? } else { None };
    Ok(ProxyHeader::Whole { len: FIXED + len, client })
}

/// The source in an address block, if it is an Internet address. TLVs are skipped.
fn source(family: u8, block: &[u8]) -> Result<Option<SocketAddr>, NoProxyHeader> {
    let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    match family {
        // UNSPEC: no usable address.
        0x00 => Ok(None),
        // Two addresses and two ports of TCP or UDP: the proxy's client may use either.
        0x11 | 0x12 if block.len() >= 12 => {
            let address = block.first_chunk::<4>().ok_or(NoProxyHeader)?;
            Ok(Some(SocketAddr::new(Ipv4Addr::from(*address).into(), port(8))))
        }
        0x21 | 0x22 if block.len() >= 36 => {
            let address = block.first_chunk::<16>().ok_or(NoProxyHeader)?;
            let address = IpAddr::from(Ipv6Addr::from(*address)).to_canonical();
            Ok(Some(SocketAddr::new(address, port(32))))
        }
        // Unix sockets: two names of 108 bytes, and no client address.
        0x31 | 0x32 if block.len() >= 216 => Ok(None),
        _ => Err(NoProxyHeader),
    }
}

/// Removes the header of a datagram from a proxy: the message moves to the start of the buffer, and
/// the header sets the client. Without a valid header, the verdict is [`DropReason::ProxyHeader`];
/// for a source port of a service that answers everything, it is [`DropReason::SourcePort`].
/// Datagrams of other peers stay as they are.
///
/// Returns whether there is a message to answer.
#[inline]
pub fn strip(packet: &mut Packet<'_>, is_proxy: impl FnOnce(IpAddr) -> bool) -> bool {
    if !is_proxy(packet.peer.ip().to_canonical()) {
        return true;
    }
    let Ok(ProxyHeader::Whole { len, client }) = parse(packet.message()) else {
        packet.verdict = Verdict::Drop(DropReason::ProxyHeader);
        return false;
    };
    packet.buf.copy_within(len..packet.len, 0);
    packet.len -= len;
    packet.context.client = client.unwrap_or(packet.peer);
    // Port 0 means that the proxy does not know it. The reply goes to the proxy's port.
    if check_source_port(packet.context.client.port()) == Err(DropReason::SourcePort) {
        packet.verdict = Verdict::Drop(DropReason::SourcePort);
        return false;
    }
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
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend((block.len() as u16).to_be_bytes());
        bytes.extend(block);
        bytes
    }

    fn v6(source: &str) -> Vec<u8> {
        let [source, target] = [source, "2001:db8::2"].map(|a| a.parse::<Ipv6Addr>().unwrap());
        let mut block = [source.octets(), target.octets()].concat();
        block.extend([0x12, 0x34, 0, 53]);
        block
    }

    fn client(bytes: &[u8]) -> Option<SocketAddr> {
        match parse(bytes).unwrap() {
            ProxyHeader::Whole { len, client } if len == bytes.len() => client,
            other => panic!("{other:?} of {} bytes", bytes.len()),
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
    fn invalid_header_is_refused_at_its_first_wrong_byte() {
        let whole = header(PROXY, 0x11, &V4);
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), Ok(ProxyHeader::Partial), "{len} bytes");
        }
        for at in 0..SIGNATURE.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert_eq!(parse(&wrong[..=at]), Err(NoProxyHeader));
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
            assert_eq!(parse(&wrong), Err(NoProxyHeader), "{command:#x} {family:#x} {len}");
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
        assert_eq!(packet.context.client, "192.0.2.1:4660".parse().unwrap());
        assert_eq!(packet.peer, peer);
    }

    #[test]
    fn a_client_behind_a_proxy_is_dropped_for_its_source_port() {
        let block = |port: u8| [&V4[..8], &[0, port], &V4[10..]].concat();
        for (port, is_kept) in [(19, false), (53, true), (0, true)] {
            let mut buf = [header(PROXY, 0x12, &block(port)), b"a message".to_vec()].concat();
            let (len, peer) = (buf.len(), "203.0.113.9:4000".parse().unwrap());
            let mut packet = Packet::new(&mut buf, len, peer, Transport::Datagram);
            assert_eq!(strip(&mut packet, |_| true), is_kept, "{port}");
            let dropped = packet.verdict == Verdict::Drop(DropReason::SourcePort);
            assert_eq!(dropped, !is_kept, "{port}");
        }
    }

    #[test]
    fn a_header_is_mandatory_for_proxies_and_nothing_to_others() {
        let mut buf = *b"a message";
        let peer = "203.0.113.9:4000".parse().unwrap();
        let mut packet = Packet::new(&mut buf, 9, peer, Transport::Datagram);
        assert!(strip(&mut packet, |_| false));
        assert_eq!((packet.message(), packet.context.client), (&b"a message"[..], peer));
        assert!(!strip(&mut packet, |address| address == peer.ip()));
        assert_eq!(packet.verdict, Verdict::Drop(DropReason::ProxyHeader));
    }

    proptest! {
        /// No panic, and no more bytes than there are.
        #[test]
        fn arbitrary_octets_are_read_within_their_bounds(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            signed: bool,
            known in proptest::option::of((0x20..0x22u8, 0..0x34u8, 0..60u16)),
        ) {
            let mut bytes = bytes;
            if signed {
                bytes.splice(..0, SIGNATURE);
            }
            if let (true, Some((command, family, len))) = (bytes.len() >= FIXED, known) {
                bytes[12..14].copy_from_slice(&[command, family]);
                bytes[14..16].copy_from_slice(&len.to_be_bytes());
            }
            if let Ok(ProxyHeader::Whole { len, .. }) = parse(&bytes) {
                prop_assert!((FIXED..=bytes.len()).contains(&len));
                prop_assert_eq!(parse(&bytes[..len]), parse(&bytes), "what follows matters not");
                for cut in 0..len {
                    prop_assert_eq!(parse(&bytes[..cut]), Ok(ProxyHeader::Partial));
                }
            }
            let len = bytes.len();
            let peer = "203.0.113.9:4000".parse().unwrap();
            let mut packet = Packet::new(&mut bytes, len, peer, Transport::Datagram);
            strip(&mut packet, |_| true);
            prop_assert!(packet.len <= len);
        }
    }
}
