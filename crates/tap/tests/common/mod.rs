//! What the tests share: a plane of one thread, and a directory of their own.
#![allow(dead_code, reason = "no test uses all of it")]

use packet::{Drop, Packet, Transport, Verdict};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tap::Tap;

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

/// Has one query answered, as the application of a plane's thread does.
pub fn answer(tap: &mut Tap, client: SocketAddr, transport: Transport, query: &[u8]) {
    one(tap, client, transport, query, |packet| {
        let reply = reply(packet.message());
        packet.buf[..reply.len()].copy_from_slice(&reply);
        (packet.len, packet.verdict) = (reply.len(), Verdict::Reply);
    });
}

/// Has one query dropped.
pub fn drop(tap: &mut Tap, client: SocketAddr, query: &[u8], reason: Drop) {
    let drop = |packet: &mut Packet<'_>| packet.verdict = Verdict::Drop(reason);
    one(tap, client, Transport::Datagram, query, drop);
}

fn one(
    tap: &mut Tap,
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

/// Waits until something is so. A minute, since machines may be busy.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: not in a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory that is removed in the end.
pub struct Scene(pub PathBuf);

impl Scene {
    /// A fresh one for `test`.
    pub fn new(test: &str) -> Self {
        let name = format!("dunlin-tap-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// The path of a file in it.
    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

impl std::ops::Drop for Scene {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own housekeeping.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
