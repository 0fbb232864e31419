//! Every maximum of this room.
use std::time::Duration;

/// Questions under way of a thread.
pub const ASKS_MAX: usize = forward::limits::ASKS_MAX;
/// Octets of a query whose reply can be put off.
pub const QUERY_LEN_MAX: usize = 800;
/// How often one query may have to wait for somebody, as an alias leads from one to the next.
pub const ROUNDS_MAX: u8 = 16;
/// Sockets of a thread to one server. Each has a port that nobody knows, and a question goes out of
/// any of them.
pub const SOCKETS_PER_SERVER: usize = 16;
/// Questions that go out of a socket before another takes its place, with another port.
pub const SOCKET_USES_MAX: u32 = 256;
/// Questions that leave by the same socket before another one is chosen, if they leave together.
pub const TOGETHER_MAX: usize = 16;
/// How long a socket is used before another takes its place.
pub const SOCKET_AGE_MAX: Duration = Duration::from_secs(30);
/// How long replies are awaited on a socket that is no longer used.
pub const SOCKET_REST: Duration = Duration::from_secs(5);
/// Sockets of a thread that are no longer used, and on which replies are awaited. While they are so
/// many none takes another's place: each is a file.
pub const RESTING_MAX: usize = 512;
/// Connections of a thread to all servers.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections of a thread to one server.
pub const CONNECTIONS_PER_SERVER: usize = 8;
/// Questions on a connection from which on another is opened beside it.
pub const QUESTIONS_BUSY: usize = 32;
/// Questions on a connection at once.
pub const QUESTIONS_MAX: usize = 512;
/// Octets of questions that wait to be sent on one.
pub const OUTBOX_MAX: usize = 1 << 16;
/// Octets read at once.
pub const INBOX_CHUNK: usize = 4096;
/// Octets taken from a connection in a turn, besides one message.
pub const TURN_OCTETS: usize = 1 << 16;
/// How long one may take to open.
pub const OPENING_MAX: Duration = Duration::from_secs(5);
/// How long nothing may come while a reply is waited for.
pub const STALL_MAX: Duration = Duration::from_secs(3);
/// How long a connection is kept that nothing is asked on, unless the server says how long.
pub const IDLE: Duration = Duration::from_secs(10);
/// The longest that a server can say (RFC 7828).
pub const IDLE_MAX: Duration = Duration::from_secs(120);
/// A connection that is closed so soon after an answer, though more was asked, was not closed for
/// being idle: the server takes only so many questions on one.
pub const CLOSED_SOON: Duration = Duration::from_secs(1);
/// How long that is remembered.
pub const SHARE_AGE_MAX: Duration = Duration::from_secs(60);
/// Servers whose TLS sessions a thread remembers.
pub const SESSIONS_MAX: usize = forward::limits::UPSTREAMS_MAX;
/// Datagrams that are taken from one socket in a turn.
pub const DATAGRAMS_MAX: usize = 32;
/// What epoll tells of at once.
pub const EVENTS_MAX: usize = 64;
/// Octets of the longest datagram that is taken.
pub const DATAGRAM_LEN_MAX: usize = 4096;
/// Octets of room for a late reply by datagram.
pub const REPLY_ROOM: usize = 4096;
/// How often a server that does not answer is asked whether it leads back here.
pub const MARK_INTERVAL: Duration = Duration::from_secs(5);
/// How long it is taken to do so since it last did.
pub const LOOP_AGE_MAX: Duration = Duration::from_secs(60);
/// How long who could have a stale answer waits for a better one (RFC 8767 §5).
pub const STALE_AFTER: Duration = Duration::from_millis(1_800);
/// Seconds before a stale answer is tried to be renewed again (RFC 8767 §5).
pub const STALE_RETRY: u32 = 30;
/// Seconds that a failure may be remembered (RFC 9520 §3.2).
pub const FAILURE_TTL_MAX: u32 = 300;
/// Seconds that an answer which is being renewed is not renewed again.
pub const RENEWAL_MAX: u32 = 5;
/// Octets of the commands that a thread was told and has not done yet.
pub const COMMANDS_OCTETS: usize = 4096;
/// Octets of what it reports on them.
pub const REPORTS_OCTETS: usize = 16 << 10;
/// Lines of the cache's index that are gone over in one turn: some 0.1 ms, as docs/cache.md says.
pub const WALK_LINES: usize = 256;
/// Answers of one thread that are shown at once; more are counted.
pub const SHOWN_MAX: u64 = 64;
/// Seconds that an alias is kept which leads to names of others, though nothing else may be.
pub const UNFINISHED_TTL: u32 = 2;
/// Askers of a process that leave names to each other; more than so many ask alone.
pub const NEIGHBOURS_MAX: usize = 64;
/// Octets of all rings between them.
pub const RINGS_OCTETS_MAX: usize = 8 << 20;
/// Octets of one of them: the most, and the fewest with which they are of use.
pub const RING_OCTETS_MAX: usize = 32 << 10;
/// See [`RING_OCTETS_MAX`].
pub const RING_OCTETS_MIN: usize = 2 << 10;
/// The share of a ring that one answer may have: one in so many.
pub const RING_SHARE: usize = 4;
/// How long a name's home may leave a question unread before it is asked about alone.
pub const HOME_LATE: Duration = Duration::from_millis(20);
/// How long a home may take that has read it: it asks others, which are far away perhaps.
pub const HOME_SLOW: Duration = Duration::from_millis(400);
/// Questions of neighbours that a home waits for at once, so that there is room for its own.
pub const PEERS_MAX: usize = ASKS_MAX / 2;
