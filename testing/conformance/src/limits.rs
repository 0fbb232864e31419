//! Every maximum of this room.

use std::time::Duration;

/// How long to wait, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For one reply.
    pub timeout: Duration,
    /// Times a query is sent.
    pub tries: u32,
}

/// Queries outstanding at one server: what its reply socket surely has room for.
pub const WINDOW: usize = 48;
/// For queries every server answers.
pub const PATIENCE_LONG: Patience = Patience { timeout: Duration::from_millis(500), tries: 5 };
/// For packets a server may ignore.
pub const PATIENCE_SHORT: Patience = Patience { timeout: Duration::from_millis(250), tries: 2 };
/// What an answer may take under load before it counts as lost.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// What an answer to the regular client may take before it counts as lost.
pub const POLITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Reported failures of a load.
pub const STORIES_MAX: usize = 20;
/// The largest UDP payload every server is configured to send, in bytes.
pub const PAYLOAD_MAX: u16 = 1232;
/// Queries sent before their replies are compared.
pub const BATCH: usize = 10_000;
/// Kinds of differences a report shows.
pub const KINDS_MAX: usize = 60;
/// Examples kept of one kind of difference.
pub const EXAMPLES_MAX: usize = 2;
/// Records shown of one section.
pub const RECORDS_MAX: usize = 4;
/// Characters shown of one record.
pub const RECORD_CHARS_MAX: usize = 140;
/// Lines shown of the log of a server that does not start.
pub const LOG_LINES_MAX: usize = 40;
/// How long a link waits for a datagram before it looks whether it is to end.
pub const LINK_TURN: Duration = Duration::from_millis(20);
/// Datagrams that a link takes from one side before it looks at the other.
pub const LINK_TAKEN_MAX: usize = 64;
/// Queries that a link notes.
pub const LINK_RECORDED_MAX: usize = 1_000_000;
/// What a client of other servers' names waits for its answer.
pub const STEADY_TIMEOUT: Duration = Duration::from_secs(8);
