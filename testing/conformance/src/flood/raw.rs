//! Floods of packets whose source address is a lie, written byte by byte.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use domain::base::iana::Rtype;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use super::{Flood, Pace};
use crate::load::ZONE;
use crate::names::name;
use crate::queries::Query;
use crate::random::Random;

const IP_LEN: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Asks for what exists, each query from an address drawn at random.
pub(super) fn spoofed_queries(
    flood: &Flood,
    pace: &mut Pace,
    random: &mut Random,
) -> io::Result<u64> {
    let raw = open()?;
    while pace.step() {
        let owner = name(&format!("a{}.{ZONE}", random.below(1000)));
        let mut query = Query::new(owner, Rtype::A).to_wire();
        query[..2].copy_from_slice(&(random.bits() as u16).to_be_bytes());
        let source = SocketAddrV4::new(anywhere(random), 1024 + (random.bits() % 60_000) as u16);
        send(&raw, &udp(source, flood.server, &query), flood.server)?;
    }
    Ok(pace.steps())
}

/// Begins connections from addresses that never answer.
pub(super) fn half_open(flood: &Flood, pace: &mut Pace, random: &mut Random) -> io::Result<u64> {
    let raw = open()?;
    while pace.step() {
        let source = SocketAddrV4::new(anywhere(random), 1024 + (random.bits() % 60_000) as u16);
        send(&raw, &syn(source, flood.server, random.bits() as u32), flood.server)?;
    }
    Ok(pace.steps())
}

/// Sends datagrams whose source is a lie.
#[derive(Debug)]
pub struct Forger(OwnedFd);

impl Forger {
    /// Needs root.
    ///
    /// # Errors
    /// This process may not write packets whole.
    pub fn open() -> io::Result<Self> {
        open().map(Self)
    }

    /// Sends a datagram with a forged source address.
    ///
    /// # Errors
    /// The kernel does not send it, for another reason than a full queue.
    pub fn send(&self, source: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> io::Result<()> {
        send(&self.0, &udp(source, to, payload), to)
    }
}

fn open() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?)
}

/// A device's full queue is not a failure of a flood.
fn send(raw: &OwnedFd, packet: &[u8], server: SocketAddrV4) -> io::Result<()> {
    match sendto(raw, packet, SendFlags::DONTWAIT, &server) {
        Ok(_) | Err(Errno::NOBUFS | Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A unicast address outside of 10/8 and 127/8, where real clients are.
fn anywhere(random: &mut Random) -> Ipv4Addr {
    loop {
        let address = Ipv4Addr::from(random.bits() as u32);
        if !matches!(address.octets()[0], 0 | 10 | 127 | 224..) {
            return address;
        }
    }
}

fn udp(source: SocketAddrV4, target: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::with_capacity(8 + payload.len());
    segment.extend(source.port().to_be_bytes());
    segment.extend(target.port().to_be_bytes());
    segment.extend((8 + payload.len() as u16).to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(payload);
    let sum = checksum(source, target, PROTOCOL_UDP, &segment);
    // RFC 768: a sum of zero is sent as all ones, since zero says that there is none.
    let sum = if sum == 0 { 0xffff } else { sum };
    segment[6..8].copy_from_slice(&sum.to_be_bytes());
    ip(source, target, PROTOCOL_UDP, &segment)
}

fn syn(source: SocketAddrV4, target: SocketAddrV4, sequence: u32) -> Vec<u8> {
    let mut segment = Vec::with_capacity(24);
    segment.extend(source.port().to_be_bytes());
    segment.extend(target.port().to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend([0; 4]);
    // Six words with the option, SYN, window, checksum, urgent pointer, an MSS of 1460.
    segment.extend([0x60, 0x02, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 0x05, 0xb4]);
    let sum = checksum(source, target, PROTOCOL_TCP, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    ip(source, target, PROTOCOL_TCP, &segment)
}

/// The header; its checksum and id are the kernel's to fill (raw(7)).
fn ip(source: SocketAddrV4, target: SocketAddrV4, protocol: u8, segment: &[u8]) -> Vec<u8> {
    let len = (IP_LEN + segment.len()) as u16;
    let mut packet = Vec::with_capacity(len.into());
    packet.extend([0x45, 0]);
    packet.extend(len.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    packet.extend(source.ip().octets());
    packet.extend(target.ip().octets());
    packet.extend(segment);
    packet
}

/// The checksum of a segment with its pseudo header (RFC 768, RFC 9293 §3.1).
fn checksum(source: SocketAddrV4, target: SocketAddrV4, protocol: u8, segment: &[u8]) -> u16 {
    let pseudo = [source.ip().octets(), target.ip().octets()].concat();
    let words = |bytes: &[u8]| -> u32 {
        bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
            .sum()
    };
    let mut sum = words(&pseudo) + u32::from(protocol) + segment.len() as u32 + words(segment);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 4000);
    const TARGET: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 1), 53);

    /// Over a segment that carries its checksum, the sum is all ones, and its complement zero.
    #[test]
    fn checksums_are_right() {
        for payload in [&b"odd"[..], b"even", b""] {
            let packet = udp(SOURCE, TARGET, payload);
            assert_eq!(packet.len(), IP_LEN + 8 + payload.len());
            assert_eq!(checksum(SOURCE, TARGET, PROTOCOL_UDP, &packet[IP_LEN..]), 0);
        }
        let packet = syn(SOURCE, TARGET, 7);
        assert_eq!(checksum(SOURCE, TARGET, PROTOCOL_TCP, &packet[IP_LEN..]), 0);
    }

    /// The known sum of a known packet: the words of RFC 1071 §3, one's complement of 0xddf2.
    #[test]
    fn the_sum_is_that_of_rfc_1071() {
        let zero = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(zero, zero, 0, &data), !(0xddf2 + data.len() as u16));
    }
}
