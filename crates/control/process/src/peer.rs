//! The process at the other end of a Unix socket.
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The supplementary groups of the connected process, at the time of the connection
/// (`SO_PEERGROUPS`).
///
/// # Errors
/// The socket is not a connected Unix socket.
pub fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let mut size = size_of_val(&*groups) as libc::socklen_t;
        // SAFETY: `groups` is live and writable for `size` bytes, and any bytes are valid in it.
        let done = unsafe {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERGROUPS);
            libc::getsockopt(socket.as_raw_fd(), level, name, groups.as_mut_ptr().cast(), &mut size)
        };
        let error = io::Error::last_os_error();
        let count = size as usize / size_of::<libc::gid_t>();
        if done == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        // The kernel has set the number of groups.
        if Errno::from_io_error(&error) != Some(Errno::RANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_ends_of_a_pair_are_ours() {
        let (near, _far) = UnixStream::pair().expect("a pair");
        let own: Vec<u32> =
            rustix::process::getgroups().expect("groups").iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(groups(near.as_fd()).expect("groups"), own);
    }

    #[test]
    fn a_socket_without_a_peer_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert!(groups(socket.as_fd()).is_err());
    }
}
