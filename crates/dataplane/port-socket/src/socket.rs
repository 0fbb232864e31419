//! The port.

use crate::deferred::DeferredReplies;
use crate::limits::ROOM;
use crate::ring::{ReceiveRing, ReceivedDatagram};
use packet::{BURST_MAX, DropReason, Packet, Transport, Verdict, check_source_port};
use port::{Burst, Port, PortCapabilities};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;

/// One UDP socket and the memory for a burst. Allocates only when it is made.
pub struct SocketPort {
    fd: OwnedFd,
    address: SocketAddr,
    caps: PortCapabilities,
    ring: ReceiveRing,
    late: DeferredReplies,
}

impl SocketPort {
    /// A port on a socket of [`bind`](crate::bind()).
    ///
    /// # Errors
    /// It is not a bound IPv4 or IPv6 socket.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let address = rustix::net::getsockname(&fd)?;
        let address = SocketAddr::try_from(address).map_err(io::Error::from)?;
        // A socket bound to one address always sends from it, which is cheaper.
        let ring = ReceiveRing::new(address.ip().is_unspecified());
        Ok(Self {
            fd,
            address,
            caps: PortCapabilities { burst_max: BURST_MAX, room: ROOM },
            ring,
            late: DeferredReplies::new(),
        })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Port for SocketPort {
    fn caps(&self) -> &PortCapabilities {
        &self.caps
    }

    fn burst(&mut self, mut app: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst> {
        let mut burst = Burst::default();
        burst.received = match self.ring.receive(self.fd.as_fd()) {
            Ok(count) => count,
            Err(error) if is_passing(&error) => return Ok(burst),
            Err(error) => return Err(error),
        };
        let mut packets = [const { MaybeUninit::<Packet<'_>>::uninit() }; BURST_MAX];
        let mut slots = [0u8; BURST_MAX];
        let mut shown = 0;
        for index in 0..burst.received {
            let slot = self.ring.slot(index);
            let peer = match answerable(&slot) {
                Ok(peer) => peer,
                Err(reason) => {
                    burst.drop(reason);
                    continue;
                }
            };
            // SAFETY: the buffer has `ROOM` initialized bytes, one slice is made of each, and the
            // ring does not use it until the packets are gone.
            let buffer = unsafe { slice::from_raw_parts_mut(self.ring.buffer(index), ROOM) };
            let mut packet = Packet::new(buffer, slot.len, peer, Transport::Datagram);
            packet.origin.local = self.ring.local(index);
            packets[shown].write(packet);
            slots[shown] = index as u8;
            shown += 1;
        }
        if shown == 0 {
            return Ok(burst);
        }
        // SAFETY: the first `shown` packets were written; the cast only drops `MaybeUninit`.
        let packets =
            unsafe { slice::from_raw_parts_mut(packets.as_mut_ptr().cast::<Packet<'_>>(), shown) };
        app(packets);
        let mut queued = 0;
        for (packet, slot) in packets.iter().zip(slots) {
            match packet.verdict {
                Verdict::Reply => {
                    self.ring.queue(slot.into(), packet.len);
                    queued += 1;
                }
                Verdict::Deferred | Verdict::Control | Verdict::Stream => {}
                Verdict::Drop(reason) => burst.drop(reason),
            }
        }
        burst.replied = self.ring.flush(self.fd.as_fd());
        burst.dropped[DropReason::Unsent as usize] += queued - burst.replied;
        Ok(burst)
    }

    fn queue(&mut self, reply: &Packet<'_>) -> bool {
        self.late.queue(reply)
    }

    fn flush(&mut self, reported: impl FnMut(bool)) {
        self.late.flush(self.fd.as_fd(), reported);
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

/// The peer of a reply, or why there is none.
#[inline]
fn answerable(slot: &ReceivedDatagram) -> Result<SocketAddr, DropReason> {
    let peer = slot.peer.ok_or(DropReason::NoPeer)?;
    check_source_port(peer.port())?;
    if slot.truncated { Err(DropReason::Oversize) } else { Ok(peer) }
}

/// Whether the socket still works: nothing has arrived, or the error is about an earlier datagram
/// (which the kernel reports at the next call) or about memory.
fn is_passing(error: &io::Error) -> bool {
    const PASSING: [i32; 13] = [
        libc::EAGAIN,
        libc::EINTR,
        libc::ECONNREFUSED,
        libc::ECONNRESET,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::ENETDOWN,
        libc::ENETUNREACH,
        libc::EACCES,
        libc::EPERM,
        libc::EPROTO,
        libc::ENOBUFS,
        libc::ENOMEM,
    ];
    error.raw_os_error().is_some_and(|code| PASSING.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_0_and_ports_of_services_are_not_answered() {
        let slot =
            |peer: &str| ReceivedDatagram { len: 12, truncated: false, peer: peer.parse().ok() };
        assert_eq!(answerable(&slot("192.0.2.1:0")), Err(DropReason::NoPeer));
        assert_eq!(answerable(&slot("[2001:db8::1]:0")), Err(DropReason::NoPeer));
        assert_eq!(answerable(&slot("of no family")), Err(DropReason::NoPeer));
        assert_eq!(answerable(&slot("192.0.2.1:19")), Err(DropReason::SourcePort));
        assert_eq!(answerable(&slot("[2001:db8::1]:123")), Err(DropReason::SourcePort));
        let peer = "192.0.2.1:53";
        assert_eq!(answerable(&slot(peer)), Ok(peer.parse().unwrap()));
        let cut = ReceivedDatagram { truncated: true, ..slot(peer) };
        assert_eq!(answerable(&cut), Err(DropReason::Oversize));
    }

    #[test]
    fn only_what_ends_the_socket_ends_the_port() {
        for code in [libc::EAGAIN, libc::ECONNREFUSED, libc::ENOBUFS] {
            assert!(is_passing(&io::Error::from_raw_os_error(code)));
        }
        for code in [libc::EBADF, libc::ENOTSOCK, libc::EFAULT] {
            assert!(!is_passing(&io::Error::from_raw_os_error(code)));
        }
    }
}
