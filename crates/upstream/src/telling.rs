//! What an asker is about to tell those who wait.
use forward::Ticket;
use std::time::Duration;

/// What is told, and to whom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telling {
    pub(crate) news: News,
    /// When the query came that is answered, and how often it had to wait.
    pub(crate) since: Option<Duration>,
    pub(crate) rounds: u8,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum News {
    #[default]
    None,
    /// The answer to this is in `kept`, so many octets; it is good for so many seconds from when
    /// it was made.
    Answer { ticket: Ticket, len: usize, ttl: u32, made: u32 },
    /// Nobody could answer this.
    Failure(Ticket),
    /// Somebody waits no longer for a better answer than a stale one.
    Stale,
}
