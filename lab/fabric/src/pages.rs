//! HTTP: pages of 1,000 bytes, by hyper on both sides.
use crate::limits::PAGE_BYTES;
use crate::stream::Stream;
use crate::{Result, Work};
use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http1::handshake;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

/// The longest time that a histogram has.
const LONGEST_NS: u64 = 60_000_000_000;

static PAGE: [u8; PAGE_BYTES] = [b'p'; PAGE_BYTES];

/// Does what needs tasks of this thread.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start tasks: {error}"))?;
    LocalSet::new().block_on(&runtime, work)
}

/// Serves connections until their clients end them.
///
/// # Errors
/// A connection breaks.
pub fn serve(streams: Vec<Stream>) -> Result<()> {
    block_on(async {
        let mut tasks = JoinSet::new();
        for stream in streams {
            let io = TokioIo::new(stream.for_task().map_err(|error| error.to_string())?);
            let answer = service_fn(|_| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&PAGE))))
            });
            tasks.spawn_local(
                hyper::server::conn::http1::Builder::new().serve_connection(io, answer),
            );
        }
        while let Some(ended) = tasks.join_next().await {
            // Clients end in the middle of nothing: their last page has come.
            drop(ended);
        }
        Ok(())
    })
}

/// Requests pages on all connections for a time, one after another on each: their times, and how
/// many.
///
/// # Errors
/// A page is not what it should be, or a connection breaks.
pub fn load(streams: Vec<Stream>, length: Duration) -> Result<(Histogram<u64>, Work)> {
    block_on(async {
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for stream in streams {
            tasks.spawn_local(load_connection(stream, begin + length));
        }
        let mut times = new_histogram()?;
        while let Some(ended) = tasks.join_next().await {
            let of_one = ended.map_err(|error| error.to_string())??;
            times.add(of_one).map_err(|error| error.to_string())?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let units = times.len();
        Ok((times, Work { units, seconds }))
    })
}

/// For times in nanoseconds.
pub fn new_histogram() -> Result<Histogram<u64>> {
    // What is recorded above the highest counts as that.
    Histogram::new_with_bounds(1, LONGEST_NS, 3).map_err(|error| error.to_string())
}

async fn load_connection(stream: Stream, end: Instant) -> Result<Histogram<u64>> {
    let told = |error: hyper::Error| format!("a request failed: {error}");
    let io = TokioIo::new(stream.for_task().map_err(|error| error.to_string())?);
    let (mut sender, connection) = handshake(io).await.map_err(told)?;
    let running = tokio::task::spawn_local(connection);
    let mut times = new_histogram()?;
    while Instant::now() < end {
        sender.ready().await.map_err(told)?;
        let begin = Instant::now();
        let request = Request::get("/").header("host", "page").body(Empty::<Bytes>::new());
        let request = request.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(told)?;
        let page = response.into_body().collect().await.map_err(told)?.to_bytes();
        if page[..] != PAGE {
            return Err(format!("a page of {} bytes is not what was served", page.len()));
        }
        times.saturating_record(begin.elapsed().as_nanos() as u64);
    }
    drop(sender);
    running.abort();
    Ok(times)
}
