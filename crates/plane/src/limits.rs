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

/// Stream connections open at a time. Each may come to hold a partial query and unread replies,
/// 160 KiB together at most; an idle one holds no buffer.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Stream connections open at a time from one IPv4 address or one IPv6 /64 (RFC 7766 §6.2.2 asks
/// clients for few, but many clients may stand behind one address).
pub const CONNECTIONS_PER_CLIENT_MAX: usize = 128;

/// How long a connection lives on without a whole query, and a reply waits to be read: "in the
/// order of seconds" (RFC 7766 §6.2.3).
pub const STREAM_IDLE_MAX: Duration = Duration::from_secs(10);

/// Connections that wait to be accepted, on each address.
pub const BACKLOG_MAX: i32 = 1_024;

/// How long accepting rests after an error, such as no descriptor being left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Octets that are read from a connection at once.
pub const READ_MAX: usize = 16 << 10;

/// Octets of replies after which they are sent before more queries are answered. With one reply
/// more, 80 KiB at most are unread.
pub const OUTBOX_FULL: usize = 16 << 10;

/// How long a connection still listens after the order to stop.
pub const LAST_CALL: Duration = Duration::from_millis(200);

/// How long all connections of one listener have to end after the order to stop.
pub const STOP_MAX: Duration = Duration::from_secs(3);
