//! A blocking client for commands.
use crate::limits::{CLIENT_TIME_MAX, REPLY_TIME_MAX};
use crate::message::{self, AcceptedZone, DecodeError, PROTOCOL, ReloadOutcome, Reply, Request};
use crate::wire::{self, ReceiveBuffer};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, shutdown};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zone_manager::command::{Command, CommandOutcome, TokenOutcome, TokenRequest};
use zone_manager::status::Status;

/// A client for one request. Another request may reach a new process.
#[derive(Debug)]
pub struct Client(AdminConnection);

impl Client {
    /// Connects to the server at `path`.
    ///
    /// # Errors
    /// No server listens, or access is denied.
    pub fn connect(path: &Path) -> Result<Self, AdminError> {
        AdminConnection::connect(path).map(Self)
    }

    /// Requests the status.
    ///
    /// # Errors
    /// The server refuses, or has another version.
    pub fn status(mut self) -> Result<Status, AdminError> {
        match self.0.ask(&Request::Status, CLIENT_TIME_MAX)? {
            Reply::Status(status) => Ok(*status),
            other => Err(self.0.unexpected(&other)),
        }
    }

    /// Reloads config and zones, and waits for the result.
    ///
    /// # Errors
    /// The server refuses, or has another version. A config with errors is not an error here.
    pub fn reload(mut self) -> Result<ReloadOutcome, AdminError> {
        match self.0.ask(&Request::Reload, REPLY_TIME_MAX)? {
            Reply::Reloaded(reloaded) => Ok(reloaded),
            other => Err(self.0.unexpected(&other)),
        }
    }

    /// Runs a command on the server's threads, and waits for the result.
    ///
    /// # Errors
    /// The server refuses, or a thread is too slow.
    pub fn command(mut self, command: Command) -> Result<CommandOutcome, AdminError> {
        match self.0.ask(&Request::Command(command), REPLY_TIME_MAX)? {
            Reply::Commanded(outcome) => Ok(outcome),
            other => Err(self.0.unexpected(&other)),
        }
    }

    /// Accepts the held content of a zone, or of all zones, and waits until it is served.
    ///
    /// # Errors
    /// The server refuses: the zone does not exist, or is not held.
    pub fn accept(mut self, zone: Option<String>) -> Result<Vec<AcceptedZone>, AdminError> {
        match self.0.ask(&Request::Accept { zone }, REPLY_TIME_MAX)? {
            Reply::Accepted(accepted) => Ok(accepted),
            other => Err(self.0.unexpected(&other)),
        }
    }

    /// Creates, lists or revokes credentials of the API.
    ///
    /// # Errors
    /// The server refuses, or has another version.
    pub fn token(mut self, request: TokenRequest) -> Result<TokenOutcome, AdminError> {
        match self.0.ask(&Request::Token(request), CLIENT_TIME_MAX)? {
            Reply::Token(done) => Ok(done),
            other => Err(self.0.unexpected(&other)),
        }
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct AdminConnection {
    socket: OwnedFd,
    pub inbox: ReceiveBuffer,
    path: PathBuf,
}

impl AdminConnection {
    pub fn connect(path: &Path) -> Result<Self, AdminError> {
        let connect = || {
            let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
            // A stopped server accepts no connection.
            set_socket_timeout(&socket, Timeout::Send, Some(CLIENT_TIME_MAX))?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let path = path.to_owned();
        match connect() {
            Ok(socket) => Ok(Self { socket, inbox: ReceiveBuffer::default(), path }),
            Err(errno) => Err(AdminError { path, kind: Kind::Connect(errno) }),
        }
    }

    /// Sends a request, and waits for the start of its reply.
    pub fn ask(&mut self, request: &Request, patience: Duration) -> Result<Reply, AdminError> {
        // A refused client cannot send, but can read the reason.
        let sent = wire::send(&self.socket, &message::encode(request), &[]);
        self.reply(patience).map_err(|error| match (sent, error.kind) {
            (Err(why), Kind::Io(_)) => self.error(Kind::Io(why)),
            (_, kind) => self.error(kind),
        })
    }

    /// Waits for the next reply.
    pub fn reply(&mut self, patience: Duration) -> Result<Reply, AdminError> {
        set_socket_timeout(&self.socket, Timeout::Recv, Some(patience))
            .map_err(|errno| self.error(Kind::Io(errno.into())))?;
        let line = loop {
            if let Some(line) = self.inbox.line() {
                break line;
            }
            match self.inbox.receive(&self.socket) {
                Ok(0) => return Err(self.error(Kind::Io(io::ErrorKind::UnexpectedEof.into()))),
                Ok(_) if self.inbox.fds_lost => return Err(self.fds_lost()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(Kind::Io(error))),
            }
        };
        match message::decode(&line) {
            Ok(Reply::Refused(why)) => Err(self.error(Kind::Refused(why))),
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.error(Kind::DecodeError(error))),
        }
    }

    /// Shuts the connection down, and reads an earlier reply. The other side cannot send any more,
    /// and knows it.
    pub fn hang_up(&mut self) -> Result<Reply, AdminError> {
        shutdown(&self.socket, Shutdown::Both)
            .map_err(|errno| self.error(Kind::Io(errno.into())))?;
        self.reply(CLIENT_TIME_MAX)
    }

    pub fn unexpected(&self, reply: &Reply) -> AdminError {
        let reply = format!("{reply:?}").chars().take(60).collect();
        self.error(Kind::Unexpected(reply))
    }

    pub fn fds_lost(&self) -> AdminError {
        self.error(Kind::FdsLost)
    }

    fn error(&self, kind: Kind) -> AdminError {
        AdminError { path: self.path.clone(), kind }
    }
}

/// A request failed.
#[derive(Debug)]
pub struct AdminError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Connect(Errno),
    Io(io::Error),
    DecodeError(DecodeError),
    Refused(String),
    Unexpected(String),
    FdsLost,
}

impl AdminError {
    /// Whether the socket exists without a server.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self.kind, Kind::Connect(Errno::CONNREFUSED))
    }

