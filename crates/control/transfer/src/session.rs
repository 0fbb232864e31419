//! The connections of clients: each is here for one transfer, and goes back to where it came from.
use crate::counters::{CutFor, RefusedFor};
use crate::limits::{READ_GRACE, READ_RATE_MIN, SESSIONS_MAX, WAITING_MAX};
use crate::message::TooLong;
use crate::notifier::Notifier;
use crate::transfers::{Response, ResponseStream, Transfers};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use worker::{ConnectionSink, HandedConnection};

const THREAD: &str = "transfer";
/// Bytes of the length before each message.
const PREFIX: usize = 2;

/// The thread that serves transfers.
pub struct TransferThread {
    transfers: Arc<Transfers>,
    connections: mpsc::Sender<HandedConnection>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    /// Dropping it stops the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TransferThread {
    /// Starts it. `prepare` is called in the thread first; `give_back` takes each connection when
    /// its transfer is over.
    ///
    /// # Errors
    /// The thread or its runtime cannot be created.
    pub fn start(
        transfers: Arc<Transfers>,
        give_back: ConnectionSink,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (connections, waiting) = mpsc::channel(WAITING_MAX);
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let served = Arc::clone(&transfers);
        let run = move || {
            prepare();
            serve(&runtime, served, give_back, waiting, stopped);
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(run)?;
        let running = Mutex::new(Running { stop: Some(stop), thread: Some(thread) });
        Ok(Self { transfers, connections, running })
    }

    /// The transfers that it serves.
    pub fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
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
    give_back: ConnectionSink,
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
        tokio::spawn(Notifier::new(notified).await.run());
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

/// Sends a response; returns whether the connection is still usable.
pub(crate) async fn send<S: AsyncWrite + Unpin>(
    transfers: &Transfers,
    stream: &mut S,
    response: Response,
    client: SocketAddr,
) -> bool {
    let mut pace = Pace::new();
    match response {
        Response::NotOurs => false,
        Response::One(message) => pace.send(stream, &message).await.is_ok(),
        Response::Many(mut messages) => {
            let sent = send_all(&mut pace, stream, &mut messages).await;
            finish(transfers, &messages, &pace, client, sent)
        }
    }
}

async fn send_all<S: AsyncWrite + Unpin>(
    pace: &mut Pace,
    stream: &mut S,
    messages: &mut ResponseStream,
) -> Result<(), (CutFor, String)> {
    let too_long = |why: Box<TooLong>| (CutFor::TooLong, why.to_string());
    while let Some(message) = messages.next_message().map_err(too_long)? {
        pace.send(stream, &message).await?;
    }
    Ok(())
}

/// Counts and logs a transfer; returns whether it was sent.
fn finish(
    transfers: &Transfers,
    messages: &ResponseStream,
    pace: &Pace,
    client: SocketAddr,
    sent: Result<(), (CutFor, String)>,
) -> bool {
    let (summary, records) = (&messages.summary, messages.records());
    let (zone, serial, by) = (&summary.zone, summary.serial, &summary.by);
    let (how, bytes, ms) = (messages.how, pace.sent, pace.begin.elapsed().as_millis());
    match sent {
        Ok(()) => {
            transfers.counters.served(how, records, bytes);
            tracing::info!(%client, by, zone, serial, ?how, records, bytes, ms, "zone transferred");
            true
        }
        Err((why, what)) => {
            transfers.counters.cut(why);
            tracing::warn!(%client, by, zone, serial, records, bytes, ms, "transfer cut: {what}");
            false
        }
    }
}

/// How fast a client reads.
struct Pace {
    begin: Instant,
    sent: u64,
}

impl Pace {
    fn new() -> Self {
        Self { begin: Instant::now(), sent: 0 }
    }

    /// Sends a message, as long as the client reads fast enough.
    async fn send<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        message: &[u8],
    ) -> Result<(), (CutFor, String)> {
        let prefix = (message.len() as u16).to_be_bytes();
        let bytes = [&prefix, message].concat();
        let earned = Duration::from_millis(self.sent * 1_000 / READ_RATE_MIN);
        match timeout_at(self.begin + READ_GRACE + earned, stream.write_all(&bytes)).await {
            Ok(Ok(())) => {
                self.sent += bytes.len() as u64;
                Ok(())
            }
            Ok(Err(why)) => Err((CutFor::Broken, format!("the connection broke: {why}"))),
            Err(_) => {
                let what = "the client does not read it, or reads less than 16 KiB a second";
                Err((CutFor::SlowReader, what.into()))
            }
        }
    }
}
