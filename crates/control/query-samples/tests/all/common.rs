//! Test helpers: queries through a tap, and a folder.
#![allow(dead_code, reason = "no test uses all of it")]

use packet::{DropReason, Packet, Transport, Verdict};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tap::QueryTap;

/// A query for the A record of a name such as `www.example`.
pub fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend(b"\0\0\x01\0\x01");
    query
}

/// Its reply: NOERROR with one A record.
pub fn reply(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    (reply[2], reply[3], reply[7]) = (0x85, 0, 1);
    reply.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01");
    reply
}

/// Answers one query, as a worker does.
pub fn answer(tap: &mut QueryTap, client: SocketAddr, transport: Transport, query: &[u8]) {
    one(tap, client, transport, query, |packet| {
        let reply = reply(packet.message());
        packet.buf[..reply.len()].copy_from_slice(&reply);
        (packet.len, packet.verdict) = (reply.len(), Verdict::Reply);
    });
}

/// Drops one query.
pub fn drop(tap: &mut QueryTap, client: SocketAddr, query: &[u8], reason: DropReason) {
    let drop = |packet: &mut Packet<'_>| packet.verdict = Verdict::Drop(reason);
    one(tap, client, Transport::Datagram, query, drop);
}

fn one(
    tap: &mut QueryTap,
    client: SocketAddr,
    transport: Transport,
    query: &[u8],
    decide: impl FnOnce(&mut Packet<'_>),
) {
    let mut buffer = [0; 600];
    buffer[..query.len()].copy_from_slice(query);
    let mut packet = Packet::new(&mut buffer, query.len(), client, transport);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    tap.begin(std::slice::from_ref(&packet), unix, now);
    decide(&mut packet);
    tap.end(std::slice::from_ref(&packet));
}
