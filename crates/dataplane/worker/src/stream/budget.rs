//! The buffer budget of the connections of one thread.

use super::client_shares::{ClientIdentity, Shares};
use super::ending::{ConnectionCounters, RETURNED, TAKEN};
use crate::limits::CONNECTION_BYTES_MAX;
use std::time::Duration;

/// A thread's share of the budget. It is never exceeded, not even between the growth of a buffer
/// and the check: room for the largest connection is reserved.
#[derive(Debug)]
pub struct Budget {
    shares: Shares,
    bytes_max: usize,
}

impl Budget {
    /// A budget in bytes, at least twice [`CONNECTION_BYTES_MAX`].
    pub fn new(bytes: usize) -> Self {
        Self { shares: Shares::default(), bytes_max: bytes - CONNECTION_BYTES_MAX }
    }

    /// Reports that a connection's buffers changed from `before` to `after` bytes, and when its
    /// current state began.
    pub fn change(
        &mut self,
        (id, client): (u64, ClientIdentity),
        (before, after): (usize, usize),
        since: Duration,
        counters: &mut ConnectionCounters,
    ) {
        if after == 0 {
            return self.forget(id, before, counters);
        }
        self.shares.put(id, client, after, since);
        let taken = after.saturating_sub(before);
        counters.add(TAKEN, taken as u64);
        counters.add(RETURNED, (taken + before - after) as u64);
    }

    /// Reports that a connection with `held` bytes is gone.
    pub fn forget(&mut self, id: u64, held: usize, counters: &mut ConnectionCounters) {
        self.shares.take(id);
        counters.add(RETURNED, held as u64);
    }

    /// The connection to close if the budget is used up: of the client with the largest buffers,
    /// the one stuck longest.
    pub fn loser(&self) -> Option<u64> {
        if self.shares.weight() <= self.bytes_max {
            return None;
        }
        self.shares.oldest_of(self.shares.heaviest()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use sync::Counters;

    #[test]
    fn who_holds_most_loses_and_not_who_asks_last() {
        let [big, small] = [1, 2].map(|n| ClientIdentity::at(IpAddr::from([192, 0, 2, n])));
        let mut counters = Counters::new();
        let mut budget = Budget::new(2 * CONNECTION_BYTES_MAX);
        let mut hold = |budget: &mut Budget, id, client, before, after| {
            budget.change((id, client), (before, after), Duration::from_secs(id), &mut counters);
        };
        let third = CONNECTION_BYTES_MAX / 3;
        hold(&mut budget, 1, small, 0, third);
        hold(&mut budget, 2, big, 0, third);
        hold(&mut budget, 3, big, 0, third);
        assert_eq!(budget.loser(), None, "just full");
        hold(&mut budget, 4, small, 0, third / 2);
        assert_eq!(budget.loser(), Some(2), "the older one of the client with most");
        hold(&mut budget, 2, big, third, 0);
        assert_eq!(budget.loser(), None);
        let held = 2 * third + third / 2;
        let counts = counters.view().read();
        assert_eq!(counts[TAKEN] - counts[RETURNED], held as u64);
    }
}
