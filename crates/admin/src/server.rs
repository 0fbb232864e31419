//! The server's side: who may ask, how many at once, and what they are replied.
use crate::endpoint::Endpoint;
use crate::hand_over::{self, HandedOver};
use crate::limits::{ACCEPT_PAUSE, CLIENT_TIME_MAX, CLIENTS_MAX, FDS_PAUSE, REQUEST_LEN_MAX};
use crate::message::{self, Misread, PROTOCOL, Reloaded, Reply, Request};
use crate::{Connection, Shared, Successor, wire};
use control::command::{Command, Outcome, TokenDone, TokenRequest};
use control::status::Status;
use rustix::io::Errno;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What a server does when it is asked.
pub trait Handler: Send + Sync + 'static {
    /// Tells of itself.
    fn status(&self) -> impl Future<Output = Status> + Send;

    /// Reads config and zones again.
    fn reload(&self) -> impl Future<Output = Reloaded> + Send;

    /// Has the threads that answer do something, and waits until they have.
    ///
    /// # Errors
    /// Why they have not, and what to do.
    fn command(&self, command: Command) -> impl Future<Output = Result<Outcome, String>> + Send;

    /// Makes, lists or revokes credentials of the API.
    ///
    /// # Errors
    /// Why that is not done, and what to do.
    fn token(
        &self,
        request: TokenRequest,
    ) -> impl Future<Output = Result<TokenDone, String>> + Send;

    /// Another descriptor of each socket that is listened on; those of one address in the order in
    /// which they were bound. It goes on to be served here, but nothing is to change until
    /// [`go_on`](Self::go_on): the successor has read what it will serve already.
    ///
    /// # Errors
    /// No descriptor is left.
    fn sockets(&self) -> io::Result<Vec<Shared>>;

    /// Who was offered the sockets did not come to serve: all is as before, but for what it did to
    /// them.
    fn go_on(&self);

    /// The successor serves on all sockets. Answers what they hold for us, stops, and gives away
    /// the open connections. There is no way back.
    fn hand_over(&self, successor: Successor) -> impl Future<Output = Vec<Connection>> + Send;
}

/// Tells the supplementary groups of whom a unix socket is connected to (`SO_PEERGROUPS`).
pub type PeerGroups = fn(BorrowedFd<'_>) -> io::Result<Vec<u32>>;

/// A server's ear.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    groups: PeerGroups,
    version: String,
}

/// What the tasks of all clients share.
pub struct Desk<H> {
    pub handler: Arc<H>,
    /// The version of this binary.
    pub version: String,
    /// Held by the one who takes over.
    pub turn: Mutex<()>,
}

impl Server {
    /// A server at `endpoint`, of a binary of this version.
    pub fn new(endpoint: Endpoint, groups: PeerGroups, version: &str) -> Self {
        Self { endpoint, groups, version: version.to_owned() }
    }

    /// Replies to who asks, until a successor has taken over. Dropped, it stops.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub async fn run<H: Handler>(mut self, handler: Arc<H>) -> io::Result<HandedOver> {
        let listener = UnixListener::from_std(self.endpoint.listener.try_clone()?)?;
        let desk = Arc::new(Desk { handler, version: self.version, turn: Mutex::new(()) });
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Err(error) => {
                        tracing::warn!(%error, "an admin client could not be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                    Ok((stream, _)) => match admit(&stream, self.groups, clients.len()) {
                        Ok(()) => drop(clients.spawn(serve(Guest::new(stream), desk.clone()))),
                        Err(why) => turn_away(&stream, why),
                    },
                },
                Some(ended) = clients.join_next() => match ended {
                    Ok(Some(handed_over)) => {
                        self.endpoint.leave();
                        return Ok(handed_over);
                    }
                    Ok(None) => {}
                    Err(error) => tracing::error!(%error, "an admin request panicked: a defect"),
                },
            }
        }
    }
}

/// Whether a client may come in; if not, why.
fn admit(stream: &UnixStream, groups: PeerGroups, clients: usize) -> Result<(), String> {
    let peer = stream.peer_cred().map_err(|error| error.to_string())?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let ours = (uid.as_raw(), gid.as_raw());
    if !permits(&peer, ours, || groups(stream.as_fd()).unwrap_or_default()) {
        tracing::warn!(uid = peer.uid(), pid = peer.pid(), "an admin client was refused: not ours");
        let (user, group) = ours;
        return Err(format!("only root, user {user} and members of group {group} are listened to"));
    }
    if clients >= CLIENTS_MAX {
        return Err(format!("{CLIENTS_MAX} clients are being served: try again in a moment"));
    }
    Ok(())
}

