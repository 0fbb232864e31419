//! Opens the sockets for streams.

use crate::limits::{BACKLOG_MAX, SOCKET_BUFFER};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

/// Opens a listening TCP socket. One on `[::]` accepts IPv6 only, so that `0.0.0.0` can be opened
/// too.
///
/// # Errors
/// The address is not local, is in use, or needs a privilege.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // A restart need not wait for connections that an old process closed.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    bound_buffers(&fd)?;
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, BACKLOG_MAX)?;
    Ok(fd.into())
}

/// Prepares a listening socket of any origin: [`listen`], systemd or an old process.
pub fn prepare(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    bound_buffers(listener)
}

/// Bounds the kernel's buffers of each connection, which inherits them from its listener. By
/// default it would buffer megabytes for a client that does not read.
fn bound_buffers(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER)?;
    sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER)?;
    Ok(())
}
