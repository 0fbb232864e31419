//! The pages of one listener.
use crate::limits::{
    CONNECTION_TIME_MAX, CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, DENIED_MAX, DENIED_TIME_MAX,
    HEADER_LEN_MAX, HEADER_TIME_MAX, HEADERS_MAX, LAST_CALL,
};
use crate::response::line_response;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use listen::{
    AcceptedConnection, Admission, ConnectionLimits, ConnectionService, HttpLimits,
    is_expected_host, serve_http,
};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::timeout;

/// What a client reads whose Host is another one.
const WRONG_HOST: &str = "this Host is not served at a loopback address: use an address, \
                          `localhost`, or a name in [ops] hosts in the config of the server";

const LIMITS: ConnectionLimits = ConnectionLimits {
    all: CONNECTIONS_MAX,
    of_client: CONNECTIONS_PER_CLIENT_MAX,
    denied: DENIED_MAX,
};

/// A connection has one request.
const HTTP_LIMITS: HttpLimits = HttpLimits {
    header_len_max: HEADER_LEN_MAX,
    headers_max: HEADERS_MAX,
    header_time_max: HEADER_TIME_MAX,
    keeps_alive: false,
};

/// The handler of requests.
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
    listen::accept(listener, Arc::new(Pages(responder)), LIMITS, LAST_CALL, stop).await
}

/// Serves the pages of a responder.
struct Pages<R>(Arc<R>);

impl<R: Respond> ConnectionService for Pages<R> {
    const SECTION: &'static str = "[ops]";

    fn allows(&self, client: IpAddr) -> bool {
        self.0.allow(client)
    }

    fn count(&self, admission: Admission, is_allowed: bool) {
        if admission != Admission::Evicted {
            self.0.count_connection(is_allowed, admission == Admission::Admitted);
        }
    }

    async fn serve(self: Arc<Self>, connection: AcceptedConnection) {
        let AcceptedConnection { stream, is_allowed, permit, ending, .. } = connection;
        // Unknown: as strict as over a loopback address.
        let local = stream.local_addr().ok().map(|local| local.ip().to_canonical());
        let is_loopback = local.is_none_or(|address| address.is_loopback());
        let handler = service_fn(|request: Request<Incoming>| {
            let (responder, serving) = (Arc::clone(&self.0), permit.serve());
            async move {
                let is_expected =
                    || is_expected_host(request.uri(), request.headers(), responder.hosts());
                let answer = match is_allowed && is_loopback && !is_expected() {
                    true => line_response(StatusCode::MISDIRECTED_REQUEST, WRONG_HOST),
                    false => responder.answer(request, is_allowed).await,
                };
                drop(serving);
                Ok::<_, Infallible>(answer)
            }
        });
        let time_max = if is_allowed { CONNECTION_TIME_MAX } else { DENIED_TIME_MAX };
        // Clients that are too slow are disconnected.
        let _ = timeout(time_max, serve_http(stream, handler, HTTP_LIMITS, ending)).await;
    }
}
