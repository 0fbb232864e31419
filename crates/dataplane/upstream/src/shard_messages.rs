//! The news while waiting queries are answered.
use forward::QueryId;
use std::time::Duration;

/// The news, and the query that is answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingMessages {
    pub(crate) news: ShardNews,
    /// The arrival of the query, and how often it was deferred.
    pub(crate) since: Option<Duration>,
    pub(crate) rounds: u8,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum ShardNews {
    #[default]
    None,
    /// The answer to this query is in `message_buf` with this length. Its lifetime starts at
    /// `made`.
    Answer { query_id: QueryId, len: usize, ttl: u32, made: u32 },
    /// No server answered this query.
    Failure(QueryId),
    /// A client gets a stale answer, because it waited long enough.
    Stale,
}
