//! Datagrams in Ethernet frames: UDP over IPv4 or IPv6, behind up to two VLAN tags.
//!
//! What is read here was let through by a filter in the kernel; it is believed nevertheless in
//! nothing that could be wrong. What is composed carries every checksum.

use crate::Drop;
use crate::checksum::{fold, sum, word};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Octets of two Ethernet addresses, of a tag (IEEE 802.1Q), and of the type behind them.
const ADDRESSES: usize = 12;
const TAG: usize = 4;
const TYPE: usize = 2;
const TAGS_MAX: usize = 2;
/// Octets of each header, without options.
const V4: usize = 20;
const V6: usize = 40;
const UDP: usize = 8;

/// The most octets in front of an IP packet, and of all headers together.
pub const LINK_MAX: usize = ADDRESSES + TAGS_MAX * TAG + TYPE;
/// See [`LINK_MAX`].
pub const HEADERS_MAX: usize = LINK_MAX + V6 + UDP;
/// Octets that the headers of an IP packet leave of it, IPv6 being the longer ones.
pub const NETWORK_MAX: usize = V6 + UDP;

const TYPE_V4: [u8; 2] = [0x08, 0x00];
const TYPE_V6: [u8; 2] = [0x86, 0xdd];
const TYPE_TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const PROTOCOL_UDP: u8 = 17;
/// Replies are not taken apart on their way (RFC 9715 §3.1): whoever cannot receive them whole asks
/// over TCP. An atomic datagram's identification means nothing (RFC 6864 §4.1).
const DONT_FRAGMENT: u8 = 0x40;
/// "The current recommended default time to live" (RFC 1700), and what Linux sends with.
const HOPS: u8 = 64;

/// What a frame that goes back begins with: addresses turned round, tags as they came; and the port
/// that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    octets: [u8; ADDRESSES + TAGS_MAX * TAG],
    len: u8,
    port: u16,
}

impl Link {
    /// From one Ethernet address to another without tags, and from this port.
    pub fn new(from: [u8; 6], to: [u8; 6], port: u16) -> Self {
        let mut octets = [0; ADDRESSES + TAGS_MAX * TAG];
        octets[..6].copy_from_slice(&to);
        octets[6..ADDRESSES].copy_from_slice(&from);
        Self { octets, len: ADDRESSES as u8, port }
    }

    /// The same behind one more tag (IEEE 802.1Q), the inner one; as it is where that is too many.
    #[must_use]
    pub fn behind(mut self, tag: u16) -> Self {
        let at = usize::from(self.len);
        if let Some(place) = self.octets.get_mut(at..at + TAG) {
            place[..2].copy_from_slice(&TYPE_TAGS[0]);
            place[2..].copy_from_slice(&tag.to_be_bytes());
            self.len += TAG as u8;
        }
        self
    }

    /// A number of all that it is, with no key: equal links have equal ones.
    #[inline]
    pub fn hash(&self) -> u32 {
        let word = |at: usize| {
            let mut word = [0; 8];
            word[..4].copy_from_slice(&self.octets[at..at + 4]);
            u64::from_ne_bytes(word)
        };
        let (mut hash, mut at) = (u64::from(self.port) << 8 | u64::from(self.len), 0);
        while at < self.octets.len() {
            hash = (hash ^ word(at)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            at += 4;
        }
        (hash >> 32) as u32
    }
}

/// How a frame of ours goes to a peer: by which link, and from which of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The link.
    pub link: Link,
    /// The address.
    pub local: IpAddr,
}

/// Where a frame's datagram is, and who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where its payload begins in the frame, and its octets.
    pub at: usize,
    /// See `at`.
    pub len: usize,
    /// Who sent it.
    pub peer: SocketAddr,
    /// How a reply goes back.
    pub way: Way,
}

impl Datagram {
    /// The port it was sent to.
    #[inline]
    pub fn local_port(&self) -> u16 {
        self.way.link.port
    }
}

