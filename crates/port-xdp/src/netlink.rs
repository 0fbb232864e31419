//! What the kernel is asked and told about devices, routes and neighbours (`netlink(7)`,
//! `rtnetlink(7)`).

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// Octets of the header of all messages.
const HEADER: usize = 16;
/// Octets of an answer of the kernel: no message about one of these is longer.
const ANSWER: usize = 32 << 10;

// `linux/netlink.h`.
const REQUEST: u16 = 0x1;
const ERROR: u16 = 2;
/// A flag: the kernel says that it is done, too.
pub const ACK: u16 = 0x4;

/// A line to the kernel.
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens one, in this thread's network namespace.
    ///
    /// # Errors
    /// The kernel gives none.
    pub fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        // The first of its protocols, which is number 0, is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, buffer: vec![0; ANSWER] })
    }

    /// Asks, and gives what is behind the header of the answer; nothing where it only says yes.
    ///
    /// # Errors
    /// The kernel says no.
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

/// A message: what it is about, and attributes.
pub fn message(kind: u16, flags: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut octets = vec![0; HEADER];
    octets[4..6].copy_from_slice(&kind.to_ne_bytes());
    octets[6..8].copy_from_slice(&flags.to_ne_bytes());
    octets.extend(fixed);
    octets.extend(attributes_of(attributes));
    let len = octets.len() as u32;
    octets[..4].copy_from_slice(&len.to_ne_bytes());
    octets
}

/// Attributes, one behind the other, as a message or another attribute holds them.
pub fn attributes_of(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (kind, value) in attributes {
        octets.extend((4 + value.len() as u16).to_ne_bytes());
        octets.extend(kind.to_ne_bytes());
        octets.extend(*value);
        octets.resize(octets.len().next_multiple_of(4), 0);
    }
    octets
}

/// What is said of an answer that is shorter than it ought to be.
pub fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer of the kernel's ends too early")
}

/// A number of two octets.
///
/// # Errors
/// There are not as many.
pub fn half(octets: &[u8], at: usize) -> io::Result<u16> {
    let octets = octets.get(at..at + 2).ok_or_else(cut_short)?;
    Ok(u16::from_ne_bytes([octets[0], octets[1]]))
}

/// A number of four octets.
///
/// # Errors
/// There are not as many.
pub fn word(octets: &[u8], at: usize) -> io::Result<u32> {
    let octets = octets.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(cut_short)?;
    Ok(u32::from_ne_bytes(*octets))
}

/// What an answer says behind its header.
///
/// # Errors
/// It says no, or is too short.
pub fn answer(octets: &[u8]) -> io::Result<&[u8]> {
    let body = octets.get(HEADER..word(octets, 0)? as usize).ok_or_else(cut_short)?;
    if half(octets, 4)? != ERROR {
        return Ok(body);
    }
    match word(body, 0)?.cast_signed() {
        0 => Ok(&[]),
        code => Err(Errno::from_raw_os_error(code.saturating_neg()).into()),
    }
}

/// The value of an attribute, of those in these octets.
pub fn attribute(mut octets: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (len, kind) = (usize::from(half(octets, 0).ok()?), half(octets, 2).ok()?);
        let value = octets.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        octets = octets.get(len.next_multiple_of(4)..)?;
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
        /// Whatever the kernel were to say: no panic.
        #[test]
        fn nothing_in_an_answer_makes_it_panic(octets: Vec<u8>, wanted: u16) {
            let _ = (answer(&octets), attribute(&octets, wanted));
        }
    }
}
