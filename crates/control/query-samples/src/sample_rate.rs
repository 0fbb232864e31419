//! The sampling rate for the most frequent names and clients.
use crate::limits::{HOT_SAMPLES, PACE_WINDOW};
use std::time::Duration;
use tap::limits::ONE_IN_MAX;

/// The configured rate, reduced under load to what an estimate needs.
pub struct SampleRate {
    /// The configured rate; 0: none.
    least: u32,
    one_in: u32,
    /// The start of the counting window.
    since: Duration,
    queries: u64,
}

impl SampleRate {
    /// Starts with the configured rate.
    pub fn new(least: u32, now: Duration) -> Self {
        Self { least, one_in: least, since: now, queries: 0 }
    }

    /// Sample one in this many queries; 0: none.
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Counts queries, or the queries that a sample represents.
    pub fn count(&mut self, queries: u32) {
        self.queries += u64::from(queries);
    }

    /// Adapts the rate once a window; returns whether it changed.
    pub fn turn(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.since);
        if self.least == 0 || passed < PACE_WINDOW {
            return false;
        }
        let rate = self.queries as f64 / passed.as_secs_f64();
        let enough = (rate / f64::from(HOT_SAMPLES)) as u32;
        let before = self.one_in;
        let one_in = enough.min(ONE_IN_MAX / 2).next_power_of_two().max(self.least);
        *self = Self { one_in, ..Self::new(self.least, now) };
        one_in != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate after some seconds with this load.
    fn wanted(pace: &mut SampleRate, a_second: u32, now: &mut Duration) -> u32 {
        for _ in 0..3 {
            pace.count(a_second);
            *now += Duration::from_secs(1);
            pace.turn(*now);
        }
        pace.one_in()
    }

    #[test]
    fn higher_load_lowers_the_rate() {
        let mut now = Duration::ZERO;
        let mut pace = SampleRate::new(64, now);
        let asked = [10, 60_000, 300_000, 1_000_000, u32::MAX, 0];
        let wanted = asked.map(|a_second| wanted(&mut pace, a_second, &mut now));
        assert_eq!(wanted, [64, 64, 512, 1_024, 524_288, 64]);
    }

    #[test]
    fn rate_changes_once_a_window_and_only_if_needed() {
        let mut pace = SampleRate::new(1, Duration::ZERO);
        pace.count(1_000_000);
        assert!(!pace.turn(PACE_WINDOW / 2), "too soon to tell");
        assert!(pace.turn(PACE_WINDOW));
        assert!(!SampleRate::new(0, Duration::ZERO).turn(PACE_WINDOW));
    }
}