/// Reads a frame's headers.
///
/// A UDP checksum is verified. One that is only the sum of addresses, protocol and length is fine:
/// a sender on this machine leaves the rest to a device, and a virtual one never does it.
///
/// # Errors
/// [`Drop::Malformed`]: not a whole datagram without options, extension headers and fragmentation.
/// [`Drop::Checksum`]: damaged. [`Drop::NoPeer`]: nobody can be answered there.
#[inline]
pub fn read(frame: &[u8]) -> Result<Datagram, Drop> {
    let (mut link, ether_type, network) = read_link(frame).ok_or(Drop::Malformed)?;
    let packet = &frame[network..];
    let (peer, local, at, pseudo) = match ether_type {
        TYPE_V4 => read_v4(packet)?,
        TYPE_V6 => read_v6(packet)?,
        _ => return Err(Drop::Malformed),
    };
    let (header, len) = (packet.get(at.0..at.1).ok_or(Drop::Malformed)?, at.1 - at.0);
    let Some(&[from_0, from_1, to_0, to_1, len_0, len_1, sum_0, sum_1]) = header.first_chunk()
    else {
        return Err(Drop::Malformed);
    };
    let told = usize::from(u16::from_be_bytes([len_0, len_1]));
    // What an IP packet has behind its datagram is no part of it.
    if told < UDP || told > len {
        return Err(Drop::Malformed);
    }
    let pseudo = pseudo + word(told as u16) + word(PROTOCOL_UDP.into());
    match u16::from_ne_bytes([sum_0, sum_1]) {
        // "An all zero transmitted checksum value means that the transmitter generated no checksum"
        // (RFC 768); IPv6 does not have that (RFC 8200 §8.1).
        0 if ether_type == TYPE_V4 => {}
        0 => return Err(Drop::Checksum),
        partial if partial == fold(pseudo) => {}
        _ if fold(pseudo + sum(&header[..told])) == 0xffff => {}
        _ => return Err(Drop::Checksum),
    }
    link.port = u16::from_be_bytes([to_0, to_1]);
    let peer = SocketAddr::new(peer, u16::from_be_bytes([from_0, from_1]));
    if peer.port() == 0 || !is_somebody(peer.ip()) {
        return Err(Drop::NoPeer);
    }
    Ok(Datagram { at: network + at.0 + UDP, len: told - UDP, peer, way: Way { link, local } })
}

/// Octets in front of a frame's IP packet: addresses, up to two tags, and a type. `None`: the frame
/// ends before that.
#[inline]
pub fn link_len(frame: &[u8]) -> Option<usize> {
    read_link(frame).map(|(.., network)| network)
}

/// The link, turned round; the type of what is in the frame, and where that begins.
#[inline]
fn read_link(frame: &[u8]) -> Option<(Link, [u8; 2], usize)> {
    let mut octets = [0; ADDRESSES + TAGS_MAX * TAG];
    octets[..6].copy_from_slice(frame.get(6..ADDRESSES)?);
    octets[6..ADDRESSES].copy_from_slice(&frame[..6]);
    let mut len = ADDRESSES;
    loop {
        let ether_type = *frame.get(len..)?.first_chunk()?;
        if len == octets.len() || !TYPE_TAGS.contains(&ether_type) {
            return Some((Link { octets, len: len as u8, port: 0 }, ether_type, len + TYPE));
        }
        octets[len..len + TAG].copy_from_slice(frame.get(len..len + TAG)?);
        len += TAG;
    }
}

/// Who sent it, to whom; where the datagram begins and ends; the sum of the addresses.
type Network = (IpAddr, IpAddr, (usize, usize), u64);

#[inline]
fn read_v4(packet: &[u8]) -> Result<Network, Drop> {
    let header: &[u8; V4] = packet.first_chunk().ok_or(Drop::Malformed)?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let is_plain = header[0] == 0x45 && header[9] == PROTOCOL_UDP && !is_fragment;
    if !is_plain || total < V4 || total > packet.len() {
        return Err(Drop::Malformed);
    }
    if fold(sum(header)) != 0xffff {
        return Err(Drop::Checksum);
    }
    let address = |at: usize| {
        Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into()
    };
    Ok((address(12), address(16), (V4, total), sum(&header[12..])))
}

