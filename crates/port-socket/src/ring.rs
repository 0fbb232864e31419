//! The memory that recvmmsg fills and sendmmsg reads: set up once, used for every burst.

use crate::address::RawAddress;
use crate::limits::ROOM;
use packet::{BURST_MAX, Local};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// Octets from one buffer to the next. An odd number of cache lines, so that the beginnings of
/// the buffers do not all fall into the same few sets of the first-level cache.
const STRIDE: usize = ROOM + 64;
/// Octets of ancillary data: one `in6_pktinfo`, the larger of the two, with its header.
// SAFETY: CMSG_SPACE only computes.
pub const CONTROL: usize =
    unsafe { libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32) } as usize;

/// Room for it, aligned as its header asks.
#[repr(C, align(8))]
pub struct Control(pub [u8; CONTROL]);

/// The headers and what they point at.
struct Parts {
    receive: [libc::mmsghdr; BURST_MAX],
    send: [libc::mmsghdr; BURST_MAX],
    vectors: [libc::iovec; BURST_MAX],
    peers: [RawAddress; BURST_MAX],
    controls: [Control; BURST_MAX],
    buffers: [[u8; STRIDE]; BURST_MAX],
}

/// A burst's worth of slots, each with a buffer, its sender's address and, where the socket tells,
/// the address it was sent to.
pub struct Ring {
    /// At a fixed place in the heap, as its parts point at each other, and only reached through
    /// this pointer.
    parts: NonNull<Parts>,
    /// Octets of ancillary data to ask for: 0 or [`CONTROL`].
    control: usize,
    /// Slots the kernel wrote to last, whose lengths are no longer the room.
    used: usize,
    /// Replies queued.
    queued: usize,
}

// SAFETY: the ring owns what its pointer and those inside lead to; no thread is tied to it.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring whose replies leave from the address that was asked, if `local` (the socket must have
    /// `IP_PKTINFO` or `IPV6_RECVPKTINFO`), else from the one the socket is bound to.
    pub fn new(local: bool) -> Self {
        let layout = Layout::new::<Parts>();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) }.cast::<Parts>();
        let parts = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        let control = if local { CONTROL } else { 0 };
        let mut ring = Self { parts, control, used: 0, queued: 0 };
        for slot in 0..BURST_MAX {
            ring.link(slot);
        }
        ring
    }

    /// Points a slot's header at the slot's parts.
    fn link(&mut self, slot: usize) {
        let parts = self.parts.as_ptr();
        // SAFETY: `parts` is live and zeroed, which is valid for all it is made of; `slot` is below
        // `BURST_MAX`. No reference is made, so the pointers stored stay valid.
        unsafe {
            let vector = &raw mut (*parts).vectors[slot];
            (*vector).iov_base = (&raw mut (*parts).buffers[slot]).cast();
            let header = &raw mut (*parts).receive[slot].msg_hdr;
            (*header).msg_name = (&raw mut (*parts).peers[slot]).cast();
            (*header).msg_iov = vector;
            (*header).msg_iovlen = 1;
            if self.control > 0 {
                (*header).msg_control = (&raw mut (*parts).controls[slot]).cast();
            }
        }
        self.renew(slot);
    }

    /// Gives a slot its full room again.
    #[inline]
    fn renew(&mut self, slot: usize) {
        let parts = self.parts.as_ptr();
        // SAFETY: as in `link`.
        unsafe {
            (*parts).vectors[slot].iov_len = ROOM;
            let header = &raw mut (*parts).receive[slot].msg_hdr;
            (*header).msg_namelen = RawAddress::SIZE;
            (*header).msg_controllen = self.control as _;
        }
    }

    /// Fills slots from the socket without waiting, and returns how many.
    ///
    /// # Errors
    /// What recvmmsg says; `WouldBlock` when nothing is there.
    #[inline]
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        for slot in 0..self.used {
            self.renew(slot);
        }
        self.used = 0;
        self.queued = 0;
        let (fd, flags) = (fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: the headers and all they point at are live, and are as long as they say; nobody
        // else refers to them, as slots' borrows end before the ring is used again.
        let count = unsafe {
            let headers = (&raw mut (*self.parts.as_ptr()).receive).cast();
            libc::recvmmsg(fd, headers, BURST_MAX as u32, flags as _, ptr::null_mut())
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        self.used = count as usize;
        Ok(self.used)
    }

    /// A filled slot's length in octets and its sender.
    #[inline]
    pub fn slot(&self, slot: usize) -> Slot {
        // SAFETY: the kernel has written the header and the peer; both are plain integers. No
        // reference outlives this function.
        unsafe {
            let parts = self.parts.as_ptr();
            let header = &raw const (*parts).receive[slot];
            let peer = &raw const (*parts).peers[slot];
            Slot {
                len: (*header).msg_len as usize,
                truncated: (*header).msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                peer: (*peer).get(),
            }
        }
    }

    /// The address that a filled slot's datagram was sent to, where the socket tells.
    #[inline]
    pub fn local(&self, slot: usize) -> Option<Local> {
        if self.control == 0 {
            return None;
        }
        // SAFETY: `parts` is live, and header and ancillary data are as the kernel wrote them.
        unsafe {
            let header = &raw const (*self.parts.as_ptr()).receive[slot].msg_hdr;
            let message = libc::CMSG_FIRSTHDR(header);
            if message.is_null() {
                return None;
            }
            let data = libc::CMSG_DATA(message);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    let ip = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into();
                    Some(Local { ip, interface: 0 })
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    let interface = if ip.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
                    Some(Local { ip: ip.into(), interface })
                }
                _ => None,
            }
        }
    }

    /// Where a slot's buffer begins: [`ROOM`] octets, initialised.
    #[inline]
    pub fn buffer(&mut self, slot: usize) -> *mut u8 {
        // SAFETY: `parts` is live; the index is checked.
        unsafe { (&raw mut (*self.parts.as_ptr()).buffers[slot]).cast() }
    }

    /// Queues the first `len` octets of a slot's buffer to its sender. Once a slot and burst.
    #[inline]
    pub fn queue(&mut self, slot: usize, len: usize) {
        assert!(len <= ROOM && slot < self.used && self.queued < self.used);
        let parts = self.parts.as_ptr();
        // SAFETY: `parts` is live and the indices are checked; `len` is within the buffer.
        unsafe {
            (*parts).vectors[slot].iov_len = len;
            (*parts).send[self.queued] = (*parts).receive[slot];
            forget_interface(&raw mut (*parts).send[self.queued].msg_hdr);
        }
        self.queued += 1;
    }

    /// Sends what is queued, and returns how many the kernel took. One that it refuses is left out
    /// and the next one tried, unless there is no room for any.
    #[inline]
    pub fn flush(&mut self, fd: BorrowedFd<'_>) -> usize {
        let (mut done, mut sent) = (0, 0);
        while done < self.queued {
            let left = (self.queued - done) as u32;
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: `done` is below `queued`, so `left` headers from there are set up, and what
            // they point at is live.
            let count = unsafe {
                let headers = (&raw mut (*self.parts.as_ptr()).send[done]).cast();
                libc::sendmmsg(fd.as_raw_fd(), headers, left, flags as _)
            };
            if count >= 0 {
                done += count as usize;
                sent += count as usize;
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => break,
                _ => done += 1,
            }
        }
        self.queued = 0;
        sent
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nothing in it has a destructor.
        unsafe { dealloc(self.parts.as_ptr().cast(), Layout::new::<Parts>()) }
    }
}

