//! Streams: DNS over TCP (RFC 7766), on threads of their own beside the workers.

mod budget;
mod connection;
mod desk;
mod ending;
mod listen;
mod mailbox;
mod room;
mod serve;
mod shares;

pub use ending::{Connections, Ending};
pub use listen::listen;

use crate::App;
use crate::clock;
use crate::counters::COUNTERS;
use crate::limits::{
    CONNECTION_OCTETS_MAX, CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, STREAM_IDLE_MAX,
    STREAM_MEMORY_MAX, STREAM_QUERY_MAX, STREAM_REPLY_MAX, STREAM_THREADS_MAX,
};
use crate::thread::{OnFailure, spawn};
use desk::Desk;
use door::{Counters, CountersView};
use ending::CONNECTION_COUNTERS;
use mailbox::{Leave, Mailbox, Order};
use room::{Room, thread_of};
use serve::Server;
use shares::Client;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How much the clients of all stream threads together may have. The defaults are those of
/// [`limits`](crate::limits).
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Connections open at a time, at least 1.
    pub connections_max: usize,
    /// Connections open at a time from one IPv4 address or one IPv6 /64, at least 1.
    pub per_client_max: usize,
    /// Octets of all connections' buffers, at least [`StreamLimits::memory_min`].
    pub memory_max: usize,
    /// How long a connection lives on without a query.
    pub idle_max: Duration,
    /// How long a query may take to come, or a proxy's header, from its first octet to its last.
    pub query_max: Duration,
    /// How long a burst of replies may take to be read.
    pub reply_max: Duration,
}

