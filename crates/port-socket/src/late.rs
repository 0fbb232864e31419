//! Replies that were put off: several leave together, by one system call.

use crate::address::RawAddress;
use crate::limits::{LATE_MAX, LATE_OCTETS_MAX};
use crate::ring::{CONTROL, Control};
use packet::{Local, Packet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, mem, ptr};

/// Replies that have not left yet, at most [`LATE_MAX`]. Allocates when it is made, then never.
pub struct Late {
    replies: Vec<Reply>,
    octets: Vec<u8>,
}

/// One of them, and where it ends among the octets.
struct Reply {
    peer: SocketAddr,
    local: Option<Local>,
    end: usize,
}

/// What the headers point at.
struct Parts {
    peers: [RawAddress; LATE_MAX],
    vectors: [libc::iovec; LATE_MAX],
    controls: [Control; LATE_MAX],
}

impl Late {
    pub fn new() -> Self {
        let replies = Vec::with_capacity(LATE_MAX);
        Self { replies, octets: Vec::with_capacity(LATE_OCTETS_MAX) }
    }

    /// Takes a reply; false where there is no room.
    pub fn queue(&mut self, reply: &Packet<'_>) -> bool {
        let message = reply.message();
        let end = self.octets.len() + message.len();
        if self.replies.len() == LATE_MAX || end > LATE_OCTETS_MAX {
            return false;
        }
        self.octets.extend_from_slice(message);
        self.replies.push(Reply { peer: reply.peer, local: reply.origin.local, end });
        true
    }

    /// Sends them to their peers, each from the address its question was sent to; tells of each
    /// whether the kernel took it.
    pub fn flush(&mut self, fd: BorrowedFd<'_>, mut told: impl FnMut(bool)) {
        // SAFETY: all zero is valid for addresses, vectors, octets and headers.
        let (mut parts, mut headers): (Parts, [libc::mmsghdr; LATE_MAX]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let all = &raw mut parts;
        let mut start = 0;
        for (nth, (reply, header)) in self.replies.iter().zip(&mut headers).enumerate() {
            let message = &self.octets[start..reply.end];
            start = reply.end;
            // SAFETY: the parts are zero, and live until the headers are gone.
            unsafe { link(&mut header.msg_hdr, all, nth, (reply, message)) };
        }
        let mut done = 0;
        while done < self.replies.len() {
            let left = &mut headers[done..self.replies.len()];
            let (len, flags) = (left.len() as u32, libc::MSG_DONTWAIT);
            // SAFETY: these headers are set up, and what they point at is live and only read.
            let count =
                unsafe { libc::sendmmsg(fd.as_raw_fd(), left.as_mut_ptr(), len, flags as _) };
            if count > 0 {
                (0..count).for_each(|_| told(true));
                done += count as usize;
            } else if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                // It is about the first one.
                told(false);
                done += 1;
            }
        }
        self.replies.clear();
        self.octets.clear();
    }
}

/// Points a header at its parts.
///
/// # Safety
/// `parts` is live, and its control of this number is zero.
unsafe fn link(
    header: &mut libc::msghdr,
    parts: *mut Parts,
    nth: usize,
    (reply, message): (&Reply, &[u8]),
) {
    let (peer, peer_len) = RawAddress::of(reply.peer);
    let data = message.as_ptr().cast_mut().cast();
    // SAFETY: the caller's promise; the number is checked.
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
        // Nobody may send to everybody without asking for it (SO_BROADCAST).
        let all = "255.255.255.255:5353".parse().unwrap();
        let mut late = Late::new();
        for (peer, text) in [(known, *b"one"), (all, *b"two"), (known, *b"six")] {
            let mut text = text;
            assert!(late.queue(&Packet::new(&mut text, 3, peer, Transport::Datagram)));
        }
        let mut told = Vec::new();
        late.flush(server.as_fd(), |taken| told.push(taken));
        assert_eq!(told, [true, false, true]);
        let mut buf = [0; 16];
        for text in [b"one", b"six"] {
            let len = client.recv(&mut buf).unwrap();
            assert_eq!(&buf[..len], text);
        }
    }

    #[test]
    fn octets_have_a_maximum_too() {
        let mut long = vec![0; LATE_OCTETS_MAX / 2 + 1];
        let (len, peer) = (long.len(), "192.0.2.1:53".parse().unwrap());
        let reply = Packet::new(&mut long, len, peer, Transport::Datagram);
        let mut late = Late::new();
        assert_eq!([late.queue(&reply), late.queue(&reply)], [true, false]);
    }
}
