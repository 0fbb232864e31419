//! Timing one cache line between pairs of CPUs.
//!
//! The writer stores a number, the reader sees it and stores its answer into the same line, which
//! the reader has allocated on its own NUMA node. Half of the round trip is the time of one way.
use crate::types::{Relation, Topology};
use cpu::CpuList;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips in one sample.
const ROUNDS: u64 = 64;

/// Time that one direction of a pair may take; the samples made until then count.
const PAIR_TIME_MAX: Duration = Duration::from_secs(2);

/// Tells the reader to end.
const STOP: u64 = u64::MAX;

/// Two lines, because hardware prefetches the neighbor.
#[repr(align(128))]
struct Line(AtomicU64);

/// What was measured between two CPUs, one way, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The CPU that writes first.
    pub writer: usize,
    /// The CPU that reads, on whose node the memory is.
    pub reader: usize,
    /// What they share, as the kernel says.
    pub relation: Relation,
    /// Samples that were made, each the mean of 64 round trips.
    pub samples: usize,
    /// The least.
    pub min_ns: f64,
    /// Half of the samples are below.
    pub median_ns: f64,
    /// 99 % of the samples are below.
    pub p99_ns: f64,
}

/// A pair that the measurement would put into another class than the kernel does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    /// One CPU.
    pub writer: usize,
    /// The other.
    pub reader: usize,
    /// What the kernel says.
    pub told: Relation,
    /// The class whose median is closest.
    pub measured: Relation,
    /// The pair's median, in nanoseconds.
    pub median_ns: f64,
    /// The median of the class that the kernel names, in nanoseconds.
    pub class_ns: f64,
}

/// Measures both directions of every pair of `cpus`, one after the other. `progress` is called
/// with the pairs done and their total.
///
/// # Errors
/// A CPU cannot be used by this process, or a thread cannot be started.
pub fn measure(
    topology: &Topology,
    cpus: &CpuList,
    samples: usize,
    mut progress: impl FnMut(usize, usize),
) -> io::Result<Vec<Pair>> {
    let total = cpus.len() * cpus.len().saturating_sub(1);
    let mut pairs = Vec::with_capacity(total);
    for writer in cpus.iter() {
        for reader in cpus.iter().filter(|&reader| reader != writer) {
            let Some(relation) = topology.relation(writer, reader) else {
                let what = format!("CPU {writer} or CPU {reader} is not online");
                return Err(io::Error::other(what));
            };
            let mut times = time_pair(writer, reader, samples.max(1))?;
            times.sort_by(f64::total_cmp);
            let at = |share: f64| {
                let index = (times.len() as f64 * share).ceil() as usize;
                times.get(index.saturating_sub(1)).copied().unwrap_or_default()
            };
            let (samples, min_ns) = (times.len(), at(0.0));
            let (median_ns, p99_ns) = (at(0.5), at(0.99));
            pairs.push(Pair { writer, reader, relation, samples, min_ns, median_ns, p99_ns });
            progress(pairs.len(), total);
        }
    }
    Ok(pairs)
}

/// The time of one way in nanoseconds, once a sample.
fn time_pair(writer: usize, reader: usize, samples: usize) -> io::Result<Vec<f64>> {
    let (give, taken) = channel();
    let answering = thread::Builder::new()
        .name("measure-reader".into())
        .spawn(move || answer(reader, &give))?;
    let asking = thread::Builder::new().name("measure-writer".into()).spawn(move || {
        let line: Arc<Line> = match taken.recv() {
            Ok(line) => line?,
            Err(_) => return Err(io::Error::other("the reading thread ended")),
        };
        let times = cpu::pin(writer).map(|()| time_line(&line, samples));
        line.0.store(STOP, Release);
        times
    })?;
    let times = asking.join().map_err(|_| io::Error::other("the writing thread panicked"))?;
    answering.join().map_err(|_| io::Error::other("the reading thread panicked"))?;
    let told = |error| io::Error::other(format!("cannot time CPU {writer} to {reader}: {error}"));
    times.map_err(told)
}

