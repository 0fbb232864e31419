//! The REST API of a running server. It has its own thread, so that requests delay neither queries
//! nor metrics and health.
use crate::limits::API_BLOCKING_MAX;
use api::{Api, ApiCounters};
use data_plane::yield_to_workers;
use listen::Tls;
use records::RecordService;
use server_status::{ApiStatus, CertificateStatus};
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

const THREAD: &str = "api";

/// The thread that serves the API.
#[derive(Default)]
pub struct Rest {
    pub counters: Arc<ApiCounters>,
    /// The record service, once the store has been opened.
    pub records: Arc<OnceLock<RecordService>>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    /// Dropping it stops the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// `None`: connections have no TLS.
    tls: Option<Arc<Tls>>,
}

impl Rest {
    /// Starts to serve on a listener.
    ///
    /// # Errors
    /// The thread or its runtime cannot be created.
    pub fn start(&self, listener: TcpListener, tls: Option<Arc<Tls>>, api: Api) -> io::Result<()> {
        tracing::info!(address = %listener.local_addr()?, tls = tls.is_some(), "the API listens");
        let (stop, stopped) = oneshot::channel::<()>();
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(API_BLOCKING_MAX).build()?;
        let shown = tls.clone();
        let run = move || {
            // Threads of the runtime inherit the niceness of the thread that starts them.
            yield_to_workers();
            let stop = async { drop(stopped.await) };
            if let Err(error) = runtime.block_on(api::serve(listener, api, tls, stop)) {
                tracing::error!("[api] is not served: {error}");
            }
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(run)?;
        *self.running() = Running { stop: Some(stop), thread: Some(thread), tls: shown };
        Ok(())
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Status of the API; `None` if it is not served.
    pub fn status(&self) -> Option<ApiStatus> {
        let running = self.running();
        let thread = running.thread.as_ref()?;
        let has_ended = thread.is_finished() && running.stop.is_some();
        let what = "[api] is not served, because its thread has ended: see the log, and restart \
                    the server";
        let ended = has_ended.then_some(what);
        Some(ApiStatus { ended: ended.map(str::to_owned), ..self.counters.status() })
    }

    /// The certificates that the API uses.
    pub fn certificates(&self) -> Vec<CertificateStatus> {
        self.running().tls.as_ref().map(|tls| tls.status()).unwrap_or_default()
    }

    /// Accepts no more connections.
    pub fn start_stop(&self) {
        drop(self.running().stop.take());
    }

    /// Finishes the requests in progress, and ends the thread.
    pub fn stop(&self) {
        self.start_stop();
        // Join without the lock: the thread may take it.
        let thread = self.running().thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of [api] panicked");
        }
    }
}
