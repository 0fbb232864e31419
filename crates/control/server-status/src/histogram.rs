//! Histograms of durations.
use serde::{Deserialize, Serialize};

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusHistogram {
    /// Upper bounds of the buckets, in seconds, ascending; the last bucket has none.
    pub bounds_seconds: Vec<f64>,
    /// Counts of the buckets: one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all durations.
    pub sum_seconds: f64,
}

impl StatusHistogram {
    /// Adds a histogram with the same bounds; an empty one becomes a copy.
    pub fn add(&mut self, other: &Self) {
        if self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_seconds += other.sum_seconds;
    }

    /// The difference from an earlier state.
    pub fn since(&self, earlier: &Self) -> Self {
        if earlier.counts.len() != self.counts.len() {
            return self.clone();
        }
        let pairs = self.counts.iter().zip(&earlier.counts);
        Self {
            bounds_seconds: self.bounds_seconds.clone(),
            counts: pairs.map(|(now, before)| now.saturating_sub(*before)).collect(),
            sum_seconds: (self.sum_seconds - earlier.sum_seconds).max(0.0),
        }
    }

    /// The upper bound of the bucket with this quantile, 0 to 1. Infinity for the last bucket;
    /// `None` without counts.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        let wanted = ((share * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(self.bounds_seconds.get(index).copied().unwrap_or(f64::INFINITY));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: [u64; 3]) -> StatusHistogram {
        StatusHistogram { bounds_seconds: vec![0.1, 0.2], counts: counts.into(), sum_seconds: 1.0 }
    }

    #[test]
    fn quantiles_are_upper_ends_of_buckets() {
        assert_eq!(histogram([90, 9, 1]).quantile(0.9), Some(0.1));
        assert_eq!(histogram([90, 9, 1]).quantile(0.99), Some(0.2));
        assert_eq!(histogram([90, 9, 1]).quantile(1.0), Some(f64::INFINITY));
        assert_eq!(histogram([0, 0, 0]).quantile(0.5), None);
    }

    #[test]
    fn histograms_add_up() {
        let mut sum = StatusHistogram::default();
        sum.add(&histogram([1, 2, 3]));
        sum.add(&histogram([1, 0, 1]));
        assert_eq!((sum.counts, sum.sum_seconds), (vec![2, 2, 4], 2.0));
    }

    #[test]
    fn counts_since_an_earlier_state() {
        let later = histogram([90, 9, 1]).since(&histogram([80, 9, 0]));
        assert_eq!((later.counts, later.sum_seconds), (vec![10, 0, 1], 0.0));
        let first = histogram([1, 2, 3]).since(&StatusHistogram::default());
        assert_eq!(first, histogram([1, 2, 3]), "nothing was there before");
    }
}