#[inline]
fn read_v6(packet: &[u8]) -> Result<Network, Drop> {
    let header: &[u8; V6] = packet.first_chunk().ok_or(Drop::Malformed)?;
    let total = V6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || header[6] != PROTOCOL_UDP || total > packet.len() {
        return Err(Drop::Malformed);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        Ipv6Addr::from(octets).into()
    };
    Ok((address(8), address(24), (V6, total), sum(&header[8..])))
}

/// Whether an address is that of one host which is not this one (RFC 1122 §3.2.1.3, RFC 4291 §2.5
/// and §2.7).
#[inline]
fn is_somebody(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => {
            // Class E and the broadcast address are behind the groups.
            let [first, ..] = ip.octets();
            !matches!(first, 0 | 127 | 224..)
        }
        IpAddr::V6(ip) => {
            let is_none = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
            !is_none && ip.to_ipv4_mapped().is_none()
        }
    }
}

/// How many octets are in front of a payload.
#[inline]
pub fn headers_len(way: &Way) -> usize {
    let network = if way.local.is_ipv4() { V4 } else { V6 };
    usize::from(way.link.len) + TYPE + network + UDP
}

/// Writes the headers of what goes to a peer. `head` is as long as [`headers_len`] says, and
/// `payload`, which follows it in the frame, together with it no longer than an IP packet may be.
///
/// False: nothing was written, as the peer's address is of another family, or a length is wrong.
#[inline]
pub fn compose(head: &mut [u8], payload: &[u8], way: &Way, peer: SocketAddr) -> bool {
    let (Way { link, local }, len) = (way, headers_len(way));
    let ip_len = NETWORK_MAX + payload.len();
    if head.len() != len || ip_len > 0xffff || local.is_ipv4() != peer.is_ipv4() {
        return false;
    }
    let (front, network) = head.split_at_mut(usize::from(link.len));
    front.copy_from_slice(&link.octets[..front.len()]);
    let (ether_type, network) = network.split_at_mut(TYPE);
    let (network, udp) = network.split_at_mut(network.len() - UDP);
    let len = (UDP + payload.len()) as u16;
    let addresses = match (*local, peer.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ether_type.copy_from_slice(&TYPE_V4);
            write_v4(network, len, from.octets(), to.octets())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            ether_type.copy_from_slice(&TYPE_V6);
            write_v6(network, len, from.octets(), to.octets())
        }
        _ => return false,
    };
    // What was just written octet by octet is slow to read as words: sums are of what is written.
    let header = word(link.port) + word(peer.port()) + word(len);
    let pseudo = addresses + word(len) + word(PROTOCOL_UDP.into());
    let checksum = match !fold(pseudo + header + sum(payload)) {
        // "If the computed checksum is zero, it is transmitted as all ones" (RFC 768).
        0 => 0xffff,
        checksum => checksum,
    };
    udp[..2].copy_from_slice(&link.port.to_be_bytes());
    udp[2..4].copy_from_slice(&peer.port().to_be_bytes());
    udp[4..6].copy_from_slice(&len.to_be_bytes());
    udp[6..].copy_from_slice(&checksum.to_ne_bytes());
    true
}

/// Writes the header of a datagram so long; the sum of the addresses.
#[inline]
fn write_v4(header: &mut [u8], len: u16, from: [u8; 4], to: [u8; 4]) -> u64 {
    let addresses = sum(&from) + sum(&to);
    let total = (V4 as u16 + len).to_be_bytes();
    let mut front = [0x45, 0, total[0], total[1], 0, 0, DONT_FRAGMENT, 0, HOPS, PROTOCOL_UDP, 0, 0];
    let checksum = !fold(sum(&front) + addresses);
    front[10..].copy_from_slice(&checksum.to_ne_bytes());
    header[..12].copy_from_slice(&front);
    header[12..16].copy_from_slice(&from);
    header[16..].copy_from_slice(&to);
    addresses
}

/// The same.
#[inline]
fn write_v6(header: &mut [u8], len: u16, from: [u8; 16], to: [u8; 16]) -> u64 {
    let len = len.to_be_bytes();
    header[..8].copy_from_slice(&[0x60, 0, 0, 0, len[0], len[1], PROTOCOL_UDP, HOPS]);
    header[8..24].copy_from_slice(&from);
    header[24..].copy_from_slice(&to);
    sum(&from) + sum(&to)
}

#[cfg(test)]
mod tests;