    /// Whether the connection ended without a reply.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self.kind, Kind::Io(_))
    }
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.path.display();
        match &self.kind {
            Kind::Connect(Errno::NOENT | Errno::CONNREFUSED) => write!(
                f,
                "no server answers at {place}: is dunlin running? (`systemctl status dunlin`, \
                 `pgrep dunlin`.) It listens where [admin] socket in its config says"
            ),
            Kind::Connect(Errno::ACCESS | Errno::PERM) => write!(
                f,
                "{place}: permission denied; run as root, as the server's user, or as a member of \
                 the group of that socket (`ls -l {place}`)"
            ),
            Kind::Connect(Errno::AGAIN) => {
                write!(f, "the server at {place} accepts no connection: is it stopped?")
            }
            Kind::Connect(errno) => write!(f, "cannot connect to {place}: {errno}"),
            Kind::Io(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    write!(f, "the server at {place} did not answer in time; its log may say why")
                }
                io::ErrorKind::UnexpectedEof => {
                    write!(f, "the server at {place} hung up; its log may say why")
                }
                _ => write!(f, "the server at {place}: {error}"),
            },
            Kind::DecodeError(DecodeError::Protocol(theirs)) => write!(
                f,
                "the server at {place} speaks version {theirs} of this protocol and this program \
                 {PROTOCOL}: use the binary of the server's version, or restart the server"
            ),
            Kind::DecodeError(DecodeError::Json(error)) => {
                write!(f, "the process at {place} does not speak dunlin's protocol: {error}")
            }
            Kind::Refused(why) => write!(f, "the server at {place} refused: {why}"),
            Kind::Unexpected(reply) => {
                write!(f, "the server at {place} sent an unexpected reply: {reply}")
            }
            Kind::FdsLost => write!(
                f,
                "the server at {place} passed more descriptors than this process may open: raise \
                 its limit of open files (`ulimit -Hn`, LimitNOFILE= in the systemd unit)"
            ),
        }
    }
}

impl std::error::Error for AdminError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// Both sides know the last message: nothing is in flight.
    #[test]
    fn reply_before_shutdown_is_read_and_none_after_is_possible() {
        for is_said in [true, false] {
            let (near, mut far) = UnixStream::pair().expect("a pair");
            let (socket, path) = (near.into(), PathBuf::from("here"));
            let mut connection = AdminConnection { socket, inbox: ReceiveBuffer::default(), path };
            if is_said {
                far.write_all(&message::encode(&Reply::HandingOver)).expect("a server is there");
            }
            let heard = connection.hang_up();
            assert_eq!(matches!(heard, Ok(Reply::HandingOver)), is_said, "{heard:?}");
            let late = far.write_all(&message::encode(&Reply::HandingOver));
            assert_eq!(late.expect_err("too late").kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
