//! The REST API of a running server. It has a thread of its own, so that what it has to do holds up
//! neither questions nor those who ask for metrics and health.
use crate::limits::API_BLOCKING_MAX;
use crate::server::Server;
use crate::threads;
use api::{Api, ApiCounters, Tls};
use records::RecordService;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use zone_manager::status::ApiStatus;

/// The thread's name.
const THREAD: &str = "api";

/// The thread that serves the API, once it was started and until it is told to end.
#[derive(Default)]
pub struct Rest {
    /// What is counted of it.
    pub counters: Arc<ApiCounters>,
    /// Where it writes, once that is there.
    pub desk: Arc<OnceLock<RecordService>>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    /// Dropped, it ends.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Rest {
    /// Starts to answer on a listener.
    ///
    /// # Errors
    /// No thread or runtime can be had.
    pub fn start(
        &self,
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
        (requests_per_second, spool): (u32, PathBuf),
        server: &Arc<Server>,
    ) -> io::Result<()> {
        let api = Api {
            records: Arc::clone(&self.desk),
            credentials: Arc::clone(&server.credentials),
            operator: Arc::clone(server) as _,
            counters: Arc::clone(&self.counters),
            requests_per_second,
            spool,
        };
        tracing::info!(address = %listener.local_addr()?, tls = tls.is_some(), "the API listens");
        let (stop, stopped) = oneshot::channel::<()>();
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(API_BLOCKING_MAX).build()?;
        let run = move || {
            // Threads of the runtime begin with the niceness of the one that starts them.
            threads::yield_to_workers();
            let stop = async { drop(stopped.await) };
            if let Err(error) = runtime.block_on(api::serve(listener, api, tls, stop)) {
                tracing::error!("[api] is not served: {error}");
            }
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(run)?;
        *self.running() = Running { stop: Some(stop), thread: Some(thread) };
        Ok(())
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is told of it; nothing: it is not served.
    pub fn status(&self) -> Option<ApiStatus> {
        self.running().thread.as_ref().map(|_| self.counters.status())
    }

    /// Takes no more connections.
    pub fn begin_to_stop(&self) {
        drop(self.running().stop.take());
    }

    /// Answers what is under way, and ends.
    pub fn stop(&self) {
        self.begin_to_stop();
        // Waited for outside of the lock: the thread may look at it.
        let thread = self.running().thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of [api] panicked");
        }
    }
}
