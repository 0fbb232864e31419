//! Counters: written by one thread, read by any.

use crate::CachePadded;
use crate::sync::{Arc, AtomicU64, Ordering};

/// `N` counters of one owner, in cache lines that no other thread writes.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    block: Arc<CachePadded<[AtomicU64; N]>>,
}

impl<const N: usize> Counters<N> {
    /// Counters with the value 0.
    pub fn new() -> Self {
        Self { block: Arc::new(CachePadded(std::array::from_fn(|_| AtomicU64::new(0)))) }
    }

    /// Adds `n` to the counter at `index`. There is one owner, so a load and a store suffice.
    ///
    /// # Panics
    /// `index` is not below `N`.
    #[inline]
    pub fn add(&mut self, index: usize, n: u64) {
        let counter = &self.block.0[index];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets the counter at `index`, for a gauge.
    ///
    /// # Panics
    /// `index` is not below `N`.
    pub fn set(&mut self, index: usize, n: u64) {
        self.block.0[index].store(n, Ordering::Relaxed);
    }

    /// The reading end.
    pub fn view(&self) -> CountersView<N> {
        CountersView { block: self.block.clone() }
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// The reading end of one owner's counters; it outlives the owner.
#[derive(Clone, Debug)]
pub struct CountersView<const N: usize> {
    block: Arc<CachePadded<[AtomicU64; N]>>,
}

impl<const N: usize> CountersView<N> {
    /// All values. Each is exact, but they are not read in one instant.
    pub fn read(&self) -> [u64; N] {
        std::array::from_fn(|index| self.block.0[index].load(Ordering::Relaxed))
    }

    /// The sums over `views`, counter by counter.
    pub fn sum<'a>(views: impl IntoIterator<Item = &'a Self>) -> [u64; N] {
        let mut sums = [0u64; N];
        for view in views {
            for (sum, n) in sums.iter_mut().zip(view.read()) {
                *sum = sum.wrapping_add(n);
            }
        }
        sums
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sums_over_owners_and_outlives_them() {
        let (mut one, mut two) = (Counters::<3>::new(), Counters::<3>::new());
        one.add(0, 5);
        two.add(0, 7);
        two.add(2, 1);
        two.set(1, 9);
        two.set(1, 4);
        let views = [one.view(), two.view()];
        drop((one, two));
        assert_eq!(CountersView::sum(&views), [12, 4, 1]);
    }

    #[test]
    fn owners_share_no_cache_line() {
        let counters = Counters::<1>::new();
        assert_eq!(size_of_val(&*counters.block), 128);
        assert_eq!(&raw const *counters.block as usize % 128, 0);
    }
}
