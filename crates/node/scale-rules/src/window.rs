//! The extreme of the last minutes, in bounded memory.
use crate::limits::WINDOW_SAMPLES_MAX;
use std::collections::VecDeque;

/// The maximum over the last `length_s` seconds. A sample holds until the next one.
#[derive(Clone, Debug)]
pub struct Peak {
    length_s: f64,
    /// Until when, and a value. Values fall, so the first is the maximum.
    samples: VecDeque<(f64, f64)>,
}

impl Peak {
    /// An empty window of this many seconds.
    pub const fn new(length_s: f64) -> Self {
        Self { length_s, samples: VecDeque::new() }
    }

    /// Adds a sample and returns the maximum with it. Samples that are not finite are left out.
    pub fn push(&mut self, time_s: f64, value: f64) -> f64 {
        if value.is_finite() {
            if let Some((until, _)) = self.samples.back_mut() {
                *until = time_s;
            }
            while self.samples.back().is_some_and(|(_, last)| *last <= value) {
                self.samples.pop_back();
            }
            if self.samples.len() < WINDOW_SAMPLES_MAX {
                self.samples.push_back((time_s, value));
            }
            // Full: the newest, which is larger, stands for this one too.
        }
        self.max(time_s)
    }

    /// The maximum of what is still in the window; 0 if that is empty.
    pub fn max(&mut self, time_s: f64) -> f64 {
        while self.samples.front().is_some_and(|(until, _)| time_s - until > self.length_s) {
            self.samples.pop_front();
        }
        self.samples.front().map_or(0.0, |(_, value)| *value)
    }
}

/// The minimum over the last `length_s` seconds. A sample holds until the next one.
#[derive(Clone, Debug)]
pub struct Trough(Peak);

impl Trough {
    /// An empty window of this many seconds.
    pub const fn new(length_s: f64) -> Self {
        Self(Peak::new(length_s))
    }

    /// Adds a sample and returns the minimum with it.
    pub fn push(&mut self, time_s: f64, value: f64) -> f64 {
        -self.0.push(time_s, -value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_that_of_the_window() {
        let mut peak = Peak::new(600.0);
        let samples = [(0.0, 5.0), (10.0, 9.0), (20.0, 1.0), (620.0, 2.0), (621.0, 0.0)];
        let peaks = samples.map(|(time, value)| peak.push(time, value));
        assert_eq!(peaks, [5.0, 9.0, 9.0, 9.0, 2.0]);
        assert_eq!(peak.push(612.0, f64::NAN), 2.0);
        assert_eq!(peak.max(5_000.0), 0.0);
    }

    #[test]
    fn trough_is_that_of_the_window() {
        let mut trough = Trough::new(10.0);
        assert_eq!(
            [(0.0, 3.0), (5.0, 7.0), (15.0, 8.0), (16.0, 8.0)].map(|(t, v)| trough.push(t, v)),
            [3.0, 3.0, 3.0, 7.0]
        );
    }

    #[test]
    fn window_of_falling_samples_is_bounded() {
        let mut peak = Peak::new(1e9);
        for index in 0..100_000 {
            peak.push(f64::from(index), -f64::from(index));
        }
        assert_eq!((peak.samples.len(), peak.max(100_000.0)), (WINDOW_SAMPLES_MAX, 0.0));
    }
}
