//! The server's end: starts the starter, sends heartbeats, receives reports.
use crate::Announcement;
use crate::limits::{MESSAGE_LEN_MAX, REPORT_AGE_MAX};
use crate::message::{Heartbeat, KeeperState, Report, now};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The server's end of the socket, which no other process has.
pub struct Link {
    socket: OwnedFd,
    starter: Child,
    has_starter: bool,
    report: Report,
    /// When the keeper last reported.
    reported: Option<Duration>,
    /// All processes of the other end are gone.
    is_closed: bool,
}

impl Link {
    /// Starts the starter, which gets the other end as its standard input. To be called before
    /// privileges are dropped.
    ///
    /// # Errors
    /// There is no socket, or no process can be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (socket, other) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        let starter = command.stdin(Stdio::from(other)).spawn()?;
        Ok(Self {
            socket,
            starter,
            has_starter: true,
            report: Report::default(),
            reported: None,
            is_closed: false,
        })
    }

    /// The arguments of the starter and of the keeper.
    pub fn arguments(announcement: &Announcement) -> Vec<String> {
        let table = ["--table".to_owned(), announcement.table.to_string()];
        let addresses = announcement.addresses.iter().map(ToString::to_string);
        table.into_iter().chain(addresses).collect()
    }

    /// Sends a heartbeat, and receives what the keeper has reported.
    pub fn beat(&mut self, is_announced: bool) {
        let heartbeat = Heartbeat { is_announced, sent: now() };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A full socket has heartbeats enough.
        if let Err(Errno::PIPE | Errno::CONNRESET) =
            send(&self.socket, &heartbeat.to_bytes(), flags)
        {
            self.is_closed = true;
        }
        let mut buffer = [0; MESSAGE_LEN_MAX];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.is_closed = true,
                Ok((len, _)) => {
                    if let Some(report) = Report::from_bytes(&buffer[..len]) {
                        (self.report, self.reported) = (report, Some(now()));
                    }
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(_) => {}
            }
            break;
        }
        if self.has_starter && !matches!(self.starter.try_wait(), Ok(None)) {
            self.has_starter = false;
        }
    }

    /// Whether the keeper holds the routes, as it last reported.
    pub fn is_announced(&self) -> bool {
        self.report.state == KeeperState::Announced && self.is_reporting()
    }

    fn is_reporting(&self) -> bool {
        let age = self.reported.map(|at| now().saturating_sub(at));
        !self.is_closed && age.is_some_and(|age| age < REPORT_AGE_MAX)
    }

    /// The name of the device with the routes.
    pub fn device(&self) -> Option<&str> {
        self.is_announced().then_some(self.report.text.as_str())
    }

    /// What is wrong with the keeper, and what to do.
    pub fn fault(&self) -> Option<String> {
        let restart = "nothing can start it without privileges: restart the server";
        if self.is_closed {
            return Some(format!("the keeper of the routes and its starter have ended; {restart}"));
        }
        if !self.has_starter {
            return Some(format!(
                "the starter of the keeper has ended; once the keeper ends, {restart}"
            ));
        }
        if !self.is_reporting() {
            return Some(
                "the keeper of the routes does not report: it is started again each second".into(),
            );
        }
        (self.report.state == KeeperState::Failed).then(|| self.report.text.clone())
    }
}
