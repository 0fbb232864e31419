//! A long run at one rate: gaps, the worst second, and whether memory grows.
use lab::observer::Endpoints;
use lab::record::{RunRecord, record};
use lab_load::Options;
use lab_report::study::interval_rates;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at the server's memory.
const LOOK: Duration = Duration::from_secs(1);

/// Runs it; with its result in lines.
///
/// # Errors
/// The load cannot be run.
pub fn run(
    options: &Options,
    pids: &[u32],
    stop: &AtomicBool,
) -> Result<(RunRecord, String), String> {
    // Of a long soak, the intervals of a record are longer than a second.
    let most = lab::limits::INTERVALS_MAX as u64;
    let interval_ns = options.interval_ns.max(options.length_ns.div_ceil(most));
    let options = Options { interval_ns, ..options.clone() };
    let pids_of = Endpoints::find(&options, pids)?.server_pids().to_vec();
    let over = &AtomicBool::new(false);
    let (run, memory) = std::thread::scope(|scope| {
        let watch = scope.spawn(move || watch(&pids_of, over));
        let run = record("soak", BTreeMap::new(), &options, pids, stop);
        over.store(true, Ordering::Relaxed);
        (run, watch.join().unwrap_or_default())
    });
    let run = run?;
    let lines = lines(&run, &memory);
    Ok((run, lines))
}

/// Seconds since the begin, and resident bytes of the processes.
fn watch(pids: &[u32], over: &AtomicBool) -> Vec<(f64, f64)> {
    let begun = Instant::now();
    let mut seen = Vec::new();
    while !over.load(Ordering::Relaxed) && !pids.is_empty() {
        let pages = |pid: &u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
            text.split(' ').nth(1)?.parse::<f64>().ok()
        };
        let bytes: f64 =
            pids.iter().filter_map(pages).sum::<f64>() * rustix::param::page_size() as f64;
        seen.push((begun.elapsed().as_secs_f64(), bytes));
        std::thread::sleep(LOOK);
    }
    seen
}

/// Bytes a second, by the line with the least squares; none for fewer than three looks.
fn slope(seen: &[(f64, f64)]) -> Option<f64> {
    let count = seen.len() as f64;
    let (x, y) = seen.iter().fold((0.0, 0.0), |sum, (x, y)| (sum.0 + x / count, sum.1 + y / count));
    let spread: f64 = seen.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = seen.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (seen.len() >= 3 && spread > 0.0).then_some(both / spread)
}

fn lines(run: &RunRecord, memory: &[(f64, f64)]) -> String {
    let worst = interval_rates(run).fold(f64::INFINITY, f64::min);
    let planned = run.rate.unwrap_or(0.0);
    let gaps = interval_rates(run).filter(|rate| *rate < planned * 0.99).count();
    let memory = match (slope(memory), memory.last()) {
        (Some(slope), Some((_, bytes))) => {
            let (mib, kib) = (bytes / f64::from(1 << 20), slope * 60.0 / 1_024.0);
            format!("memory {mib:.1} MiB, {kib:+.1} KiB a minute")
        }
        _ => "memory unknown".into(),
    };
    format!(
        "soak: {:.0} answers/s over {} s at {planned:.0} queries/s; worst interval {worst:.0}; \
         {gaps} of {} intervals below 99 %; {memory}\n",
        run.derived.answered_rate,
        run.seconds,
        run.intervals.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_of_memory_is_its_slope() {
        let grows: Vec<_> = (0..60).map(|s| (f64::from(s), 1e6 + 500.0 * f64::from(s))).collect();
        assert!((slope(&grows).unwrap() - 500.0).abs() < 1e-6);
        assert_eq!(slope(&grows[..2]), None);
        assert_eq!(slope(&[]), None);
    }
}
