//! The memory that recvmmsg fills and sendmmsg reads: set up once, reused for every burst.

use crate::address::RawAddress;
use crate::limits::ROOM;
use packet::{BURST_MAX, LocalAddress};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// Bytes from one buffer to the next. An odd number of cache lines, so that the buffers do not
/// start in the same few sets of the first-level cache.
const STRIDE: usize = ROOM + 64;
/// Bytes of ancillary data: one `in6_pktinfo`, the larger of the two, with its header.
// SAFETY: CMSG_SPACE only computes.
pub const CONTROL: usize =
    unsafe { libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32) } as usize;

/// Room for it, aligned as its header requires.
#[repr(C, align(8))]
pub struct ControlBuffer(pub [u8; CONTROL]);

/// The headers and what they point to.
struct MessageHeaders {
    receive: [libc::mmsghdr; BURST_MAX],
    send: [libc::mmsghdr; BURST_MAX],
    vectors: [libc::iovec; BURST_MAX],
    peers: [RawAddress; BURST_MAX],
    controls: [ControlBuffer; BURST_MAX],
    buffers: [[u8; STRIDE]; BURST_MAX],
}

/// The slots of a burst, each with a buffer, its sender's address and, if the socket reports it,
/// the destination address.
pub struct ReceiveRing {
    /// On the heap, as its parts point to each other, and only accessed through this pointer.
    parts: NonNull<MessageHeaders>,
    /// Bytes of ancillary data to request: 0 or [`CONTROL`].
    control: usize,
    /// Slots that the kernel wrote last, whose lengths must be reset.
    used: usize,
    /// Replies queued.
    queued: usize,
}

// SAFETY: the ring owns what its pointer and those inside lead to; no thread is tied to it.
unsafe impl Send for ReceiveRing {}

impl ReceiveRing {
    /// A ring. With `local`, replies are sent from the destination address of their query (the
    /// socket must have `IP_PKTINFO` or `IPV6_RECVPKTINFO`), and otherwise from the bound one.
    pub fn new(local: bool) -> Self {
        let layout = Layout::new::<MessageHeaders>();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) }.cast::<MessageHeaders>();
        let parts = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        let control = if local { CONTROL } else { 0 };
        let mut ring = Self { parts, control, used: 0, queued: 0 };
        for slot in 0..BURST_MAX {
            ring.link(slot);
        }
        ring
    }

    /// Points a slot's header to the slot's parts.
    fn link(&mut self, slot: usize) {
        let parts = self.parts.as_ptr();
        // SAFETY: `parts` is live and zeroed, which is valid for all its fields; `slot` is below
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

    /// Resets the lengths of a slot.
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

    /// Fills slots from the socket without waiting; returns how many.
    ///
    /// # Errors
    /// Those of recvmmsg; `WouldBlock` if nothing has arrived.
    #[inline]
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        for slot in 0..self.used {
            self.renew(slot);
        }
        self.used = 0;
        self.queued = 0;
        let (fd, flags) = (fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: the headers and all they point to are live, and as long as stated; there are no
        // other references, as slots' borrows end before the ring is used again.
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

    /// A filled slot's length in bytes and its sender.
    #[inline]
    pub fn slot(&self, slot: usize) -> ReceivedDatagram {
        // SAFETY: the kernel has written the header and the peer; both are plain integers. No
        // reference outlives this function.
        unsafe {
            let parts = self.parts.as_ptr();
            let header = &raw const (*parts).receive[slot];
            let peer = &raw const (*parts).peers[slot];
            ReceivedDatagram {
                len: (*header).msg_len as usize,
                truncated: (*header).msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                peer: (*peer).get(),
            }
        }
    }

    /// The destination address of a filled slot's datagram, if the socket reports it.
    #[inline]
    pub fn local(&self, slot: usize) -> Option<LocalAddress> {
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
                    Some(LocalAddress { ip, interface: 0 })
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    let interface = if ip.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
                    Some(LocalAddress { ip: ip.into(), interface })
                }
                _ => None,
            }
        }
    }

    /// The start of a slot's buffer: [`ROOM`] bytes, initialized.
    #[inline]
    pub fn buffer(&mut self, slot: usize) -> *mut u8 {
        // SAFETY: `parts` is live; the index is checked.
        unsafe { (&raw mut (*self.parts.as_ptr()).buffers[slot]).cast() }
    }

    /// Queues the first `len` bytes of a slot's buffer for its sender. At most once for each slot
    /// of a burst.
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

    /// Sends what is queued; returns how many the kernel accepted. A refused one is skipped, unless
    /// the send queue is full.
    #[inline]
    pub fn flush(&mut self, fd: BorrowedFd<'_>) -> usize {
        let (mut done, mut sent) = (0, 0);
        while done < self.queued {
            let left = (self.queued - done) as u32;
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: `done` is below `queued`, so `left` headers from there are set up, and what
            // they point to is live.
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

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nothing in it has a destructor.
        unsafe { dealloc(self.parts.as_ptr().cast(), Layout::new::<MessageHeaders>()) }
    }
}

/// What the kernel reported about a datagram.
#[derive(Debug)]
pub struct ReceivedDatagram {
    pub len: usize,
    pub truncated: bool,
    /// `None`: another address family.
    pub peer: Option<SocketAddr>,
}

/// Turns "arrived at this address through that interface" into "send from this address": the reply
/// may take another interface. A link-local address needs its interface.
///
/// # Safety
/// `header` and its ancillary data are live and as the kernel wrote them.
#[inline]
unsafe fn forget_interface(header: *mut libc::msghdr) {
    // SAFETY: the caller guarantees it; CMSG_FIRSTHDR checks the length, the kernel wrote whole
    // messages, and the data is accessed without assuming its alignment.
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
        let mut ring = ReceiveRing::new(false);
        assert_eq!(ring.receive(server.as_fd()).unwrap(), 3);
        // Broadcasts need SO_BROADCAST. SAFETY: the ring is live, and there is no other reference
        // to it.
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
        let error = ReceiveRing::new(true).receive(server.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
