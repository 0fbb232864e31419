//! Opens the sockets of ports.

use crate::limits::{RECEIVE_BUFFER, SEND_BUFFER};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Opens a non-blocking UDP socket on `address`. Several may be bound to one address: the kernel
/// spreads the clients over them (`SO_REUSEPORT`), each to one socket, in the order of binding.
///
/// A socket on `[::]` takes IPv6 only, so that one on `0.0.0.0` may stand beside it. Path MTU
/// discovery is left out (`IP_PMTUDISC_OMIT`), so that a forged ICMP message cannot make us
/// fragment; what avoids fragments is the size of the replies (RFC 9715 §3.1).
///
/// # Errors
/// The address is not ours, is in use without `SO_REUSEPORT`, or needs a privilege.
pub fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_reuseport(&fd, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    tune(&fd, address)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

/// Sets the options of a UDP socket that another process bound, such as an old process or systemd,
/// as [`bind`] does, except those that can no longer be changed: whether others may be bound beside
/// it, and whether it is IPv6 only. Datagrams that it holds are kept. Returns its address.
///
/// # Errors
/// It is not a bound IPv4 or IPv6 socket.
pub fn adopt(fd: &OwnedFd) -> io::Result<SocketAddr> {
    let address = SocketAddr::try_from(rustix::net::getsockname(fd)?).map_err(io::Error::from)?;
    rustix::io::ioctl_fionbio(fd, true)?;
    tune(fd, address)?;
    Ok(address)
}

/// Sets the options that may be set at any time.
fn tune(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let any = address.ip().is_unspecified();
    if address.is_ipv4() {
        set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)?;
        set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, any.into())?;
    } else {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)?;
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, any.into())?;
    }
    set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
    set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER)
}

/// Requests a buffer above the system's limit, which needs a privilege, or otherwise one up to it.
/// One that another process has made as large stays.
fn set_buffer(fd: &OwnedFd, force: i32, plain: i32, bytes: usize) -> io::Result<()> {
    // The kernel doubles the value, for its bookkeeping.
    let half = (bytes / 2) as i32;
    if set(fd, libc::SOL_SOCKET, force, half).is_ok() {
        return Ok(());
    }
    let has = match plain {
        libc::SO_RCVBUF => sockopt::socket_recv_buffer_size(fd),
        _ => sockopt::socket_send_buffer_size(fd),
    };
    if has.is_ok_and(|has| has >= bytes) {
        return Ok(());
    }
    set(fd, libc::SOL_SOCKET, plain, half)
}

fn set(fd: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option's value is a live `i32` and `size` is its size.
    let done =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
