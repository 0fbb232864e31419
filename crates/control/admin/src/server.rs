//! The server's side: access, limits, and the kind of each connection.
use crate::client_connection::{ClientConnection, RequestError};
use crate::endpoint::Endpoint;
use crate::handler::{AdminState, Handler};
use crate::limits::{ACCEPT_PAUSE, CLIENT_TIME_MAX, CLIENTS_MAX, DENIED_MAX};
use crate::message::{self, Reply, Request};
use crate::old_process::{self, CompletedRestart, Wanted};
use crate::wire;
use rustix::net::RecvFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Reads the supplementary groups of the peer of a Unix socket (`SO_PEERGROUPS`).
pub type PeerGroups = fn(BorrowedFd<'_>) -> io::Result<Vec<u32>>;

/// The admin socket of a server.
#[derive(Debug)]
pub struct AdminServer {
    endpoint: Endpoint,
    groups: PeerGroups,
    version: String,
}

impl AdminServer {
    /// A server at `endpoint`, with the version of this binary.
    pub fn new(endpoint: Endpoint, groups: PeerGroups, version: &str) -> Self {
        Self { endpoint, groups, version: version.to_owned() }
    }

    /// Serves requests until a hot restart has completed. Dropping it stops.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub async fn run<H: Handler>(mut self, handler: Arc<H>) -> io::Result<CompletedRestart> {
        let listener = UnixListener::from_std(self.endpoint.listener.try_clone()?)?;
        let state =
            Arc::new(AdminState { handler, version: self.version, restarting: Mutex::new(()) });
        let mut clients = JoinSet::new();
        let mut denied = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Err(error) => {
                        tracing::warn!(%error, "an admin client could not be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                    // Dropped without a reply, since too many are waiting for theirs.
                    Ok(_) if denied.len() >= DENIED_MAX => {}
                    Ok((stream, _)) => match admit(&stream, self.groups, clients.len()) {
                        Ok(uid) => drop(clients.spawn(serve(stream, uid, state.clone()))),
                        Err(why) => drop(denied.spawn(refuse(stream, why))),
                    },
                },
                Some(ended) = clients.join_next() => match ended {
                    Ok(Some(restart)) => {
                        self.endpoint.leave();
                        return Ok(restart);
                    }
                    Ok(None) => {}
                    Err(error) => tracing::error!(%error, "an admin request panicked: a defect"),
                },
                Some(_) = denied.join_next() => {}
            }
        }
    }
}

/// Checks whether a client may connect. Returns its user.
fn admit(stream: &UnixStream, groups: PeerGroups, clients: usize) -> Result<u32, String> {
    let peer = stream.peer_cred().map_err(|error| error.to_string())?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let ours = (uid.as_raw(), gid.as_raw());
    if !permits(&peer, ours, || groups(stream.as_fd()).unwrap_or_default()) {
        tracing::warn!(
            uid = peer.uid(),
            pid = peer.pid(),
            "an admin client was refused: another \
                                                            user's process"
        );
        let (user, group) = ours;
        return Err(format!(
            "only root, user {user} and members of group {group} may use this socket"
        ));
    }
    if clients >= CLIENTS_MAX {
        return Err(format!("{CLIENTS_MAX} clients are being served: try again in a moment"));
    }
    Ok(peer.uid())
}

fn permits(peer: &UCred, (uid, gid): (u32, u32), groups: impl FnOnce() -> Vec<u32>) -> bool {
    peer.uid() == 0 || peer.uid() == uid || peer.gid() == gid || groups().contains(&gid)
}

/// Whether a connection begins as a hot restart; all others are HTTP. `None`: nothing arrives.
async fn is_restart(stream: &UnixStream) -> Option<bool> {
    let peek = || {
        let mut first = [0];
        let (len, _) = rustix::net::recv(stream, &mut first, RecvFlags::PEEK)?;
        Ok((len > 0).then_some(first[0] == message::FIRST))
    };
    timeout(CLIENT_TIME_MAX, stream.async_io(Interest::READABLE, peek)).await.ok()?.ok()?
}

/// Sends the reason in the protocol of the client.
async fn refuse(stream: UnixStream, why: String) {
    let response = match is_restart(&stream).await {
        Some(true) => message::encode(&Reply::Refused(why)),
        Some(false) => {
            let body = serde_json::json!({ "status": 503, "detail": why }).to_string();
            let len = body.len();
            format!(
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
                 connection: close\r\ncontent-length: {len}\r\n\r\n{body}"
            )
            .into_bytes()
        }
        None => return,
    };
    // A client that does not read it has closed already.
    let _ = stream.try_io(Interest::WRITABLE, || wire::send(&stream, &response, &[]));
}

/// Serves a connection.
async fn serve<H: Handler>(
    stream: UnixStream,
    uid: u32,
    state: Arc<AdminState<H>>,
) -> Option<CompletedRestart> {
    if !is_restart(&stream).await? {
        state.handler.http(stream, uid).await;
        return None;
    }
    let mut client = ClientConnection::new(stream);
    let reply = match client.request(CLIENT_TIME_MAX).await {
        Ok(Request::TakeOver { version, lock, keeper }) => {
            return old_process::hand_off(client, &state, version, Wanted { lock, keeper }).await;
        }
        Ok(Request::Serving) => Reply::Refused("there was no hot restart request before".into()),
        Err(RequestError::Gone) => return None,
        Err(RequestError::Refused(why)) => Reply::Refused(why),
    };
    if let Err(error) = client.reply(&reply).await {
        tracing::debug!(%error, "an admin client did not take its reply");
    }
    None
}
