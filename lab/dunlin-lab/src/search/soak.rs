//! A long run at one rate, and the memory of the server meanwhile.
use lab::observer::Endpoints;
use lab::record::{RunRecord, record};
use lab_load::Options;
use lab_report::soak::MemorySample;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two samples of the server's memory.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// An interval of the load: the worst second is among them.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Intervals that keep their histograms; those of more fill a megabyte.
const HISTOGRAMS_MAX: usize = 120;

/// Runs it.
///
/// # Errors
/// The load cannot be run.
pub fn run(
    options: &Options,
    pids: &[u32],
    stop: &AtomicBool,
) -> Result<(RunRecord, Vec<MemorySample>), String> {
    // Of a very long soak, intervals are longer than a second.
    let most = lab::limits::INTERVALS_MAX as u64;
    let longest_ns = INTERVAL_NS.max(options.length_ns.div_ceil(most));
    // A soak of a second or less has a few intervals, too.
    let interval_ns = longest_ns.min(options.length_ns.div_ceil(4));
    let options = Options { interval_ns, ..options.clone() };
    let pids_of = Endpoints::find(&options, pids)?.server_pids().to_vec();
    let every = SAMPLE_EVERY.max(Duration::from_nanos(interval_ns));
    let over = &AtomicBool::new(false);
    let (run, memory) = std::thread::scope(|scope| {
        let watch = scope.spawn(move || watch(&pids_of, every, over));
        let run = record("soak", BTreeMap::new(), &options, pids, None, stop);
        over.store(true, Ordering::Relaxed);
        (run, watch.join().unwrap_or_default())
    });
    let mut run = run?;
    if run.intervals.len() > HISTOGRAMS_MAX {
        run.intervals.iter_mut().for_each(|interval| interval.response.0.clear());
    }
    Ok((run, memory))
}

fn watch(pids: &[u32], every: Duration, over: &AtomicBool) -> Vec<MemorySample> {
    let begun = Instant::now();
    let mut samples = Vec::new();
    while !over.load(Ordering::Relaxed) && !pids.is_empty() {
        let pages = |pid: &u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
            text.split(' ').nth(1)?.parse::<u64>().ok()
        };
        let bytes = pids.iter().filter_map(pages).sum::<u64>() * rustix::param::page_size() as u64;
        samples.push(MemorySample { at_s: begun.elapsed().as_secs_f64(), bytes });
        let next = every * samples.len() as u32;
        while begun.elapsed() < next && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    samples
}
