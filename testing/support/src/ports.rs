//! Ports for servers, which no socket gets by chance.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// The kernel gives ports of `net.ipv4.ip_local_port_range`, by default 32768 and above, to
/// sockets that ask for none, such as those of clients: one from there could be gone before the
/// server is started that it was chosen for.
const PORTS: Range<u16> = 10_000..32_000;

/// An address of this IP without a listener, over UDP or TCP; each is returned once.
///
/// # Panics
/// All are in use.
pub fn free_address(ip: Ipv4Addr) -> SocketAddrV4 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    // Processes beside each other begin far apart: the golden ratio of the range is prime to it.
    let begin = std::process::id().wrapping_mul(13_597) % u32::from(count);
    let given = || u32::from(GIVEN.fetch_add(1, Ordering::Relaxed));
    let next = || ((begin + given()) % u32::from(count)) as u16;
    (0..count)
        .map(|_| SocketAddrV4::new(ip, PORTS.start + next()))
        .find(|address| UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok())
        .expect("a port that is free for both UDP and TCP")
}
