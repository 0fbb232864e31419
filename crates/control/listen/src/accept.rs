//! The accept loop of a listener.
use crate::connection_limiter::{ConnectionLimiter, ConnectionLimits, ConnectionPermit};
use crate::limits::ACCEPT_PAUSE;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is served.
    Admitted,
    /// It was closed at once: all others have a request in progress.
    Full,
    /// It was closed for a new one, while it was idle.
    Evicted,
}

/// Serves the connections of a listener.
pub trait ConnectionService: Send + Sync + 'static {
    /// The section of the config that the listener is for, as `[api]`.
    const SECTION: &'static str;

    /// Whether a client may make requests. IPv4 addresses are never mapped into IPv6. Must not
    /// block.
    fn allows(&self, _client: IpAddr) -> bool {
        true
    }

    /// Counts a connection.
    fn count(&self, admission: Admission, is_allowed: bool);

    /// Serves a connection until it ends.
    fn serve(self: Arc<Self>, connection: AcceptedConnection) -> impl Future<Output = ()> + Send;
}

/// A connection of a client.
pub struct AcceptedConnection {
    /// Its socket.
    pub stream: TcpStream,
    /// The client; IPv4 addresses are never mapped into IPv6.
    pub client: IpAddr,
    /// Whether the client may make requests. If not, it receives the reason.
    pub is_allowed: bool,
    /// Its place among the open connections.
    pub permit: Arc<ConnectionPermit>,
    /// True once the listener stops: the request in progress is the last one.
    pub ending: watch::Receiver<bool>,
}

/// Accepts connections until `stop`, and then waits up to `last_call` for requests in progress.
/// Needs a tokio runtime with time and network.
///
/// # Errors
/// The listener cannot be used.
pub async fn accept<S: ConnectionService>(
    listener: std::net::TcpListener,
    service: Arc<S>,
    limits: ConnectionLimits,
    last_call: Duration,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let limiter = Arc::new(ConnectionLimiter::new(limits));
    let (end, ending) = watch::channel(false);
    let mut open = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            // Removes finished connections.
            Some(_) = open.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let client = peer.ip().to_canonical();
                    let is_allowed = service.allows(client);
                    let permit =
                        if is_allowed { limiter.take(client) } else { limiter.take_denied() };
                    let Some(permit) = permit.map(Arc::new) else {
                        service.count(Admission::Full, is_allowed);
                        continue;
                    };
                    service.count(Admission::Admitted, is_allowed);
                    let ending = ending.clone();
                    let connection =
                        AcceptedConnection { stream, client, is_allowed, permit, ending };
                    open.spawn(serve(Arc::clone(&service), connection));
                }
                Err(why) => {
                    tracing::warn!("a connection to {} could not be accepted: {why}", S::SECTION);
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // No connection may be left.
    let _ = end.send(true);
    let ended = async { while open.join_next().await.is_some() {} };
    // Unfinished connections are closed when the set is dropped.
    let _ = timeout(last_call, ended).await;
    Ok(())
}

/// Serves a connection until it ends or is evicted.
async fn serve<S: ConnectionService>(service: Arc<S>, connection: AcceptedConnection) {
    let (permit, is_allowed) = (Arc::clone(&connection.permit), connection.is_allowed);
    tokio::select! {
        () = Arc::clone(&service).serve(connection) => {}
        () = permit.evicted() => service.count(Admission::Evicted, is_allowed),
    }
}
