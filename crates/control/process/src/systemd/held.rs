//! The sockets that a holder keeps for the server that it has started, and the messages between
//! both: those of `sd_notify(3)` to the holder, names with descriptors to the server. Each is a
//! datagram of a socket that only both have.
use super::descriptor_name;
use crate::limits::{HELD_FDS_MAX, HELD_LEN_MAX, NOTIFY_TIME_MAX, PASSED_MAX};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The program of this process, also if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// A new process has the sockets of the server.
pub const HANDED_OVER: &str = "X_HANDED_OVER=1";
/// Ends the list of names.
const END: &str = "END";

/// A command of this program for one of the processes beside the server, or for the server.
pub fn own_command(name: &str) -> Command {
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0("dunlin").arg(name);
    command
}

/// What a holder keeps of its server, and has heard from it.
#[derive(Debug, Default)]
pub struct HeldSockets {
    sockets: BTreeMap<String, OwnedFd>,
    /// The server that runs serves.
    pub is_ready: bool,
    /// A new process has the sockets.
    pub is_handed_over: bool,
}

impl HeldSockets {
    /// How many.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Closes all copies.
    pub fn clear(&mut self) {
        self.sockets.clear();
    }

    /// A pair of sockets for a new server: the holder's end, which has all sockets on the way to
    /// the other one, and the server's.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pair(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (own, server) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        for end in [&own, &server] {
            // Neither waits for the other one for long.
            set_socket_timeout(end, Timeout::Send, Some(NOTIFY_TIME_MAX))?;
        }
        let all: Vec<_> = self.sockets.iter().collect();
        for some in all.chunks(HELD_FDS_MAX) {
            let names: Vec<&str> = some.iter().map(|(name, _)| name.as_str()).collect();
            let fds: Vec<_> = some.iter().map(|(_, fd)| fd.as_fd()).collect();
            send(&own, &names.join(":"), &fds)?;
        }
        send(&own, END, &[])?;
        Ok((own, server))
    }

    /// Receives all waiting notifications of the server. Returns whether it has closed its end.
    ///
    /// # Errors
    /// The socket fails.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<bool> {
        loop {
            match receive_one(socket.as_fd(), RecvFlags::DONTWAIT) {
                Ok(None) => return Ok(true),
                Ok(Some((text, fds))) => self.apply(&text, fds),
                Err(why) => match Errno::from_io_error(&why) {
                    Some(Errno::AGAIN) => return Ok(false),
                    Some(Errno::CONNRESET) => return Ok(true),
                    Some(Errno::INTR) => {}
                    _ => return Err(why),
                },
            }
        }
    }

    /// Does what a notification says. What is not known is ignored, as a service manager does.
    fn apply(&mut self, text: &str, mut fds: Vec<OwnedFd>) {
        let has = |line: &str| text.lines().any(|one| one == line);
        self.is_ready |= has("READY=1");
        self.is_handed_over |= has(HANDED_OVER);
        let Some(name) = text.lines().find_map(|line| line.strip_prefix("FDNAME=")) else { return };
        if has("FDSTOREREMOVE=1") {
            self.sockets.remove(name);
        }
        let is_ours = descriptor_name::index(name).is_some_and(|index| index < PASSED_MAX);
        if let Some(fd) = fds.pop().filter(|_| has("FDSTORE=1") && is_ours) {
            self.sockets.insert(name.to_owned(), fd);
        }
    }
}

/// Receives all sockets from the holder, and their names.
pub fn receive(socket: &OwnedFd) -> io::Result<Vec<(String, OwnedFd)>> {
    let mut all = Vec::new();
    loop {
        let Some((text, fds)) = receive_one(socket.as_fd(), RecvFlags::empty())? else {
            return Err(io::Error::other("the holder of the sockets has ended"));
        };
        if text == END {
            return Ok(all);
        }
        let names: Vec<_> = text.split(':').map(str::to_owned).collect();
        if names.len() != fds.len() || all.len() + fds.len() > PASSED_MAX {
            let why = "the holder did not pass all sockets: raise the limit of open files";
            return Err(io::Error::other(why));
        }
        all.extend(names.into_iter().zip(fds));
    }
}

fn send(socket: &OwnedFd, text: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HELD_FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds));
    assert!(fits, "there is space for all of a chunk");
    sendmsg(socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A message and its descriptors; `None`: the other end is closed.
fn receive_one(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
) -> io::Result<Option<(String, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HELD_FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; HELD_LEN_MAX];
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let len = recvmsg(socket, into, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            fds.extend(more);
        }
    }
    let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
    Ok((len > 0).then_some((text, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Manager;
    use admin::{SharedSocket, SocketKind};
    use std::net::UdpSocket;

    fn sockets(count: usize) -> Vec<SharedSocket> {
        let one = |_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let address = socket.local_addr().expect("an address");
            SharedSocket { kind: SocketKind::Udp, address, given: false, fd: socket.into() }
        };
        (0..count).map(one).collect()
    }

    fn addresses(sockets: &[SharedSocket]) -> Vec<std::net::SocketAddr> {
        sockets.iter().map(|socket| socket.address).collect()
    }

    #[test]
    fn next_server_gets_the_sockets_of_the_last_one_in_their_order() {
        // More than one message has.
        for count in [1, HELD_FDS_MAX + 5] {
            let (mut held, opened) = (HeldSockets::default(), sockets(count));
            let (own, server) = held.pair().expect("a pair");
            let first = Manager::of_holder(server).expect("no sockets");
            assert!(first.sockets.is_empty() && !first.notify.is_watched());
            first.notify.keep(&opened);
            first.notify.ready();
            assert!(!held.receive(&own).expect("received"));
            assert!(held.is_ready && !held.is_handed_over);
            drop(first);
            assert!(held.receive(&own).expect("received"), "its end is seen");
            let (own, server) = held.pair().expect("a pair");
            let second = Manager::of_holder(server).expect("all sockets");
            assert_eq!(addresses(&second.sockets), addresses(&opened));
            // It serves fewer, and a new process gets them.
            second.notify.keep(&second.sockets[..1]);
            second.notify.handed_over();
            held.receive(&own).expect("received");
            assert_eq!((held.len(), held.is_handed_over), (1, true));
        }
    }

    #[test]
    fn what_is_no_notification_of_ours_keeps_nothing() {
        let mut held = HeldSockets::default();
        let (own, server) = held.pair().expect("a pair");
        let fd = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        for text in ["FDSTORE=1", "FDSTORE=1\nFDNAME=other", "FDNAME=kept-1", "\u{7f}", "END"] {
            send(&server, text, &[fd().as_fd()]).expect("sent");
        }
        send(&server, "FDSTORE=1\nFDNAME=kept-4096", &[fd().as_fd()]).expect("sent");
        send(&server, "FDSTORE=1\nFDNAME=kept-1", &[]).expect("sent");
        assert!(!held.receive(&own).expect("received"));
        assert!(held.is_empty() && !held.is_ready && !held.is_handed_over);
    }

    #[test]
    fn list_of_a_holder_that_is_cut_off_is_an_error() {
        let flags = SocketFlags::CLOEXEC;
        for (text, expected) in [("", "has ended"), ("kept-0:kept-1", "did not pass all sockets")] {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let (own, server) = socketpair(family, kind, flags, None).expect("a pair");
            let fd = OwnedFd::from(UdpSocket::bind("127.0.0.1:0").expect("a socket"));
            if !text.is_empty() {
                send(&own, text, &[fd.as_fd()]).expect("sent");
            }
            drop(own);
            let told = Manager::of_holder(server).expect_err("no whole list").to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
