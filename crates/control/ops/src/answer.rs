//! Handles requests.
use crate::exposition::Format;
use crate::limits::{GATHER_TIME_MAX, RESPONSES_LEN_MAX};
use crate::metrics::{self, RequestCounts};
use crate::response::{line_response, respond};
use crate::server::{Respond, serve_pages};
use crate::{Ops, ready};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task;
use tokio::time::timeout;

const PATHS: &str = "the paths are /metrics, /healthz and /readyz";

/// Serves `listener` until `stop`, and then requests in progress. Needs a tokio runtime with time
/// and network.
///
/// # Errors
/// The listener is invalid.
pub async fn serve(
    listener: std::net::TcpListener,
    ops: Ops,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_pages(listener, Arc::new(Responder::new(ops)), stop).await
}

/// Handles requests, and counts them.
pub struct Responder {
    ops: Ops,
    /// Held while a status is collected, even after its client left: only one thread can hang.
    status: Arc<Mutex<()>>,
    health: Arc<Mutex<()>>,
    /// KiB left for responses in progress.
    room: Arc<Semaphore>,
    requests: AtomicU64,
    denied: AtomicU64,
    full: AtomicU64,
}

impl Responder {
    pub fn new(ops: Ops) -> Self {
        let [status, health] = [(); 2].map(|()| Arc::default());
        let [requests, denied, full] = [(); 3].map(|()| AtomicU64::new(0));
        let room = Arc::new(Semaphore::new(RESPONSES_LEN_MAX >> 10));
        Self { ops, status, health, room, requests, denied, full }
    }

    async fn health(&self) -> Result<(), String> {
        let health = Arc::clone(&self.ops.health);
        gather(&self.health, "health", move || health()).await.flatten()
    }

    async fn metrics(&self, format: Format) -> Response<Full<Bytes>> {
        let healthy = self.health().await.is_ok();
        let status = Arc::clone(&self.ops.status);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let asked = RequestCounts {
            requests: count(&self.requests),
            denied: count(&self.denied),
            full: count(&self.full),
        };
        let write = move || metrics::write(&status(), healthy, asked, format);
        match gather(&self.status, "status", write).await {
            Ok(text) => self.respond_large(format.content_type(), text),
            Err(why) => line_response(StatusCode::SERVICE_UNAVAILABLE, &why),
        }
    }

    /// Sends a large response, if there is room beside those in progress.
    fn respond_large(&self, media: &'static str, text: String) -> Response<Full<Bytes>> {
        let kib = u32::try_from(text.len().div_ceil(1 << 10)).unwrap_or(u32::MAX);
        match Arc::clone(&self.room).try_acquire_many_owned(kib) {
            Ok(room) => {
                let body = Bytes::from_owner(Large { text, _room: room });
                respond(StatusCode::OK, media, body)
            }
            Err(_) => line_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many responses are in progress: try later",
            ),
        }
    }
}

impl Respond for Responder {
    fn allow(&self, client: IpAddr) -> bool {
        (self.ops.allow)(client)
    }

    fn hosts(&self) -> &[String] {
        &self.ops.hosts
    }

    fn count_connection(&self, allowed: bool, has_permit: bool) {
        match (allowed, has_permit) {
            (false, _) => self.denied.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.full.fetch_add(1, Ordering::Relaxed),
            (true, true) => return,
        };
    }

    async fn answer(&self, request: Request<Incoming>, allowed: bool) -> Response<Full<Bytes>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if !allowed {
            let why = "access denied: see [acl] metrics in the config of the server";
            return line_response(StatusCode::FORBIDDEN, why);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response =
                line_response(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if !request.body().is_end_stream() {
            return line_response(StatusCode::PAYLOAD_TOO_LARGE, "requests must not have a body");
        }
        match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|field| field.to_str().ok());
                self.metrics(Format::wanted(accept.unwrap_or_default())).await
            }
            "/healthz" => probe(self.health().await.map(|()| "alive".into())),
            "/readyz" => {
                let status = Arc::clone(&self.ops.status);
                probe(
                    gather(&self.status, "status", move || ready::judge(&status())).await.flatten(),
                )
            }
            _ => line_response(StatusCode::NOT_FOUND, PATHS),
        }
    }
}

/// A text that reserves its room until it is sent.
struct Large {
    text: String,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Runs a blocking function in a thread, one at a time.
async fn gather<T: Send + 'static>(
    one: &Arc<Mutex<()>>,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let gathered = async {
        let held = Arc::clone(one).lock_owned().await;
        task::spawn_blocking(move || {
            let _held = held;
            work()
        })
        .await
    };
    match timeout(GATHER_TIME_MAX, gathered).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(format!("collecting the {what} failed: its thread panicked")),
        Err(_) => Err(format!("collecting the {what} took more than {GATHER_TIME_MAX:?}")),
    }
}

/// 200 or 503, with the reason.
fn probe(judged: Result<String, String>) -> Response<Full<Bytes>> {
    match judged {
        Ok(text) => line_response(StatusCode::OK, &text),
        Err(why) => line_response(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}
