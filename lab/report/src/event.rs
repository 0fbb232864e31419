//! An event under load: how long answers fail, and when its change is seen.

use lab::verdict::thousands;
use serde::{Deserialize, Serialize};

/// An event, raw data first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRecord {
    /// The event, such as `reload`.
    pub name: String,
    /// The command that makes it happen.
    pub command: String,
    /// Queries a second.
    pub rate: f64,
    /// Seconds of the load.
    pub seconds: f64,
    /// When the command began, seconds since the load began.
    pub at_s: f64,
    /// How long the command took, seconds.
    pub took_s: f64,
    /// The watched name, and the answer that is right where one was given.
    pub watch: Option<String>,
    /// Seconds from the begin of the command to the first right answer; none: there was none.
    pub staleness_s: Option<f64>,
    /// Intervals of the load, in their order.
    pub intervals: Vec<EventInterval>,
    /// Numbers that follow from the intervals.
    pub result: EventResult,
}

/// An interval of the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventInterval {
    /// Its end, seconds since the load began.
    pub until_s: f64,
    /// Right answers in it.
    pub answered: u64,
    /// Queries whose timeout, or wrong answer, was in it.
    pub failed: u64,
}

/// Numbers of an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventResult {
    /// Seconds of the intervals with errors.
    pub errors_s: f64,
    /// The longest time without any answer, seconds.
    pub gap_s: f64,
    /// Queries without a right answer.
    pub failed: u64,
}

impl EventResult {
    /// That of intervals within a load of this length; answers after its end do not count.
    pub fn of(intervals: &[EventInterval], seconds: f64) -> Self {
        let (mut errors_s, mut gap_s, mut since_s, mut begin_s) = (0.0, 0.0f64, 0.0, 0.0);
        for interval in intervals.iter().filter(|interval| interval.until_s <= seconds) {
            if interval.failed > 0 {
                errors_s += interval.until_s - begin_s;
            }
            if interval.answered > 0 {
                gap_s = gap_s.max(begin_s - since_s);
                since_s = interval.until_s;
            }
            begin_s = interval.until_s;
        }
        let failed = intervals.iter().map(|interval| interval.failed).sum();
        Self { errors_s, gap_s: gap_s.max(seconds - since_s), failed }
    }
}

impl EventRecord {
    /// The contradictions in it.
    pub fn error(&self) -> Option<String> {
        let in_order = self.intervals.windows(2).all(|two| two[0].until_s < two[1].until_s);
        match in_order && self.result == EventResult::of(&self.intervals, self.seconds) {
            true => None,
            false => Some("event: its numbers do not follow from its intervals".into()),
        }
    }

    /// The result in a sentence.
    pub fn sentence(&self) -> String {
        let staleness = match (&self.watch, self.staleness_s) {
            (None, _) => String::new(),
            (Some(name), Some(time)) => format!("; {name} was right after {:.0} ms", time * 1e3),
            (Some(name), None) => {
                format!("; {name} was not right within {:.0} s", self.seconds - self.at_s)
            }
        };
        let EventResult { errors_s, gap_s, failed } = self.result;
        format!(
            "event {} at {} queries/s: its command took {:.0} ms; {errors_s:.2} s with errors, {} \
             queries failed, the longest time without an answer {:.0} ms{staleness}",
            self.name,
            thousands(self.rate.round() as u64),
            self.took_s * 1e3,
            thousands(failed),
            gap_s * 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_gaps_are_measured_in_time() {
        let interval = |number: u32| {
            let (answered, failed) = match number {
                10..=14 => (0, 5),
                20 => (3, 2),
                _ => (5, 0),
            };
            EventInterval { until_s: f64::from(number) * 0.1, answered, failed }
        };
        let all: Vec<_> = (1..=50).map(interval).collect();
        let EventResult { errors_s, gap_s, failed } = EventResult::of(&all, 5.0);
        assert!((errors_s - 0.6).abs() < 1e-9 && (gap_s - 0.5).abs() < 1e-9, "{errors_s} {gap_s}");
        assert_eq!(failed, 27);
        let gap_s = EventResult::of(&all[..9], 5.0).gap_s;
        assert!((gap_s - 4.1).abs() < 1e-9, "no answer until the end: {gap_s}");
    }
}
