//! Every maximum of this crate.
use std::time::Duration;

/// Queries of a thread under way.
pub const QUERIES_MAX: usize = forward::limits::QUERIES_MAX;
/// Bytes of the longest query that can be deferred.
pub const QUERY_LEN_MAX: usize = 800;
/// How often one query may be deferred, as aliases lead from name to name.
pub const ROUNDS_MAX: u8 = 16;
/// Age of a client's query at which no further alias is followed.
pub const CHAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// UDP sockets of a thread to one server. Each has an unpredictable port, and queries are spread
/// over all.
pub const SOCKETS_PER_SERVER: usize = 16;
/// Queries sent from a socket before it is replaced, with another port.
pub const SOCKET_USES_MAX: u32 = 256;
/// Queries of one burst sent from the same socket.
pub const SEND_BATCH_MAX: usize = 16;
/// Age at which a socket is replaced.
pub const SOCKET_AGE_MAX: Duration = Duration::from_secs(30);
/// How long a replaced socket still waits for replies.
pub const SOCKET_REST: Duration = Duration::from_secs(5);
/// Replaced sockets of a thread that still wait for replies. At this number no socket is replaced:
/// each is a file descriptor.
pub const RESTING_MAX: usize = 512;
/// Connections of a thread to all servers.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections of a thread to one server.
pub const CONNECTIONS_PER_SERVER: usize = 8;
/// Queries on a connection at which another one is opened.
pub const QUERIES_BUSY: usize = 32;
/// Queries on a connection at once.
pub const QUERIES_PER_CONNECTION_MAX: usize = 1024;
/// Abandoned queries of a connection whose IDs are remembered; older ones are only counted.
pub const ABANDONED_MAX: usize = 512;
/// Buckets in each row of the counts of clients' waiting queries.
pub const SHARES_LEN: usize = 4096;
/// Bytes of queries that wait to be sent on a connection.
pub const OUTBOX_MAX: usize = 1 << 16;
/// Bytes read at once.
pub const INBOX_CHUNK: usize = 4096;
/// Bytes read from a connection in a turn, besides one message.
pub const TURN_BYTES: usize = 1 << 16;
/// How long opening may take.
pub const OPENING_MAX: Duration = Duration::from_secs(5);
/// How long a connection with outstanding queries may be silent.
pub const STALL_MAX: Duration = Duration::from_secs(3);
/// How long an idle connection stays open, unless the server sends a timeout.
pub const IDLE: Duration = Duration::from_secs(10);
/// The longest timeout that a server can send (RFC 7828).
pub const IDLE_MAX: Duration = Duration::from_secs(120);
/// A connection that is closed so soon after an answer, with queries outstanding, was not closed
/// for being idle: the server limits the queries on a connection.
pub const CLOSE_DELAY_SHORT: Duration = Duration::from_secs(1);
/// How long that limit is remembered.
pub const SHARE_AGE_MAX: Duration = Duration::from_secs(60);
/// Servers whose TLS sessions a thread remembers.
pub const SESSIONS_MAX: usize = forward::limits::UPSTREAMS_MAX;
/// Datagrams received from one socket in a turn.
pub const DATAGRAMS_MAX: usize = 32;
/// Events that epoll reports at once.
pub const EVENTS_MAX: usize = 64;
/// Bytes of the longest datagram received.
pub const DATAGRAM_LEN_MAX: usize = 4096;
/// Bytes of the buffer for a late UDP reply.
pub const REPLY_ROOM: usize = 4096;
/// How often a mark is sent to a server that does not answer.
pub const MARK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a loop is assumed after the last mark returned.
pub const LOOP_AGE_MAX: Duration = Duration::from_secs(60);
/// How long a client waits for a fresh answer before it gets a stale one (RFC 8767 §5).
pub const STALE_AFTER: Duration = Duration::from_millis(1_800);
/// Seconds before a stale answer is renewed again (RFC 8767 §5).
pub const STALE_RETRY: u32 = 30;
/// Longest lifetime of a cached failure, in seconds (RFC 9520 §3.2).
pub const FAILURE_TTL_MAX: u32 = 300;
/// Seconds before an answer that is being renewed may be renewed again.
pub const RENEWAL_MAX: u32 = 5;
/// Bytes of the ring of commands to a thread.
pub const COMMANDS_BYTES: usize = 4096;
/// Bytes of the ring of its reports.
pub const REPORTS_BYTES: usize = 16 << 10;
/// Buckets of the cache's index visited in one turn: some 0.1 ms, see docs/cache.md.
pub const WALK_LINES: usize = 256;
/// Answers of one thread that are shown; further ones are counted.
pub const SHOWN_MAX: u64 = 64;
/// Least lifetime of an alias whose target is queried next, in seconds.
pub const UNFINISHED_TTL: u32 = 2;
/// Shards of a process that delegate to each other. With more, every shard sends all queries
/// itself.
pub const PEER_SHARDS_MAX: usize = 64;
/// Bytes of all rings between shards.
pub const RINGS_BYTES_MAX: usize = 8 << 20;
/// Bytes of one ring: the most, and the fewest that are useful.
pub const RING_BYTES_MAX: usize = 32 << 10;
/// See [`RING_BYTES_MAX`].
pub const RING_BYTES_MIN: usize = 2 << 10;
/// One answer may have this share of a ring: one in this many.
pub const RING_SHARE: usize = 4;
/// How long an owner shard may leave a query unread before the query is sent by the shard itself.
pub const OWNER_LATE: Duration = Duration::from_millis(20);
/// How long an owner shard may take after it has read a query: the server may be far away.
pub const OWNER_SLOW: Duration = Duration::from_millis(400);
/// Queries of other shards that an owner shard has under way, so that there is room for its own.
pub const PEERS_MAX: usize = QUERIES_MAX / 2;
