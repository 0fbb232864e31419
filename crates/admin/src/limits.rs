//! Every maximum of this room.
use std::time::Duration;

/// Clients served at a time; one that takes over is one of them.
pub const CLIENTS_MAX: usize = 16;
/// Octets of a request, its end of line included.
pub const REQUEST_LEN_MAX: usize = 4 << 10;
/// Octets of a reply: the status of as many zones as a config may have, with an error each.
pub const REPLY_LEN_MAX: usize = 64 << 20;
/// How long a client may take to send its request, and to read a piece of the reply.
pub const CLIENT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a client waits for a reply to begin or go on: a reload loads every zone first.
pub const REPLY_TIME_MAX: Duration = Duration::from_secs(300);
/// How long a successor may take from being given the sockets to serving on them: it may load its
/// zones meanwhile.
pub const SUCCESSOR_TIME_MAX: Duration = Duration::from_secs(300);
/// How long a predecessor may take for each piece of what it hands over once its successor serves.
pub const HAND_OVER_TIME_MAX: Duration = Duration::from_secs(30);
/// Descriptors in one message; the kernel takes 253 (`SCM_MAX_FD`).
pub const CHUNK_FDS_MAX: usize = 200;
/// Octets of unanswered queries in one message, from which on it takes no more connections.
pub const CHUNK_INBOX_MAX: usize = 256 << 10;
/// How long the kernel is left alone when too many descriptors are on their way (`ETOOMANYREFS`).
pub const FDS_PAUSE: Duration = Duration::from_millis(5);
/// How long accepting rests after an error, such as no descriptor being left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a successor waits for proof that a predecessor which fell silent has ended, and a
/// predecessor for a successor to hang up that has been given all.
pub const END_TIME_MAX: Duration = Duration::from_secs(2);
/// Octets read at once.
pub const READ_LEN: usize = 64 << 10;
