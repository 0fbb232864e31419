//! Datagrams in Ethernet frames: UDP over IPv4 or IPv6, behind up to two VLAN tags.
//!
//! A filter in the kernel has admitted the frames that are read here; they are still checked
//! completely. Written frames have all checksums.

use crate::checksum::{fold, sum, word};
use crate::{DropReason, check_source_port};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of two Ethernet addresses, of a tag (IEEE 802.1Q), and of the type behind them.
const ADDRESSES: usize = 12;
const TAG: usize = 4;
const TYPE: usize = 2;
const TAGS_MAX: usize = 2;
/// Bytes of each header, without options.
const V4: usize = 20;
const V6: usize = 40;
const UDP: usize = 8;

/// The most bytes before an IP packet, and of all headers.
pub const LINK_MAX: usize = ADDRESSES + TAGS_MAX * TAG + TYPE;
/// See [`LINK_MAX`].
pub const HEADERS_MAX: usize = LINK_MAX + V6 + UDP;
/// Bytes of the IP and UDP headers; those of IPv6 are longer.
pub const NETWORK_MAX: usize = V6 + UDP;

const TYPE_V4: [u8; 2] = [0x08, 0x00];
const TYPE_V6: [u8; 2] = [0x86, 0xdd];
const TYPE_TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const PROTOCOL_UDP: u8 = 17;
/// Replies are not fragmented (RFC 9715 §3.1): a client that cannot receive one retries over TCP.
/// The identification of an atomic datagram has no meaning (RFC 6864 §4.1).
const DONT_FRAGMENT: u8 = 0x40;
/// "The current recommended default time to live" (RFC 1700), and the default of Linux.
const HOPS: u8 = 64;

/// The start of a reply frame: addresses swapped, tags unchanged; and the local port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHeader {
    bytes: [u8; ADDRESSES + TAGS_MAX * TAG],
    len: u8,
    port: u16,
}

impl LinkHeader {
    /// A header from one Ethernet address to another without tags, and from this port.
    pub fn new(from: [u8; 6], to: [u8; 6], port: u16) -> Self {
        let mut bytes = [0; ADDRESSES + TAGS_MAX * TAG];
        bytes[..6].copy_from_slice(&to);
        bytes[6..ADDRESSES].copy_from_slice(&from);
        Self { bytes, len: ADDRESSES as u8, port }
    }

    /// Adds an inner tag (IEEE 802.1Q); without effect if there are two.
    #[must_use]
    pub fn behind(mut self, tag: u16) -> Self {
        let at = usize::from(self.len);
        if let Some(place) = self.bytes.get_mut(at..at + TAG) {
            place[..2].copy_from_slice(&TYPE_TAGS[0]);
            place[2..].copy_from_slice(&tag.to_be_bytes());
            self.len += TAG as u8;
        }
        self
    }

    /// An unkeyed hash.
    #[inline]
    pub fn hash(&self) -> u32 {
        let word = |at: usize| {
            let mut word = [0; 8];
            word[..4].copy_from_slice(&self.bytes[at..at + 4]);
            u64::from_ne_bytes(word)
        };
        let (mut hash, mut at) = (u64::from(self.port) << 8 | u64::from(self.len), 0);
        while at < self.bytes.len() {
            hash = (hash ^ word(at)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            at += 4;
        }
        (hash >> 32) as u32
    }
}

/// How a reply frame leaves: link header and local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyPath {
    /// The link header.
    pub link: LinkHeader,
    /// The local address.
    pub local: IpAddr,
}

/// The position of a frame's datagram, and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDatagram {
    /// Where the payload begins in the frame, and its bytes.
    pub at: usize,
    /// See `at`.
    pub len: usize,
    /// The sender.
    pub peer: SocketAddr,
    /// How the reply leaves.
    pub way: ReplyPath,
}

impl FrameDatagram {
    /// The destination port.
    #[inline]
    pub fn local_port(&self) -> u16 {
        self.way.link.port
    }
}

/// Reads a frame's headers.
///
/// The UDP checksum is verified. A partial one, of addresses, protocol and length only, is valid: a
/// sender on this machine leaves the rest to a device, and a virtual device never completes it.
///
/// # Errors
/// [`DropReason::Malformed`]: not a whole datagram without options, extension headers and
/// fragmentation. [`DropReason::Checksum`]: damaged. [`DropReason::NoPeer`]: the source address is
/// not that of another host.
#[inline]
pub fn read(frame: &[u8]) -> Result<FrameDatagram, DropReason> {
    let (mut link, ether_type, network) = read_link(frame).ok_or(DropReason::Malformed)?;
    let packet = &frame[network..];
    let (peer, local, at, pseudo) = match ether_type {
        TYPE_V4 => read_v4(packet)?,
        TYPE_V6 => read_v6(packet)?,
        _ => return Err(DropReason::Malformed),
    };
    let (header, len) = (packet.get(at.0..at.1).ok_or(DropReason::Malformed)?, at.1 - at.0);
    let Some(&[from_0, from_1, to_0, to_1, len_0, len_1, sum_0, sum_1]) = header.first_chunk()
    else {
        return Err(DropReason::Malformed);
    };
    let reported = usize::from(u16::from_be_bytes([len_0, len_1]));
    // Padding behind the datagram is not part of it.
    if reported < UDP || reported > len {
        return Err(DropReason::Malformed);
    }
    let pseudo = pseudo + word(reported as u16) + word(PROTOCOL_UDP.into());
    match u16::from_ne_bytes([sum_0, sum_1]) {
        // "An all zero transmitted checksum value means that the transmitter generated no checksum"
        // (RFC 768); IPv6 does not have that (RFC 8200 §8.1).
        0 if ether_type == TYPE_V4 => {}
        0 => return Err(DropReason::Checksum),
        partial if partial == fold(pseudo) => {}
        _ if fold(pseudo + sum(&header[..reported])) == 0xffff => {}
        _ => return Err(DropReason::Checksum),
    }
    link.port = u16::from_be_bytes([to_0, to_1]);
    let peer = SocketAddr::new(peer, u16::from_be_bytes([from_0, from_1]));
    check_source_port(peer.port())?;
    if !is_host(peer.ip()) {
        return Err(DropReason::NoPeer);
    }
    Ok(FrameDatagram {
        at: network + at.0 + UDP,
        len: reported - UDP,
        peer,
        way: ReplyPath { link, local },
    })
}

