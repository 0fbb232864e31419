//! Live output: a line that is redrawn on a terminal.
use super::show::quantile;
use command_line::{percent, rate, span};
use lab_load::{Options, Quantile, Snapshot};
use std::io::{IsTerminal, Write, stderr};

/// Columns of the bar.
const BAR: usize = 20;

/// The line; nothing where standard error is not a terminal.
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
            // Without a live line, the result is still printed.
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
        let lost = seen.counts.timeouts as f64 / seen.counts.sent.max(1) as f64;
        format!(
            "{bar} {left} left  {}/s sent  {}/s answered  p99 {}  lost {}",
            rate(seen.counts.sent as f64 / seconds),
            rate(seen.counts.answered as f64 / seconds),
            quantile(p99),
            percent(lost),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_load::{QueryCounts, Times};

    #[test]
    fn the_live_line_shows_progress() {
        let live = Live { shown: true, length_s: 20.0, count: None, timeout_ns: 5_000_000_000 };
        let mut times = Times::new();
        times.response.record(1_500_000).unwrap();
        let counts =
            QueryCounts { sent: 50_000, answered: 49_500, timeouts: 500, ..QueryCounts::default() };
        let seen = Snapshot {
            began_ns: 0,
            since_ns: 4_000_000_000,
            until_ns: 5_000_000_000,
            counts,
            times,
            whole: counts,
        };
        assert_eq!(
            live.line(&seen),
            "█████░░░░░░░░░░░░░░░ 15 s left  50,000/s sent  49,500/s answered  p99 1.5 ms  \
             lost 1.0 %"
        );
    }
}
