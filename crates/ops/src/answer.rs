//! From a request to its response.
use crate::exposition::Format;
use crate::limits::{GATHER_TIME_MAX, RESPONSES_LEN_MAX};
use crate::metrics::{self, Asked};
use crate::{Ops, ready};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task;
use tokio::time::timeout;

const TEXT: &str = "text/plain; charset=utf-8";
const PATHS: &str = "here are /metrics, /healthz and /readyz";

/// What is answered, and what is counted of it.
pub struct Desk {
    ops: Ops,
    /// Held while something is gathered, also when nobody waits for it any more: whatever hangs,
    /// hangs once.
    status: Arc<Mutex<()>>,
    health: Arc<Mutex<()>>,
    /// KiB that responses under way may yet take.
    room: Arc<Semaphore>,
    requests: AtomicU64,
    denied: AtomicU64,
    full: AtomicU64,
}

impl Desk {
    pub fn new(ops: Ops) -> Self {
        let [status, health] = [(); 2].map(|()| Arc::default());
        let [requests, denied, full] = [(); 3].map(|()| AtomicU64::new(0));
        let room = Arc::new(Semaphore::new(RESPONSES_LEN_MAX >> 10));
        Self { ops, status, health, room, requests, denied, full }
    }

    /// Counts a connection that was accepted.
    pub fn count_connection(&self, allowed: bool, seated: bool) {
        match (allowed, seated) {
            (false, _) => self.denied.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.full.fetch_add(1, Ordering::Relaxed),
            (true, true) => return,
        };
    }

    /// Answers a request. What it may carry as its body is not read.
    pub async fn answer(&self, request: Request<Incoming>, allowed: bool) -> Response<Full<Bytes>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if !allowed {
            let why = "you may not ask here: see [acl] metrics in the config of the server";
            return told(StatusCode::FORBIDDEN, why);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = told(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD are answered");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if !request.body().is_end_stream() {
            return told(StatusCode::PAYLOAD_TOO_LARGE, "a request must have no body");
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
            _ => told(StatusCode::NOT_FOUND, PATHS),
        }
    }

    async fn health(&self) -> Result<(), String> {
        let health = Arc::clone(&self.ops.health);
        gather(&self.health, "health", move || health()).await.flatten()
    }

    async fn metrics(&self, format: Format) -> Response<Full<Bytes>> {
        let healthy = self.health().await.is_ok();
        let status = Arc::clone(&self.ops.status);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let asked = Asked {
            requests: count(&self.requests),
            denied: count(&self.denied),
            full: count(&self.full),
        };
        let write = move || metrics::write(&status(), healthy, asked, format);
        match gather(&self.status, "status", write).await {
            Ok(text) => self.respond_large(format.content_type(), text),
            Err(why) => told(StatusCode::SERVICE_UNAVAILABLE, &why),
        }
    }

    /// Responds with what may be large, if there is room for it beside what others still read.
    fn respond_large(&self, media: &'static str, text: String) -> Response<Full<Bytes>> {
        let kib = u32::try_from(text.len().div_ceil(1 << 10)).unwrap_or(u32::MAX);
        match Arc::clone(&self.room).try_acquire_many_owned(kib) {
            Ok(room) => {
                let body = Bytes::from_owner(Large { text, _room: room });
                respond(StatusCode::OK, media, body)
            }
            Err(_) => told(StatusCode::SERVICE_UNAVAILABLE, "others read too slowly: try later"),
        }
    }
}

/// A text, and the room it takes until it is sent.
struct Large {
    text: String,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Runs what may wait, on a thread of its own, one at a time.
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
        Ok(Err(_)) => Err(format!("gathering the {what} failed: its thread panicked")),
        Err(_) => Err(format!("gathering the {what} took more than {GATHER_TIME_MAX:?}")),
    }
}

/// 200 or 503, with the reason for either.
fn probe(judged: Result<String, String>) -> Response<Full<Bytes>> {
    match judged {
        Ok(text) => told(StatusCode::OK, &text),
        Err(why) => told(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

/// A line of text.
fn told(status: StatusCode, line: &str) -> Response<Full<Bytes>> {
    respond(status, TEXT, format!("{line}\n").into())
}

fn respond(status: StatusCode, media: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
