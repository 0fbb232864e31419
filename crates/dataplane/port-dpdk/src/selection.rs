//! Which frames are for this server: what `port-xdp` selects in the kernel.

use packet::frame::link_len;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Whom a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// This server.
    Server,
    /// This host, but not this server: ARP, ICMP, TCP, fragments, other ports.
    Host,
    /// Another Ethernet address.
    Foreign,
}

/// Frames to an Ethernet address with a whole UDP datagram, without options or extension headers,
/// behind up to two VLAN tags, to an address and port that is served.
#[derive(Clone, Debug)]
pub struct Selection {
    mac: [u8; 6],
    /// `None`: every address and port.
    listen: Option<Arc<[SocketAddr]>>,
}

const TYPE_V4: [u8; 2] = [0x08, 0x00];
const TYPE_V6: [u8; 2] = [0x86, 0xdd];
const UDP: u8 = 17;

impl Selection {
    /// What is sent to these addresses; an unspecified one is every address of its family.
    pub fn new(listen: &[SocketAddr]) -> Self {
        Self { mac: [0; 6], listen: Some(listen.into()) }
    }

    /// What is sent to any address and port.
    pub fn everything() -> Self {
        Self { mac: [0; 6], listen: None }
    }

    /// The same on a device with this Ethernet address.
    pub(crate) fn on(mut self, mac: [u8; 6]) -> Self {
        self.mac = mac;
        self
    }

    /// Whom a frame is for.
    #[inline]
    pub(crate) fn recipient(&self, frame: &[u8]) -> Recipient {
        match frame.first_chunk::<6>() {
            Some(mac) if *mac == self.mac => {}
            // To a group, such as ARP's.
            Some(mac) if mac[0] & 1 == 1 => return Recipient::Host,
            _ => return Recipient::Foreign,
        }
        match destination(frame) {
            Some((ip, port)) if self.serves(ip, port) => Recipient::Server,
            _ => Recipient::Host,
        }
    }

    #[inline]
    fn serves(&self, ip: IpAddr, port: u16) -> bool {
        self.listen.as_ref().is_none_or(|listen| {
            listen.iter().any(|served| {
                let is_any = served.ip().is_unspecified() && served.is_ipv4() == ip.is_ipv4();
                served.port() == port && (is_any || served.ip() == ip)
            })
        })
    }
}

/// The address and port that a frame's datagram is for; `None`: it has no whole one. The port reads
/// it again, with all checks.
#[inline]
fn destination(frame: &[u8]) -> Option<(IpAddr, u16)> {
    let at = link_len(frame)?;
    let (ether_type, packet) = (&frame[at - 2..at], &frame[at..]);
    let port = |at: usize| Some(u16::from_be_bytes(*packet.get(at + 2..)?.first_chunk()?));
    if ether_type == TYPE_V4 {
        let header: &[u8; 20] = packet.first_chunk()?;
        // The flag "more fragments", and the offset.
        let is_fragment = header[6] & 0x3f != 0 || header[7] != 0;
        let [.., a, b, c, d] = *header;
        let ip = Ipv4Addr::new(a, b, c, d).into();
        return (header[0] == 0x45 && header[9] == UDP && !is_fragment)
            .then(|| port(20))?
            .map(|port| (ip, port));
    }
    let header: &[u8; 40] = packet.first_chunk().filter(|_| ether_type == TYPE_V6)?;
    let ip = Ipv6Addr::from(*header[24..].first_chunk::<16>()?).into();
    (header[0] >> 4 == 6 && header[6] == UDP).then(|| port(40))?.map(|port| (ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::frame::{LinkHeader, ReplyPath, compose, headers_len};

    const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn frame(from: &str, to: &str, tags: &[u16]) -> Vec<u8> {
        let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let link = LinkHeader::new([2, 0, 0, 0, 0, 2], OURS, from.port());
        let link = tags.iter().fold(link, |link, tag| link.behind(*tag));
        let way = ReplyPath { link, local: from.ip() };
        let mut head = vec![0; headers_len(&way)];
        assert!(compose(&mut head, b"query", &way, to));
        [&head[..], b"query"].concat()
    }

    fn recipient(listen: &[&str], frame: &[u8]) -> Recipient {
        let listen: Vec<_> = listen.iter().map(|at| at.parse().unwrap()).collect();
        Selection::new(&listen).on(OURS).recipient(frame)
    }

    #[test]
    fn datagrams_to_served_addresses_are_selected() {
        let v4 = |tags: &[u16]| frame("198.51.100.1:4000", "192.0.2.53:53", tags);
        let v6 = |tags: &[u16]| frame("[2001:db8:1::1]:4000", "[2001:db8::53]:53", tags);
        for tags in [&[][..], &[7], &[7, 9]] {
            for (listen, wanted) in [
                (["192.0.2.53:53", "[2001:db8::53]:53"], [Recipient::Server; 2]),
                (["0.0.0.0:53", "[::]:53"], [Recipient::Server; 2]),
                (["0.0.0.0:53", "0.0.0.0:54"], [Recipient::Server, Recipient::Host]),
                (["192.0.2.53:54", "[2001:db8::54]:53"], [Recipient::Host; 2]),
            ] {
                let found = [v4(tags), v6(tags)].map(|frame| recipient(&listen, &frame));
                assert_eq!(found, wanted, "{listen:?} {tags:?}");
            }
        }
    }

    #[test]
    fn what_is_no_complete_datagram_is_the_hosts() {
        let listen = ["0.0.0.0:53", "[::]:53"];
        let whole = frame("198.51.100.1:4000", "192.0.2.53:53", &[]);
        let changed = |at: usize, value: u8| {
            let mut frame = whole.clone();
            frame[at] = value;
            recipient(&listen, &frame)
        };
        // Type, options, TCP, more fragments, a later fragment.
        for (at, value) in [(13, 6), (14, 0x46), (23, 6), (20, 0x20), (21, 1)] {
            assert_eq!(changed(at, value), Recipient::Host, "{at}");
        }
        // DF alone is no fragment.
        assert_eq!(changed(20, 0x40), Recipient::Server);
        assert_eq!(changed(5, 9), Recipient::Foreign);
        assert_eq!(changed(0, 0xff), Recipient::Host, "to a group");
        for len in 0..whole.len() {
            let found = recipient(&listen, &whole[..len]);
            let wanted = match len {
                0..6 => Recipient::Foreign,
                // The ports are there; the port checks the rest.
                38.. => Recipient::Server,
                _ => Recipient::Host,
            };
            assert_eq!(found, wanted, "{len}");
        }
    }
}
