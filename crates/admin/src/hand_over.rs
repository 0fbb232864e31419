//! The predecessor's side: offering the sockets, then giving away the connections.
use crate::limits::{CHUNK_FDS_MAX, CHUNK_INBOX_MAX, END_TIME_MAX, SUCCESSOR_TIME_MAX};
use crate::message::{ConnectionEntry, Reply, Request, SocketEntry};
use crate::server::{Desk, Guest, Handler, Unheard};
use crate::{Connection, Shared, Successor};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A successor has taken over: this process should end.
#[derive(Debug)]
pub struct HandedOver {
    /// Who it is.
    pub successor: Successor,
    /// Connections that were handed over.
    pub connections: usize,
    /// Why not all of them were.
    pub problem: Option<io::Error>,
}

/// Goes through a take-over with one who asked for it. Nothing: it came to nothing, and all is as
/// before.
pub async fn hand_over<H: Handler>(
    mut guest: Guest,
    desk: &Desk<H>,
    version: String,
) -> Option<HandedOver> {
    let successor = Successor { pid: guest.pid(), version };
    let (pid, version) = (successor.pid, &successor.version);
    let Ok(_turn) = desk.turn.try_lock() else {
        let why = "another successor is taking over: wait until it has, or has ended";
        // Who does not take it has closed already.
        let _ = guest.reply(&Reply::Refused(why.into())).await;
        return None;
    };
    tracing::info!(pid, version, "a successor asks for the sockets");
    if let Err(why) = offer(&mut guest, desk).await {
        tracing::warn!(pid, version, why, "the successor did not come to serve; going on alone");
        desk.handler.go_on();
        return None;
    }
    tracing::info!(pid, version, "the successor serves; answering what is left and handing over");
    let (handler, to) = (desk.handler.clone(), successor.clone());
    // A task of its own: should it panic, there is still no way back.
    let (connections, result) = match tokio::spawn(async move { handler.hand_over(to).await }).await
    {
        Ok(connections) => give(&guest, connections).await,
        Err(error) => (0, Err(io::Error::other(error))),
    };
    // It hangs up when it has all; until then its own endpoint may not be there to be found.
    let _ = guest.request(END_TIME_MAX).await;
    Some(HandedOver { successor, connections, problem: result.err() })
}

/// Offers the sockets, and waits until the successor serves on them and has been told that all is
/// its own from now on.
async fn offer<H: Handler>(guest: &mut Guest, desk: &Desk<H>) -> Result<(), String> {
    let sockets = match desk.handler.sockets() {
        Ok(sockets) => sockets,
        Err(error) => {
            let why = format!("the sockets cannot be shared: {error}");
            // It matters no more whether that is heard.
            let _ = guest.reply(&Reply::Refused(why.clone())).await;
            return Err(why);
        }
    };
    let offer = Reply::Offer { version: desk.version.clone(), pid: std::process::id() };
    guest.reply(&offer).await.map_err(|error| error.to_string())?;
    for chunk in sockets.chunks(CHUNK_FDS_MAX) {
        let entry = |&Shared { kind, address, given, .. }: &_| SocketEntry { kind, address, given };
        let fds: Vec<_> = chunk.iter().map(|shared| shared.fd.as_fd()).collect();
        let reply = Reply::Sockets(chunk.iter().map(entry).collect());
        guest.send(&reply, &fds).await.map_err(|error| error.to_string())?;
    }
    drop(sockets);
    guest.reply(&Reply::Done).await.map_err(|error| error.to_string())?;
    match guest.request(SUCCESSOR_TIME_MAX).await {
        Ok(Request::Serving) => {}
        Ok(other) => return Err(format!("it asked for something else: {other:?}")),
        Err(Unheard::Gone) => return Err("it closed the connection".into()),
        Err(Unheard::Refused(why)) => {
            // It matters no more whether that is heard.
            let _ = guest.reply(&Reply::Refused(why.clone())).await;
            return Err(why);
        }
    }
    guest.reply(&Reply::HandingOver).await.map_err(|error| error.to_string())
}

/// Gives the connections away, and tells how many went.
async fn give(guest: &Guest, connections: Vec<Connection>) -> (usize, io::Result<()>) {
    let mut given = 0;
    let mut rest = connections.into_iter().peekable();
    while rest.peek().is_some() {
        let (mut entries, mut fds, mut octets) = (Vec::new(), Vec::<OwnedFd>::new(), 0);
        while fds.len() < CHUNK_FDS_MAX && octets < CHUNK_INBOX_MAX {
            let Some(Connection { fd, peer, client, header_due, inbox }) = rest.next() else {
                break;
            };
            octets += inbox.len();
            entries.push(ConnectionEntry { peer, client, header_due, inbox });
            fds.push(fd);
        }
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        if let Err(error) = guest.send(&Reply::Connections(entries), &fds).await {
            return (given, Err(error));
        }
        given += fds.len();
    }
    (given, guest.reply(&Reply::Done).await)
}