/// Answers each odd number with the even one after it.
fn answer(cpu: usize, give: &Sender<io::Result<Arc<Line>>>) {
    if let Err(error) = cpu::pin(cpu) {
        // The channel has no receiver when the writer could not be started.
        drop(give.send(Err(error)));
        return;
    }
    let line = Arc::new(Line(AtomicU64::new(0)));
    if give.send(Ok(Arc::clone(&line))).is_err() {
        return;
    }
    loop {
        match line.0.load(Acquire) {
            STOP => return,
            number if number % 2 == 1 => line.0.store(number + 1, Release),
            _ => std::hint::spin_loop(),
        }
    }
}

fn time_line(line: &Line, samples: usize) -> Vec<f64> {
    let begin = Instant::now();
    let mut times = Vec::with_capacity(samples);
    let mut number = 0;
    // The first sample warms up.
    for sample in 0..=samples {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            line.0.store(number + 1, Release);
            number += 2;
            while line.0.load(Acquire) != number {
                std::hint::spin_loop();
            }
        }
        let one_way_ns = start.elapsed().as_nanos() as f64 / (ROUNDS * 2) as f64;
        if sample > 0 {
            times.push(one_way_ns);
        }
        if begin.elapsed() > PAIR_TIME_MAX && !times.is_empty() {
            break;
        }
    }
    times
}

/// The median of the pairs' medians of each class that is present, in nanoseconds.
pub fn class_medians(pairs: &[Pair]) -> BTreeMap<Relation, f64> {
    let mut classes: BTreeMap<Relation, Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        classes.entry(pair.relation).or_default().push(pair.median_ns);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    classes.into_iter().map(|(class, times)| (class, median(times))).collect()
}

/// Pairs whose time is closer to another class, and off their own by more than a quarter.
pub fn disagreements(pairs: &[Pair]) -> Vec<Disagreement> {
    let classes = class_medians(pairs);
    let off = |time: f64, class: f64| (time.max(1.0) / class.max(1.0)).ln().abs();
    let disagrees = |pair: &Pair| {
        let class_ns = *classes.get(&pair.relation)?;
        let own = off(pair.median_ns, class_ns);
        let (measured, least) = classes
            .iter()
            .map(|(class, time)| (*class, off(pair.median_ns, *time)))
            .min_by(|a, b| a.1.total_cmp(&b.1))?;
        let is_other = measured != pair.relation && own > 1.25_f64.ln() && least < own;
        is_other.then_some(Disagreement {
            writer: pair.writer,
            reader: pair.reader,
            told: pair.relation,
            measured,
            median_ns: pair.median_ns,
            class_ns,
        })
    };
    pairs.iter().filter_map(disagrees).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_both_ways_between_two_cpus() {
        let topology = crate::read().expect("this machine");
        let cpus: CpuList = cpu::allowed().expect("CPUs").iter().take(2).collect();
        let mut last = (0, 0);
        let pairs =
            measure(&topology, &cpus, 3, |done, total| last = (done, total)).expect("pairs");
        assert_eq!(pairs.len(), cpus.len() * (cpus.len() - 1));
        assert_eq!(last, (pairs.len(), pairs.len()));
        for pair in &pairs {
            assert!(pair.samples >= 1 && pair.min_ns > 0.0, "{pair:?}");
            assert!(pair.min_ns <= pair.median_ns && pair.median_ns <= pair.p99_ns, "{pair:?}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_online_is_an_error() {
        let topology = crate::read().expect("this machine");
        let cpus = CpuList::from_iter([0, cpu::limits::CPUS_MAX - 1]);
        assert!(measure(&topology, &cpus, 1, |_, _| ()).is_err());
        assert!(time_pair(0, cpu::limits::CPUS_MAX - 1, 1).is_err());
    }

    #[test]
    fn a_pair_that_is_as_slow_as_another_class_disagrees() {
        let pair = |writer, reader, relation, median_ns| Pair {
            writer,
            reader,
            relation,
            samples: 1,
            min_ns: median_ns,
            median_ns,
            p99_ns: median_ns,
        };
        let near = Relation::SameL3;
        let far = Relation::OtherSocket;
        let mut pairs =
            vec![pair(0, 1, near, 40.0), pair(1, 0, near, 42.0), pair(0, 2, near, 44.0)];
        pairs.extend([pair(0, 4, far, 200.0), pair(4, 0, far, 210.0)]);
        assert_eq!(disagreements(&pairs), []);
        pairs.push(pair(1, 2, near, 190.0));
        let found = disagreements(&pairs);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].writer, found[0].reader, found[0].measured), (1, 2, far));
    }
}
