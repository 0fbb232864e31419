//! An IP packet with a UDP datagram: the positions of its parts, and its reply.

use crate::checksum::{fold, sum, word};
use core::ops::Range;

/// Bytes of an IPv4 header without options (RFC 791 §3.1), and offsets of its fields.
const V4: usize = 20;
const V4_ADDRESSES: Range<usize> = 12..20;
/// Bytes of an IPv6 header (RFC 8200 §3), and offsets of its addresses.
const V6: usize = 40;
const V6_ADDRESSES: Range<usize> = 8..40;
/// Bytes of a UDP header (RFC 768).
const UDP: usize = 8;
const PROTOCOL: u8 = 17;
/// The time to live of replies (RFC 1700: the recommended default).
const HOPS: u8 = 64;

/// The positions of a packet's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    is_v6: bool,
    /// Bytes of the packet without padding.
    len: usize,
}

impl Udp {
    /// Reads the headers. `None`: not one whole UDP datagram directly behind an IP header without
    /// options, or contradictory lengths. Checksums are not verified: packets that never left the
    /// machine have none yet.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let half = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
        let (is_v6, len) = match packet.first()? {
            // Neither "more fragments" nor an offset may be set.
            0x45 if half(6)? & 0x3fff == 0 && *packet.get(9)? == PROTOCOL => (false, half(2)?),
            0x60..=0x6f if *packet.get(6)? == PROTOCOL => (true, half(4)?.checked_add(V6 as u16)?),
            _ => return None,
        };
        let udp = Self { is_v6, len: len.into() };
        let inside = udp.len.checked_sub(udp.at())?;
        let is_consistent = inside >= UDP && usize::from(half(udp.at() + 4)?) == inside;
        (is_consistent && udp.len <= packet.len()).then_some(udp)
    }

    /// The offset of the UDP header.
    #[inline]
    fn at(self) -> usize {
        if self.is_v6 { V6 } else { V4 }
    }

    /// The position of the payload.
    #[inline]
    pub fn payload(self) -> Range<usize> {
        self.at() + UDP..self.len
    }

    /// The source port. `packet` is the one that was parsed.
    #[inline]
    pub fn source_port(self, packet: &[u8]) -> u16 {
        u16::from_be_bytes([packet[self.at()], packet[self.at() + 1]])
    }

    /// Turns the packet into a reply to its sender: addresses and ports are swapped, the other
    /// fields set, and the checksums computed for the current payload. Returns the bytes to send.
    #[inline]
    pub fn turn_around(self, packet: &mut [u8]) -> usize {
        let (at, packet) = (self.at(), &mut packet[..self.len]);
        if self.is_v6 {
            // Neither traffic class nor flow label.
            packet[..4].copy_from_slice(&[0x60, 0, 0, 0]);
            packet[7] = HOPS;
            swap_halves(&mut packet[V6_ADDRESSES]);
        } else {
            // No type of service. Fragmentation is forbidden, so that no identification is needed
            // (RFC 6864 §4.1).
            packet[1] = 0;
            packet[4..10].copy_from_slice(&[0, 0, 0x40, 0, HOPS, PROTOCOL]);
            packet[10..12].fill(0);
            swap_halves(&mut packet[V4_ADDRESSES]);
            let sum = fold(sum(&packet[..V4]));
            packet[10..12].copy_from_slice(&(!sum).to_ne_bytes());
        }
        swap_halves(&mut packet[at..at + 4]);
        packet[at + 6..at + 8].fill(0);
        let addresses = if self.is_v6 { V6_ADDRESSES } else { V4_ADDRESSES };
        let pseudo = word(PROTOCOL.into()) + word((self.len - at) as u16);
        let pseudo = pseudo + sum(&packet[addresses]);
        // Zero would mean that there is no checksum (RFC 768; RFC 8200 §8.1).
        let checksum = match !fold(pseudo + sum(&packet[at..])) {
            0 => u16::MAX,
            checksum => checksum,
        };
        packet[at + 6..at + 8].copy_from_slice(&checksum.to_ne_bytes());
        self.len
    }
}

