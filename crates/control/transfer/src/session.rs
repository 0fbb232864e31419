//! The connections of clients: each is here for one transfer, and goes back to where it came from.
use crate::counters::RefusedFor;
use crate::delivery::send;
use crate::limits::{SESSIONS_MAX, WAITING_MAX};
use crate::notifier::Notifier;
use crate::tls;
use crate::transfers::Transfers;
use listen::Tls;
use server_status::CertificateStatus;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, oneshot};
use worker::{ConnectionSink, HandedConnection};

const THREAD: &str = "transfer";
/// Bytes of the length before each message.
const PREFIX: usize = 2;

/// The thread that serves transfers.
pub struct TransferThread {
    transfers: Arc<Transfers>,
    /// `None`: nothing is served over TLS.
    tls: Option<Arc<Tls>>,
    connections: mpsc::Sender<HandedConnection>,
    running: Mutex<Running>,
}

/// Listeners of connections over TLS, with their certificates.
pub struct TlsListeners {
    /// Where secondaries connect.
    pub listeners: Vec<TcpListener>,
    /// The certificates for secondaries.
    pub tls: Arc<Tls>,
}

#[derive(Default)]
struct Running {
    /// Dropping it stops the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TransferThread {
    /// Starts it. `prepare` is called in the thread first; `give_back` takes each connection when
    /// its transfer is over; `private`: what it serves over TLS.
    ///
    /// # Errors
    /// The thread or its runtime cannot be created.
    pub fn start(
        transfers: Arc<Transfers>,
        give_back: ConnectionSink,
        private: Option<TlsListeners>,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (connections, waiting) = mpsc::channel(WAITING_MAX);
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (served, tls) =
            (Arc::clone(&transfers), private.as_ref().map(|one| Arc::clone(&one.tls)));
        let run = move || {
            prepare();
            serve(&runtime, served, (give_back, private), waiting, stopped);
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(run)?;
        let running = Mutex::new(Running { stop: Some(stop), thread: Some(thread) });
        Ok(Self { transfers, tls, connections, running })
    }

    /// The transfers that it serves.
    pub fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
    }

    /// The certificates that connections over TLS use.
    pub fn certificates(&self) -> Vec<CertificateStatus> {
        self.tls.as_ref().map(|tls| tls.status()).unwrap_or_default()
    }

    /// Takes connections, whose first message asks for a transfer. One without room is closed.
    pub fn sink(&self) -> ConnectionSink {
        let (connections, transfers) = (self.connections.clone(), Arc::clone(&self.transfers));
        Arc::new(move |connection| {
            if connections.try_send(connection).is_err() {
                transfers.counters.refused(RefusedFor::Full);
            }
        })
    }

    /// Cuts off all transfers, and ends the thread.
    pub fn stop(&self) {
        let Running { stop, thread } = std::mem::take(&mut *self.running());
        drop(stop);
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of [transfer] panicked");
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(
    runtime: &Runtime,
    transfers: Arc<Transfers>,
    (give_back, private): (ConnectionSink, Option<TlsListeners>),
    mut waiting: mpsc::Receiver<HandedConnection>,
    stopped: oneshot::Receiver<()>,
) {
    let (sessions, notified) = (Arc::new(Semaphore::new(SESSIONS_MAX)), Arc::clone(&transfers));
    let serving = async move {
        while let Some(connection) = waiting.recv().await {
            let Ok(session) = Arc::clone(&sessions).try_acquire_owned() else {
                transfers.counters.refused(RefusedFor::Full);
                continue;
            };
            let (transfers, give_back) = (Arc::clone(&transfers), Arc::clone(&give_back));
            tokio::spawn(async move {
                if let Some(connection) = serve_one(&transfers, connection).await {
                    give_back(connection);
                }
                drop(session);
            });
        }
    };
    runtime.block_on(async {
        tokio::spawn(Notifier::new(Arc::clone(&notified)).await.run());
        if let Some(TlsListeners { listeners, tls }) = private {
            tokio::spawn(tls::serve(notified, listeners, tls));
        }
        tokio::select! {
            () = serving => {}
            _ = stopped => {}
        }
    });
}

/// Answers the first message of a connection; returns the connection if it is still usable.
async fn serve_one(transfers: &Transfers, handed: HandedConnection) -> Option<HandedConnection> {
    let HandedConnection { stream, peer, client, header_due, mut inbox } = handed;
    let len = inbox.first_chunk::<PREFIX>().map(|len| usize::from(u16::from_be_bytes(*len)))?;
    let message = inbox.get(PREFIX..PREFIX + len)?;
    let response = transfers.answer_stream(message, client);
    inbox.drain(..PREFIX + len);
    let stream = std::net::TcpStream::from(stream);
    stream.set_nonblocking(true).ok()?;
    let mut stream = TcpStream::from_std(stream).ok()?;
    if !send(transfers, &mut stream, response, client).await {
        return None;
    }
    let stream = OwnedFd::from(stream.into_std().ok()?);
    Some(HandedConnection { stream, peer, client, header_due, inbox })
}
