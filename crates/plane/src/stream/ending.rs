//! What becomes of connections, and what is counted of it.

use door::{Counters, CountersView};

/// Why a connection is no longer served. The discriminant is the counter's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// The client closed it, or its side of it, and has been answered.
    ByClient,
    /// It asked nothing for too long.
    Idle,
    /// A query, or a proxy's header, was begun and not finished in time.
    SlowQuery,
    /// Replies were not read in time.
    SlowReader,
    /// It made room for another one: it had been idle longest of those of the client with the
    /// most connections, or of a client that opened one more than it may have.
    Evicted,
    /// The buffers of all connections were full, and it was stuck longest of those of the client
    /// whose buffers were the largest.
    Budget,
    /// The network or the client broke it off.
    Error,
    /// A proxy's header was broken or missing.
    ProxyHeader,
    /// We ended.
    Stopped,
    /// It lives on: a successor serves it.
    HandedOver,
}

impl Ending {
    /// How many there are.
    pub const COUNT: usize = 10;

    /// All, in the order of the counters.
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
    ];

    /// The name used in metrics and logs.
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
        }
    }
}

/// Counters of one thread's connections: accepted, failed, octets taken and given back for
/// buffers, and one for each [`Ending`].
pub const CONNECTION_COUNTERS: usize = FIRST_ENDING + Ending::COUNT;
pub const ACCEPTED: usize = 0;
pub const FAILED: usize = 1;
pub const TAKEN: usize = 2;
pub const RETURNED: usize = 3;
pub const FIRST_ENDING: usize = 4;

/// What one thread counts of its connections.
pub type ConnectionCounters = Counters<CONNECTION_COUNTERS>;

/// What became of the connections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that were served, those adopted from a predecessor included.
    pub accepted: u64,
    /// Times that accepting failed, such as for want of a file descriptor.
    pub failed: u64,
    /// Open now.
    pub open: u64,
    /// Octets of the buffers of all of them now.
    pub buffered: u64,
    /// Connections no longer served, by why ([`Ending`] is the index).
    pub ended: [u64; Ending::COUNT],
}

impl Connections {
    /// The sums over the threads that `views` belong to.
    pub fn sum<'a>(views: impl IntoIterator<Item = &'a CountersView<CONNECTION_COUNTERS>>) -> Self {
        let sums = CountersView::sum(views);
        let ended: [u64; Ending::COUNT] = std::array::from_fn(|n| sums[FIRST_ENDING + n]);
        Self {
            accepted: sums[ACCEPTED],
            failed: sums[FAILED],
            // The counters are not read in one instant, so either may run ahead of the other.
            open: sums[ACCEPTED].saturating_sub(ended.iter().sum()),
            buffered: sums[TAKEN].saturating_sub(sums[RETURNED]),
            ended,
        }
    }

    /// How many ended so.
    pub fn ended(&self, ending: Ending) -> u64 {
        self.ended[ending as usize]
    }

    /// How many ended how, by name.
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
