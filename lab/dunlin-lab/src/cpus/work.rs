//! The workloads that are measured, and what disturbs them: each a process of its own.
use lab::record::SparseHistogram;
use lab_report::cpus::CpuResult;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, BufRead, Read, Write};
use std::sync::Barrier;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// The work of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Steps in a circle through 512 KiB, which a CPU's own cache holds. A unit is 1,024 steps.
    Cache,
    /// Sums of 128 MiB, which exceed every cache. A unit is a MiB.
    Memory,
    /// Bursts of all threads, four times a second, each of this many steps.
    Burst,
    /// Writes all over 4 MiB until its input ends.
    Stress,
}

/// The work that a process gets.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Its threads.
    pub threads: usize,
    /// How long.
    pub seconds: f64,
    /// Steps of a thread in a burst.
    pub steps: u64,
}

/// Words of the circle: 512 KiB.
const CACHE_WORDS: usize = 64 << 10;

/// Words of memory for each thread: 128 MiB.
const MEMORY_WORDS: usize = 16 << 20;

/// Words in a MiB.
const MIB_WORDS: usize = 128 << 10;

/// Words that stress writes: 4 MiB.
const STRESS_WORDS: usize = 512 << 10;

/// Steps in a unit of the cache-bound kernel.
const UNIT_STEPS: u64 = 1_024;

/// Time between two bursts.
pub const PAUSE: Duration = Duration::from_millis(250);

/// A circle through all words, whose next step no prefetcher knows. The stride is odd, so the
/// circle has them all.
fn circle() -> Vec<u32> {
    let next = |word: usize| (word.wrapping_mul(5).wrapping_add(12_345) % CACHE_WORDS) as u32;
    (0..CACHE_WORDS).map(next).collect()
}

/// Steps in the circle from a word; the word that was reached.
fn walk(circle: &[u32], mut at: u32, steps: u64) -> u32 {
    for _ in 0..steps {
        at = circle[at as usize];
    }
    black_box(at)
}

fn cache(seconds: f64) -> u64 {
    let (circle, begin) = (circle(), Instant::now());
    let (mut units, mut at) = (0, 0);
    while begin.elapsed().as_secs_f64() < seconds {
        at = walk(&circle, at, 16 * UNIT_STEPS);
        units += 16;
    }
    units
}

fn memory(seconds: f64, words: &[u64]) -> u64 {
    let begin = Instant::now();
    let mut units = 0;
    for block in words.chunks_exact(MIB_WORDS).cycle() {
        black_box(block.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
        units += 1;
        if units % 16 == 0 && begin.elapsed().as_secs_f64() >= seconds {
            break;
        }
    }
    units
}

fn stress() {
    let mut words = vec![0u64; STRESS_WORDS];
    let mut at = 1usize;
    loop {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = &mut words[(at >> 33) % STRESS_WORDS];
        *word = word.wrapping_add(1);
    }
}

/// Steps that a CPU takes in this many milliseconds while nothing disturbs it.
pub fn steps_in(ms: f64) -> u64 {
    let circle = circle();
    walk(&circle, 0, 1 << 20);
    let begin = Instant::now();
    let steps = 1 << 24;
    walk(&circle, 0, steps);
    (steps as f64 * ms / 1e3 / begin.elapsed().as_secs_f64()) as u64
}

/// Times of bursts, from when each was due until its last thread is done.
fn bursts(work: Work) -> SparseHistogram {
    let (circle, barrier) = (circle(), Barrier::new(work.threads));
    let count = ((work.seconds / PAUSE.as_secs_f64()) as u32).max(1);
    let begin = Instant::now() + PAUSE;
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    let (circle, barrier) = (&circle, &barrier);
    let burst = |number: u32| {
        let due = begin + PAUSE * number;
        sleep(due.saturating_duration_since(Instant::now()));
        walk(circle, number, work.steps);
        barrier.wait();
        due.elapsed()
    };
    scope(|scope| {
        for _ in 1..work.threads {
            scope.spawn(|| {
                for number in 0..count {
                    burst(number);
                }
            });
        }
        for number in 0..count {
            let ns = u64::try_from(burst(number).as_nanos()).unwrap_or(u64::MAX);
            *buckets.entry(SparseHistogram::bucket(ns)).or_default() += 1;
        }
    });
    SparseHistogram(buckets.into_iter().collect())
}

/// Units of a kernel on several threads.
fn kernel(work: Work, run: impl Fn() -> u64 + Sync) -> CpuResult {
    let begin = Instant::now();
    let units = scope(|scope| {
        let threads: Vec<_> = (0..work.threads).map(|_| scope.spawn(&run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    CpuResult::Work { units, seconds: begin.elapsed().as_secs_f64() }
}

/// Does a work once a line has come, and writes the result as a line. Without a line, or once the
/// input ends, this process ends.
///
/// # Errors
/// The result cannot be written.
pub fn run(kind: Kind, work: Work) -> Result<(), String> {
    // Memory is the process' own before the time runs.
    let words = if kind == Kind::Memory { vec![1u64; MEMORY_WORDS] } else { Vec::new() };
    let mut line = String::new();
    let told = |error: io::Error| format!("input: {error}");
    if io::stdin().lock().read_line(&mut line).map_err(told)? == 0 {
        return Ok(());
    }
    // The input ends with the process that measures: nothing is left running.
    std::thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let result = match kind {
        Kind::Cache => kernel(work, || cache(work.seconds)),
        Kind::Memory => kernel(work, || memory(work.seconds, &words)),
        Kind::Burst => CpuResult::Bursts(bursts(work)),
        Kind::Stress => kernel(work, || {
            stress();
            0
        }),
    };
    let text = serde_json::to_string(&result).map_err(|error| error.to_string())?;
    writeln!(io::stdout(), "{text}").map_err(|error| format!("output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_has_every_word() {
        let circle = circle();
        assert_eq!(walk(&circle, 0, CACHE_WORDS as u64), 0);
        assert!((1..CACHE_WORDS as u64).step_by(4_999).all(|steps| walk(&circle, 0, steps) != 0));
    }

    #[test]
    fn each_kernel_counts_its_work() {
        let work = Work { threads: 2, seconds: 0.02, steps: 10 };
        let words = vec![1; 2 * MIB_WORDS];
        for result in [
            kernel(work, || cache(work.seconds)),
            kernel(work, || memory(work.seconds, &words)),
            CpuResult::Bursts(bursts(Work { seconds: 0.5, ..work })),
        ] {
            assert!(result.value(&[]).is_ok_and(|value| value > 0.0), "{result:?}");
        }
    }
}
