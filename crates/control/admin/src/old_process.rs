//! The old process of a hot restart: passes the sockets, then the connections.
use crate::client_connection::{ClientConnection, RequestError};
use crate::handler::{AdminState, Handler};
use crate::limits::{CHUNK_FDS_MAX, CHUNK_INBOX_MAX, END_TIME_MAX, RESTART_TIME_MAX};
use crate::message::{ConnectionEntry, KeeperEntry, Reply, Request, SocketEntry};

use crate::{Connection, NewProcess, SharedKeeper, SharedSocket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The new process serves: this process should end.
#[derive(Debug)]
pub struct CompletedRestart {
    /// The new process.
    pub new_process: NewProcess,
    /// Passed connections.
    pub connections: usize,
    /// Why not all were passed.
    pub problem: Option<io::Error>,
}

/// What the new process understands beside the sockets.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub lock: bool,
    pub keeper: bool,
}

/// Performs a hot restart with a new process. `None`: it failed, and nothing has changed.
pub async fn hand_off<H: Handler>(
    mut client: ClientConnection,
    state: &AdminState<H>,
    version: String,
    wanted: Wanted,
) -> Option<CompletedRestart> {
    let new_process = NewProcess { pid: client.pid(), version };
    let (pid, version) = (new_process.pid, &new_process.version);
    let Ok(_permit) = state.restarting.try_lock() else {
        let why = "another hot restart is in progress: wait until it has ended";
        // A client that does not read it has closed already.
        let _ = client.reply(&Reply::Refused(why.into())).await;
        return None;
    };
    tracing::info!(pid, version, "a new process asks for the sockets");
    if let Err(why) = offer(&mut client, state, wanted).await {
        tracing::warn!(pid, version, why, "the new process did not come to serve; going on alone");
        state.handler.resume();
        return None;
    }
    tracing::info!(pid, version, "the new process serves; draining and passing connections");
    let (handler, to) = (state.handler.clone(), new_process.clone());
    // A separate task: after a panic there is still no way back.
    let (connections, result) = match tokio::spawn(async move { handler.hand_off(to).await }).await
    {
        Ok(connections) => give(&client, connections).await,
        Err(error) => (0, Err(io::Error::other(error))),
    };
    // It disconnects at the end; until then its own endpoint may not be visible.
    let _ = client.request(END_TIME_MAX).await;
    Some(CompletedRestart { new_process, connections, problem: result.err() })
}

/// Passes the sockets, and waits until the new process serves and knows that it is responsible.
async fn offer<H: Handler>(
    client: &mut ClientConnection,
    state: &AdminState<H>,
    wanted: Wanted,
) -> Result<(), String> {
    let lock = || if wanted.lock { state.handler.lock() } else { Ok(None) };
    let keeper = || if wanted.keeper { state.handler.keeper() } else { Ok(None) };
    let shared = state.handler.sockets().and_then(|sockets| Ok((sockets, lock()?, keeper()?)));
    let (sockets, lock, keeper) = match shared {
        Ok(shared) => shared,
        Err(error) => {
            let why = format!("the sockets cannot be shared: {error}");
            // The reply may fail.
            let _ = client.reply(&Reply::Refused(why.clone())).await;
            return Err(why);
        }
    };
    let (version, pid) = (state.version.clone(), std::process::id());
    let entry = keeper.as_ref().map(|SharedKeeper { terms, is_announced, token, .. }| {
        let (terms, token) = (terms.clone(), token.clone());
        KeeperEntry { terms, announced: *is_announced, token }
    });
    let offer = Reply::Offer { version, pid, lock: lock.is_some(), keeper: entry };
    let of_keeper = keeper.iter().flat_map(|keeper| [&keeper.socket, &keeper.starter]);
    let fds: Vec<_> = lock.iter().chain(of_keeper).map(AsFd::as_fd).collect();
    client.send(&offer, &fds).await.map_err(|error| error.to_string())?;
    drop((lock, keeper));
    for chunk in sockets.chunks(CHUNK_FDS_MAX) {
        let entry =
            |&SharedSocket { kind, address, given, .. }: &_| SocketEntry { kind, address, given };
        let fds: Vec<_> = chunk.iter().map(|shared| shared.fd.as_fd()).collect();
        let reply = Reply::Sockets(chunk.iter().map(entry).collect());
        client.send(&reply, &fds).await.map_err(|error| error.to_string())?;
    }
    drop(sockets);
    client.reply(&Reply::Done).await.map_err(|error| error.to_string())?;
    match client.request(RESTART_TIME_MAX).await {
        Ok(Request::Serving) => {}
        Ok(other) => return Err(format!("it sent another request: {other:?}")),
        Err(RequestError::Gone) => return Err("it closed the connection".into()),
        Err(RequestError::Refused(why)) => {
            // The reply may fail.
            let _ = client.reply(&Reply::Refused(why.clone())).await;
            return Err(why);
        }
    }
    client.reply(&Reply::HandingOver).await.map_err(|error| error.to_string())
}

/// Passes the connections; returns how many.
async fn give(client: &ClientConnection, connections: Vec<Connection>) -> (usize, io::Result<()>) {
    let mut given = 0;
    let mut rest = connections.into_iter().peekable();
    while rest.peek().is_some() {
        let (mut entries, mut fds, mut bytes) = (Vec::new(), Vec::<OwnedFd>::new(), 0);
        while fds.len() < CHUNK_FDS_MAX && bytes < CHUNK_INBOX_MAX {
            let Some(Connection { fd, peer, client, header_due, inbox }) = rest.next() else {
                break;
            };
            bytes += inbox.len();
            entries.push(ConnectionEntry { peer, client, header_due, inbox });
            fds.push(fd);
        }
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        if let Err(error) = client.send(&Reply::Connections(entries), &fds).await {
            return (given, Err(error));
        }
        given += fds.len();
    }
    (given, client.reply(&Reply::Done).await)
}
