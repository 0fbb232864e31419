//! The requests of a connection.
use crate::stall_timeout::StallTimeout;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// Limits of the requests of a connection.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Bytes of a request's line and header fields.
    pub header_len_max: usize,
    /// Header fields of a request.
    pub headers_max: usize,
    /// Maximum time until the header fields of a request have arrived, also after an idle
    /// connection's last request.
    pub header_time_max: Duration,
    /// Whether a connection may have more than one request.
    pub keeps_alive: bool,
}

/// Serves the requests of a connection, one after the other, until the client ends it, breaks the
/// protocol or is too slow, or until `ending`.
pub async fn serve_http<S, H, B>(
    stream: S,
    handler: H,
    limits: HttpLimits,
    mut ending: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time_max)
            .max_buf_size(limits.header_len_max)
            .max_headers(limits.headers_max)
            .keep_alive(limits.keeps_alive)
            .serve_connection(TokioIo::new(StallTimeout::new(stream)), handler)
    );
    tokio::select! {
        // The client broke the protocol or was too slow.
        _ = &mut connection => return,
        _ = ending.wait_for(|ends| *ends) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
