//! One datagram a call: recvfrom and sendto.

use crate::limits::ROOM;
use crate::reply::Reason;
use crate::thread_context::{ThreadContext, is_passing};
use std::io;
use std::os::fd::AsRawFd;

/// A socket's address as the kernel writes it, of whichever family.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct PeerAddress(pub [u8; Self::SIZE as usize]);

impl PeerAddress {
    /// Bytes of the largest: IPv6's.
    pub const SIZE: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    /// No address.
    pub const NONE: Self = Self([0; Self::SIZE as usize]);

    /// The port, which is at the same place in both families.
    #[inline]
    pub fn port(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }
}

/// Room for one datagram and its sender.
pub struct Datagram {
    buffer: Box<[u8; ROOM]>,
    peer: PeerAddress,
}

impl Datagram {
    pub fn new() -> Self {
        Self { buffer: Box::new([0; ROOM]), peer: PeerAddress::NONE }
    }

    /// Receives one and answers it. Returns false if there was none: at once with `MSG_DONTWAIT`,
    /// else after the receive timeout.
    ///
    /// # Errors
    /// The socket cannot be used any more.
    #[inline]
    pub fn exchange(&mut self, context: &ThreadContext, flags: i32) -> io::Result<bool> {
        let fd = context.fd().as_raw_fd();
        let mut peer_len = PeerAddress::SIZE;
        // SAFETY: the buffer has `ROOM` bytes, the address as many as `peer_len` says. MSG_TRUNC
        // makes the kernel return the whole length, though it writes no more than fits.
        let len = unsafe {
            let (buffer, peer) = (self.buffer.as_mut_ptr().cast(), (&raw mut self.peer).cast());
            libc::recvfrom(fd, buffer, ROOM, flags | libc::MSG_TRUNC, peer, &raw mut peer_len)
        };
        let Ok(len) = usize::try_from(len) else {
            let error = io::Error::last_os_error();
            return if is_passing(&error) { Ok(false) } else { Err(error) };
        };
        context.counters_mut().burst(1);
        if len > ROOM {
            context.counters_mut().dropped(Reason::Oversize, 1);
        } else if context.answer(&mut self.buffer[..len], self.peer.port()) {
            // SAFETY: `len` bytes of the buffer and `peer_len` of the address are initialised.
            let sent = unsafe {
                let (buffer, peer) = (self.buffer.as_ptr().cast(), (&raw const self.peer).cast());
                libc::sendto(fd, buffer, len, libc::MSG_DONTWAIT, peer, peer_len)
            };
            context.sent(1, usize::from(sent >= 0));
        }
        Ok(true)
    }

    /// Receives and answers until nothing is left, or a batch is done.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    #[inline]
    pub fn drain(&mut self, context: &ThreadContext) -> io::Result<()> {
        for _ in 0..context.batch {
            if !self.exchange(context, libc::MSG_DONTWAIT)? {
                break;
            }
        }
        Ok(())
    }
}
