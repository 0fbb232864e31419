//! The program that is attached to an interface.

use netlink::{
    ACK, GET_LINK, Netlink, SET_LINK, attribute, attributes_of, cut_short, link_header, word,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

// `linux/if_link.h`.
const XDP: u16 = 43;
const XDP_FD: u16 = 1;
const XDP_ATTACHED: u16 = 2;
const XDP_FLAGS: u16 = 3;
const XDP_PROGRAM: u16 = 4;
const XDP_EXPECTED_FD: u16 = 8;
const NESTED: u16 = 0x8000;
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;
const REPLACE: u32 = 1 << 4;

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel allocates anything for a packet.
    Native,
    /// In the kernel, if the driver does not support it: it works, and gains less.
    Generic,
}

impl AttachMode {
    /// The name in status and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// An XDP program attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its ID in the kernel.
    pub program: u32,
    /// Where it runs.
    pub mode: AttachMode,
}

/// The program attached to an interface; `None`: no program, no interface, or more than one
/// program.
///
/// # Errors
/// The kernel refuses.
pub fn attached(interface: u32) -> io::Result<Option<Attachment>> {
    let mut netlink = Netlink::open()?;
    let header = link_header(interface);
    let reply = match netlink.request(GET_LINK, 0, &header, &[]) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => return Ok(None),
        reply => reply?,
    };
    let xdp = attribute(reply.get(header.len()..).ok_or_else(cut_short)?, XDP).unwrap_or_default();
    let mode = match attribute(xdp, XDP_ATTACHED) {
        Some([1]) => AttachMode::Native,
        Some([2]) => AttachMode::Generic,
        _ => return Ok(None),
    };
    let program = word(attribute(xdp, XDP_PROGRAM).ok_or_else(cut_short)?, 0)?;
    Ok(Some(Attachment { program, mode }))
}

/// Replaces the program attached to an interface by another one, or none.
///
/// # Errors
/// Another program is attached, or the kernel refuses this one.
pub fn replace(
    interface: u32,
    old: impl AsFd,
    new: Option<impl AsFd>,
    mode: AttachMode,
) -> io::Result<()> {
    let flags = REPLACE | if mode == AttachMode::Native { NATIVE } else { GENERIC };
    let xdp = attributes_of(&[
        (XDP_FD, &new.map_or(-1, |new| new.as_fd().as_raw_fd()).to_ne_bytes()),
        (XDP_FLAGS, &flags.to_ne_bytes()),
        (XDP_EXPECTED_FD, &old.as_fd().as_raw_fd().to_ne_bytes()),
    ]);
    let attributes = [(XDP | NESTED, &xdp[..])];
    Netlink::open()?.request(SET_LINK, ACK, &link_header(interface), &attributes).map(drop)
}
