//! The new process's side of a connection.
use crate::limits::CLIENT_TIME_MAX;
use crate::message::{self, DecodeError, PROTOCOL, Reply, Request};
use crate::wire::{self, ReceiveBuffer};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, shutdown};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

    /// The process that listens; `None`: its PID namespace is not visible.
    pub fn server_pid(&self) -> Option<u32> {
        // rustix cannot represent the number 0, which the kernel gives for an invisible process.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
        let _context = runtime.enter();
        let socket = std::os::unix::net::UnixStream::from(self.socket.try_clone().ok()?);
        socket.set_nonblocking(true).ok()?;
        let socket = tokio::net::UnixStream::from_std(socket).ok()?;
        let pid = socket.peer_cred().ok()?.pid()?;
        // Both descriptors are of one socket, and ours blocks.
        socket.into_std().ok()?.set_nonblocking(false).ok()?;
        u32::try_from(pid).ok().filter(|pid| *pid > 0)
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
    /// Whether no server listens there.
    pub fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Connect(Errno::CONNREFUSED | Errno::NOENT))
    }

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
