//! Connections: accept, limit, TLS, stop.
use crate::caller::{Origin, Peer};
use crate::limits::{
    ACCEPT_PAUSE, CERTIFICATES_LOOK, CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX,
    HANDSHAKE_TIME_MAX, HEADER_LEN_MAX, HEADER_TIME_MAX, HEADERS_MAX, LAST_CALL,
};
use crate::problem::{MEDIA, Problem};
use crate::routes;
use crate::stall_timeout::StallTimeout;
use crate::state::Api;
use crate::tls::{Tls, subjects};
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;
use zone_manager::connection_limiter::{ConnectionLimiter, ConnectionLimits, ConnectionPermit};

/// Serves `listener`, over TLS if there are certificates, until `stop`, and then finishes requests
/// in progress. Needs a tokio runtime with time and network.
///
/// # Errors
/// The listener cannot be used.
pub async fn serve(
    listener: std::net::TcpListener,
    api: Api,
    tls: Option<Arc<Tls>>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let counters = Arc::clone(&api.counters);
    let router = routes::router(api);
    let limits =
        ConnectionLimits { all: CONNECTIONS_MAX, of_client: CONNECTIONS_PER_CLIENT_MAX, denied: 0 };
    let permits = Arc::new(ConnectionLimiter::new(limits));
    let (end, ending) = watch::channel(false);
    let mut open = JoinSet::new();
    let mut looks = interval(CERTIFICATES_LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            // Removes finished connections.
            Some(_) = open.join_next() => {}
            _ = looks.tick() => if let Some(tls) = tls.clone() {
                drop(spawn_blocking(move || tls.look()));
            },
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let client = peer.ip().to_canonical();
                    // If all connections have a request in progress, the new one is closed.
                    let Some(permit) = permits.take(client).map(Arc::new) else {
                        counters.full();
                        continue;
                    };
                    let (taken, ending) = (Arc::clone(&permit), ending.clone());
                    let served = serve_connection(
                        stream, taken, peer, router.clone(), tls.clone(), ending,
                    );
                    let counters = Arc::clone(&counters);
                    open.spawn(async move {
                        let _open = counters.open();
                        tokio::select! {
                            () = served => {}
                            () = permit.evicted() => counters.evicted(),
                        }
                    });
                }
                Err(why) => {
                    tracing::warn!("a connection to [api] could not be accepted: {why}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // No connection is left.
    let _ = end.send(true);
    let ended = async { while open.join_next().await.is_some() {} };
    // Unfinished connections are closed when the set is dropped.
    let _ = timeout(LAST_CALL, ended).await;
    Ok(())
}

/// The API at a Unix socket, for users of this machine who may manage the server.
pub struct LocalApi {
    router: Router,
    /// Never sent: connections end with the server.
    ending: watch::Sender<bool>,
}

impl LocalApi {
    /// The API with every grant.
    pub fn new(api: Api) -> Self {
        Self { router: routes::router(api), ending: watch::channel(false).0 }
    }

    /// Serves a connection of an admitted user. The caller limits the number of connections.
    pub async fn serve(&self, stream: UnixStream, uid: u32) {
        let peer = Peer { origin: Origin::Local { uid }, subjects: Arc::default(), permit: None };
        serve_requests(stream, peer, self.router.clone(), self.ending.subscribe()).await;
    }
}

/// A connection, from its handshake to its end.
async fn serve_connection(
    stream: TcpStream,
    permit: Arc<ConnectionPermit>,
    peer: SocketAddr,
    router: Router,
    tls: Option<Arc<Tls>>,
    ending: watch::Receiver<bool>,
) {
    // Responses are small, and a client waits for each.
    let _ = stream.set_nodelay(true);
    let client = peer.ip().to_canonical();
    let (origin, permit) = (Origin::Network(client), Some(permit));
    let Some(tls) = tls else {
        let peer = Peer { origin, subjects: Arc::default(), permit };
        return serve_requests(stream, peer, router, ending).await;
    };
    if is_plain_http(&stream).await {
        return refuse_plain_http(stream).await;
    }
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    match timeout(HANDSHAKE_TIME_MAX, handshake).await {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let subjects = certificates.and_then(<[_]>::first).map(subjects).unwrap_or_default();
            let peer = Peer { origin, subjects: subjects.into(), permit };
            serve_requests(stream, peer, router, ending).await;
        }
        Ok(Err(why)) => tracing::debug!(%client, "no TLS handshake with [api]: {why}"),
        Err(_) => tracing::debug!(%client, "a TLS handshake with [api] took too long"),
    }
}

/// Whether a client sends an HTTP request instead of a TLS handshake.
async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    let peeked = timeout(HANDSHAKE_TIME_MAX, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))) && first[0].is_ascii_uppercase()
}

/// Responds to a client without TLS that it must use `https://`.
async fn refuse_plain_http(mut stream: TcpStream) {
    let detail = "this port speaks TLS: use https:// instead of http://";
    let problem = Problem::new(StatusCode::BAD_REQUEST, "tls", detail);
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection before the client reads this.
        let mut request = stream.take(HEADER_LEN_MAX as u64);
        copy(&mut request, &mut sink()).await
    };
    // The client is gone, or too slow.
    let _ = timeout(HANDSHAKE_TIME_MAX, exchange).await;
}

/// Serves the requests of a connection, one after the other.
pub(crate) async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: Peer,
    router: Router,
    mut ending: watch::Receiver<bool>,
) {
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME_MAX)
            .max_buf_size(HEADER_LEN_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(StallTimeout::new(stream)), service)
    );
    tokio::select! {
        // The client broke the protocol or was too slow.
        _ = &mut connection => return,
        _ = ending.wait_for(|ends| *ends) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
