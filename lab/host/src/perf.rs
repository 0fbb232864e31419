//! Costs of processes, by the tool `perf`: counts, and samples of the CPU clock by the running
//! function.

use crate::Result;
use crate::tool::{command, not_started};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// Samples a second of each CPU; not a divisor of the kernel's own timers.
const SAMPLES_HZ: &str = "997";
/// Addresses of the kernel begin here (x86-64, arm64).
const KERNEL: u64 = 0xffff_0000_0000_0000;

/// Counts of some processes; what the machine does not count is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// For how long they were counted, seconds.
    pub seconds: f64,
    /// CPU time, ns.
    pub task_clock_ns: Option<f64>,
    /// Context switches.
    pub context_switches: Option<u64>,
    /// System calls.
    pub syscalls: Option<u64>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// Misses of the last cache.
    pub cache_misses: Option<u64>,
}

/// Samples by the running code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// The program itself.
    pub user: u64,
    /// System calls that receive, without softirqs.
    pub receive: u64,
    /// System calls that send, without softirqs.
    pub send: u64,
    /// Softirqs that ran in the time of the processes: on a veth pair, the receiving host's stack.
    pub softirq: u64,
    /// The rest of the kernel: waiting, waking, scheduling, other calls.
    pub rest: u64,
}

impl Samples {
    /// Each part with its name.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("user", self.user),
            ("receive calls", self.receive),
            ("send calls", self.send),
            ("softirqs", self.softirq),
            ("rest of the kernel", self.rest),
        ]
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.parts().iter().map(|(_, count)| count).sum()
    }
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Counts for this long.
///
/// # Errors
/// `perf` is missing, or may not count: why.
pub fn count(pids: &[u32], length: Duration) -> Result<Counters> {
    let events = "task-clock,context-switches,instructions,cache-misses";
    // Not every kernel has tracepoints, and one unknown event ends all.
    let with_calls = format!("{events},raw_syscalls:sys_enter");
    let seconds = length.as_secs_f64().to_string();
    let run = |events: &str| {
        let words = ["stat", "-x,", "-e", events, "-p", &list(pids), "--", "sleep", &seconds];
        command("perf").args(words).output().map_err(|error| not_started("perf", &error))
    };
    let mut output = run(&with_calls)?;
    if !output.status.success() {
        output = run(events)?;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(Counters { seconds: length.as_secs_f64(), ..parse_counters(&said) }),
        false => Err(format!("perf stat: {}", said.trim().replace('\n', " "))),
    }
}

/// `perf stat -x,`: value, unit, event, then fields that are not needed.
fn parse_counters(text: &str) -> Counters {
    let value = |event: &str| {
        let fields = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let mut own = fields.filter(|f| f.get(2).is_some_and(|name| name.starts_with(event)));
        own.next()?.first()?.parse::<f64>().ok()
    };
    let count = |event: &str| value(event).map(|value| value as u64);
    Counters {
        seconds: 0.0,
        // Milliseconds.
        task_clock_ns: value("task-clock").map(|ms| ms * 1e6),
        context_switches: count("context-switches"),
        syscalls: count("raw_syscalls:sys_enter"),
        instructions: count("instructions"),
        cache_misses: count("cache-misses"),
    }
}

/// Samples for this long; `folder` holds the samples meanwhile. Also says how long they took to
/// read, when nothing was sampled any more.
///
/// # Errors
/// `perf` is missing, or may not sample: why.
pub fn sample(pids: &[u32], length: Duration, folder: &Path) -> Result<(Samples, Duration)> {
    let file = folder.join("perf.data");
    let (path, seconds) = (file.display().to_string(), length.as_secs_f64().to_string());
    let run = |words: &[&str]| {
        let output = command("perf").args(words).output();
        let output = output.map_err(|error| not_started("perf", &error))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("perf {}: {said}", words[0])),
        }
    };
    let clock = ["record", "-q", "-e", "cpu-clock", "-F", SAMPLES_HZ, "-g", "-o", &path];
    let of = ["-p", &list(pids), "--", "sleep", &seconds];
    let recorded = run(&[&clock[..], &of].concat());
    let begun = Instant::now();
    let text = recorded.and_then(|_| run(&["script", "-i", &path, "-F", "ip,sym"]));
    let _ = std::fs::remove_file(&file);
    Ok((parse_samples(&text?), begun.elapsed()))
}

/// `perf script -F ip,sym`: an address and a name on each line, innermost first, and blank lines
/// between samples.
fn parse_samples(text: &str) -> Samples {
    let mut samples = Samples::default();
    for stack in text.split("\n\n") {
        let frames: Vec<(u64, &str)> = stack
            .lines()
            .filter_map(|line| line.trim().split_once(' '))
            .filter_map(|(ip, name)| Some((u64::from_str_radix(ip, 16).ok()?, name)))
            .collect();
        let Some((ip, _)) = frames.first() else { continue };
        let has = |names: &[&str]| {
            frames.iter().any(|(_, name)| names.iter().any(|wanted| name.contains(wanted)))
        };
        let part = match *ip {
            ..KERNEL => &mut samples.user,
            _ if has(&["handle_softirqs", "do_softirq"]) => &mut samples.softirq,
            _ if has(&["sys_recv", "io_recv"]) => &mut samples.receive,
            _ if has(&["sys_send", "io_send"]) => &mut samples.send,
            _ => &mut samples.rest,
        };
        *part += 1;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_unsupported_ones_are_absent() {
        let text = "551.41,msec,task-clock,551410496,100.00,0.547,CPUs utilized\n\
            8975,,context-switches,551390397,100.00,16.276,K/sec\n\
            <not supported>,,instructions,0,100.00,,\n\
            <not counted>,,cache-misses,0,0.00,,\n\
            218419,,raw_syscalls:sys_enter,551353221,100.00,396.110,K/sec\n";
        let read = parse_counters(text);
        assert_eq!((read.syscalls, read.context_switches), (Some(218_419), Some(8_975)));
        assert_eq!((read.instructions, read.cache_misses), (None, None));
        assert_eq!(read.task_clock_ns.map(f64::round), Some(551_410_000.0));
        assert_eq!(parse_counters("perf: not permitted\n"), Counters::default());
    }

    #[test]
    fn samples_count_for_what_ran() {
        let text = "\n\tffffffff81e66bfa net_rx_action\n\tffffffff813600ed handle_softirqs\n\
            \tffffffff81e2eb30 __x64_sys_sendto\n          10ad0c __libc_sendto\n\n\
            \n\tffffffff81ff416e ip_route_output_flow\n\tffffffff81e2eb30 __x64_sys_sendto\n\n\
            \n\tffffffff821ecc26 skb_copy\n\tffffffff81e2eae2 __sys_recvmmsg\n\n\
            \n\tffffffff813a2313 finish_task_switch.isra.0\n\n\
            \n\t         11ab501 <core::ops::range::RangeTo<usize> as index>::index\n\
            \t           891f5 start_thread\n\n";
        let found = parse_samples(text);
        let wanted = Samples { user: 1, receive: 1, send: 1, softirq: 1, rest: 1 };
        assert_eq!((found, found.all()), (wanted, 5));
        assert_eq!(parse_samples(""), Samples::default());
    }
}
