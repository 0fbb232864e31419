//! The longest stall of a CPU: the delay of a timer on it, if the thread that waits for the timer
//! has not waited for another thread.
//!
//! A timer's interrupt preempts every thread. A thread that wakes too late has waited for the CPU
//! (contention, which the kernel counts as delay of the thread), or the interrupt itself was late.
//! In the second case nothing ran on the CPU: a hypervisor took it without reporting steal time, or
//! all threads of the process were stopped.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::monotonic_ns;

/// The time of one sleep: shorter stalls are not detected, and longer ones are measured too short
/// by at most this time.
const NAP: Duration = Duration::from_millis(2);

/// The longest delay that a repeated sleep has seen.
#[derive(Clone, Copy, Debug, Default)]
struct StallProbe {
    longest_ns: u64,
    /// How long it has waited for the CPU since it began.
    delay_ns: u64,
}

impl StallProbe {
    /// It has overslept by this time, and has waited this long for the CPU in total.
    fn woke(&mut self, too_late_ns: u64, delay_ns: u64) {
        let waited_ns = delay_ns.saturating_sub(self.delay_ns);
        self.longest_ns = self.longest_ns.max(too_late_ns.saturating_sub(waited_ns));
        self.delay_ns = delay_ns;
    }
}

/// The longest stall of a CPU until this time, or until the run ends; `None` if the CPU may not be
/// used, or the kernel does not report the delay of threads.
pub(super) fn longest(cpu: usize, end_ns: u64, over: &AtomicBool) -> Option<Duration> {
    cpu::pin(cpu).ok()?;
    let told = File::open("/proc/thread-self/schedstat").ok()?;
    let mut sleeper = StallProbe { delay_ns: delay_ns(&told)?, ..StallProbe::default() };
    let mut began_ns = monotonic_ns();
    while began_ns < end_ns && !over.load(Ordering::Relaxed) {
        std::thread::sleep(NAP);
        let slept_ns = monotonic_ns() - began_ns;
        sleeper.woke(slept_ns.saturating_sub(NAP.as_nanos() as u64), delay_ns(&told)?);
        began_ns = monotonic_ns();
    }
    Some(Duration::from_nanos(sleeper.longest_ns))
}

/// How long the thread was ready and did not run: the second number of its `schedstat`.
fn delay_ns(told: &File) -> Option<u64> {
    let mut text = [0; 64];
    let len = told.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_cpu_is_not_a_stall() {
        let mut sleeper = StallProbe { delay_ns: 5_000, ..StallProbe::default() };
        sleeper.woke(30_000_000, 29_005_000);
        assert_eq!((sleeper.longest_ns, sleeper.delay_ns), (1_000_000, 29_005_000));
        sleeper.woke(35_000_000, 29_005_000);
        assert_eq!(sleeper.longest_ns, 35_000_000);
        sleeper.woke(20_000_000, 29_006_000);
        assert_eq!(sleeper.longest_ns, 35_000_000);
    }

    #[test]
    fn a_cpu_is_watched_until_the_end() {
        let first = cpu::allowed().unwrap().as_slice()[0];
        let over = AtomicBool::new(false);
        let watch = |cpu| {
            let end_ns = monotonic_ns() + 50_000_000;
            std::thread::scope(|scope| scope.spawn(|| longest(cpu, end_ns, &over)).join().unwrap())
        };
        let stood_still = watch(first).unwrap();
        assert!(stood_still > Duration::ZERO, "no timer is that punctual");
        assert_eq!(watch(1 << 20), None);
        over.store(true, Ordering::Relaxed);
        assert_eq!(watch(first), Some(Duration::ZERO));
    }
}
