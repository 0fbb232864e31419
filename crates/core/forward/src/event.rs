//! Results of a forwarder: messages to send, and answered queries.
use crate::pending::NONE;
use cache::QueryKind;

/// A datagram or message to send: see [`crate::Forwarder::compose`] and [`crate::Forwarder::sent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The server.
    pub upstream: u16,
    /// Whether it goes by stream instead of UDP.
    pub by_stream: bool,
    /// The query's number, or [`PROBE`](Self::PROBE).
    pub(crate) query: u16,
    /// The query's serial, or a probe's slot among late queries.
    pub(crate) serial: u32,
    pub(crate) attempt: u8,
}

impl Transmission {
    /// The number of a probe.
    pub(crate) const PROBE: u16 = NONE;

    /// Whether it is a probe and not a client's query.
    pub const fn is_probe(&self) -> bool {
        self.query == Self::PROBE
    }

    /// A probe's slot among late queries.
    pub(crate) const fn probe(&self) -> Option<usize> {
        if self.is_probe() { Some(self.serial as usize) } else { None }
    }

    pub(crate) const fn query_id(&self) -> QueryId {
        QueryId { number: self.query, serial: self.serial }
    }
}

/// A query under way: the number of its slot, and a serial that distinguishes it from earlier
/// queries there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryId {
    pub(crate) number: u16,
    pub(crate) serial: u32,
}

impl QueryId {
    /// As one number.
    pub const fn to_bits(self) -> u64 {
        (self.serial as u64) << 16 | self.number as u64
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    pub const fn from_bits(bits: u64) -> Self {
        Self { number: bits as u16, serial: (bits >> 16) as u32 }
    }

    /// The number of its slot, below `QUERIES_MAX`.
    pub const fn room(self) -> usize {
        self.number as usize
    }
}

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryOutcome {
    /// It is under way, or was already.
    Pending,
    /// Too many queries are under way, or too many clients wait for this one.
    Full,
    /// All servers failed recently.
    NoUpstream,
}

/// The result of a message, of the end of a stream, or of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardEvent {
    /// The message answers this query. Answer its waiters, then [end](crate::Forwarder::end) it.
    Answer(QueryId),
    /// No server answered. Answer its waiters, then [end](crate::Forwarder::end) it.
    Failure(QueryId),
    /// The owner shard of this query is late: [`wait`](crate::Forwarder::wait) longer, or
    /// [`send_now`](crate::Forwarder::send_now).
    Late(QueryId),
    /// The message answers a query that has already failed.
    LateAnswer(LateAnswer),
    /// Only transmissions, if any.
    Nothing,
}

/// An answer to an abandoned query. It may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateAnswer {
    /// The hash of the query name; the message has the name.
    pub hash: u64,
    /// The query type, class and flags.
    pub kind: QueryKind,
    /// The server.
    pub upstream: u16,
}