impl StreamLimits {
    /// Octets of buffers that so many threads need at least: for each twice
    /// [`CONNECTION_OCTETS_MAX`].
    pub const fn memory_min(threads: usize) -> usize {
        2 * CONNECTION_OCTETS_MAX * threads
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

/// Tells whether an address is that of a proxy, which has to say by the PROXY protocol whom it
/// forwards. IPv4 addresses come as such, whatever the socket's family.
pub type IsProxy = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// A connection on its way from who accepted or served it to who serves it next. Nothing of a
/// reply is half written.
#[derive(Debug)]
pub struct Handed {
    /// The connection.
    pub stream: OwnedFd,
    /// Who is at its other end.
    pub peer: SocketAddr,
    /// Whom it is answered for: the peer, or whom the proxy there forwards.
    pub client: SocketAddr,
    /// The peer is a proxy, and has not said yet whom it forwards.
    pub header_due: bool,
    /// Octets that were read and not answered.
    pub inbox: Vec<u8>,
}

/// What all stream threads share.
struct Shared {
    limits: StreamLimits,
    room: Room,
    mailboxes: Vec<Mailbox>,
    is_proxy: IsProxy,
    /// What the successor gets.
    handed: Mutex<Vec<Handed>>,
}

impl Shared {
    /// Gives a connection that was accepted to the thread with the fewest.
    fn deal(&self, stream: OwnedFd, peer: SocketAddr, now: Duration) {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let header_due = (self.is_proxy)(peer.ip());
        self.place(Handed { stream, peer, client: peer, header_due, inbox: Vec::new() }, now);
    }

    /// Gives a connection to the thread with the fewest.
    fn place(&self, handed: Handed, now: Duration) {
        let client = match handed.header_due {
            true => Client::Proxy(handed.peer.ip()),
            false => Client::at(handed.client.ip()),
        };
        let place = self.room.admit(client, now);
        self.evict(place.loser);
        self.mailboxes[thread_of(place.id)].put(Order::Serve(place.id, handed));
    }

    /// Has a connection closed that lost its place.
    fn evict(&self, loser: Option<u64>) {
        if let Some(id) = loser {
            self.mailboxes[thread_of(id)].put(Order::Evict(id));
        }
    }

    /// Gives a connection to the successor.
    fn give(&self, handed: Handed) {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner).push(handed);
    }
}

/// Running stream threads, `streams-0` to `streams-N`. Dropping it stops them.
pub struct Streams {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<CountersView<COUNTERS>>,
    connections: Vec<CountersView<CONNECTION_COUNTERS>>,
}

impl Streams {
    /// Starts a thread for each of `apps`, which together answer what comes in at `listeners`,
    /// whoever opened those. `on_failure` is told of each thread that ends by itself.
    ///
    /// # Errors
    /// There are no apps or more than [`STREAM_THREADS_MAX`], a limit is below its least, or no
    /// thread or file descriptor is left. None runs then.
    pub fn start<A: App + 'static>(
        listeners: Vec<TcpListener>,
        apps: Vec<A>,
        limits: StreamLimits,
        is_proxy: IsProxy,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        check(&limits, apps.len())?;
        let room = Room::new(limits, apps.len());
        let mailboxes = apps.iter().map(|_| Mailbox::new()).collect::<io::Result<_>>()?;
        let shared = Shared { limits, room, mailboxes, is_proxy, handed: Mutex::default() };
        let mut streams = Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
            counters: Vec::new(),
            connections: Vec::new(),
        };
        let mut listeners = Some(listeners);
        for (index, app) in apps.into_iter().enumerate() {
            let (messages, guests) = (Counters::new(), Counters::new());
            streams.counters.push(messages.view());
            streams.connections.push(guests.view());
            let listeners = listeners.take().unwrap_or_default();
            let desk = Desk::new(app, messages);
            let server = Server::new(index, streams.shared.clone(), listeners, desk, guests)?;
            let name = format!("streams-{index}");
            streams.threads.push(spawn(name, on_failure.clone(), move || server.run())?);
        }
        Ok(streams)
    }

    /// What each thread counts of messages, as a worker does. Outlives the threads.
    pub fn counters(&self) -> &[CountersView<COUNTERS>] {
        &self.counters
    }

    /// What became of the connections so far, of all threads together.
    pub fn connections(&self) -> Connections {
        Connections::sum(&self.connections)
    }

    /// What each thread counts of its connections, for [`Connections::sum`]. Outlives the threads.
    pub fn connection_counters(&self) -> &[CountersView<CONNECTION_COUNTERS>] {
        &self.connections
    }

    /// Goes on with the connections of a predecessor, where it left them.
    pub fn adopt(&self, handed: Vec<Handed>) {
        let now = clock::now();
        handed.into_iter().for_each(|handed| self.shared.place(handed, now));
    }

    /// Accepts no more, gives connections a last call, answers what is in flight, and waits for
    /// the threads to end.
    pub fn stop(mut self) {
        self.halt(Leave::Stop);
    }

    /// Accepts no more, and gives all connections away alive, with what was read from them. Those
    /// that do not read their replies within [`HAND_OVER_MAX`](crate::limits::HAND_OVER_MAX) are
    /// closed. The listeners' other copies go on gathering who connects.
    pub fn hand_over(mut self) -> Vec<Handed> {
        self.halt(Leave::HandOver);
        mem::take(&mut *self.shared.handed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn halt(&mut self, how: Leave) {
        for (thread, mailbox) in self.threads.drain(..).zip(&self.shared.mailboxes) {
            // The first one tells the others, once it deals out no more; telling them again is for
            // when it has panicked.
            mailbox.put(Order::Leave(how));
            // A panic was caught and reported inside the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.halt(Leave::Stop);
    }
}

/// Whether so many threads can work within these limits.
fn check(limits: &StreamLimits, threads: usize) -> io::Result<()> {
    let memory_min = StreamLimits::memory_min(threads);
    let message = if threads == 0 || threads > STREAM_THREADS_MAX {
        format!("streams have 1 to {STREAM_THREADS_MAX} threads, not {threads}")
    } else if limits.connections_max == 0 || limits.per_client_max == 0 {
        "streams need room for one connection at least, in all and of a client".to_owned()
    } else if limits.memory_max < memory_min {
        format!("{threads} stream threads need {memory_min} octets for buffers at least")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}
