//! Many datagrams a call: recvmmsg and sendmmsg.

use crate::datagram::PeerAddress;
use crate::limits::ROOM;
use crate::slab::Slab;
use crate::thread_context::is_passing;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{mem, ptr, slice};

/// Bytes from one buffer to the next: an odd number of cache lines, so that the beginnings of the
/// buffers do not all fall into the same few sets of the first-level cache.
const STRIDE: usize = ROOM + 64;

/// Room for a batch of datagrams, and the headers through which the kernel fills and reads it.
pub struct Burst {
    batch: usize,
    receive: Slab<libc::mmsghdr>,
    send: Slab<libc::mmsghdr>,
    vectors: Slab<libc::iovec>,
    peers: Slab<PeerAddress>,
    buffers: Slab<[u8; STRIDE]>,
    /// Slots the kernel wrote to last.
    used: usize,
    /// Answers queued.
    queued: usize,
}

/// One of the datagrams received.
pub struct Slot<'b> {
    /// The part that fits.
    pub message: &'b mut [u8],
    /// Whether the datagram was truncated.
    pub is_cut: bool,
    pub peer: PeerAddress,
}

impl Burst {
    pub fn new(batch: usize) -> Self {
        // SAFETY: zeros are a valid header, and a valid vector: empty, without a pointer.
        let (header, vector) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let burst = Self {
            batch,
            receive: Slab::new(batch, header),
            send: Slab::new(batch, header),
            vectors: Slab::new(batch, vector),
            peers: Slab::new(batch, PeerAddress::NONE),
            buffers: Slab::new(batch, [0; STRIDE]),
            used: 0,
            queued: 0,
        };
        for slot in 0..batch {
            // SAFETY: the slabs are live, and nothing refers to what is in them.
            unsafe {
                (*burst.vectors.at(slot)).iov_base = burst.buffers.at(slot).cast();
                let header = &raw mut (*burst.receive.at(slot)).msg_hdr;
                (*header).msg_name = burst.peers.at(slot).cast();
                (*header).msg_iov = burst.vectors.at(slot);
                (*header).msg_iovlen = 1;
            }
            burst.renew(slot);
        }
        burst
    }

    /// Gives a slot its full room again.
    #[inline]
    fn renew(&self, slot: usize) {
        // SAFETY: as in `new`.
        unsafe {
            (*self.vectors.at(slot)).iov_len = ROOM;
            (*self.receive.at(slot)).msg_hdr.msg_namelen = PeerAddress::SIZE;
        }
    }

    /// Waits for the first datagram up to the socket's receive timeout, and takes those that are
    /// ready with it. Returns their number, 0 after the timeout.
    ///
    /// # Errors
    /// The socket cannot be used any more.
    #[inline]
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        for slot in 0..self.used {
            self.renew(slot);
        }
        (self.used, self.queued) = (0, 0);
        let (batch, flags) = (self.batch as u32, libc::MSG_WAITFORONE);
        // SAFETY: there are so many headers, and what they point at is live and as long as they
        // say; no reference into it is left, as a slot borrows the burst.
        let count = unsafe {
            let headers = self.receive.at(0);
            libc::recvmmsg(fd.as_raw_fd(), headers, batch, flags as _, ptr::null_mut())
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if is_passing(&error) { Ok(0) } else { Err(error) };
        }
        self.used = count as usize;
        Ok(self.used)
    }

    /// A received datagram.
    #[inline]
    pub fn slot(&mut self, slot: usize) -> Slot<'_> {
        assert!(slot < self.used);
        // SAFETY: the kernel has written header, name and the first `msg_len` bytes of a buffer of
        // `ROOM`, which it does not exceed; the one reference lives as long as the burst is lent.
        unsafe {
            let header = self.receive.at(slot);
            let len = ((*header).msg_len as usize).min(ROOM);
            let message = slice::from_raw_parts_mut(self.buffers.at(slot).cast(), len);
            let is_cut = (*header).msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            Slot { message, is_cut, peer: *self.peers.at(slot) }
        }
    }

    /// Queues the first `len` bytes of a slot as a reply to its sender, once per slot.
    #[inline]
    pub fn queue(&mut self, slot: usize, len: usize) {
        assert!(len <= ROOM && slot < self.used && self.queued < self.used);
        // SAFETY: as in `slot`; a copied header points at the same name and vector, whose length
        // becomes that of the datagram.
        unsafe {
            let header = self.receive.at(slot);
            (*self.vectors.at(slot)).iov_len = len;
            *self.send.at(self.queued) = *header;
        }
        self.queued += 1;
    }

    /// Sends the queued replies. Returns how many there were and how many the kernel accepted;
    /// after a refused one it tries the next, unless the send buffer is full.
    #[inline]
    pub fn send(&mut self, fd: BorrowedFd<'_>) -> (usize, usize) {
        let (mut done, mut taken) = (0, 0);
        while done < self.queued {
            let (left, flags) = ((self.queued - done) as u32, libc::MSG_DONTWAIT);
            // SAFETY: `left` headers from there are set up, and what they point at is live.
            let count =
                unsafe { libc::sendmmsg(fd.as_raw_fd(), self.send.at(done), left, flags as _) };
            if let Ok(count) = usize::try_from(count) {
                (done, taken) = (done + count, taken + count);
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => break,
                _ => done += 1,
            }
        }
        (mem::take(&mut self.queued), taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_refused_answer_costs_only_itself() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for text in ["one", "two", "three"] {
            client.send_to(text.as_bytes(), server.local_addr().unwrap()).unwrap();
        }
        let mut burst = Burst::new(4);
        assert_eq!(burst.receive(server.as_fd()).unwrap(), 3);
        // The kernel refuses a broadcast without SO_BROADCAST.
        // SAFETY: the burst is live, and nothing else refers to it.
        unsafe {
            (&mut (*burst.peers.at(1)).0)[4..8]
                .copy_from_slice(&Ipv4Addr::BROADCAST.to_bits().to_be_bytes())
        };
        for slot in 0..3 {
            let len = burst.slot(slot).message.len();
            burst.queue(slot, len);
        }
        assert_eq!(burst.send(server.as_fd()), (3, 2));
        let mut buffer = [0; 16];
        for text in ["one", "three"] {
            let len = client.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], text.as_bytes());
        }
    }

    #[test]
    fn oversized_datagrams_are_truncated_and_marked() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut burst = Burst::new(2);
        for len in [ROOM, ROOM + 1] {
            client.send_to(&vec![7; len], server.local_addr().unwrap()).unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < 2 {
            for slot in 0..burst.receive(server.as_fd()).unwrap() {
                let slot = burst.slot(slot);
                seen.push((slot.message.len(), slot.is_cut));
            }
        }
        assert_eq!(seen, [(ROOM, false), (ROOM, true)]);
    }
}
