//! Telling the service manager how far we are.
use super::kept;
use crate::limits::NOTIFY_TIME_MAX;
use admin::SharedSocket;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr,
};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

/// A way to the service manager, or to nobody. What it cannot be told is logged, and no more.
#[derive(Debug)]
pub struct Notify {
    way: Option<(UnixDatagram, SocketAddrUnix)>,
    /// The names of the sockets that were kept for us.
    kept: Vec<String>,
}

impl Notify {
    /// A way to the socket that `NOTIFY_SOCKET` names: a path, or a name after `@`. The manager has
    /// kept sockets of these names.
    pub fn to(name: Option<&str>, kept: Vec<String>) -> Self {
        let name = name.filter(|name| !name.is_empty());
        let way = name.and_then(|name| match open(name) {
            Ok(way) => Some(way),
            Err(error) => {
                tracing::warn!(%error, name, "NOTIFY_SOCKET: the service manager is told nothing");
                None
            }
        });
        Self { way, kept }
    }

    /// Whether a service manager watches this process: it takes the end of it for the end of the
    /// service.
    pub fn is_watched(&self) -> bool {
        self.way.is_some()
    }

    /// Has the manager keep these sockets, and no others, for the process that comes after us:
    /// nobody reads them then, but what comes to them waits. Those of a socket unit it has already.
    pub fn keep(&self, sockets: &[SharedSocket]) {
        for name in &self.kept {
            self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        }
        for (index, socket) in sockets.iter().enumerate().filter(|(_, socket)| !socket.given) {
            let name = kept::name(index, socket);
            // It would take the error of one connection for the end of the socket.
            let text = format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}");
            self.tell_with(&text, Some(socket.fd.as_fd()));
        }
    }

    /// Serving: the start, or a reload, is done.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// A reload begins; [`Notify::ready`] ends it.
    pub fn reloading(&self) {
        // The manager tells by the time whether it asked before or after.
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The end begins.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// One line for `systemctl status`.
    pub fn status(&self, line: &str) {
        self.tell(&format!("STATUS={}", line.replace('\n', " ")));
    }

    /// We are well.
    pub fn watchdog(&self) {
        self.tell("WATCHDOG=1");
    }

    fn tell(&self, text: &str) {
        self.tell_with(text, None);
    }

    fn tell_with(&self, text: &str, fd: Option<BorrowedFd<'_>>) {
        let Some((socket, address)) = &self.way else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = fd.as_slice();
        let fits = fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(fits, "there is space for one");
        let octets = [IoSlice::new(text.as_bytes())];
        let flags = SendFlags::NOSIGNAL;
        if let Err(error) = sendmsg_addr(socket, address, &octets, &mut control, flags) {
            tracing::warn!(%error, text, "the service manager could not be told");
        }
    }
}

fn open(name: &str) -> io::Result<(UnixDatagram, SocketAddrUnix)> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None if name.starts_with('/') => SocketAddrUnix::new(name)?,
        None => return Err(io::Error::other("neither a path nor a name after @")),
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that hangs must not hang us.
    socket.set_write_timeout(Some(NOTIFY_TIME_MAX))?;
    Ok((socket, address))
}
