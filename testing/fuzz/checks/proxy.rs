//! What must hold for any bytes of a listed proxy.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use packet::proxy::{HEADER_MAX, NoProxyHeader, ProxyHeader, parse, strip};
use packet::{Packet, Transport, check_source_port};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const LEN_MAX: usize = HEADER_MAX + 64;
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), 4_000);

/// Reads the bytes behind the first as a header and what follows it. With an odd first byte, they
/// come behind the signature, which a fuzzer would have to guess.
pub fn check(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let mut buf = [0; LEN_MAX];
    let start = if first & 1 == 1 { SIGNATURE } else { &[] };
    let len = start.len() + rest.len();
    if len > LEN_MAX {
        return;
    }
    buf[..start.len()].copy_from_slice(start);
    buf[start.len()..len].copy_from_slice(rest);
    let found = parse(&buf[..len]);
    prefixes(&buf[..len], found);
    stripped(&mut buf, len, found);
}

/// More bytes never change what fewer have shown, and none is read that is not there.
fn prefixes(bytes: &[u8], found: Result<ProxyHeader, NoProxyHeader>) {
    let whole = match found {
        Ok(ProxyHeader::Whole { len, .. }) => len,
        Ok(ProxyHeader::Partial) => bytes.len() + 1,
        Err(NoProxyHeader) => usize::MAX,
    };
    let mut seen = Ok(ProxyHeader::Partial);
    for len in 0..=bytes.len() {
        let now = parse(&bytes[..len]);
        if seen != Ok(ProxyHeader::Partial) {
            assert_eq!(now, seen, "{len} bytes");
        } else if whole != usize::MAX {
            assert_eq!(now.is_ok() && now != Ok(ProxyHeader::Partial), len >= whole);
        }
        seen = now;
    }
    assert_eq!(seen, found);
}

/// The client as the protocol says it, read in the simplest way.
fn client(header: &[u8]) -> Option<SocketAddr> {
    let (command, family, block) = (header[12], header[13], &header[16..]);
    let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    match (command & 15, family >> 4) {
        (1, 1) => {
            let ip = Ipv4Addr::new(block[0], block[1], block[2], block[3]);
            Some(SocketAddr::new(ip.into(), port(8)))
        }
        (1, 2) => {
            let ip: [u8; 16] = core::array::from_fn(|at| block[at]);
            Some(SocketAddr::new(IpAddr::from(Ipv6Addr::from(ip)).to_canonical(), port(32)))
        }
        _ => None,
    }
}

/// A datagram keeps what is behind its header, and gets the client that the header names.
fn stripped(buf: &mut [u8; LEN_MAX], len: usize, found: Result<ProxyHeader, NoProxyHeader>) {
    let sent = *buf;
    let mut packet = Packet::new(buf, len, PEER, Transport::Datagram);
    let is_kept = strip(&mut packet, |_| true);
    let Ok(ProxyHeader::Whole { len: header, client: named }) = found else {
        assert!(!is_kept && packet.message() == &sent[..len]);
        return;
    };
    assert!((16..=HEADER_MAX.min(len)).contains(&header));
    assert_eq!(named, client(&sent[..header]));
    assert_eq!(packet.message(), &sent[header..len]);
    assert_eq!(packet.context.client, named.unwrap_or(PEER));
    // Port 0 is that of a proxy that does not know it.
    let port = packet.context.client.port();
    assert_eq!(is_kept, port == 0 || check_source_port(port).is_ok());
}
