//! Floods of connections.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::time::Duration;

use domain::base::iana::Rtype;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::{Flood, Pace};
use crate::client::framed;
use crate::load::{LARGE, ZONE};
use crate::names::name;
use crate::queries::Query;
use crate::random::Random;

/// Clients that connect, and connections each holds before it drops the oldest.
const CONNECTORS: usize = 1_000;
const CONNECTS_HELD: usize = 1_000;
/// Clients that do not read.
const SLOW_CLIENTS: usize = 100;
/// What a slow reader's kernel takes in for it, in bytes.
const SLOW_BUFFER: usize = 4_096;
/// Connections that read large answers.
const READERS: usize = 32;
/// Connections of the floods in which each has its turn about once a second.
const TURNS_MAX: usize = 4_000;

/// Opens connections and drops the oldest: one half of them reset, the other closed.
pub(super) fn connects(flood: &Flood, pace: &mut Pace) -> io::Result<u64> {
    let mut held = VecDeque::new();
    while pace.step() {
        let source = flood.clients.at(pace.steps() as usize % CONNECTORS);
        let Some(stream) = open(source, flood.server)? else { continue };
        held.push_back(stream);
        if held.len() > CONNECTS_HELD {
            let oldest = held.pop_front().expect("there are many");
            if pace.steps().is_multiple_of(2) {
                reset(&oldest)?;
            }
        }
    }
    Ok(pace.steps())
}

/// Asks for large answers on many connections and reads a byte now and then.
pub(super) fn slow_readers(flood: &Flood, pace: &mut Pace) -> io::Result<u64> {
    let asked = framed(&large()).repeat(4);
    let mut held = connections(pace.rate().min(TURNS_MAX));
    while pace.step() {
        let index = pace.steps() as usize % held.len();
        let slot = &mut held[index];
        let alive = slot
            .as_mut()
            .is_some_and(|stream| is_open(stream.read(&mut [0])) && is_open(stream.write(&asked)));
        if !alive {
            *slot = open(flood.clients.at(index % SLOW_CLIENTS), flood.server)?;
            if let Some(stream) = slot {
                set_socket_recv_buffer_size(stream, SLOW_BUFFER)?;
            }
        }
    }
    Ok(pace.steps())
}

/// Asks for answers of 64 KiB and reads all that has come, on connections in turn.
pub(super) fn large_answers(flood: &Flood, pace: &mut Pace) -> io::Result<u64> {
    let asked = framed(&large());
    let mut held = connections(READERS);
    let mut buffer = vec![0; 1 << 18];
    while pace.step() {
        let index = pace.steps() as usize % READERS;
        let slot = &mut held[index];
        let alive = slot.as_mut().is_some_and(|stream| {
            is_open(stream.read(&mut buffer)) && is_open(stream.write(&asked))
        });
        if !alive {
            *slot = open(flood.clients.at(index), flood.server)?;
        }
    }
    Ok(pace.steps())
}

/// What a hostile client does on its connection whenever its turn comes.
const MISDEEDS: [fn(&mut TcpStream, &mut Random) -> io::Result<usize>; 12] = [
    // Says nothing.
    |_, _| Ok(1),
    // Half a length.
    |stream, _| stream.write(&[0]),
    // The largest length, and then a byte at a time.
    |stream, _| stream.write(&[0xff, 0xff]),
    |stream, random| stream.write(&[random.bits() as u8]),
    // Messages without a byte.
    |stream, _| stream.write(&[0; 64]),
    // Garbage, of which the length is garbage too.
    |stream, random| stream.write(&random.bits().to_be_bytes().repeat(64)),
    // Queries without end, and never an answer read.
    |stream, _| stream.write(&framed(&large()).repeat(32)),
    // A query, cut in the middle, whose rest never comes.
    |stream, _| stream.write(&framed(&large())[..20]),
    // A reply instead of a query.
    |stream, _| {
        let mut reply = large();
        reply[2] |= 0x80;
        stream.write(&framed(&reply))
    },
    // A query, and no more will come.
    |stream, _| {
        let written = stream.write(&framed(&large()));
        stream.shutdown(Shutdown::Write).and(written)
    },
    // A query, and gone before its answer.
    |stream, _| {
        let written = stream.write(&framed(&large()));
        reset(stream)?;
        stream.shutdown(Shutdown::Both).and(written)
    },
    // A query and a byte of the answer at a time.
    |stream, _| {
        let written = stream.write(&framed(&large()))?;
        stream.read(&mut [0]).map(|_| written)
    },
];

/// Opens up to thousands of connections, each of another client, which misbehave in turn, each in
/// its own way.
pub(super) fn hostile(flood: &Flood, pace: &mut Pace, random: &mut Random) -> io::Result<u64> {
    let mut held = connections(pace.rate().min(TURNS_MAX));
    while pace.step() {
        let index = pace.steps() as usize % held.len();
        let slot = &mut held[index];
        let misdeed = MISDEEDS[index % MISDEEDS.len()];
        if !slot.as_mut().is_some_and(|stream| is_open(misdeed(stream, random))) {
            *slot = open(flood.clients.at(index), flood.server)?;
        }
    }
    Ok(pace.steps())
}

/// Places of connections that are to be opened.
fn connections(count: usize) -> Vec<Option<TcpStream>> {
    (0..count).map(|_| None).collect()
}

/// A connection that is on its way, or nothing where the kernel has no port or memory for it now.
fn open(source: Ipv4Addr, server: SocketAddrV4) -> io::Result<Option<TcpStream>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    match connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(Some(socket.into())),
        Err(Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::CONNREFUSED | Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes the end of a connection a reset.
fn reset(stream: &TcpStream) -> io::Result<()> {
    Ok(set_socket_linger(stream, Some(Duration::ZERO))?)
}

/// Whether a connection lives on after this was tried on it. One that is not open yet does.
fn is_open(tried: io::Result<usize>) -> bool {
    match tried {
        Ok(count) => count > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected),
    }
}

/// A query with an answer of nearly 64 KiB.
fn large() -> Vec<u8> {
    Query::new(name(&format!("{LARGE}.{ZONE}")), Rtype::TXT).to_wire()
}
