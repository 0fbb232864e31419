//! Floods of datagrams from addresses that are the sender's own.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use domain::base::iana::Rtype;

use super::{Flood, Pace};
use crate::load::ZONE;
use crate::names::name;
use crate::queries::{Edns, Query};
use crate::random::Random;

/// Clients that ask for names of their own: few, so that each is over a limit.
const NAMERS: usize = 16;
/// Clients that send nonsense: many, so that a limit for each leaves most of it to be parsed.
const BABBLERS: usize = 256;

/// Asks for names that do not exist, each once.
pub(super) fn unique_names(flood: &Flood, pace: &mut Pace, random: &mut Random) -> io::Result<u64> {
    let sockets = sockets(flood, NAMERS)?;
    while pace.step() {
        let owner = name(&format!("{:016x}.{ZONE}", random.bits()));
        let mut query = Query::new(owner, Rtype::A);
        query.edns = Some(Edns::new(1232));
        send(&sockets, pace.steps(), &query.to_wire())?;
    }
    Ok(pace.steps())
}

/// Sends random bytes, and queries that were cut, lengthened, or had bytes changed.
pub(super) fn malformed(flood: &Flood, pace: &mut Pace, random: &mut Random) -> io::Result<u64> {
    let sockets = sockets(flood, BABBLERS)?;
    let mut query = Query::new(name(&format!("a1.{ZONE}")), Rtype::A);
    let options = vec![(10, vec![1; 8]), (8, vec![0, 1, 24, 0, 192, 0, 2])];
    query.edns = Some(Edns { options, ..Edns::new(1232) });
    let query = query.to_wire();
    while pace.step() {
        send(&sockets, pace.steps(), &spoil(&query, random))?;
    }
    Ok(pace.steps())
}

fn spoil(query: &[u8], random: &mut Random) -> Vec<u8> {
    let mut packet = query.to_vec();
    match random.below(5) {
        0 => packet = (0..random.below(1400)).map(|_| random.bits() as u8).collect(),
        1 => packet.truncate(random.below(query.len())),
        2 => packet.extend((0..random.below(64)).map(|_| random.bits() as u8)),
        // The counts, which promise what does not come.
        3 => packet[4 + random.below(8)] = random.bits() as u8,
        _ => {
            for _ in 0..=random.below(4) {
                let at = random.below(packet.len());
                packet[at] = random.bits() as u8;
            }
        }
    }
    packet
}

fn sockets(flood: &Flood, count: usize) -> io::Result<Vec<UdpSocket>> {
    let open = |index| {
        let socket = UdpSocket::bind((flood.clients.at(index), 0))?;
        socket.connect(flood.server)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    (0..count).map(open).collect()
}

/// What the kernel has no room for, or the server's host refuses, was sent all the same as far as
/// a flood is concerned. Answers are not read: the socket drops them when it is full.
fn send(sockets: &[UdpSocket], step: u64, packet: &[u8]) -> io::Result<()> {
    match sockets[step as usize % sockets.len()].send(packet) {
        Err(error)
            if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}
