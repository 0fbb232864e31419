//! Messages: a header, a fixed part and attributes.

use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

/// Bytes of the header of all messages.
pub(crate) const HEADER: usize = 16;
/// Where the header has the flags, and the number of the request.
pub(crate) const HEADER_FLAGS: usize = 6;
pub(crate) const SEQUENCE: usize = 8;

// `linux/netlink.h`.
const ERROR: u16 = 2;
/// Flags of a request that adds something: it may be new, and has to be.
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// The end of a dump.
pub(crate) const DONE: u16 = 3;
/// The bits of an attribute's kind that are not its number.
const KIND_FLAGS: u16 = 0xc000;

/// A message: a fixed part and attributes.
pub(crate) fn message(kind: u16, flags: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
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
    io::Error::new(io::ErrorKind::InvalidData, "a reply of the kernel ends too early")
}

/// A number of two bytes.
///
/// # Errors
/// There are too few bytes.
pub(crate) fn half(bytes: &[u8], at: usize) -> io::Result<u16> {
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

/// The kind of a reply, and what is behind its header.
///
/// # Errors
/// It is an error, or too short.
pub(crate) fn reply(bytes: &[u8]) -> io::Result<(u16, &[u8])> {
    let body = bytes.get(HEADER..word(bytes, 0)? as usize).ok_or_else(cut_short)?;
    let kind = half(bytes, 4)?;
    // A dump ends with a code, too.
    let code = match kind {
        ERROR => word(body, 0)?.cast_signed(),
        DONE => word(body, 0).unwrap_or_default().cast_signed(),
        _ => return Ok((kind, body)),
    };
    match code {
        0 => Ok((kind, &[])),
        code => Err(Errno::from_raw_os_error(code.saturating_neg()).into()),
    }
}

/// The value of an attribute.
pub fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (len, kind) = (usize::from(half(bytes, 0).ok()?), half(bytes, 2).ok()?);
        let value = bytes.get(4..len)?;
        if kind & !KIND_FLAGS == wanted {
            return Some(value);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

/// An IP address as attributes have it.
pub(crate) fn bytes_of(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The family of an IP address.
pub(crate) fn family(ip: &[u8]) -> u8 {
    if ip.len() == 4 { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

/// An IP address of an attribute; `None`: it is of another family.
pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || bytes.try_into().ok().map(|bytes: [u8; 4]| bytes.into());
    let v6 = || bytes.try_into().ok().map(|bytes: [u8; 16]| bytes.into());
    v4().or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{address, link, namespace, neighbor, route};
    use proptest::prelude::*;

    #[test]
    fn reply_is_a_body_an_acknowledgment_or_an_error() {
        let code = -libc::ENETUNREACH;
        let of = |kind, code: i32| message(kind, 0, &code.to_ne_bytes(), &[]);
        for kind in [ERROR, DONE] {
            let refused = reply(&of(kind, code)).unwrap_err().raw_os_error();
            assert_eq!(refused, Some(libc::ENETUNREACH));
            assert_eq!(reply(&of(kind, 0)).unwrap(), (kind, &[][..]));
        }
        assert_eq!(reply(&of(16, 7)).unwrap(), (16, &7i32.to_ne_bytes()[..]));
    }

    proptest! {
        /// No reply of the kernel causes a panic.
        #[test]
        fn nothing_in_a_reply_makes_it_panic(bytes: Vec<u8>, wanted: u16) {
            let _ = (reply(&bytes), attribute(&bytes, wanted));
            let _ = (address::read(&bytes), link::read(&bytes));
            let _ = (neighbor::read(&bytes), route::read(&bytes), namespace::read(&bytes));
            let _ = (route::read_of_table(&bytes), route::read_rule(&bytes));
        }
    }
}
