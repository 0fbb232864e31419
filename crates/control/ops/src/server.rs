//! Accepts, limits and ends connections.
use crate::host;
use crate::limits::{
    ACCEPT_PAUSE, CONNECTION_TIME_MAX, CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, DENIED_MAX,
    DENIED_TIME_MAX, HEADER_LEN_MAX, HEADER_TIME_MAX, HEADERS_MAX, LAST_CALL,
};
use crate::response::line_response;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zone_manager::connection_limiter::{ConnectionLimiter, ConnectionLimits, ConnectionPermit};

/// What answers requests.
pub trait Respond: Send + Sync + 'static {
    /// Whether a client may make requests. IPv4 addresses are never mapped into IPv6. Must not
    /// block.
    fn allow(&self, client: IpAddr) -> bool;
    /// Names that requests over a loopback address may have in their Host, besides `localhost` and
    /// addresses.
    fn hosts(&self) -> &[String] {
        &[]
    }
    /// Counts an accepted connection.
    fn count_connection(&self, allowed: bool, has_permit: bool);
    /// Answers a request.
    fn answer(
        &self,
        request: Request<Incoming>,
        allowed: bool,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// Serves the pages of `responder` as [`serve`](crate::serve) serves those of the server, with the
/// same limits.
///
/// # Errors
/// The listener is invalid.
pub async fn serve_pages<R: Respond>(
    listener: std::net::TcpListener,
    responder: Arc<R>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = ConnectionLimits {
        all: CONNECTIONS_MAX,
        of_client: CONNECTIONS_PER_CLIENT_MAX,
        denied: DENIED_MAX,
    };
    let limiter = Arc::new(ConnectionLimiter::new(places));
    let mut open = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            // Drop ended connections.
            Some(_) = open.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let address = peer.ip().to_canonical();
                    let allowed = responder.allow(address);
                    let permit = match allowed {
                        true => limiter.take(address),
                        false => limiter.take_denied(),
                    };
                    responder.count_connection(allowed, permit.is_some());
                    if let Some(permit) = permit {
                        let responder = Arc::clone(&responder);
                        open.spawn(serve_connection(stream, responder, permit, allowed));
                    }
                }
                Err(why) => {
                    tracing::warn!("a connection to [ops] could not be accepted: {why}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    let ended = async { while open.join_next().await.is_some() {} };
    // Connections still open are closed with the set.
    let _ = timeout(LAST_CALL, ended).await;
    Ok(())
}

/// Serves one request.
async fn serve_connection<R: Respond>(
    stream: TcpStream,
    responder: Arc<R>,
    permit: ConnectionPermit,
    allowed: bool,
) {
    // Unknown: as strict as over a loopback address.
    let local = stream.local_addr().ok().map(|local| local.ip().to_canonical());
    let is_loopback = local.is_none_or(|address| address.is_loopback());
    let service = service_fn(|request: Request<Incoming>| {
        let (responder, serving) = (Arc::clone(&responder), permit.serve());
        async move {
            let is_expected =
                || host::is_expected(request.uri(), request.headers(), responder.hosts());
            let answer = match allowed && is_loopback && !is_expected() {
                true => line_response(StatusCode::MISDIRECTED_REQUEST, host::WRONG_HOST),
                false => responder.answer(request, allowed).await,
            };
            drop(serving);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(HEADER_LEN_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let time_max = if allowed { CONNECTION_TIME_MAX } else { DENIED_TIME_MAX };
    tokio::select! {
        // Clients that are too slow or break the protocol are disconnected.
        _ = timeout(time_max, connection) => {}
        () = permit.evicted() => {}
    }
}
