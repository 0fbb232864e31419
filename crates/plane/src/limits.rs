//! How much of everything.

use std::time::Duration;

/// Addresses that are listened on.
pub const ADDRESSES_MAX: usize = 16;

/// Ports of one worker: one for each address, or several where sockets that a predecessor with
/// more workers had are served too.
pub const PORTS_MAX: usize = 8 * ADDRESSES_MAX;

/// Workers of one fleet.
pub const WORKERS_MAX: usize = 1_024;

/// Turns a worker takes before it asks which other ports have something to do, as long as one
/// always has. Bounds how long a quiet port, or the order to stop, waits behind busy ones.
pub const TURNS_UNASKED_MAX: u32 = 8;

/// Turns a worker goes on after the order to stop, to answer what had arrived.
pub const TURNS_LAST_MAX: u32 = 1_024;

/// How long workers may take to change the ports that they are lent.
pub const LEND_MAX: Duration = Duration::from_secs(5);

/// Turns a port has to answer what it has received before it is taken back.
pub const TURNS_TAKEN_BACK_MAX: u32 = 64;

/// How long a device that takes no more replies for now has for those that it took, before it is
/// asked again by who is about to leave it.
pub const STUCK_PAUSE: Duration = Duration::from_micros(100);

/// Stream threads.
pub const STREAM_THREADS_MAX: usize = 64;

/// Stream connections open at a time.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Stream connections open at a time from one IPv4 address or one IPv6 /64 (RFC 7766 §6.2.2 asks
/// clients for few, but many clients may stand behind one address).
pub const CONNECTIONS_PER_CLIENT_MAX: usize = 128;

/// Octets of all stream connections' buffers together. An idle connection has none, and so has one
/// whose queries come and whose replies are taken whole.
pub const STREAM_MEMORY_MAX: usize = 32 << 20;

/// How long a connection lives on without a query: "in the order of seconds" (RFC 7766 §6.2.3).
pub const STREAM_IDLE_MAX: Duration = Duration::from_secs(10);

/// How long a query may take to come, from its first octet to its last.
pub const STREAM_QUERY_MAX: Duration = Duration::from_secs(5);

/// How long a burst of replies may take to be read.
pub const STREAM_REPLY_MAX: Duration = Duration::from_secs(10);

/// After how long a connection that is used again is no longer the one idle longest. Shorter pauses
/// are not told from none.
pub const USED_AGAIN: Duration = Duration::from_millis(50);

/// Connections that wait to be accepted, on each address.
pub const BACKLOG_MAX: i32 = 1_024;

/// Connections that are accepted at an address before others get their turn.
pub const ACCEPTS_MAX: usize = 32;

/// How long accepting rests after an error, such as no descriptor being left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that have lost their places to others and are not closed yet, after which nobody is
/// accepted until some are. As many descriptors may be open beyond [`CONNECTIONS_MAX`].
pub const PARTING_MAX: usize = 128;

/// How long accepting rests then.
pub const CROWD_PAUSE: Duration = Duration::from_millis(1);

/// Connections that get a turn before the clock and the listeners are looked at again.
pub const EVENTS_MAX: usize = 64;

/// Octets asked of the kernel for each connection's receive queue, and for its send queue: room for
/// the longest message. The kernel doubles them for its bookkeeping.
pub const SOCKET_BUFFER: usize = 64 << 10;

/// Octets of the length in front of each message (RFC 1035 §4.2.2).
pub const PREFIX: usize = 2;

/// The longest message that the length can tell.
pub const MESSAGE_MAX: usize = u16::MAX as usize;

/// Octets that are read from a connection at once: some hundred queries, the work of one turn.
pub const READ_MAX: usize = 4 << 10;

/// Octets of replies after which they are sent before more queries are answered.
pub const OUTBOX_FULL: usize = 16 << 10;

/// Octets of a connection that were read and not answered: a query but for its last octet, and what
/// was read with that.
pub const INBOX_MAX: usize = PREFIX + MESSAGE_MAX - 1 + READ_MAX;

/// Octets of a connection's replies that were not sent: one more than is enough.
pub const OUTBOX_MAX: usize = OUTBOX_FULL - 1 + PREFIX + MESSAGE_MAX;

/// Octets of a connection's buffers. A new inbox is there before an old one is gone.
pub const CONNECTION_OCTETS_MAX: usize = 2 * INBOX_MAX + OUTBOX_MAX;

/// How long a connection still listens after the order to stop.
pub const LAST_CALL: Duration = Duration::from_millis(200);

/// How long all connections have to end after the order to stop.
pub const STOP_MAX: Duration = Duration::from_secs(3);

/// How long replies may take to be read before a connection is handed over.
pub const HAND_OVER_MAX: Duration = Duration::from_secs(2);

/// How long a thread that is told to stop waits for what others have to answer first.
pub const OWED_MAX: Duration = Duration::from_secs(5);

/// Replies of a connection that are put off, after which no more of its queries are read.
pub const OWED_PER_CONNECTION_MAX: usize = 64;
