//! Connections: accepted, bounded, secured, and ended.
use crate::caller::Peer;
use crate::limits::{
    ACCEPT_PAUSE, CERTIFICATES_LOOK, CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX,
    HANDSHAKE_TIME_MAX, HEADER_LEN_MAX, HEADER_TIME_MAX, HEADER_TIME_SCARCE, HEADERS_MAX,
    LAST_CALL,
};
use crate::patient::Patient;
use crate::tls::{Tls, subjects};
use crate::{Api, routes};
use axum::Router;
use control::seats::{Places, Seats};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

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
    let counts = Arc::clone(&api.counts);
    let router = routes::router(api);
    let places = Places { all: CONNECTIONS_MAX, of_client: CONNECTIONS_PER_CLIENT_MAX, denied: 0 };
    let seats = Arc::new(Seats::new(places));
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
                    // One for whom there is no place is hung up on.
                    let Some(seat) = seats.take(client) else {
                        counts.full();
                        continue;
                    };
                    // Where many have a place, one who asks nothing has none for long.
                    let header_time =
                        if seat.is_scarce() { HEADER_TIME_SCARCE } else { HEADER_TIME_MAX };
                    let ends = (header_time, ending.clone());
                    let talk = talk(stream, peer, router.clone(), tls.clone(), ends);
                    let counts = Arc::clone(&counts);
                    open.spawn(async move {
                        let _open = counts.open();
                        talk.await;
                        drop(seat);
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

/// How long the header fields of its requests may take, and when a connection is to end.
type Ends = (Duration, watch::Receiver<bool>);

/// A connection, from its handshake to its end.
async fn talk(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    tls: Option<Arc<Tls>>,
    ends: Ends,
) {
    // Replies are small, and somebody waits for each.
    let _ = stream.set_nodelay(true);
    let client = peer.ip().to_canonical();
    let Some(tls) = tls else {
        let peer = Peer { client, subjects: Arc::default() };
        return converse(stream, peer, router, ends).await;
    };
    let shaking = TlsAcceptor::from(tls.config()).accept(stream);
    match timeout(HANDSHAKE_TIME_MAX, shaking).await {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let subjects = certificates.and_then(<[_]>::first).map(subjects).unwrap_or_default();
            converse(stream, Peer { client, subjects: subjects.into() }, router, ends).await;
        }
        Ok(Err(why)) => tracing::debug!(%client, "no TLS handshake with [api]: {why}"),
        Err(_) => tracing::debug!(%client, "a TLS handshake with [api] took too long"),
    }
}

/// Requests and their responses, one after the other.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: Peer,
    router: Router,
    (header_time, mut ending): Ends,
) {
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_time)
            .max_buf_size(HEADER_LEN_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(Patient::new(stream)), service)
    );
    tokio::select! {
        // A client that breaks the protocol or is too slow is cut off; that is its own affair.
        _ = &mut connection => return,
        _ = ending.wait_for(|ends| *ends) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