fn permits(peer: &UCred, (uid, gid): (u32, u32), groups: impl FnOnce() -> Vec<u32>) -> bool {
    peer.uid() == 0 || peer.uid() == uid || peer.gid() == gid || groups().contains(&gid)
}

/// Says why, as far as that is possible without waiting.
fn turn_away(stream: &UnixStream, why: String) {
    let line = message::encode(&Reply::Refused(why));
    // Who does not take it has closed already.
    let _ = stream.try_io(Interest::WRITABLE, || wire::send(stream, &line, &[]));
}

/// One request, and its reply.
async fn serve<H: Handler>(mut guest: Guest, desk: Arc<Desk<H>>) -> Option<HandedOver> {
    let reply = match guest.request(CLIENT_TIME_MAX).await {
        Ok(Request::Status) => Reply::Status(Box::new(desk.handler.status().await)),
        Ok(Request::Reload) => Reply::Reloaded(desk.handler.reload().await),
        Ok(Request::Command(command)) => match desk.handler.command(command).await {
            Ok(outcome) => Reply::Commanded(outcome),
            Err(why) => Reply::Refused(why),
        },
        Ok(Request::Token(request)) => match desk.handler.token(request).await {
            Ok(done) => Reply::Token(done),
            Err(why) => Reply::Refused(why),
        },
        Ok(Request::TakeOver { version }) => {
            return hand_over::hand_over(guest, &desk, version).await;
        }
        Ok(Request::Serving) => Reply::Refused("nothing was taken over before".into()),
        Err(Unheard::Gone) => return None,
        Err(Unheard::Refused(why)) => Reply::Refused(why),
    };
    if let Err(error) = guest.reply(&reply).await {
        tracing::debug!(%error, "an admin client did not take its reply");
    }
    None
}

/// A client that was let in.
pub struct Guest {
    stream: UnixStream,
    /// Received, and not yet read as requests.
    inbox: Vec<u8>,
}

/// Why there is no request.
#[derive(Debug)]
pub enum Unheard {
    /// The client closed.
    Gone,
    /// This is what it is told.
    Refused(String),
}

impl Guest {
    fn new(stream: UnixStream) -> Self {
        Self { stream, inbox: Vec::new() }
    }

    /// Who it is, as the kernel tells.
    pub fn pid(&self) -> Option<u32> {
        let pid = self.stream.peer_cred().ok()?.pid()?;
        u32::try_from(pid).ok().filter(|pid| *pid > 0)
    }

    /// Waits for the next request.
    pub async fn request(&mut self, patience: Duration) -> Result<Request, Unheard> {
        let line = timeout(patience, self.line())
            .await
            .map_err(|_| Unheard::Refused("no request came in time".into()))??;
        message::decode(&line).map_err(|misread| {
            Unheard::Refused(match misread {
                Misread::Protocol(theirs) => format!(
                    "this server speaks version {PROTOCOL} of this protocol, and was asked in \
                     version {theirs}: ask with the binary of its own version"
                ),
                Misread::Json(error) => format!("not a request: {error}"),
            })
        })
    }

    async fn line(&mut self) -> Result<Vec<u8>, Unheard> {
        let mut room = [0; 512];
        loop {
            if let Some(end) = self.inbox.iter().position(|octet| *octet == b'\n') {
                let mut line: Vec<u8> = self.inbox.drain(..=end).collect();
                line.pop();
                return Ok(line);
            }
            if self.inbox.len() >= REQUEST_LEN_MAX {
                let why = format!("a request has {REQUEST_LEN_MAX} octets at most");
                return Err(Unheard::Refused(why));
            }
            // Descriptors that come along are closed by the kernel, as nothing asks for them.
            match self.stream.read(&mut room).await {
                Ok(0) | Err(_) => return Err(Unheard::Gone),
                Ok(len) => self.inbox.extend_from_slice(&room[..len]),
            }
        }
    }

    /// Sends a reply.
    pub async fn reply(&self, reply: &Reply) -> io::Result<()> {
        self.send(reply, &[]).await
    }

    /// Sends a reply, and descriptors with it.
    pub async fn send(&self, reply: &Reply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let line = message::encode(reply);
        let (mut rest, mut fds) = (&line[..], fds);
        while !rest.is_empty() {
            let sending =
                self.stream.async_io(Interest::WRITABLE, || wire::send(&self.stream, rest, fds));
            match timeout(CLIENT_TIME_MAX, sending).await? {
                Ok(sent) => {
                    rest = &rest[sent..];
                    fds = &[];
                }
                // Too many descriptors are on their way; the client takes some out.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) => {
                    sleep(FDS_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