/// Bytes before a frame's IP packet: addresses, up to two tags, and a type. `None`: the frame is
/// shorter.
#[inline]
pub fn link_len(frame: &[u8]) -> Option<usize> {
    read_link(frame).map(|(.., network)| network)
}

/// The link header of the reply, the type of the packet, and its offset.
#[inline]
fn read_link(frame: &[u8]) -> Option<(LinkHeader, [u8; 2], usize)> {
    let mut bytes = [0; ADDRESSES + TAGS_MAX * TAG];
    bytes[..6].copy_from_slice(frame.get(6..ADDRESSES)?);
    bytes[6..ADDRESSES].copy_from_slice(&frame[..6]);
    let mut len = ADDRESSES;
    loop {
        let ether_type = *frame.get(len..)?.first_chunk()?;
        if len == bytes.len() || !TYPE_TAGS.contains(&ether_type) {
            return Some((LinkHeader { bytes, len: len as u8, port: 0 }, ether_type, len + TYPE));
        }
        bytes[len..len + TAG].copy_from_slice(frame.get(len..len + TAG)?);
        len += TAG;
    }
}

/// Source, destination, begin and end of the datagram, and the sum of the addresses.
type Network = (IpAddr, IpAddr, (usize, usize), u64);

#[inline]
fn read_v4(packet: &[u8]) -> Result<Network, DropReason> {
    let header: &[u8; V4] = packet.first_chunk().ok_or(DropReason::Malformed)?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let is_plain = header[0] == 0x45 && header[9] == PROTOCOL_UDP && !is_fragment;
    if !is_plain || total < V4 || total > packet.len() {
        return Err(DropReason::Malformed);
    }
    if fold(sum(header)) != 0xffff {
        return Err(DropReason::Checksum);
    }
    let address = |at: usize| {
        Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into()
    };
    Ok((address(12), address(16), (V4, total), sum(&header[12..])))
}

#[inline]
fn read_v6(packet: &[u8]) -> Result<Network, DropReason> {
    let header: &[u8; V6] = packet.first_chunk().ok_or(DropReason::Malformed)?;
    let total = V6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || header[6] != PROTOCOL_UDP || total > packet.len() {
        return Err(DropReason::Malformed);
    }
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[at..at + 16]);
        Ipv6Addr::from(bytes).into()
    };
    Ok((address(8), address(24), (V6, total), sum(&header[8..])))
}

/// Whether an address is that of a single other host (RFC 1122 §3.2.1.3, RFC 4291 §2.5 and §2.7).
#[inline]
fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => {
            // Class E and the broadcast address lie above the multicast groups.
            let [first, ..] = ip.octets();
            !matches!(first, 0 | 127 | 224..)
        }
        IpAddr::V6(ip) => {
            let is_none = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
            !is_none && ip.to_ipv4_mapped().is_none()
        }
    }
}

/// The bytes before a payload.
#[inline]
pub fn headers_len(way: &ReplyPath) -> usize {
    let network = if way.local.is_ipv4() { V4 } else { V6 };
    usize::from(way.link.len) + TYPE + network + UDP
}

/// Writes the headers of a datagram to a peer. `head` has the length of [`headers_len`], `payload`
/// follows it in the frame, and both together fit an IP packet.
///
/// Returns false without a write if the peer's address is of another family, or a length is wrong.
#[inline]
pub fn compose(head: &mut [u8], payload: &[u8], way: &ReplyPath, peer: SocketAddr) -> bool {
    let (ReplyPath { link, local }, len) = (way, headers_len(way));
    let ip_len = NETWORK_MAX + payload.len();
    if head.len() != len || ip_len > 0xffff || local.is_ipv4() != peer.is_ipv4() {
        return false;
    }
    let (front, network) = head.split_at_mut(usize::from(link.len));
    front.copy_from_slice(&link.bytes[..front.len()]);
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
    // Reading words that were just written byte by byte is slow, so the values are summed.
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

/// Writes the header of a datagram; returns the sum of the addresses.
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
