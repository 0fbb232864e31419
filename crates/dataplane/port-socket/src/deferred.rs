//! Deferred replies: several are sent by one system call.

use crate::address::RawAddress;
use crate::limits::{LATE_BYTES_MAX, LATE_MAX};
use crate::ring::{CONTROL, ControlBuffer};
use packet::{LocalAddress, Packet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, mem, ptr};

/// Replies that were not sent yet, at most [`LATE_MAX`]. Allocates only when it is made.
pub struct DeferredReplies {
    replies: Vec<DeferredReply>,
    bytes: Vec<u8>,
}

/// A reply, and its end among the bytes.
struct DeferredReply {
    peer: SocketAddr,
    local: Option<LocalAddress>,
    end: usize,
}

/// What the headers point to.
struct MessageHeaders {
    peers: [RawAddress; LATE_MAX],
    vectors: [libc::iovec; LATE_MAX],
    controls: [ControlBuffer; LATE_MAX],
}

impl DeferredReplies {
    pub fn new() -> Self {
        let replies = Vec::with_capacity(LATE_MAX);
        Self { replies, bytes: Vec::with_capacity(LATE_BYTES_MAX) }
    }

    /// Adds a reply; false if there is no room.
    pub fn queue(&mut self, reply: &Packet<'_>) -> bool {
        let message = reply.message();
        let end = self.bytes.len() + message.len();
        if self.replies.len() == LATE_MAX || end > LATE_BYTES_MAX {
            return false;
        }
        self.bytes.extend_from_slice(message);
        self.replies.push(DeferredReply { peer: reply.peer, local: reply.origin.local, end });
        true
    }

    /// Sends all replies to their peers, each from the address its query was sent to. Reports for
    /// each whether the kernel accepted it.
    pub fn flush(&mut self, fd: BorrowedFd<'_>, mut reported: impl FnMut(bool)) {
        // SAFETY: all zero is valid for addresses, vectors, bytes and headers.
        let (mut parts, mut headers): (MessageHeaders, [libc::mmsghdr; LATE_MAX]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let all = &raw mut parts;
        let mut start = 0;
        for (nth, (reply, header)) in self.replies.iter().zip(&mut headers).enumerate() {
            let message = &self.bytes[start..reply.end];
            start = reply.end;
            // SAFETY: the parts are zero, and live until the headers are gone.
            unsafe { link(&mut header.msg_hdr, all, nth, (reply, message)) };
        }
        let mut done = 0;
        while done < self.replies.len() {
            let left = &mut headers[done..self.replies.len()];
            let (len, flags) = (left.len() as u32, libc::MSG_DONTWAIT);
            // SAFETY: these headers are set up, and what they point to is live and only read.
            let count =
                unsafe { libc::sendmmsg(fd.as_raw_fd(), left.as_mut_ptr(), len, flags as _) };
            if count > 0 {
                (0..count).for_each(|_| reported(true));
                done += count as usize;
            } else if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                // The error is that of the first one.
                reported(false);
                done += 1;
            }
        }
        self.replies.clear();
        self.bytes.clear();
    }
}

/// Points a header to its parts.
///
/// # Safety
/// `parts` is live, and its control data of this number is zero.
unsafe fn link(
    header: &mut libc::msghdr,
    parts: *mut MessageHeaders,
    nth: usize,
    (reply, message): (&DeferredReply, &[u8]),
) {
    let (peer, peer_len) = RawAddress::of(reply.peer);
    let data = message.as_ptr().cast_mut().cast();
    // SAFETY: the caller guarantees it; the number is checked.
    unsafe {
        (*parts).peers[nth] = peer;
        (*parts).vectors[nth] = libc::iovec { iov_base: data, iov_len: message.len() };
        (header.msg_name, header.msg_namelen) = ((&raw mut (*parts).peers[nth]).cast(), peer_len);
        (header.msg_iov, header.msg_iovlen) = (&raw mut (*parts).vectors[nth], 1);
        if let Some(local) = reply.local {
            header.msg_control = (&raw mut (*parts).controls[nth]).cast();
            header.msg_controllen = CONTROL as _;
            put_local(header, local);
        }
    }
}

/// Sets the source address.
///
/// # Safety
/// `header` has zeroed control data of [`CONTROL`] bytes.
unsafe fn put_local(header: &mut libc::msghdr, local: LocalAddress) {
    // SAFETY: the caller guarantees it; CMSG_FIRSTHDR and CMSG_DATA stay within the control data,
    // whose room is that of the larger structure.
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

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Transport;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_refused_reply_costs_only_itself() {
        let (server, client) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (server, client) = (server.unwrap(), client.unwrap());
        let known = client.local_addr().unwrap();
        // Broadcasts need SO_BROADCAST.
        let all = "255.255.255.255:5353".parse().unwrap();
        let mut late = DeferredReplies::new();
        for (peer, text) in [(known, *b"one"), (all, *b"two"), (known, *b"six")] {
            let mut text = text;
            assert!(late.queue(&Packet::new(&mut text, 3, peer, Transport::Datagram)));
        }
        let mut reported = Vec::new();
        late.flush(server.as_fd(), |taken| reported.push(taken));
        assert_eq!(reported, [true, false, true]);
        let mut buf = [0; 16];
        for text in [b"one", b"six"] {
            let len = client.recv(&mut buf).unwrap();
            assert_eq!(&buf[..len], text);
        }
    }

    #[test]
    fn octets_have_a_maximum_too() {
        let mut long = vec![0; LATE_BYTES_MAX / 2 + 1];
        let (len, peer) = (long.len(), "192.0.2.1:53".parse().unwrap());
        let reply = Packet::new(&mut long, len, peer, Transport::Datagram);
        let mut late = DeferredReplies::new();
        assert_eq!([late.queue(&reply), late.queue(&reply)], [true, false]);
    }
}
