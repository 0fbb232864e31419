//! Opening UDP sockets.

use crate::limits::PATIENCE;
use crate::{Error, Options};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A UDP socket for each of `count` threads, or one that all of them share.
///
/// # Errors
/// The address does not belong to this host, is in use, or needs a privilege.
pub fn open(options: &Options, count: usize) -> Result<Vec<Arc<OwnedFd>>, Error> {
    if options.shared {
        let socket = Arc::new(bind(options, false)?);
        return Ok(vec![socket; count]);
    }
    if count > 1 && options.listen.port() != 0 {
        // Any process of the same user can share a port (SO_REUSEPORT). First make sure that
        // no other one does, else the kernel would spread clients over both.
        bind(options, false)?;
    }
    (0..count).map(|_| bind(options, count > 1).map(Arc::new)).collect()
}

/// A UDP socket, to which others may be bound beside if it is one of many.
///
/// # Errors
/// As [`open`].
pub fn bind(options: &Options, is_one_of_many: bool) -> Result<OwnedFd, Error> {
    let address = options.listen;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let open = || -> io::Result<OwnedFd> {
        let fd = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseport(&fd, is_one_of_many)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        Ok(fd)
    };
    let fd = open().map_err(|error| Error::failed("a UDP socket", error))?;
    tune(&fd, options)?;
    rustix::net::bind(&fd, &address).map_err(|error| told(address, error))?;
    Ok(fd)
}

fn told(address: SocketAddr, error: rustix::io::Errno) -> Error {
    let why = match error {
        rustix::io::Errno::ADDRINUSE => "another socket has it: `ss -lunp` shows whose".into(),
        rustix::io::Errno::ADDRNOTAVAIL => "no such address here: `ip address` shows them".into(),
        rustix::io::Errno::ACCESS => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE".to_string()
        }
        other => other.to_string(),
    };
    Error::failed(address, why)
}

/// Sets buffers, receive timeout and busy polling of any kind of socket.
pub fn tune(fd: &OwnedFd, options: &Options) -> Result<(), Error> {
    set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, options.receive_buffer)?;
    set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, options.send_buffer)?;
    sockopt::set_socket_timeout(fd, sockopt::Timeout::Recv, Some(PATIENCE))
        .map_err(|error| Error::failed("the time a socket waits", error))?;
    set_busy_poll(fd, options.busy_poll)
}

/// Requests a buffer above the system's limit, which needs a privilege, or else one up to the
/// limit.
fn set_buffer(fd: &OwnedFd, force: i32, plain: i32, bytes: usize) -> Result<(), Error> {
    // The kernel doubles what it is asked for, to make room for its bookkeeping.
    let bytes = (bytes / 2) as i32;
    set(fd, libc::SOL_SOCKET, force, bytes)
        .or_else(|_| set(fd, libc::SOL_SOCKET, plain, bytes))
        .map_err(|error| Error::failed("a socket's buffer", error))
}

fn set_busy_poll(fd: &OwnedFd, time: Duration) -> Result<(), Error> {
    if time.is_zero() {
        return Ok(());
    }
    let micros = time.as_micros().try_into().unwrap_or(i32::MAX);
    set(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, micros).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EPERM) => Error::failed(
                "busy polling",
                "more than sysctl net.core.busy_read needs root or CAP_NET_ADMIN",
            ),
            _ => Error::failed("busy polling", error),
        }
    })
}

/// Bytes of a socket's receive and send queues, as the kernel has them.
///
/// # Errors
/// It is not a socket.
pub fn buffers(fd: impl AsFd) -> io::Result<(usize, usize)> {
    let fd = fd.as_fd();
    Ok((sockopt::socket_recv_buffer_size(fd)?, sockopt::socket_send_buffer_size(fd)?))
}

/// Sets an option whose value is a number.
pub fn set(fd: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_value(fd, level, name, &value)
}

/// Sets an option whose value is `value` as it lies in memory.
pub fn set_value<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (value, size) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the option's value is live, and `size` is its size.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
