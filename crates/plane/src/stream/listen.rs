//! Opening the sockets that streams come in at.

use crate::limits::{BACKLOG_MAX, SOCKET_BUFFER};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

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
    bound_buffers(&fd)?;
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, BACKLOG_MAX)?;
    Ok(fd.into())
}

/// Makes a listening socket ready to be served, whoever opened it: [`listen`], systemd or a
/// predecessor.
pub fn prepare(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    bound_buffers(listener)
}

/// Bounds what the kernel keeps for each connection, which takes this over from its listener: left
/// alone it would buffer megabytes for one who does not read.
fn bound_buffers(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER)?;
    sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER)?;
    Ok(())
}
