//! Streams: DNS over TCP (RFC 7766), on threads of their own.

mod budget;
mod client_shares;
mod commands;
mod connection;
mod connection_table;
mod ending;
mod listen;
mod responder;
mod serve;

pub use client_shares::{ClientIdentity, Shares};
pub use ending::{Connections, Ending};
pub use listen::listen;

use crate::App;
use crate::clock;
use crate::counters::COUNTERS;
use crate::limits::{
    CONNECTION_BYTES_MAX, CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, STREAM_IDLE_MAX,
    STREAM_MEMORY_MAX, STREAM_QUERY_MAX, STREAM_REPLY_MAX, STREAM_THREADS_MAX,
};
use crate::thread::{OnFailure, spawn};
use commands::{CommandQueue, LeaveReason, StreamCommand};
use connection_table::{ConnectionTable, thread_of};
use ending::CONNECTION_COUNTERS;
use responder::StreamBuffers;
use serve::StreamServer;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use sync::{Counters, CountersView};

/// Limits for the clients of all stream threads together. The defaults are in
/// [`limits`](crate::limits).
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Open connections, at least 1.
    pub connections_max: usize,
    /// Open connections of one IPv4 address or IPv6 /64, at least 1.
    pub per_client_max: usize,
    /// Bytes of all connections' buffers, at least [`StreamLimits::memory_min`].
    pub memory_max: usize,
    /// How long a connection stays open without a query.
    pub idle_max: Duration,
    /// How long a query, or a proxy's header, may take from its first byte to its last.
    pub query_max: Duration,
    /// How long a client may take to read a burst of replies.
    pub reply_max: Duration,
}

impl StreamLimits {
    /// The least buffer memory for `threads` threads in bytes: for each twice
    /// [`CONNECTION_BYTES_MAX`].
    pub const fn memory_min(threads: usize) -> usize {
        2 * CONNECTION_BYTES_MAX * threads
    }
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            per_client_max: CONNECTIONS_PER_CLIENT_MAX,
            memory_max: STREAM_MEMORY_MAX,
            idle_max: STREAM_IDLE_MAX,
            query_max: STREAM_QUERY_MAX,
            reply_max: STREAM_REPLY_MAX,
        }
    }
}

/// Whether an address is a proxy, which must send a PROXY protocol header. IPv4 addresses are
/// passed as such, whatever the socket's family.
pub type IsProxy = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// A connection that is handed to another thread or process. No reply is partly written.
#[derive(Debug)]
pub struct HandedConnection {
    /// The connection.
    pub stream: OwnedFd,
    /// The remote address.
    pub peer: SocketAddr,
    /// The client: the peer, or the address in its proxy header.
    pub client: SocketAddr,
    /// The peer is a proxy, and has not sent its header yet.
    pub header_due: bool,
    /// Bytes read and not answered.
    pub inbox: Vec<u8>,
}

/// Takes connections that the control plane serves. It never blocks.
pub type ConnectionSink = Arc<dyn Fn(HandedConnection) + Send + Sync>;

/// State that all stream threads share.
struct SharedState {
    limits: StreamLimits,
    table: ConnectionTable,
    command_queues: Vec<CommandQueue>,
    is_proxy: IsProxy,
    /// Connections for the new process.
    handed: Mutex<Vec<HandedConnection>>,
}

impl SharedState {
    /// Gives an accepted connection to the thread with the fewest.
    fn deal(&self, stream: OwnedFd, peer: SocketAddr, now: Duration) {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let header_due = (self.is_proxy)(peer.ip());
        self.place(
            HandedConnection { stream, peer, client: peer, header_due, inbox: Vec::new() },
            now,
        );
    }

    /// Gives a connection to the thread with the fewest.
    fn place(&self, handed: HandedConnection, now: Duration) {
        let client = match handed.header_due {
            true => ClientIdentity::Proxy(handed.peer.ip()),
            false => ClientIdentity::at(handed.client.ip()),
        };
        let place = self.table.admit(client, now);
        self.evict(place.loser);
        self.command_queues[thread_of(place.id)].put(StreamCommand::Serve(place.id, handed));
    }

    /// Closes an evicted connection.
    fn evict(&self, loser: Option<u64>) {
        if let Some(id) = loser {
            self.command_queues[thread_of(id)].put(StreamCommand::Evict(id));
        }
    }

