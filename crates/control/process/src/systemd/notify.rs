//! Notifications to the service manager.
use super::descriptor_name;
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

/// The connection to the service manager, if there is one. Failures are only logged.
#[derive(Debug)]
pub struct Notify {
    way: Option<(UnixDatagram, SocketAddrUnix)>,
    /// The names of the sockets that the manager kept for this process.
    kept: Vec<String>,
}

impl Notify {
    /// Connects to the socket in `NOTIFY_SOCKET`: a path, or an abstract name after `@`. `kept` are
    /// the names of the sockets that the manager keeps.
    pub fn to(name: Option<&str>, kept: Vec<String>) -> Self {
        let name = name.filter(|name| !name.is_empty());
        let way = name.and_then(|name| match open(name) {
            Ok(way) => Some(way),
            Err(error) => {
                tracing::warn!(%error, name, "NOTIFY_SOCKET: cannot notify the service manager");
                None
            }
        });
        Self { way, kept }
    }

    /// Whether a service manager supervises this process. It treats the process's end as the
    /// service's end.
    pub fn is_watched(&self) -> bool {
        self.way.is_some()
    }

    /// Makes the manager keep exactly these sockets for the next process. Meanwhile queries wait in
    /// them. It has those of a socket unit already.
    pub fn keep(&self, sockets: &[SharedSocket]) {
        for name in &self.kept {
            self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        }
        for (index, socket) in sockets.iter().enumerate().filter(|(_, socket)| !socket.given) {
            let name = descriptor_name::name(index, socket);
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
        let Some((socket, address)) = &self.way else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = fd.as_slice();
        let fits = fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(fits, "there is space for one");
        let bytes = [IoSlice::new(text.as_bytes())];
        let flags = SendFlags::NOSIGNAL;
        if let Err(error) = sendmsg_addr(socket, address, &bytes, &mut control, flags) {
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
