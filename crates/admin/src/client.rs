//! Asking a running server. Blocking: a command has nothing else to do.
use crate::limits::{CLIENT_TIME_MAX, REPLY_TIME_MAX};
use crate::message::{self, Misread, PROTOCOL, Reloaded, Reply, Request};
use crate::wire::{self, Inbox};
use control::command::{Command, Outcome, TokenDone, TokenRequest};
use control::status::Status;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, shutdown};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A question to a running server. One each: whoever asks again may meet its successor.
#[derive(Debug)]
pub struct Client(Dialogue);

impl Client {
    /// Connects to the server at `path`.
    ///
    /// # Errors
    /// Nobody is there, or it may not be asked.
    pub fn connect(path: &Path) -> Result<Self, AskError> {
        Dialogue::connect(path).map(Self)
    }

    /// What the server tells of itself.
    ///
    /// # Errors
    /// It refuses, or is of another version.
    pub fn status(mut self) -> Result<Status, AskError> {
        match self.0.ask(&Request::Status, CLIENT_TIME_MAX)? {
            Reply::Status(status) => Ok(*status),
            other => Err(self.0.unexpected(&other)),
        }
    }

    /// Has the server read its config and zones again, and waits until it has.
    ///
    /// # Errors
    /// It refuses to be told, or is of another version. A config with errors is no error here.
    pub fn reload(mut self) -> Result<Reloaded, AskError> {
        match self.0.ask(&Request::Reload, REPLY_TIME_MAX)? {
            Reply::Reloaded(reloaded) => Ok(reloaded),
            other => Err(self.0.unexpected(&other)),
        }
    }

    /// Has the threads of the server do something, and waits until they have.
    ///
    /// # Errors
    /// It refuses, or not all threads have done it in time.
    pub fn command(mut self, command: Command) -> Result<Outcome, AskError> {
        match self.0.ask(&Request::Command(command), REPLY_TIME_MAX)? {
            Reply::Commanded(outcome) => Ok(outcome),
            other => Err(self.0.unexpected(&other)),
        }
    }

    /// Makes, lists or revokes credentials of the API.
    ///
    /// # Errors
    /// It refuses, or is of another version.
    pub fn token(mut self, request: TokenRequest) -> Result<TokenDone, AskError> {
        match self.0.ask(&Request::Token(request), CLIENT_TIME_MAX)? {
            Reply::Token(done) => Ok(done),
            other => Err(self.0.unexpected(&other)),
        }
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Dialogue {
    socket: OwnedFd,
    pub inbox: Inbox,
    path: PathBuf,
}

impl Dialogue {
    pub fn connect(path: &Path) -> Result<Self, AskError> {
        let connect = || {
            let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
            // A server that is stopped accepts nobody.
            set_socket_timeout(&socket, Timeout::Send, Some(CLIENT_TIME_MAX))?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let path = path.to_owned();
        match connect() {
            Ok(socket) => Ok(Self { socket, inbox: Inbox::default(), path }),
            Err(errno) => Err(AskError { path, kind: Kind::Connect(errno) }),
        }
    }

    /// Sends a request, and waits for the beginning of its reply.
    pub fn ask(&mut self, request: &Request, patience: Duration) -> Result<Reply, AskError> {
        // Who is refused at once is told why, and can send no more: the reply says it.
        let sent = wire::send(&self.socket, &message::encode(request), &[]);
        self.reply(patience).map_err(|error| match (sent, error.kind) {
            (Err(why), Kind::Io(_)) => self.error(Kind::Io(why)),
            (_, kind) => self.error(kind),
        })
    }

    /// Waits for the next reply.
    pub fn reply(&mut self, patience: Duration) -> Result<Reply, AskError> {
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
            Err(misread) => Err(self.error(Kind::Misread(misread))),
        }
    }

    /// Hangs up, and hears what was said before that. The other side can say nothing more, and
    /// knows: what is not heard here was not said.
    pub fn hang_up(&mut self) -> Result<Reply, AskError> {
        shutdown(&self.socket, Shutdown::Both)
            .map_err(|errno| self.error(Kind::Io(errno.into())))?;
        self.reply(CLIENT_TIME_MAX)
    }

    pub fn unexpected(&self, reply: &Reply) -> AskError {
        let reply = format!("{reply:?}").chars().take(60).collect();
        self.error(Kind::Unexpected(reply))
    }

    pub fn fds_lost(&self) -> AskError {
        self.error(Kind::FdsLost)
    }

    fn error(&self, kind: Kind) -> AskError {
        AskError { path: self.path.clone(), kind }
    }
}

/// A server could not be asked, or did not do what it was asked for.
#[derive(Debug)]
pub struct AskError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Connect(Errno),
    Io(io::Error),
    Misread(Misread),
    Refused(String),
    Unexpected(String),
    FdsLost,
}

impl AskError {
    /// Whether a socket is there, but nobody behind it.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self.kind, Kind::Connect(Errno::CONNREFUSED))
    }

    /// Whether the connection ended, rather than that something was said.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self.kind, Kind::Io(_))
    }
}

impl fmt::Display for AskError {
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
                "{place}: permission denied; ask as root, as the server's user, or as a member of \
                 the group of that socket (`ls -l {place}`)"
            ),
            Kind::Connect(Errno::AGAIN) => {
                write!(f, "the server at {place} accepts nobody: is it stopped?")
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
            Kind::Misread(Misread::Protocol(theirs)) => write!(
                f,
                "the server at {place} speaks version {theirs} of this protocol and this program \
                 {PROTOCOL}: ask with the binary of the server's own version, or restart the server"
            ),
            Kind::Misread(Misread::Json(error)) => {
                write!(f, "what listens at {place} does not speak as dunlin does: {error}")
            }
            Kind::Refused(why) => write!(f, "the server at {place} refused: {why}"),
            Kind::Unexpected(reply) => {
                write!(f, "the server at {place} said what was not asked for: {reply}")
            }
            Kind::FdsLost => write!(
                f,
                "the server at {place} handed over more than this process may open: raise its \
                 limit of open files (`ulimit -Hn`, LimitNOFILE= in the systemd unit)"
            ),
        }
    }
}

impl std::error::Error for AskError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// Both ends know what was said: nothing is on its way any more.
    #[test]
    fn what_is_said_before_hanging_up_is_heard_and_nothing_after_can_be_said() {
        for is_said in [true, false] {
            let (near, mut far) = UnixStream::pair().expect("a pair");
            let (socket, path) = (near.into(), PathBuf::from("here"));
            let mut dialogue = Dialogue { socket, inbox: Inbox::default(), path };
            if is_said {
                far.write_all(&message::encode(&Reply::HandingOver)).expect("somebody is there");
            }
            let heard = dialogue.hang_up();
            assert_eq!(matches!(heard, Ok(Reply::HandingOver)), is_said, "{heard:?}");
            let late = far.write_all(&message::encode(&Reply::HandingOver));
            assert_eq!(late.expect_err("too late").kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
