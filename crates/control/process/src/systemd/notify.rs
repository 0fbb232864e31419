//! Notifications to the service manager.
use super::descriptor_name;
use super::held::HANDED_OVER;
use crate::limits::NOTIFY_TIME_MAX;
use admin::SharedSocket;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg, sendmsg_addr,
};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// The connection to the service manager or to the holder, if there is one. Failures are only
/// logged.
#[derive(Debug)]
pub struct Notify {
    receiver: Option<Receiver>,
    /// The names of the sockets that were kept for this process.
    kept: Vec<String>,
}

/// Who receives notifications.
#[derive(Debug)]
enum Receiver {
    Manager(UnixDatagram, SocketAddrUnix),
    /// The holder of the sockets, which has started this process.
    Holder(OwnedFd),
}

impl Notify {
    /// Connects to the socket in `NOTIFY_SOCKET`: a path, or an abstract name after `@`. `kept` are
    /// the names of the sockets that the manager keeps.
    pub fn to(name: Option<&str>, kept: Vec<String>) -> Self {
        let name = name.filter(|name| !name.is_empty());
        let receiver = name.and_then(|name| match open(name) {
            Ok((socket, address)) => Some(Receiver::Manager(socket, address)),
            Err(error) => {
                tracing::warn!(%error, name, "NOTIFY_SOCKET: cannot notify the service manager");
                None
            }
        });
        Self { receiver, kept }
    }

    /// Notifies the holder at the other end of this socket, which kept sockets of these names.
    pub(crate) const fn to_holder(socket: OwnedFd, kept: Vec<String>) -> Self {
        Self { receiver: Some(Receiver::Holder(socket)), kept }
    }

    /// Whether a service manager supervises this process. It treats the process's end as the
    /// service's end.
    pub const fn is_watched(&self) -> bool {
        matches!(self.receiver, Some(Receiver::Manager(..)))
    }

    /// Another descriptor of the socket to the holder, which becomes readable when the holder has
    /// ended; `None`: there is none.
    pub fn holder(&self) -> Option<io::Result<OwnedFd>> {
        match &self.receiver {
            Some(Receiver::Holder(socket)) => Some(socket.try_clone()),
            _ => None,
        }
    }

    /// Makes the manager keep exactly these sockets for the next process. Meanwhile queries wait in
    /// them. It has those of a socket unit already.
    pub fn keep(&self, sockets: &[SharedSocket]) {
        let names: Vec<_> =
            sockets.iter().enumerate().map(|(n, one)| descriptor_name::name(n, one)).collect();
        // The holder replaces sockets of the same name: none is missing at any time.
        let stays = |name: &String| !self.is_watched() && names.contains(name);
        for name in self.kept.iter().filter(|name| !stays(name)) {
            self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        }
        for (name, socket) in names.iter().zip(sockets).filter(|(_, socket)| !socket.given) {
            // The manager would treat the error of one connection as the end of the socket.
            let text = format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}");
            self.tell_with(&text, Some(socket.fd.as_fd()));
        }
    }

    /// Reports that the start or a reload is done.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// Reports the beginning of a reload; [`Notify::ready`] ends it.
    pub fn reloading(&self) {
        // The manager uses the time to match the reload with its request.
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Reports to the holder that a new process has the sockets: this one must not be started
    /// again.
    pub fn handed_over(&self) {
        if matches!(self.receiver, Some(Receiver::Holder(_))) {
            self.tell(HANDED_OVER);
        }
    }

    /// Reports the beginning of the end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Sets the line that `systemctl status` shows.
    pub fn status(&self, line: &str) {
        self.tell(&format!("STATUS={}", line.replace('\n', " ")));
    }

    /// Feeds the watchdog.
    pub fn watchdog(&self) {
        self.tell("WATCHDOG=1");
    }

    fn tell(&self, text: &str) {
        self.tell_with(text, None);
    }

    fn tell_with(&self, text: &str, fd: Option<BorrowedFd<'_>>) {
        let Some(receiver) = &self.receiver else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = fd.as_slice();
        let fits = fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(fits, "there is space for one");
        let bytes = [IoSlice::new(text.as_bytes())];
        let flags = SendFlags::NOSIGNAL;
        let sent = match receiver {
            Receiver::Manager(socket, address) => {
                sendmsg_addr(socket, address, &bytes, &mut control, flags)
            }
            Receiver::Holder(socket) => sendmsg(socket, &bytes, &mut control, flags),
        };
        if let Err(error) = sent {
            tracing::warn!(%error, text, "cannot notify the service manager");
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
    // A manager that hangs must not block the server.
    socket.set_write_timeout(Some(NOTIFY_TIME_MAX))?;
    Ok((socket, address))
}
