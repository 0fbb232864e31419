//! What a load shows while it runs: a line that renews itself on a terminal.
use super::show::quantile;
use crate::human::{percent, rate, span};
use lab_load::{Options, Quantile, Snapshot};
use std::io::{IsTerminal, Write, stderr};

/// Columns of the bar.
const BAR: usize = 20;

/// The line; nothing where standard error is no terminal.
pub struct Live {
    shown: bool,
    length_s: f64,
    count: Option<u64>,
    timeout_ns: u64,
}

impl Live {
    pub fn new(options: &Options, is_wanted: bool) -> Self {
        Self {
            shown: is_wanted && stderr().is_terminal(),
            length_s: options.length_ns as f64 / 1e9,
            count: options.queries_max,
            timeout_ns: options.timeout_ns,
        }
    }

    /// Shows an interval.
    pub fn show(&mut self, seen: &Snapshot) {
        if self.shown {
            // Who cannot be shown anything can still be told the end.
            let _ = write!(stderr(), "\r\x1b[K{}", self.line(seen));
        }
    }

    /// Leaves the line to what comes.
    pub fn end(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }

    /// How far it is, 0 to 1: by time, or by count where that is further.
    fn done(&self, seen: &Snapshot) -> f64 {
        let by_time = seen.until_ns as f64 / 1e9 / self.length_s;
        let count = self.count.map_or(0.0, |count| seen.whole.planned as f64 / count.max(1) as f64);
        by_time.max(count).clamp(0.0, 1.0)
    }

    fn line(&self, seen: &Snapshot) -> String {
        let seconds = (seen.until_ns.saturating_sub(seen.since_ns)).max(1) as f64 / 1e9;
        let (done, now) = (self.done(seen), seen.until_ns as f64 / 1e9);
        let full = (done * BAR as f64) as usize;
        let bar = "█".repeat(full) + &"░".repeat(BAR - full);
        let left = if done > 0.0 { span((now / done - now).ceil()) } else { "?".into() };
        let p99 = Quantile::of(&seen.times.response, 0.99, self.timeout_ns);
        let lost = seen.tally.timeouts as f64 / seen.tally.sent.max(1) as f64;
        format!(
            "{bar} {left} left  {}/s sent  {}/s answered  p99 {}  lost {}",
            rate(seen.tally.sent as f64 / seconds),
            rate(seen.tally.answered as f64 / seconds),
            quantile(p99),
            percent(lost),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_load::{Tally, Times};

    #[test]
    fn a_line_says_how_far_it_is() {
        let live = Live { shown: true, length_s: 20.0, count: None, timeout_ns: 5_000_000_000 };
        let mut times = Times::new();
        times.response.record(1_500_000).unwrap();
        let tally = Tally { sent: 50_000, answered: 49_500, timeouts: 500, ..Tally::default() };
        let seen = Snapshot {
            began_ns: 0,
            since_ns: 4_000_000_000,
            until_ns: 5_000_000_000,
            tally,
            times,
            whole: tally,
        };
        assert_eq!(
            live.line(&seen),
            "█████░░░░░░░░░░░░░░░ 15 s left  50,000/s sent  49,500/s answered  p99 1.5 ms  \
             lost 1.0 %"
        );
    }
}
