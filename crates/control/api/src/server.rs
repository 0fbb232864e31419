//! Connections: accepted, bounded, secured, and ended.
use crate::caller::Peer;
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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;
use zone_manager::connection_limiter::{ConnectionLimiter, ConnectionLimits, ConnectionPermit};

/// Answers on `listener`, over TLS where there are certificates, until `stop` is there, and then
/// what is under way. To be run on a tokio runtime with time and network.
///
/// # Errors
/// When the listener is of no use.
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
    let places =
        ConnectionLimits { all: CONNECTIONS_MAX, of_client: CONNECTIONS_PER_CLIENT_MAX, denied: 0 };
    let seats = Arc::new(ConnectionLimiter::new(places));
    let (end, ending) = watch::channel(false);
    let mut open = JoinSet::new();
    let mut looks = interval(CERTIFICATES_LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            // What has ended is let go of.
            Some(_) = open.join_next() => {}
            _ = looks.tick() => if let Some(tls) = tls.clone() {
                drop(spawn_blocking(move || tls.look()));
            },
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let client = peer.ip().to_canonical();
                    // Where all places have a request under way, the connection is closed.
                    let Some(seat) = seats.take(client).map(Arc::new) else {
                        counters.full();
                        continue;
                    };
                    let (taken, ending) = (Arc::clone(&seat), ending.clone());
                    let served = serve_connection(
                        stream, taken, peer, router.clone(), tls.clone(), ending,
                    );
                    let counters = Arc::clone(&counters);
                    open.spawn(async move {
                        let _open = counters.open();
                        tokio::select! {
                            () = served => {}
                            () = seat.evicted() => counters.evicted(),
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
    // Nobody listens where nobody is connected.
    let _ = end.send(true);
    let ended = async { while open.join_next().await.is_some() {} };
    // Those that are not done by then are cut off as the set is dropped.
    let _ = timeout(LAST_CALL, ended).await;
    Ok(())
}

/// A connection, from its handshake to its end.
async fn serve_connection(
    stream: TcpStream,
    seat: Arc<ConnectionPermit>,
    peer: SocketAddr,
    router: Router,
    tls: Option<Arc<Tls>>,
    ending: watch::Receiver<bool>,
) {
    // Replies are small, and somebody waits for each.
    let _ = stream.set_nodelay(true);
    let client = peer.ip().to_canonical();
    let Some(tls) = tls else {
        let peer = Peer { client, subjects: Arc::default(), seat };
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
            let peer = Peer { client, subjects: subjects.into(), seat };
            serve_requests(stream, peer, router, ending).await;
        }
        Ok(Err(why)) => tracing::debug!(%client, "no TLS handshake with [api]: {why}"),
        Err(_) => tracing::debug!(%client, "a TLS handshake with [api] took too long"),
    }
}

/// Whether a client begins with an HTTP request where it should begin a TLS handshake.
async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    let peeked = timeout(HANDSHAKE_TIME_MAX, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))) && first[0].is_ascii_uppercase()
}

/// Tells a client without TLS to use `https://`.
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
    // A client that does not take the response has gone, or sends for too long.
    let _ = timeout(HANDSHAKE_TIME_MAX, exchange).await;
}

/// Requests and their responses, one after the other.
async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin>(
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
        // A client that breaks the protocol or is too slow is cut off; that is its own affair.
        _ = &mut connection => return,
        _ = ending.wait_for(|ends| *ends) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
