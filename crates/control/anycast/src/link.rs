//! The server's end: starts the starter, sends heartbeats, receives reports. A hot restart passes
//! it on.
use crate::Announcement;
use crate::limits::{MESSAGE_LEN_MAX, REPORT_AGE_MAX};
use crate::message::{Heartbeat, KeeperState, Report, now};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The server's end of the socket, which no other process has but, during a hot restart, the other
/// one.
pub struct Link {
    socket: OwnedFd,
    /// Becomes readable when the starter has ended.
    starter: OwnedFd,
    /// The starter, if this process has to reap it.
    child: Option<Child>,
    /// The old process of a hot restart announced the addresses.
    was_announced: bool,
    has_starter: bool,
    report: Report,
    /// When the keeper last reported.
    reported: Option<Duration>,
    /// All processes of the other end are gone.
    is_closed: bool,
}

/// The descriptors of a [`Link`] on their way to another process.
pub struct PassedLink {
    /// The server's end of the socket.
    pub socket: OwnedFd,
    /// Becomes readable when the starter has ended.
    pub starter: OwnedFd,
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
        let child = command.stdin(Stdio::from(other)).spawn()?;
        let starter = Pid::from_child(&child);
        let starter = pidfd_open(starter, PidfdFlags::empty())?;
        Ok(Self { child: Some(child), ..Self::receive(PassedLink { socket, starter }, false) })
    }

    /// The end of the old process of a hot restart, which announced the addresses or not.
    pub fn receive(PassedLink { socket, starter }: PassedLink, was_announced: bool) -> Self {
        Self {
            socket,
            starter,
            child: None,
            was_announced,
            has_starter: true,
            report: Report { state: KeeperState::Withdrawn, text: String::new() },
            reported: None,
            is_closed: false,
        }
    }

    /// Second descriptors for the new process of a hot restart; `None`: it has to start a keeper.
    /// The keeper withdraws when neither process sends heartbeats.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn pass(&self) -> io::Result<Option<PassedLink>> {
        if self.is_closed || !self.has_starter {
            return Ok(None);
        }
        let (socket, starter) = (self.socket.try_clone()?, self.starter.try_clone()?);
        Ok(Some(PassedLink { socket, starter }))
    }

    /// Whether the old process of a hot restart announced the addresses.
    pub const fn was_announced(&self) -> bool {
        self.was_announced
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
        self.has_starter = self.has_starter && !self.has_starter_ended();
    }

    fn has_starter_ended(&mut self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut watched = [PollFd::new(&self.starter, PollFlags::IN)];
        let has_ended = matches!(poll(&mut watched, Some(&at_once)), Ok(1..));
        if let Some(child) = self.child.as_mut().filter(|_| has_ended) {
            // Reaped; its status is of no interest.
            let _ = child.try_wait();
        }
        has_ended
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

    /// The fault of the keeper, and what to do.
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
