//! Lines and descriptors on a Unix socket.
use crate::limits::{CHUNK_FDS_MAX, READ_LEN, REPLY_LEN_MAX};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sends bytes, with these descriptors at the first one; returns how many were sent.
///
/// # Errors
/// The errors of sendmsg; then nothing was sent.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(CHUNK_FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("more descriptors than fit into one message"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Received bytes and descriptors before they are read as lines.
#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    bytes: Vec<u8>,
    /// Bytes searched for a line end.
    searched: usize,
    fds: VecDeque<OwnedFd>,
    /// The kernel dropped descriptors, because this process may open no more. The others can no
    /// longer be matched.
    pub fds_lost: bool,
}

impl ReceiveBuffer {
    /// Receives once; returns the number of bytes; 0 at the end.
    ///
    /// # Errors
    /// The errors of recvmsg, or a line is too long.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        if self.bytes.len() >= REPLY_LEN_MAX {
            return Err(io::Error::other("a line is too long"));
        }
        // More room for descriptors than our messages have, so that none is dropped.
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
        self.bytes.extend_from_slice(&read[..received.bytes]);
        Ok(received.bytes)
    }

    /// Takes the first complete line, without its end.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.searched..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return None;
        };
        let mut line: Vec<u8> = self.bytes.drain(..=self.searched + end).collect();
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// Takes the next descriptor. Descriptors arrive with the first byte of their line, so a
    /// complete line has all of them.
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
        let mut inbox = ReceiveBuffer::default();
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
