//! Ports for servers, which no socket gets by chance.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

/// The kernel gives ports of `net.ipv4.ip_local_port_range`, by default 32768 and above, to
/// sockets that ask for none, such as those of clients: one from there could be gone before the
/// server is started that it was chosen for.
const PORTS: Range<u16> = 10_000..32_000;

/// An address of this IP without a listener, over UDP or TCP; each is returned once, and to no
/// other process while this one runs.
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
        .find(|address| {
            reserve(*address)
                && UdpSocket::bind(address).is_ok()
                && TcpListener::bind(address).is_ok()
        })
        .expect("a port that is free for both UDP and TCP")
}

/// Keeps an address from the other processes that ask here, until this process ends: the
/// caller binds it later. Returns whether no other process has it.
fn reserve(address: SocketAddrV4) -> bool {
    static RESERVED: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());
    let name = UnixAddress::from_abstract_name(format!("dunlin-test-{address}"));
    let Ok(socket) = UnixDatagram::bind_addr(&name.expect("a short name")) else { return false };
    RESERVED.lock().expect("no panic").push(socket);
    true
}
