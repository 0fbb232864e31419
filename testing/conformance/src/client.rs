//! The client: many queries outstanding over one UDP socket, one at a time over TCP.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use domain::base::iana::Rtype;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::Result;
use crate::limits::{Patience, WINDOW};
use crate::names::Name;
use crate::queries::Query;

/// Flags in the third byte of a reply: QR and AA.
const QR_AA: u8 = 0x84;

/// The replies, in the order of the queries; `None`: no reply.
pub type Replies = Vec<Option<Vec<u8>>>;

struct Pending {
    index: usize,
    deadline: Instant,
    tries: u32,
}

/// Sends each packet under an id of its own, at least two bytes long, and collects the replies.
pub fn ask_udp(server: SocketAddrV4, packets: &[Vec<u8>], patience: Patience) -> Result<Replies> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|e| e.to_string())?;
    socket.connect(server).map_err(|e| format!("{server}: {e}"))?;
    socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(|e| e.to_string())?;
    let mut replies: Replies = vec![None; packets.len()];
    let mut pending: HashMap<u16, Pending> = HashMap::new();
    let mut order: VecDeque<u16> = VecDeque::new();
    let mut buffer = vec![0; 65536];
    let (mut next, mut id) = (0, 0u16);
    while next < packets.len() || !pending.is_empty() {
        while next < packets.len() && pending.len() < WINDOW {
            id = id.wrapping_add(1);
            send(&socket, &packets[next], id);
            let deadline = Instant::now() + patience.timeout;
            pending.insert(id, Pending { index: next, deadline, tries: 1 });
            order.push_back(id);
            next += 1;
        }
        match socket.recv(&mut buffer) {
            Ok(length) if length >= 2 => {
                let id = u16::from_be_bytes([buffer[0], buffer[1]]);
                if let Some(done) = pending.remove(&id) {
                    replies[done.index] = Some(buffer[..length].to_vec());
                }
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(format!("{server}: {e}")),
        }
        resend(&socket, packets, &mut pending, &mut order, patience);
    }
    Ok(replies)
}

/// Sends again what is overdue, or gives it up.
fn resend(
    socket: &UdpSocket,
    packets: &[Vec<u8>],
    pending: &mut HashMap<u16, Pending>,
    order: &mut VecDeque<u16>,
    patience: Patience,
) {
    while let Some(&id) = order.front() {
        let Some(overdue) = pending.get_mut(&id) else {
            order.pop_front();
            continue;
        };
        if overdue.deadline > Instant::now() {
            return;
        }
        order.pop_front();
        if overdue.tries == patience.tries {
            pending.remove(&id);
            continue;
        }
        overdue.tries += 1;
        overdue.deadline = Instant::now() + patience.timeout;
        send(socket, &packets[overdue.index], id);
        order.push_back(id);
    }
}

/// A datagram that the socket refuses counts as lost: it is sent again when it is overdue.
fn send(socket: &UdpSocket, packet: &[u8], id: u16) {
    let mut packet = packet.to_vec();
    packet[..2].copy_from_slice(&id.to_be_bytes());
    let _ = socket.send(&packet);
}

/// Asks one after the other over TCP (RFC 7766), connecting again where the server closes.
pub fn ask_tcp(server: SocketAddrV4, packets: &[Vec<u8>], patience: Patience) -> Replies {
    let mut stream = None;
    packets
        .iter()
        .map(|packet| {
            (0..patience.tries).find_map(|_| {
                let reply = stream
                    .take()
                    .or_else(|| TcpStream::connect_timeout(&server.into(), patience.timeout).ok())
                    .and_then(|mut open| {
                        let reply = exchange(&mut open, packet, patience.timeout).ok()?;
                        Some((open, reply))
                    });
                let (open, reply) = reply?;
                stream = Some(open);
                Some(reply)
            })
        })
        .collect()
}

/// One query and its answer over an open stream.
pub fn exchange(
    stream: &mut TcpStream,
    packet: &[u8],
    timeout: Duration,
) -> std::io::Result<Vec<u8>> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(&framed(packet))?;
    read_message(stream)
}

/// A message behind its length (RFC 1035 §4.2.2).
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// The next message of a stream.
pub fn read_message(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Opens a connection from an address of this host.
pub fn connect_from(
    source: Ipv4Addr,
    server: SocketAddrV4,
    timeout: Duration,
) -> std::io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Connecting counts as sending (socket(7)).
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    connect(&socket, &server)?;
    Ok(socket.into())
}

/// True when `server` answers with authority for the SOA of `zone`.
pub fn is_authority(server: SocketAddrV4, zone: &Name) -> bool {
    let packet = Query::new(zone.clone(), Rtype::SOA).to_wire();
    let patience = Patience { timeout: Duration::from_millis(200), tries: 1 };
    let replies = ask_udp(server, &[packet], patience);
    let reply = replies.ok().and_then(|mut replies| replies.pop()).flatten();
    reply.is_some_and(|reply| reply.len() > 12 && reply[2] & QR_AA == QR_AA && reply[3] & 15 == 0)
}