    /// Adds a connection for the new process.
    fn give(&self, handed: HandedConnection) {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner).push(handed);
    }
}

/// Running stream threads, `streams-0` to `streams-N`. Dropping it stops them.
pub struct Streams {
    shared: Arc<SharedState>,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<CountersView<COUNTERS>>,
    connections: Vec<CountersView<CONNECTION_COUNTERS>>,
}

impl Streams {
    /// Starts a thread for each of `apps`. Together they serve the `listeners`, of any origin.
    /// `on_failure` is called for each thread that ends by itself.
    ///
    /// # Errors
    /// There are no apps or more than [`STREAM_THREADS_MAX`], a limit is too low, or no thread or
    /// file descriptor is left. No thread runs then.
    pub fn start<A: App + 'static>(
        listeners: Vec<TcpListener>,
        apps: Vec<A>,
        limits: StreamLimits,
        is_proxy: IsProxy,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        check(&limits, apps.len())?;
        let table = ConnectionTable::new(limits, apps.len());
        let command_queues = apps.iter().map(|_| CommandQueue::new()).collect::<io::Result<_>>()?;
        let shared =
            SharedState { limits, table, command_queues, is_proxy, handed: Mutex::default() };
        let mut streams = Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
            counters: Vec::new(),
            connections: Vec::new(),
        };
        let mut listeners = Some(listeners);
        for (index, app) in apps.into_iter().enumerate() {
            let (messages, entries) = (Counters::new(), Counters::new());
            streams.counters.push(messages.view());
            streams.connections.push(entries.view());
            let listeners = listeners.take().unwrap_or_default();
            let buffers = StreamBuffers::new(app, messages);
            let server =
                StreamServer::new(index, streams.shared.clone(), listeners, buffers, entries)?;
            let name = format!("streams-{index}");
            streams.threads.push(spawn(name, on_failure.clone(), move || server.run())?);
        }
        Ok(streams)
    }

    /// Message counters of each thread. They outlive the threads.
    pub fn counters(&self) -> &[CountersView<COUNTERS>] {
        &self.counters
    }

    /// Connection counters of all threads together.
    pub fn connections(&self) -> Connections {
        Connections::sum(&self.connections)
    }

    /// Connection counters of each thread, for [`Connections::sum`]. They outlive the threads.
    pub fn connection_counters(&self) -> &[CountersView<CONNECTION_COUNTERS>] {
        &self.connections
    }

    /// Serves the connections of an old process.
    pub fn adopt(&self, handed: Vec<HandedConnection>) {
        let now = clock::now();
        handed.into_iter().for_each(|handed| self.shared.place(handed, now));
    }

    /// Stops accepting, answers what arrives for a short time, and waits for the threads to end.
    pub fn stop(mut self) {
        self.halt(LeaveReason::Stop);
    }

    /// Stops accepting, and returns all connections with the bytes read from them. Clients that do
    /// not read their replies within [`HAND_OVER_MAX`](crate::limits::HAND_OVER_MAX) are
    /// disconnected. Other copies of the listeners still queue new connections.
    pub fn hand_over(mut self) -> Vec<HandedConnection> {
        self.halt(LeaveReason::HandOver);
        mem::take(&mut *self.shared.handed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn halt(&mut self, how: LeaveReason) {
        for (thread, command_queue) in self.threads.drain(..).zip(&self.shared.command_queues) {
            // The first thread passes the command on once it deals out no more connections. The
            // others get it here in case it has panicked.
            command_queue.put(StreamCommand::Leave(how));
            // A panic was caught and reported inside the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.halt(LeaveReason::Stop);
    }
}

/// Checks that the limits suffice for this many threads.
fn check(limits: &StreamLimits, threads: usize) -> io::Result<()> {
    let memory_min = StreamLimits::memory_min(threads);
    let message = if threads == 0 || threads > STREAM_THREADS_MAX {
        format!("streams have 1 to {STREAM_THREADS_MAX} threads, not {threads}")
    } else if limits.connections_max == 0 || limits.per_client_max == 0 {
        "streams need room for one connection at least, in all and of a client".to_owned()
    } else if limits.memory_max < memory_min {
        format!("{threads} stream threads need {memory_min} bytes for buffers at least")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}
