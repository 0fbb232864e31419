//! AF_PACKET: takes IP packets from the device before the network stack sees them, and answers with
//! packets that it composes; the kernel adds the Ethernet header.
//!
//! The stack gets each packet as well. So that it does not answer "port unreachable" (ICMP),
//! and so that no other process takes the port, a UDP socket is bound to it whose
//! filter drops all.

use crate::burst::Burst;
use crate::packet_filter::{self, Condition, LOAD_BYTE, LOAD_HALF, LOAD_WORD};
use crate::reply::Reason;
use crate::sockets::{self, set};
use crate::thread_context::ThreadContext;
use crate::{Error, Options, interface};
use packet::udp::Udp;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let mut burst = Burst::new(context.batch);
    while context.goes_on() {
        let received = burst.receive(context.fd())?;
        if received == 0 {
            continue;
        }
        context.counters_mut().burst(received);
        for number in 0..received {
            let slot = burst.slot(number);
            if slot.is_cut {
                context.counters_mut().dropped(Reason::Oversize, 1);
            } else if let Some(len) = answer(context, slot.message) {
                burst.queue(number, len);
            }
        }
        let (queued, taken) = burst.send(context.fd());
        context.sent(queued, taken);
    }
    Ok(())
}

/// Turns an IP packet into its answer, and returns the length.
fn answer(context: &ThreadContext, packet: &mut [u8]) -> Option<usize> {
    let Some(udp) = Udp::parse(packet) else {
        context.counters_mut().dropped(Reason::Malformed, 1);
        return None;
    };
    let port = udp.source_port(packet);
    context.answer(&mut packet[udp.payload()], port).then(|| udp.turn_around(packet))
}

/// A packet socket for each of `count` threads, or one that all share; and what is to be kept
/// beside them.
///
/// # Errors
/// No interface has the address, another process has the port, or the privilege is missing.
pub fn open(options: &Options, count: usize) -> Result<(Vec<Arc<OwnedFd>>, OwnedFd), Error> {
    let silencer = silence(options)?;
    let interface = interface::of_address(options.listen.ip())?.index;
    if options.shared || count == 1 {
        let socket = Arc::new(bind(options, interface)?);
        return Ok((vec![socket; count], silencer));
    }
    let mut sockets = Vec::new();
    let mut group = None;
    for _ in 0..count {
        let socket = bind(options, interface)?;
        group = Some(join(&socket, group).map_err(|e| Error::failed("PACKET_FANOUT", e))?);
        sockets.push(Arc::new(socket));
    }
    Ok((sockets, silencer))
}

/// Reserves the port, and drops all its datagrams.
pub fn silence(options: &Options) -> Result<OwnedFd, Error> {
    let socket = sockets::bind(options, false)?;
    packet_filter::attach(&socket, &packet_filter::program(None))
        .map_err(|error| Error::failed("the filter of the UDP socket", error))?;
    Ok(socket)
}

fn bind(options: &Options, interface: u32) -> Result<OwnedFd, Error> {
    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    // Of no protocol yet: nothing is received before the filter is there.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, kind, flags, None);
    let socket = socket.map_err(|error| match error {
        rustix::io::Errno::PERM => {
            Error::Failed("packet sockets need root, or CAP_NET_RAW: sudo dunlin lab echo …".into())
        }
        rustix::io::Errno::AFNOSUPPORT => {
            Error::Failed("this kernel lacks packet sockets: modprobe af_packet".into())
        }
        other => Error::failed("a packet socket", other),
    })?;
    sockets::tune(&socket, options)?;
    prepare(&socket, options.listen, interface)
        .map_err(|error| Error::failed("a packet socket", error))?;
    Ok(socket)
}

fn prepare(socket: &OwnedFd, listen: SocketAddr, interface: u32) -> io::Result<()> {
    packet_filter::attach(socket, &packet_filter::program(Some(&datagrams_to(listen))))?;
    // This socket does not receive its own answers, and sends them to the device without a queue.
    set(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    set(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
    let protocol = if listen.is_ipv4() { libc::ETH_P_IP } else { libc::ETH_P_IPV6 };
    packet_filter::bind(socket, protocol, interface)
}

/// Joins the fanout group: each packet goes to the next socket in turn; and if its queue is
/// full, to the one after. The number of the group, which the kernel chooses for the first.
fn join(socket: &OwnedFd, group: Option<i32>) -> io::Result<i32> {
    let manner = (libc::PACKET_FANOUT_LB | libc::PACKET_FANOUT_FLAG_ROLLOVER) as i32;
    let new = libc::PACKET_FANOUT_FLAG_UNIQUEID as i32;
    let word = group.map_or((manner | new) << 16, |group| group | manner << 16);
    set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, word)?;
    let mut word = 0i32;
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is live, and `size` is its size.
    let done = unsafe {
        let (value, size) = ((&raw mut word).cast(), &raw mut size);
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, value, size)
    };
    if done == 0 { Ok(word & 0xffff) } else { Err(io::Error::last_os_error()) }
}

/// Whole UDP datagrams to `listen`. One with options is let go (RFC 791 §3.1).
fn datagrams_to(listen: SocketAddr) -> Vec<Condition> {
    match listen.ip() {
        IpAddr::V4(ip) => vec![
            (LOAD_BYTE, 0, u32::MAX, 0x45),
            // Neither "more fragments" nor an offset.
            (LOAD_HALF, 6, 0x3fff, 0),
            (LOAD_BYTE, 9, u32::MAX, libc::IPPROTO_UDP as u32),
            (LOAD_WORD, 16, u32::MAX, u32::from(ip)),
            (LOAD_HALF, 22, u32::MAX, listen.port().into()),
        ],
        IpAddr::V6(ip) => {
            let words = ip.to_bits().to_be_bytes();
            let words = words.chunks_exact(4).map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]]));
            let words = (24..).step_by(4).zip(words);
            let mut wanted = vec![(LOAD_BYTE, 6, u32::MAX, libc::IPPROTO_UDP as u32)];
            wanted.extend(words.map(|(at, word)| (LOAD_WORD, at, u32::MAX, word)));
            wanted.push((LOAD_HALF, 42, u32::MAX, listen.port().into()));
            wanted
        }
    }
}
