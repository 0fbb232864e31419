//! The successor's side: asking for the sockets, then for the connections.
use crate::client::{AskError, Dialogue};
use crate::limits::{CLIENT_TIME_MAX, END_TIME_MAX, HAND_OVER_TIME_MAX};
use crate::message::{ConnectionEntry, Reply, Request, SocketEntry};
use crate::{Connection, Shared};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// What a predecessor offers. Dropped, it goes on as if it had not been asked.
#[derive(Debug)]
pub struct Offer {
    /// The version of its binary.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// What it listens on. It still does: each datagram and each connection comes to one of us.
    pub sockets: Vec<Shared>,
    dialogue: Dialogue,
    /// Tells when its process has ended.
    process: Option<OwnedFd>,
}

/// What a predecessor handed over.
#[derive(Debug)]
pub struct Taken {
    /// The open connections that came.
    pub connections: Vec<Connection>,
    /// Why not all of them came. All else is ours nonetheless.
    pub problem: Option<AskError>,
}

/// Asks the server at `path` for its place, as a binary of this version.
///
/// # Errors
/// Nobody is there, it may not be asked, or it refuses.
pub fn take_over(path: &Path, version: &str) -> Result<Offer, AskError> {
    let mut dialogue = Dialogue::connect(path)?;
    let request = Request::TakeOver { version: version.to_owned() };
    let (version, pid) = match dialogue.ask(&request, CLIENT_TIME_MAX)? {
        Reply::Offer { version, pid } => (version, pid),
        other => return Err(dialogue.unexpected(&other)),
    };
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = number.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut sockets = Vec::new();
    loop {
        match dialogue.reply(CLIENT_TIME_MAX)? {
            Reply::Sockets(entries) => {
                for SocketEntry { kind, address, given } in entries {
                    let fd = dialogue.inbox.fd().ok_or_else(|| dialogue.fds_lost())?;
                    sockets.push(Shared { kind, address, given, fd });
                }
            }
            Reply::Done => break,
            other => return Err(dialogue.unexpected(&other)),
        }
    }
    Ok(Offer { version, pid, sockets, dialogue, process })
}

impl Offer {
    /// Says that the sockets are served now, and waits for the connections. From then on the place
    /// is ours, whatever becomes of the rest, and `ours` is called: the time to reveal our own
    /// endpoint. Blocks while the predecessor answers what it has received: seconds at most.
    ///
    /// # Errors
    /// The predecessor has lost patience and goes on: this process should end.
    pub fn serving(mut self, ours: impl FnOnce()) -> Result<Taken, AskError> {
        let told = self.dialogue.ask(&Request::Serving, CLIENT_TIME_MAX);
        // It may say so in the very moment in which we give up: then both would end.
        let told = told.or_else(|error| match error.is_silence() {
            true => self.dialogue.hang_up().map_err(|_| error),
            false => Err(error),
        });
        match told {
            Ok(Reply::HandingOver) => ours(),
            Ok(other) => return Err(self.dialogue.unexpected(&other)),
            // It died in this very moment: there is nobody to go on but us.
            Err(error) if error.is_silence() && self.has_ended() => {
                ours();
                return Ok(Taken { connections: Vec::new(), problem: Some(error) });
            }
            Err(error) => return Err(error),
        }
        let mut connections = Vec::new();
        let problem = self.collect(&mut connections).err();
        Ok(Taken { connections, problem })
    }

    fn collect(&mut self, connections: &mut Vec<Connection>) -> Result<(), AskError> {
        let dialogue = &mut self.dialogue;
        loop {
            match dialogue.reply(HAND_OVER_TIME_MAX)? {
                Reply::Connections(entries) => {
                    for ConnectionEntry { peer, client, header_due, inbox } in entries {
                        let fd = dialogue.inbox.fd().ok_or_else(|| dialogue.fds_lost())?;
                        connections.push(Connection { fd, peer, client, header_due, inbox });
                    }
                }
                Reply::Done => return Ok(()),
                other => return Err(dialogue.unexpected(&other)),
            }
        }
    }

    /// Whether the predecessor's process has ended, or does so in a moment.
    fn has_ended(&self) -> bool {
        let Some(process) = &self.process else { return false };
        let patience = Duration::try_into(END_TIME_MAX).ok();
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        matches!(poll(&mut fds, patience.as_ref()), Ok(1..))
    }
}
