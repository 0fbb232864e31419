//! Telling the service manager how far we are.
use crate::limits::NOTIFY_TIME_MAX;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A way to the service manager, or to nobody. What it cannot be told is logged, and no more.
#[derive(Debug)]
pub struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// A way to the socket that `NOTIFY_SOCKET` names: a path, or a name after `@`.
    pub fn to(name: Option<&str>) -> Self {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Self(None) };
        match open(name) {
            Ok(way) => Self(Some(way)),
            Err(error) => {
                tracing::warn!(%error, name, "NOTIFY_SOCKET: the service manager is told nothing");
                Self(None)
            }
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

    /// Another process is the service from now on. Only the one that is it may say so.
    pub fn main_pid(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}"));
    }

    fn tell(&self, text: &str) {
        let Some((socket, address)) = &self.0 else { return };
        if let Err(error) = socket.send_to_addr(text.as_bytes(), address) {
            tracing::warn!(%error, text, "the service manager could not be told");
        }
    }
}

fn open(name: &str) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None if name.starts_with('/') => SocketAddr::from_pathname(name)?,
        None => return Err(io::Error::other("neither a path nor a name after @")),
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that hangs must not hang us.
    socket.set_write_timeout(Some(NOTIFY_TIME_MAX))?;
    Ok((socket, address))
}
