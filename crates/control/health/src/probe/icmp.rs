//! One ICMP echo request from an unprivileged socket (`icmp(7)`), and its reply.
use super::Failure;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::net::{IpAddr, SocketAddr};
use tokio::net::UdpSocket;

/// Type and code, checksum, identifier and sequence; the kernel fills in checksum and identifier.
const HEADER_LEN: usize = 8;
const TOKEN_LEN: usize = 8;

/// Sends a request, and waits for its reply.
///
/// # Errors
/// The network reports that the address is not reached, or this host may not send requests.
pub async fn echo(address: IpAddr) -> Result<(), Failure> {
    let (family, protocol, request, reply) = match address {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8, 0),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129),
    };
    let told = |error| Failure::of_socket("ICMP", &error);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(protocol)).map_err(refused)?;
    // A datagram socket like those of UDP: the identifier of the kernel is its port.
    let socket = UdpSocket::from_std(socket.into()).map_err(told)?;
    socket.connect(SocketAddr::new(address, 0)).await.map_err(told)?;
    let mut packet = [0; HEADER_LEN + TOKEN_LEN];
    packet[0] = request;
    getrandom::fill(&mut packet[HEADER_LEN..])
        .map_err(|error| Failure::NotMade(error.to_string()))?;
    socket.send(&packet).await.map_err(told)?;
    let mut received = [0; HEADER_LEN + TOKEN_LEN];
    loop {
        let len = socket.recv(&mut received).await.map_err(told)?;
        let is_whole = len == received.len() && received[HEADER_LEN..] == packet[HEADER_LEN..];
        if is_whole && received[0] == reply {
            return Ok(());
        }
    }
}

fn refused(errno: Errno) -> Failure {
    if errno != Errno::ACCESS && errno != Errno::PERM {
        return Failure::of_socket("ICMP", &errno.into());
    }
    let group = rustix::process::getegid().as_raw();
    Failure::NotMade(format!(
        "the kernel refuses ICMP sockets to group {group}: sysctl -w \
         net.ipv4.ping_group_range=\"{group} {group}\" allows them"
    ))
}
