//! Streams: DNS over TCP (RFC 7766), on a thread of its own beside the workers.

mod accept;
mod connection;
mod listen;

pub use listen::listen;

use crate::App;
use crate::counters::COUNTERS;
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, STREAM_IDLE_MAX};
use crate::thread::{OnFailure, spawn};
use accept::Room;
use connection::Desk;
use door::{Counters, CountersView};
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

/// How much the clients of one stream thread may have. The defaults are those of
/// [`limits`](crate::limits).
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Connections open at a time.
    pub connections_max: usize,
    /// Connections open at a time from one IPv4 address or one IPv6 /64.
    pub per_client_max: usize,
    /// How long a connection lives on without a whole query, and a reply waits to be read.
    pub idle_max: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            per_client_max: CONNECTIONS_PER_CLIENT_MAX,
            idle_max: STREAM_IDLE_MAX,
        }
    }
}

/// Counters of the connections: accepted, refused, closed.
const CONNECTION_COUNTERS: usize = 3;
const ACCEPTED: usize = 0;
const REFUSED: usize = 1;
const CLOSED: usize = 2;

/// What became of the connections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that were served; `accepted - closed` of them are open.
    pub accepted: u64,
    /// Connections closed at once since there were too many, in all or of that client.
    pub refused: u64,
    /// Served connections that have ended.
    pub closed: u64,
}

/// A running stream thread. Dropping it stops it.
#[derive(Debug)]
pub struct Streams {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    counters: CountersView<COUNTERS>,
    connections: CountersView<CONNECTION_COUNTERS>,
}

impl Streams {
    /// Starts the thread `streams`, which answers what comes in at `listeners`. `on_failure` is
    /// told when it ends by itself.
    ///
    /// # Errors
    /// No thread or file descriptor is left.
    pub fn start<A: App + 'static>(
        listeners: Vec<TcpListener>,
        app: A,
        limits: StreamLimits,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let (messages, guests) = (Counters::new(), Counters::new());
        let (counters, connections) = (messages.view(), guests.view());
        let thread = spawn("streams".to_owned(), on_failure, move || {
            let desk = Rc::new(Desk::new(app, messages));
            let room = Rc::new(Room::new(limits, guests));
            LocalSet::new().block_on(&runtime, serve(listeners, &desk, &room, &stopped))
        })?;
        Ok(Self { stop, thread: Some(thread), counters, connections })
    }

    /// What the thread counts of messages, as a worker does.
    pub fn counters(&self) -> &CountersView<COUNTERS> {
        &self.counters
    }

    /// What became of the connections so far.
    pub fn connections(&self) -> Connections {
        let counts = self.connections.read();
        Connections { accepted: counts[ACCEPTED], refused: counts[REFUSED], closed: counts[CLOSED] }
    }

    /// Accepts no more, answers what is in flight, and waits for the thread to end.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic was caught and reported inside the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Serves every listener until told to stop.
async fn serve<A: App + 'static>(
    listeners: Vec<TcpListener>,
    desk: &Rc<Desk<A>>,
    room: &Rc<Room>,
    stopped: &watch::Receiver<bool>,
) -> io::Result<()> {
    let mut halls = JoinSet::new();
    for listener in listeners {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (desk, room, stopped) = (desk.clone(), room.clone(), stopped.clone());
        halls.spawn_local(accept::accept(listener, desk, room, stopped));
    }
    while let Some(ended) = halls.join_next().await {
        accept::raise(ended);
    }
    Ok(())
}
