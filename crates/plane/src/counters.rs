//! What every thread of the plane counts.

use door::{Counters, CountersView};
use packet::Drop;
use port::Burst;

/// Counters of one thread: bursts, received, replied, and one for each [`Drop`].
pub const COUNTERS: usize = FIRST_DROP + Drop::COUNT;
const BURSTS: usize = 0;
const RECEIVED: usize = 1;
const REPLIED: usize = 2;
const FIRST_DROP: usize = 3;

/// Counts a burst that was not empty.
pub fn count(counters: &mut Counters<COUNTERS>, burst: &Burst) {
    counters.add(BURSTS, 1);
    counters.add(RECEIVED, burst.received as u64);
    counters.add(REPLIED, burst.replied as u64);
    for (reason, &n) in burst.dropped.iter().enumerate() {
        if n > 0 {
            counters.add(FIRST_DROP + reason, n as u64);
        }
    }
}

/// What one thread, or several together, has done. Every message is counted once:
/// `received` = `replied` + all of `dropped`, once the thread is between two bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bursts that were not empty; `received / bursts` tells how loaded a worker is.
    pub bursts: u64,
    /// Messages received.
    pub received: u64,
    /// Replies sent.
    pub replied: u64,
    /// Messages not answered, by reason ([`Drop`] is the index).
    pub dropped: [u64; Drop::COUNT],
}

impl Totals {
    /// The sums over the threads that `views` belong to.
    pub fn sum<'a>(views: impl IntoIterator<Item = &'a CountersView<COUNTERS>>) -> Self {
        let sums = CountersView::sum(views);
        Self {
            bursts: sums[BURSTS],
            received: sums[RECEIVED],
            replied: sums[REPLIED],
            dropped: std::array::from_fn(|reason| sums[FIRST_DROP + reason]),
        }
    }
}