/// Swaps two fields of the same length.
#[inline]
fn swap_halves(bytes: &mut [u8]) {
    let (first, second) = bytes.split_at_mut(bytes.len() / 2);
    first.swap_with_slice(second);
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A packet as a client sends it, without checksums.
    fn packet(is_v6: bool, payload: &[u8]) -> Vec<u8> {
        let inside = (UDP + payload.len()) as u16;
        let mut packet = Vec::new();
        if is_v6 {
            packet.extend([0x6a, 0xbc, 0xde, 0xf0]);
            packet.extend(inside.to_be_bytes());
            packet.extend([PROTOCOL, 3]);
            packet.extend((1..=32).collect::<Vec<u8>>());
        } else {
            packet.extend([0x45, 0x02]);
            packet.extend((inside + V4 as u16).to_be_bytes());
            packet.extend([0x12, 0x34, 0, 0, 3, PROTOCOL, 0xab, 0xcd]);
            packet.extend([192, 0, 2, 1, 198, 51, 100, 2]);
        }
        packet.extend([0x12, 0x34, 0x00, 0x35]);
        packet.extend(inside.to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        packet
    }

    /// RFC 1071, word by word.
    fn is_right(parts: &[&[u8]]) -> bool {
        let mut bytes = parts.concat();
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        let mut sum = 0u32;
        for word in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum == 0xffff
    }

    proptest! {
        /// A receiver accepts the checksums of the reply.
        #[test]
        fn reply_has_right_checksums(
            is_v6: bool,
            payload in proptest::collection::vec(any::<u8>(), 0..80),
            padding in 0..20usize,
        ) {
            let came = packet(is_v6, &payload);
            let mut written = came.clone();
            written.resize(came.len() + padding, 0xee);
            let udp = Udp::parse(&written).unwrap();
            prop_assert_eq!(&written[udp.payload()], &payload[..]);
            prop_assert_eq!(udp.source_port(&written), 0x1234);
            let len = udp.turn_around(&mut written);
            prop_assert_eq!(len, came.len());
            written.truncate(len);
            let (at, addresses) = if is_v6 { (V6, V6_ADDRESSES) } else { (V4, V4_ADDRESSES) };
            let mut back = came[addresses.clone()].to_vec();
            let half = back.len() / 2;
            back.rotate_left(half);
            prop_assert_eq!(&written[addresses.clone()], &back[..]);
            prop_assert_eq!(&written[at..at + 4], &[0x00, 0x35, 0x12, 0x34]);
            prop_assert!(is_v6 || is_right(&[&written[..V4]]));
            let inside = [0, PROTOCOL, 0, (written.len() - at) as u8];
            prop_assert!(is_right(&[&written[addresses], &inside, &written[at..]]));
            prop_assert_ne!(&written[at + 6..at + 8], &[0, 0]);
            prop_assert_eq!(&written[at + UDP..], &payload[..]);
        }

        /// No panic, and no access beyond the packet.
        #[test]
        fn arbitrary_octets_are_read_within_their_bounds(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            version in proptest::option::of(0..2usize),
        ) {
            let mut bytes = bytes;
            if let (Some(version), true) = (version, bytes.len() > 9) {
                bytes[0] = [0x45, 0x60][version];
                bytes[[9, 6][version]] = PROTOCOL;
            }
            if let Some(udp) = Udp::parse(&bytes) {
                prop_assert!(udp.payload().end <= bytes.len());
                udp.turn_around(&mut bytes);
            }
        }
    }

    #[test]
    fn incomplete_datagram_is_ignored() {
        for is_v6 in [false, true] {
            let whole = packet(is_v6, b"payload");
            assert!(Udp::parse(&whole).is_some());
            for len in 0..whole.len() {
                assert_eq!(Udp::parse(&whole[..len]), None, "{len} bytes");
            }
        }
        for (is_v6, at, value) in [
            (false, 0, 0x46),    // options
            (false, 6, 0x20),    // more fragments
            (false, 7, 0x01),    // a later fragment
            (false, 9, 6),       // TCP
            (false, 3, 0x1b),    // shorter than a UDP header
            (false, V4 + 5, 14), // UDP and IP differ
            (true, 0, 0x70),     // no version of IP
            (true, 6, 0),        // an extension header
            (true, V6 + 5, 16),  // UDP and IP differ
        ] {
            let mut packet = packet(is_v6, b"payload");
            packet[at] = value;
            assert_eq!(Udp::parse(&packet), None, "{is_v6} {at} {value}");
        }
        assert!(Udp::parse(&packet(false, b"")).is_some(), "an empty one is whole");
    }
}
