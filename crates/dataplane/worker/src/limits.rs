//! Every maximum of this crate.

use std::time::Duration;

/// Addresses to listen on.
pub const ADDRESSES_MAX: usize = 16;

/// Ports of one worker: one for each address, or several if sockets of an old process with more
/// workers are served too.
pub const PORTS_MAX: usize = 8 * ADDRESSES_MAX;

/// Workers of one process.
pub const WORKERS_MAX: usize = 1_024;

/// Turns of a worker until it polls its quiet ports, while others are busy. Bounds how long a quiet
/// port, or a command, waits.
pub const TURNS_UNPOLLED_MAX: u32 = 8;

/// How often in turn a worker finds nothing, in all ports, before it pauses between polls of a port
/// without a descriptor: some tenths of a millisecond.
pub const POLLS_WITHOUT_PAUSE: u32 = 256;
/// The first such pause; each is twice as long as the one before.
pub const POLL_PAUSE_MIN: Duration = Duration::from_micros(1);
/// The longest: how much later a query after a silence may be answered. The kernel adds some 50 µs.
pub const POLL_PAUSE_MAX: Duration = Duration::from_micros(250);

/// Turns of a worker after the command to stop, to answer what had arrived.
pub const TURNS_LAST_MAX: u32 = 1_024;

/// How long workers may take to change their lent ports.
pub const LEND_MAX: Duration = Duration::from_secs(5);

/// Turns of a port to answer what it has received before it is removed.
pub const TURNS_TAKEN_BACK_MAX: u32 = 64;

/// Pause before a device that accepts no replies is tried again, while a worker stops.
pub const STUCK_PAUSE: Duration = Duration::from_micros(100);

/// Stream threads.
pub const STREAM_THREADS_MAX: usize = 64;

/// Open stream connections.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Open stream connections of one IPv4 address or IPv6 /64. RFC 7766 §6.2.2 asks clients for few,
/// but an address may have many clients.
pub const CONNECTIONS_PER_CLIENT_MAX: usize = 128;

/// Bytes of all stream connections' buffers. An idle connection has none, and neither has one whose
/// queries and replies are sent whole.
pub const STREAM_MEMORY_MAX: usize = 32 << 20;

/// How long a connection stays open without a query: "in the order of seconds" (RFC 7766 §6.2.3).
pub const STREAM_IDLE_MAX: Duration = Duration::from_secs(10);

/// How long a query may take from its first byte to its last.
pub const STREAM_QUERY_MAX: Duration = Duration::from_secs(5);

/// How long a client may take to read a burst of replies.
pub const STREAM_REPLY_MAX: Duration = Duration::from_secs(10);

/// Shorter pauses between uses do not change the order of connections by idle time.
pub const USED_AGAIN: Duration = Duration::from_millis(50);

/// Connections that wait to be accepted, on each address.
pub const BACKLOG_MAX: i32 = 1_024;

/// Connections accepted at one address before others get their turn.
pub const ACCEPTS_MAX: usize = 32;

/// Pause of accepting after an error, such as no file descriptor left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Evicted connections that are not closed yet. At this number no connection is accepted, so at
/// most as many descriptors are open beyond [`CONNECTIONS_MAX`].
pub const CLOSING_MAX: usize = 128;

/// Pause of accepting in that case.
pub const CROWD_PAUSE: Duration = Duration::from_millis(1);

/// Connections that get a turn before deadlines and listeners are checked again.
pub const EVENTS_MAX: usize = 64;

/// Bytes of the kernel's receive queue for each connection, and of its send queue: room for the
/// longest message. The kernel doubles them for its bookkeeping.
pub const SOCKET_BUFFER: usize = 64 << 10;

/// Bytes of the length before each message (RFC 1035 §4.2.2).
pub const PREFIX: usize = 2;

/// The longest message.
pub const MESSAGE_MAX: usize = u16::MAX as usize;

/// Bytes read from a connection at once: some hundred queries, the work of one turn.
pub const READ_MAX: usize = 4 << 10;

/// Bytes of replies that are sent before more queries are answered.
pub const OUTBOX_FULL: usize = 16 << 10;

/// Bytes read from a connection and not answered: a query without its last byte, and one further
/// read.
pub const INBOX_MAX: usize = PREFIX + MESSAGE_MAX - 1 + READ_MAX;

/// Bytes of a connection's replies that were not sent.
pub const OUTBOX_MAX: usize = OUTBOX_FULL - 1 + PREFIX + MESSAGE_MAX;

/// Bytes of a connection's buffers. A new inbox exists before the old one is freed.
pub const CONNECTION_BYTES_MAX: usize = 2 * INBOX_MAX + OUTBOX_MAX;

/// How long a connection is still read after the command to stop.
pub const DRAIN_TIME: Duration = Duration::from_millis(200);

/// How long all connections may take to end after the command to stop.
pub const STOP_MAX: Duration = Duration::from_secs(3);

/// How long clients may take to read replies before a connection is handed over.
pub const HAND_OVER_MAX: Duration = Duration::from_secs(2);

/// How long a stopping thread waits for deferred replies.
pub const DEFERRED_WAIT_MAX: Duration = Duration::from_secs(5);

/// Deferred replies of a connection at which no more of its queries are read.
pub const DEFERRED_PER_CONNECTION_MAX: usize = 64;
