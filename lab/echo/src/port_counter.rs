//! Counts the UDP datagrams of one port at a device.
//!
//! The kernel counts datagrams for a whole network namespace, not for a socket. Where a server
//! shares its namespace, or queries other servers itself, these counters are not of its answers.
//! Packet sockets with a filter count instead. Their buffers stay full, so the kernel counts
//! a packet without copying it.

use crate::packet_filter::{self, Condition, LOAD_BYTE, LOAD_HALF};
use crate::sockets::set;
use crate::{Error, interface};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// `struct tpacket_stats` (packet(7)).
#[repr(C)]
#[derive(Default)]
struct Statistics {
    packets: u32,
    drops: u32,
}

/// Kinds of packets (`PACKET_HOST`, `PACKET_OUTGOING`) and the option that reads the counters
/// (`PACKET_STATISTICS`), which the library lacks (linux/if_packet.h).
const TO_THIS_HOST: u32 = 0;
const OUTGOING: u32 = 4;
const STATISTICS: i32 = 6;
/// Where a program finds the kind of a packet (linux/filter.h).
const KIND: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

/// Counts datagrams from and to one port at the device that has the address.
#[derive(Debug)]
pub struct PortCounter {
    arrived: OwnedFd,
    left: OwnedFd,
}

/// Datagrams of one port at one device. A train of segments that the device divides counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounts {
    /// To the port, before the socket's buffer.
    pub arrived: u64,
    /// From the port.
    pub left: u64,
}

impl PortCounter {
    /// Begins to count, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// No interface has the address, or the caller may not open packet sockets (CAP_NET_RAW).
    pub fn start(address: SocketAddr) -> Result<Self, Error> {
        let interface = interface::of_address(address.ip())?.index;
        let open = |kind, port_at| {
            let conditions = datagrams(address, kind, port_at);
            counting_socket(&conditions, interface)
                .map_err(|error| Error::failed("a packet socket that counts", error))
        };
        Ok(Self { arrived: open(TO_THIS_HOST, 2)?, left: open(OUTGOING, 0)? })
    }

    /// What was counted since the start or the last call.
    ///
    /// # Errors
    /// The kernel does not give the counters.
    pub fn take(&self) -> io::Result<PortCounts> {
        Ok(PortCounts { arrived: take(&self.arrived)?, left: take(&self.left)? })
    }
}

fn counting_socket(conditions: &[Condition], interface: u32) -> io::Result<OwnedFd> {
    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    // Of no protocol yet: nothing is received before the filter is there.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, kind, flags, None)?;
    packet_filter::attach(&socket, &packet_filter::program(Some(conditions)))?;
    // The least buffer: what does not fit is counted, too, and costs no copy.
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
    packet_filter::bind(&socket, libc::ETH_P_ALL, interface)?;
    Ok(socket)
}

/// UDP datagrams of this kind; their first fragments where they are fragmented. `port_at` is the
/// offset in the UDP header: 0 for the source port, 2 for the destination port.
fn datagrams(address: SocketAddr, kind: u32, port_at: u32) -> Vec<Condition> {
    let port = address.port().into();
    let udp = libc::IPPROTO_UDP as u32;
    let kind = (LOAD_BYTE, KIND, u32::MAX, kind);
    match address.is_ipv4() {
        true => vec![
            kind,
            (LOAD_BYTE, 0, u32::MAX, 0x45),
            (LOAD_HALF, 6, 0x1fff, 0),
            (LOAD_BYTE, 9, u32::MAX, udp),
            (LOAD_HALF, 20 + port_at, u32::MAX, port),
        ],
        false => vec![
            kind,
            (LOAD_BYTE, 0, 0xf0, 0x60),
            (LOAD_BYTE, 6, u32::MAX, udp),
            (LOAD_HALF, 40 + port_at, u32::MAX, port),
        ],
    }
}

fn take(socket: &OwnedFd) -> io::Result<u64> {
    let mut counted = Statistics::default();
    let mut size = size_of::<Statistics>() as libc::socklen_t;
    // SAFETY: the value is live, and `size` is its size.
    let done = unsafe {
        let (value, size) = ((&raw mut counted).cast(), &raw mut size);
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, STATISTICS, value, size)
    };
    // `packets` includes `drops`, and both start again.
    if done == 0 { Ok(counted.packets.into()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
