//! Opening the sockets that streams come in at.

use crate::limits::BACKLOG_MAX;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Opens a listening TCP socket on `address`. One on `[::]` takes IPv6 only, so that one on
/// `0.0.0.0` may stand beside it.
///
/// # Errors
/// The address is not ours, is in use, or needs a privilege.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // A restart need not wait for the connections that a predecessor closed.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, BACKLOG_MAX)?;
    Ok(fd.into())
}
