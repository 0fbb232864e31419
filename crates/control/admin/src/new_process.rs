//! The new process of a hot restart: receives the sockets, then the connections.
use crate::client::{AdminConnection, AdminError};
use crate::limits::{CLIENT_TIME_MAX, END_TIME_MAX, HAND_OFF_TIME_MAX};
use crate::message::{ConnectionEntry, KeeperEntry, Reply, Request, SocketEntry};
use crate::{Connection, SharedKeeper, SharedSocket};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The old process's offer. Dropping it cancels the hot restart.
#[derive(Debug)]
pub struct RestartOffer {
    /// The version of its binary.
    pub version: String,
    /// Its process ID.
    pub pid: u32,
    /// Its listening sockets. The old process still listens: each datagram and connection reaches
    /// one of both.
    pub sockets: Vec<SharedSocket>,
    /// The shared lock of its `[server] data_dir`; `None`: it has none, or its version does not
    /// know it.
    pub lock: Option<OwnedFd>,
    /// The socket to its keeper of announced routes; `None`: it has none, or its version does not
    /// pass it on.
    pub keeper: Option<SharedKeeper>,
    connection: AdminConnection,
    /// Becomes readable when its process has ended.
    process: Option<OwnedFd>,
}

/// The connections from the old process.
#[derive(Debug)]
pub struct ReceivedConnections {
    /// The received connections.
    pub connections: Vec<Connection>,
    /// Why not all were received. Everything else is ours nevertheless.
    pub problem: Option<AdminError>,
}

/// Requests a hot restart of the server at `path`, by a binary of this version.
///
/// # Errors
/// No server listens, access is denied, or it refuses.
pub fn request_restart(path: &Path, version: &str) -> Result<RestartOffer, AdminError> {
    let mut connection = AdminConnection::connect(path)?;
    let request = Request::TakeOver { version: version.to_owned(), lock: true, keeper: true };
    let (version, pid, has_lock, keeper) = match connection.ask(&request, CLIENT_TIME_MAX)? {
        Reply::Offer { version, pid, lock, keeper } => (version, pid, lock, keeper),
        other => return Err(connection.unexpected(&other)),
    };
    let lock = match has_lock {
        true => Some(connection.inbox.fd().ok_or_else(|| connection.fds_lost())?),
        false => None,
    };
    let keeper = match keeper {
        Some(KeeperEntry { terms, announced: is_announced, token }) => {
            let mut fd = || connection.inbox.fd().ok_or_else(|| connection.fds_lost());
            Some(SharedKeeper { terms, is_announced, token, socket: fd()?, starter: fd()? })
        }
        None => None,
    };
    // Its own number is that of its PID namespace, which may be another one.
    let visible = connection.server_pid().and_then(|pid| i32::try_from(pid).ok());
    let number = visible.and_then(Pid::from_raw);
    let process = number.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut sockets = Vec::new();
    loop {
        match connection.reply(CLIENT_TIME_MAX)? {
            Reply::Sockets(entries) => {
                for SocketEntry { kind, address, given } in entries {
                    let fd = connection.inbox.fd().ok_or_else(|| connection.fds_lost())?;
                    sockets.push(SharedSocket { kind, address, given, fd });
                }
            }
            Reply::Done => break,
            other => return Err(connection.unexpected(&other)),
        }
    }
    Ok(RestartOffer { version, pid, sockets, lock, keeper, connection, process })
}

/// The process that listens at `path`; `None`: it is in a PID namespace that this one does not see,
/// such as that of another container.
///
/// # Errors
/// No server listens, or access is denied.
pub fn server_process(path: &Path) -> Result<Option<u32>, AdminError> {
    Ok(AdminConnection::connect(path)?.server_pid())
}

impl RestartOffer {
    /// Reports that this process serves the sockets, and receives the connections. From then on
    /// this process is responsible, even after errors; `ours` is called to reveal our endpoint.
    /// Blocks while the old process drains, for seconds at most.
    ///
    /// # Errors
    /// The old process has given up waiting and continues: this process should end.
    pub fn serving(mut self, ours: impl FnOnce()) -> Result<ReceivedConnections, AdminError> {
        let message = self.connection.ask(&Request::Serving, CLIENT_TIME_MAX);
        // It may confirm at the moment when we give up: then both would end.
        let message = message.or_else(|error| match error.is_silence() {
            true => self.connection.hang_up().map_err(|_| error),
            false => Err(error),
        });
        match message {
            Ok(Reply::HandingOver) => ours(),
            Ok(other) => return Err(self.connection.unexpected(&other)),
            // It died at this moment: only this process can continue.
            Err(error) if error.is_silence() && self.has_ended() => {
                ours();
                return Ok(ReceivedConnections { connections: Vec::new(), problem: Some(error) });
            }
            Err(error) => return Err(error),
        }
        let mut connections = Vec::new();
        let problem = self.collect(&mut connections).err();
        Ok(ReceivedConnections { connections, problem })
    }

    fn collect(&mut self, connections: &mut Vec<Connection>) -> Result<(), AdminError> {
        let connection = &mut self.connection;
        loop {
            match connection.reply(HAND_OFF_TIME_MAX)? {
                Reply::Connections(entries) => {
                    for ConnectionEntry { peer, client, header_due, inbox } in entries {
                        let fd = connection.inbox.fd().ok_or_else(|| connection.fds_lost())?;
                        connections.push(Connection { fd, peer, client, header_due, inbox });
                    }
                }
                Reply::Done => return Ok(()),
                other => return Err(connection.unexpected(&other)),
            }
        }
    }

    /// Whether the old process has ended, or ends in a moment.
    fn has_ended(&self) -> bool {
        let Some(process) = &self.process else { return false };
        let patience = Duration::try_into(END_TIME_MAX).ok();
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        matches!(poll(&mut fds, patience.as_ref()), Ok(1..))
    }
}
