//! Sending one datagram by itself: a reply that was put off.

use crate::ring::{CONTROL, Control};
use packet::{Local, Packet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{mem, ptr};

/// Sends a reply to its peer, from the address the question was sent to.
///
/// # Errors
/// What sendmsg says.
pub fn send(fd: BorrowedFd<'_>, reply: &Packet<'_>) -> io::Result<()> {
    let message = reply.message();
    let mut vector =
        libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
    let mut control = Control([0; CONTROL]);
    let (v4, v6);
    // SAFETY: all zero is a valid header: no name, no data, no control.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    match reply.peer {
        SocketAddr::V4(peer) => {
            v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: peer.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*peer.ip()).to_be() },
                sin_zero: [0; 8],
            };
            header.msg_name = (&raw const v4).cast_mut().cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
        SocketAddr::V6(peer) => {
            v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: peer.port().to_be(),
                sin6_flowinfo: peer.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: peer.ip().octets() },
                sin6_scope_id: peer.scope_id(),
            };
            header.msg_name = (&raw const v6).cast_mut().cast();
            header.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        }
    }
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    if let Some(local) = reply.origin.local {
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = CONTROL as _;
        // SAFETY: the header's control is live, zeroed, and has room for either of the two.
        unsafe { put_local(&mut header, local) };
    }
    // SAFETY: the header and all it points at are live, and are as long as they say; sendmsg only
    // reads them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Says which address to send from.
///
/// # Safety
/// `header` has zeroed control data of [`CONTROL`] octets.
unsafe fn put_local(header: &mut libc::msghdr, local: Local) {
    // SAFETY: the caller's promise; CMSG_FIRSTHDR and CMSG_DATA stay within the control data, whose
    // room is that of the larger structure.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        let data = libc::CMSG_DATA(message);
        let len = match local.ip {
            IpAddr::V4(ip) => {
                (*message).cmsg_level = libc::IPPROTO_IP;
                (*message).cmsg_type = libc::IP_PKTINFO;
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from(ip).to_be() },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                ptr::write_unaligned(data.cast(), info);
                size_of::<libc::in_pktinfo>()
            }
            IpAddr::V6(ip) => {
                (*message).cmsg_level = libc::IPPROTO_IPV6;
                (*message).cmsg_type = libc::IPV6_PKTINFO;
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    ipi6_ifindex: local.interface,
                };
                ptr::write_unaligned(data.cast(), info);
                size_of::<libc::in6_pktinfo>()
            }
        };
        (*message).cmsg_len = libc::CMSG_LEN(len as u32) as _;
        header.msg_controllen = libc::CMSG_SPACE(len as u32) as _;
    }
}
