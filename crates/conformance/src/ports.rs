//! Ports for servers, which no socket gets by chance.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::Result;
use crate::limits::{PORTS, PORTS_TRIED_MAX};

/// An address of this IP that nobody listens on, over UDP or TCP.
///
/// The kernel gives ports of `net.ipv4.ip_local_port_range`, by default 32768 and above, to
/// sockets that ask for none, such as those of a forwarder: one from there could be gone before the
/// server is started that it was chosen for. These lie below, and each is given once.
pub fn free_address(ip: Ipv4Addr) -> Result<SocketAddrV4> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    // Tests that run beside each other begin in different places.
    let begin = std::process::id() as u16;
    for _ in 0..PORTS_TRIED_MAX {
        let nth = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddrV4::new(ip, PORTS.start + nth % count);
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(format!("{ip} has no port that is free for both UDP and TCP"))
}
