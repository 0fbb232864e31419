//! Lines and descriptors on a unix socket, as the kernel carries them.
use crate::limits::{CHUNK_FDS_MAX, READ_LEN, REPLY_LEN_MAX};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sends octets, and these descriptors with the first of them; returns how many octets went.
///
/// # Errors
/// What sendmsg says; nothing went then.
pub fn send(socket: impl AsFd, octets: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(CHUNK_FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("more descriptors than fit into one message"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(octets)], &mut control, SendFlags::NOSIGNAL)?)
}

/// What has been received and not yet been read as lines.
#[derive(Debug, Default)]
pub struct Inbox {
    octets: Vec<u8>,
    /// Octets known to hold no end of line.
    searched: usize,
    fds: VecDeque<OwnedFd>,
    /// Whether the kernel kept descriptors back since this process may have no more. Which of the
    /// others belongs to what is unknown from then on.
    pub fds_lost: bool,
}

impl Inbox {
    /// Receives once, and returns how many octets; 0: no more will come.
    ///
    /// # Errors
    /// What recvmsg says, or more came without an end of line than any line has.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        if self.octets.len() >= REPLY_LEN_MAX {
            return Err(io::Error::other("a line without end"));
        }
        // More room for descriptors than one message of ours has, so that none is cut off.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut read = vec![0; READ_LEN];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let into = &mut [IoSliceMut::new(&mut read)];
        let received = recvmsg(socket, into, &mut control, flags)?;
        self.fds_lost |= received.flags.contains(ReturnFlags::CTRUNC);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        self.octets.extend_from_slice(&read[..received.bytes]);
        Ok(received.bytes)
    }

    /// Takes out the first line, without its end, if all of it is there.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.octets[self.searched..];
        let Some(end) = rest.iter().position(|octet| *octet == b'\n') else {
            self.searched = self.octets.len();
            return None;
        };
        let mut line: Vec<u8> = self.octets.drain(..=self.searched + end).collect();
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// The next descriptor. They come with the first octet of their line, so all of a line are
    /// there when it is.
    pub fn fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_come_with_their_line() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"first\n").unwrap();
        let fd = near.as_fd();
        assert_eq!(send(&near, b"second\n", &[fd, fd]).unwrap(), 7);
        near.write_all(b"thi").unwrap();
        let mut inbox = Inbox::default();
        let mut next = |fds: usize| {
            loop {
                if let Some(line) = inbox.line() {
                    assert_eq!(std::iter::from_fn(|| inbox.fd()).take(fds).count(), fds);
                    return line;
                }
                assert!(inbox.receive(&far).unwrap() > 0);
            }
        };
        assert_eq!(next(0), b"first");
        assert_eq!(next(2), b"second");
        near.write_all(b"rd\n").unwrap();
        assert_eq!(next(0), b"third");
        assert!(inbox.fd().is_none() && !inbox.fds_lost);
    }

    #[test]
    fn too_many_descriptors_are_refused_here() {
        let (near, _far) = UnixStream::pair().unwrap();
        assert!(send(&near, b"x", &vec![near.as_fd(); CHUNK_FDS_MAX + 100]).is_err());
        assert_eq!(send(&near, b"x", &[near.as_fd(); CHUNK_FDS_MAX]).unwrap(), 1);
    }
}
