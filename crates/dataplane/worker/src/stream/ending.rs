//! Ends of connections, and their counters.

use sync::{Counters, CountersView};

/// Why a connection ended. The discriminant is the index of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// The client closed it, or its side of it, and has all replies.
    ByClient,
    /// No query for too long.
    Idle,
    /// A query, or a proxy's header, was not completed in time.
    SlowQuery,
    /// Replies were not read in time.
    SlowReader,
    /// Evicted: the longest idle one of the client with the most connections, or of a client above
    /// its limit.
    Evicted,
    /// The buffer budget was used up, and it was stuck longest among those of the client with the
    /// largest buffers.
    Budget,
    /// The network or the client broke it off.
    Error,
    /// A proxy's header was invalid or missing.
    ProxyHeader,
    /// The server stopped.
    Stopped,
    /// A new process serves it.
    HandedOver,
    /// The client asked for a transfer, so the control plane serves it.
    Transfer,
}

impl Ending {
    /// The number of reasons.
    pub const COUNT: usize = 11;

    /// All reasons, in the order of the counters.
    pub const ALL: [Ending; Self::COUNT] = [
        Ending::ByClient,
        Ending::Idle,
        Ending::SlowQuery,
        Ending::SlowReader,
        Ending::Evicted,
        Ending::Budget,
        Ending::Error,
        Ending::ProxyHeader,
        Ending::Stopped,
        Ending::HandedOver,
        Ending::Transfer,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Ending::ByClient => "by_client",
            Ending::Idle => "idle",
            Ending::SlowQuery => "slow_query",
            Ending::SlowReader => "slow_reader",
            Ending::Evicted => "evicted",
            Ending::Budget => "budget",
            Ending::Error => "error",
            Ending::ProxyHeader => "proxy_header",
            Ending::Stopped => "stopped",
            Ending::HandedOver => "handed_over",
            Ending::Transfer => "transfer",
        }
    }
}

/// Counters of one thread's connections: accepted, failed, bytes allocated and freed for buffers,
/// and one for each [`Ending`].
pub const CONNECTION_COUNTERS: usize = FIRST_ENDING + Ending::COUNT;
pub const ACCEPTED: usize = 0;
pub const FAILED: usize = 1;
pub const TAKEN: usize = 2;
pub const RETURNED: usize = 3;
pub const FIRST_ENDING: usize = 4;

/// Counters of one thread's connections.
pub type ConnectionCounters = Counters<CONNECTION_COUNTERS>;

/// Counters of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that were served, including those from an old process.
    pub accepted: u64,
    /// Failures to accept, such as no file descriptor left.
    pub failed: u64,
    /// Open connections.
    pub open: u64,
    /// Bytes of their buffers.
    pub buffered: u64,
    /// Ended connections, by reason ([`Ending`] is the index).
    pub ended: [u64; Ending::COUNT],
}

impl Connections {
    /// The sums over the threads of `views`.
    pub fn sum<'a>(views: impl IntoIterator<Item = &'a CountersView<CONNECTION_COUNTERS>>) -> Self {
        let sums = CountersView::sum(views);
        let ended: [u64; Ending::COUNT] = std::array::from_fn(|n| sums[FIRST_ENDING + n]);
        Self {
            accepted: sums[ACCEPTED],
            failed: sums[FAILED],
            // The counters are not read in one instant, so either may be ahead.
            open: sums[ACCEPTED].saturating_sub(ended.iter().sum()),
            buffered: sums[TAKEN].saturating_sub(sums[RETURNED]),
            ended,
        }
    }

    /// Connections ended for this reason.
    pub fn ended(&self, ending: Ending) -> u64 {
        self.ended[ending as usize]
    }

    /// Connections ended for each reason, by name.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Ending::ALL.into_iter().map(|ending| (ending.name(), self.ended[ending as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_their_own_index() {
        for (index, ending) in Ending::ALL.iter().enumerate() {
            assert_eq!(index, *ending as usize, "{}", ending.name());
        }
    }
}
