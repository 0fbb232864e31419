//! The socket: requests and their replies.

use crate::message::{DONE, HEADER, HEADER_FLAGS, SEQUENCE, cut_short, half, message, reply, word};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// Bytes of the longest reply: the kernel's own maximum for a part of a dump.
const REPLY_LEN_MAX: usize = 32 << 10;
/// How often a dump is begun again because what it lists has changed meanwhile.
const DUMP_TRIES: u32 = 10;

// `linux/netlink.h`.
const REQUEST: u16 = 0x1;
const DUMP: u16 = 0x100 | 0x200;
/// A flag of a reply: what is listed has changed since the dump began.
const INTERRUPTED: u16 = 0x10;
/// A flag: requests an acknowledgment.
pub const ACK: u16 = 0x4;

/// A netlink socket. It has one request at a time.
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Of the last request. Replies to an earlier one, which had failed, are skipped.
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in this thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        // The first of its protocols, which is number 0, is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, buffer: vec![0; REPLY_LEN_MAX], sequence: 0 })
    }

    /// Sends a request; returns the reply behind its header, which is empty for an acknowledgment.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn request(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: &[(u16, &[u8])],
    ) -> io::Result<&[u8]> {
        self.send(kind, flags, fixed, attributes)?;
        loop {
            let len = rustix::io::read(&self.socket, &mut self.buffer)?;
            if word(&self.buffer[..len], SEQUENCE)? == self.sequence {
                return reply(&self.buffer[..len]).map(|(_, body)| body);
            }
        }
    }

    /// Sends a request for a list, and reads each of its entries.
    ///
    /// # Errors
    /// The kernel refuses the request, `read` an entry, or the list changed all the time.
    pub fn dump<T>(
        &mut self,
        kind: u16,
        fixed: &[u8],
        mut read: impl FnMut(&[u8]) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..DUMP_TRIES {
            self.send(kind, DUMP, fixed, &[])?;
            if let Some(entries) = self.dump_once(&mut read)? {
                return Ok(entries);
            }
        }
        Err(io::Error::other("other processes changed the kernel's list during each read"))
    }

    /// `None`: the list changed meanwhile.
    fn dump_once<T>(
        &mut self,
        read: &mut impl FnMut(&[u8]) -> io::Result<T>,
    ) -> io::Result<Option<Vec<T>>> {
        let (mut entries, mut is_interrupted) = (Vec::new(), false);
        loop {
            let len = rustix::io::read(&self.socket, &mut self.buffer)?;
            let mut rest = &self.buffer[..len];
            while !rest.is_empty() {
                let one = word(rest, 0)? as usize;
                let message = rest.get(..one).filter(|_| one >= HEADER).ok_or_else(cut_short)?;
                rest = rest.get(one.next_multiple_of(4)..).unwrap_or_default();
                if word(message, SEQUENCE)? != self.sequence {
                    continue;
                }
                is_interrupted |= half(message, HEADER_FLAGS)? & INTERRUPTED != 0;
                match reply(message)? {
                    (DONE, _) => return Ok((!is_interrupted).then_some(entries)),
                    (_, body) => entries.push(read(body)?),
                }
            }
        }
    }

    fn send(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: &[(u16, &[u8])],
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = message(kind, REQUEST | flags, fixed, attributes);
        request[SEQUENCE..SEQUENCE + 4].copy_from_slice(&self.sequence.to_ne_bytes());
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        Ok(())
    }
}
