//! Queries to the kernel about devices, routes and neighbors (`netlink(7)`, `rtnetlink(7)`).

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// Bytes of the header of all messages.
const HEADER: usize = 16;
/// Bytes of the longest reply of the kernel to these queries.
const ANSWER: usize = 32 << 10;

// `linux/netlink.h`.
const REQUEST: u16 = 0x1;
const ERROR: u16 = 2;
/// A flag: requests an acknowledgment.
pub const ACK: u16 = 0x4;

/// A netlink socket.
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
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
        Ok(Self { socket, buffer: vec![0; ANSWER] })
    }

    /// Sends a request; returns the reply behind its header, which is empty for an acknowledgment.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: &[(u16, &[u8])],
    ) -> io::Result<&[u8]> {
        let question = message(kind, REQUEST | flags, fixed, attributes);
        rustix::net::send(&self.socket, &question, SendFlags::empty())?;
        let len = rustix::io::read(&self.socket, &mut self.buffer)?;
        answer(&self.buffer[..len])
    }
}

/// A message: a fixed part and attributes.
pub fn message(kind: u16, flags: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes.extend(fixed);
    bytes.extend(attributes_of(attributes));
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// Attributes as a message or another attribute contains them.
pub fn attributes_of(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in attributes {
        bytes.extend((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// The error for a reply that is too short.
pub fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer of the kernel's ends too early")
}

/// A number of two bytes.
///
/// # Errors
/// There are too few bytes.
pub fn half(bytes: &[u8], at: usize) -> io::Result<u16> {
    let bytes = bytes.get(at..at + 2).ok_or_else(cut_short)?;
    Ok(u16::from_ne_bytes([bytes[0], bytes[1]]))
}

/// A number of four bytes.
///
/// # Errors
/// There are too few bytes.
pub fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(cut_short)?;
    Ok(u32::from_ne_bytes(*bytes))
}

/// The reply behind its header.
///
/// # Errors
/// It is an error, or too short.
pub fn answer(bytes: &[u8]) -> io::Result<&[u8]> {
    let body = bytes.get(HEADER..word(bytes, 0)? as usize).ok_or_else(cut_short)?;
    if half(bytes, 4)? != ERROR {
        return Ok(body);
    }
    match word(body, 0)?.cast_signed() {
        0 => Ok(&[]),
        code => Err(Errno::from_raw_os_error(code.saturating_neg()).into()),
    }
}

/// The value of an attribute.
pub fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (len, kind) = (usize::from(half(bytes, 0).ok()?), half(bytes, 2).ok()?);
        let value = bytes.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_says_yes_or_why_not() {
        let refused = message(ERROR, 0, &(-libc::ENETUNREACH).to_ne_bytes(), &[]);
        assert_eq!(answer(&refused).unwrap_err().raw_os_error(), Some(libc::ENETUNREACH));
        assert!(answer(&message(ERROR, 0, &[0; 4], &[])).unwrap().is_empty());
    }

    proptest! {
        /// No reply of the kernel causes a panic.
        #[test]
        fn nothing_in_an_answer_makes_it_panic(bytes: Vec<u8>, wanted: u16) {
            let _ = (answer(&bytes), attribute(&bytes, wanted));
        }
    }
}
