//! Limits of this crate.
use std::time::Duration;

/// Clients served at a time, with a new process.
pub const CLIENTS_MAX: usize = 16;
/// Refused clients that wait for the reason at a time.
pub const DENIED_MAX: usize = 16;
/// Bytes of a request with its line end.
pub const REQUEST_LEN_MAX: usize = 4 << 10;
/// Bytes of a reply.
pub const REPLY_LEN_MAX: usize = 64 << 20;
/// How long a client may take to send a request, and to read a part of the reply.
pub const CLIENT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a new process may take from receiving the sockets to serving: it may load its zones.
pub const RESTART_TIME_MAX: Duration = Duration::from_secs(300);
/// How long the old process may take for each part of its connections once the new process serves.
pub const HAND_OFF_TIME_MAX: Duration = Duration::from_secs(30);
/// Descriptors in one message; the kernel takes 253 (`SCM_MAX_FD`).
pub const CHUNK_FDS_MAX: usize = 200;
/// Bytes of unanswered queries that end a message of connections.
pub const CHUNK_INBOX_MAX: usize = 256 << 10;
/// The pause when too many descriptors are in flight (`ETOOMANYREFS`).
pub const FDS_PAUSE: Duration = Duration::from_millis(5);
/// The pause of accepting after an error, such as too many open files.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a new process waits for the end of a silent old process, and an old process for the new
/// one to disconnect.
pub const END_TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes read at once.
pub const READ_LEN: usize = 64 << 10;