/// What the kernel told of a received datagram.
#[derive(Debug)]
pub struct Slot {
    pub len: usize,
    pub truncated: bool,
    /// `None`: of a family that is not ours.
    pub peer: Option<SocketAddr>,
}

/// Turns "arrived at this address through that interface" into "leave from this address", as the
/// way back may be another one. A link-local address means nothing without its interface.
///
/// # Safety
/// `header` and its ancillary data are live and as the kernel wrote them.
#[inline]
unsafe fn forget_interface(header: *mut libc::msghdr) {
    // SAFETY: the caller's promise; CMSG_FIRSTHDR checks the length, the kernel wrote whole
    // messages, and the data is read and written without assuming its alignment.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        if message.is_null() {
            return;
        }
        let data = libc::CMSG_DATA(message);
        match ((*message).cmsg_level, (*message).cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info = data.cast::<libc::in_pktinfo>();
                (&raw mut (*info).ipi_ifindex).write_unaligned(0);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info = data.cast::<libc::in6_pktinfo>();
                let address = (&raw const (*info).ipi6_addr).read_unaligned();
                if !Ipv6Addr::from(address.s6_addr).is_unicast_link_local() {
                    (&raw mut (*info).ipi6_ifindex).write_unaligned(0);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_refused_reply_costs_only_itself() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for text in ["one", "two", "three"] {
            client.send_to(text.as_bytes(), server.local_addr().unwrap()).unwrap();
        }
        let mut ring = Ring::new(false);
        assert_eq!(ring.receive(server.as_fd()).unwrap(), 3);
        // Nobody may send to everybody without asking for it (SO_BROADCAST).
        // SAFETY: the ring is live, and nothing else refers to it.
        unsafe { (*ring.parts.as_ptr()).peers[1].set_ip(std::net::Ipv4Addr::BROADCAST) };
        for slot in 0..3 {
            let len = ring.slot(slot).len;
            ring.queue(slot, len);
        }
        assert_eq!(ring.flush(server.as_fd()), 2);
        let mut buf = [0; 16];
        for text in ["one", "three"] {
            let len = client.recv(&mut buf).unwrap();
            assert_eq!(&buf[..len], text.as_bytes());
        }
    }

    #[test]
    fn an_empty_socket_would_block() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = Ring::new(true).receive(server.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
