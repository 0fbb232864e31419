//! What is computed of several measurements.
use crate::limits::{SIZES_MAX, TREND_MIN};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use store_etcd::EtcdSpace;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// What was measured of a site.
#[derive(Default)]
pub struct Measurements {
    /// Bytes that had come, and when that was measured.
    bytes: Option<(Instant, u64)>,
    pub bytes_per_second: f64,
    /// Sizes of its etcd, in the order of time.
    sizes: VecDeque<(Instant, u64)>,
    pub space: Option<EtcdSpace>,
}

impl Measurements {
    /// So many bytes have come.
    pub fn count(&mut self, now: Instant, bytes: u64) {
        if let Some((when, before)) = self.bytes.replace((now, bytes)) {
            let seconds = now.saturating_duration_since(when).as_secs_f64();
            self.bytes_per_second = bytes.saturating_sub(before) as f64 / seconds.max(0.001);
        }
    }

    /// Its etcd is so large; `None`: it does not answer.
    pub fn measure(&mut self, now: Instant, space: Option<EtcdSpace>) {
        let Some(space) = space else { return };
        self.space = Some(space);
        if self.sizes.len() == SIZES_MAX {
            self.sizes.pop_front();
        }
        self.sizes.push_back((now, space.bytes));
    }

    /// How long until its etcd has reached this quota if it goes on growing; `None`: it does not
    /// grow, or that is not known yet.
    pub fn days_until_full(&self, quota: u64) -> Option<f64> {
        let ((first, before), (last, now)) = (*self.sizes.front()?, *self.sizes.back()?);
        let time = last.saturating_duration_since(first);
        if time < TREND_MIN || now <= before {
            return None;
        }
        let seconds = quota.saturating_sub(now) as f64 / per_second(now - before, time);
        Some(seconds / DAY)
    }
}

fn per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_until_an_etcd_is_full_follow_its_growth() {
        let (mut site, begin) = (Measurements::default(), Instant::now());
        let space = |bytes| Some(EtcdSpace { bytes, quota: None });
        site.measure(begin, space(1_000));
        assert_eq!(site.days_until_full(10_000), None, "one measurement shows no growth");
        site.measure(begin + Duration::from_secs(60), space(2_000));
        assert_eq!(site.days_until_full(10_000), None, "a minute shows no trend");
        site.measure(begin + Duration::from_secs(86_400), None);
        site.measure(begin + Duration::from_secs(86_400), space(4_000));
        assert_eq!(site.days_until_full(10_000), Some(2.0));
        assert_eq!(site.days_until_full(3_000), Some(0.0));
        let mut still = Measurements::default();
        (0..3_000).for_each(|minute| {
            still.measure(begin + Duration::from_secs(60 * minute), space(7));
        });
        assert_eq!((still.days_until_full(10), still.sizes.len()), (None, SIZES_MAX));
    }

    #[test]
    fn rate_is_that_of_the_last_two_measurements() {
        let (mut site, begin) = (Measurements::default(), Instant::now());
        for (second, bytes) in [(0, 0), (10, 1_000), (15, 1_500)] {
            site.count(begin + Duration::from_secs(second), bytes);
        }
        assert_eq!(site.bytes_per_second, 100.0);
    }
}
