//! The connections of the API.
use crate::caller::{Origin, Peer};
use crate::counters::ApiCounters;
use crate::limits::{
    CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, HEADER_LEN_MAX, HEADER_TIME_MAX, HEADERS_MAX,
    LAST_CALL,
};
use crate::problem::{MEDIA, Problem};
use crate::routes;
use crate::state::Api;
use axum::Router;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use listen::limits::HANDSHAKE_TIME_MAX;
use listen::{
    AcceptedConnection, Admission, ConnectionLimits, ConnectionService, Handshake, HttpLimits, Tls,
    serve_http,
};
use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tower_service::Service;

const LIMITS: ConnectionLimits =
    ConnectionLimits { all: CONNECTIONS_MAX, of_client: CONNECTIONS_PER_CLIENT_MAX, denied: 0 };

const HTTP_LIMITS: HttpLimits = HttpLimits {
    header_len_max: HEADER_LEN_MAX,
    headers_max: HEADERS_MAX,
    header_time_max: HEADER_TIME_MAX,
    keeps_alive: true,
};

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
    let counters = Arc::clone(&api.counters);
    let following = tls.clone();
    let following = async {
        match following {
            Some(tls) => tls.follow_files().await,
            None => pending().await,
        }
    };
    let service = Arc::new(NetworkApi { router: routes::router(api), tls, counters });
    tokio::select! {
        ended = listen::accept(listener, service, LIMITS, LAST_CALL, stop) => ended,
        () = following => Ok(()),
    }
}

/// The API over the network.
struct NetworkApi {
    router: Router,
    /// `None`: connections have no TLS.
    tls: Option<Arc<Tls>>,
    counters: Arc<ApiCounters>,
}

impl ConnectionService for NetworkApi {
    const SECTION: &'static str = "[api]";

    fn count(&self, admission: Admission, _: bool) {
        match admission {
            Admission::Admitted => {}
            Admission::Full => self.counters.full(),
            Admission::Evicted => self.counters.evicted(),
        }
    }

    async fn serve(self: Arc<Self>, connection: AcceptedConnection) {
        let _open = self.counters.open();
        let AcceptedConnection { stream, client, permit, ending, .. } = connection;
        // Responses are small, and a client waits for each.
        let _ = stream.set_nodelay(true);
        let peer =
            |subjects| Peer { origin: Origin::Network(client), subjects, permit: Some(permit) };
        let router = self.router.clone();
        let Some(tls) = &self.tls else {
            return serve_requests(stream, peer(Arc::default()), router, ending).await;
        };
        match tls.accept(stream, client).await {
            Handshake::Done(stream, subjects) => {
                serve_requests(stream, peer(subjects.into()), router, ending).await;
            }
            Handshake::PlainHttp(stream) => refuse_plain_http(stream).await,
            Handshake::Failed => {}
        }
    }
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
    ending: watch::Receiver<bool>,
) {
    let handler = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    serve_http(stream, handler, HTTP_LIMITS, ending).await;
}
