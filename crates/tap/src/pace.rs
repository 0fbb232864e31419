//! How many queries the hottest are estimated from.
use crate::limits::{HOT_SAMPLES, ONE_IN_MAX, PACE_WINDOW};
use std::time::Duration;

/// One query in so many: as settings say, and fewer where that would be more samples a second than
/// an estimate gains from.
pub struct Pace {
    /// What settings say; 0: none.
    least: u32,
    one_in: u32,
    /// When what is counted began to be.
    since: Duration,
    queries: u64,
}

impl Pace {
    /// As the settings say, from now on.
    pub fn new(least: u32, now: Duration) -> Self {
        Self { least, one_in: least, since: now, queries: 0 }
    }

    /// One query in so many is wanted; 0: none.
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Counts queries that were asked, or stood for by a sample.
    pub fn count(&mut self, queries: u32) {
        self.queries += u64::from(queries);
    }

    /// Tells, once a window, whether more or fewer are wanted from now on.
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

    /// What is wanted once so many have been asked in each of some seconds.
    fn wanted(pace: &mut Pace, a_second: u32, now: &mut Duration) -> u32 {
        for _ in 0..3 {
            pace.count(a_second);
            *now += Duration::from_secs(1);
            pace.turn(*now);
        }
        pace.one_in()
    }

    #[test]
    fn the_more_is_asked_the_smaller_a_part_is_enough() {
        let mut now = Duration::ZERO;
        let mut pace = Pace::new(64, now);
        let asked = [10, 60_000, 300_000, 1_000_000, u32::MAX, 0];
        let wanted = asked.map(|a_second| wanted(&mut pace, a_second, &mut now));
        assert_eq!(wanted, [64, 64, 512, 1_024, 524_288, 64]);
    }

    #[test]
    fn it_turns_once_a_window_and_only_where_something_is_wanted() {
        let mut pace = Pace::new(1, Duration::ZERO);
        pace.count(1_000_000);
        assert!(!pace.turn(PACE_WINDOW / 2), "too soon to tell");
        assert!(pace.turn(PACE_WINDOW));
        assert!(!Pace::new(0, Duration::ZERO).turn(PACE_WINDOW));
    }
}
