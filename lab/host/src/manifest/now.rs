//! The current state of a machine: values that always change.

use crate::counters::{CpuTime, cpu_times, parse_stat, stat_file, stolen, throttle_of, total};
use crate::limits::{BUSY_PROCESSES_MAX, WATCH_TIME};
use crate::machine::Machine;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Instant;

/// The current state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurrentState {
    /// Threads that run or wait for a CPU or a disk: means of 1, 5 and 15 minutes.
    pub load: Vec<f64>,
    /// How busy each CPU was while it was watched, 0 to 1.
    pub busy: BTreeMap<usize, f64>,
    /// The stolen share of all CPUs meanwhile, 0 to 1.
    pub steal: f64,
    /// The stolen share of all CPUs since boot, 0 to 1.
    pub steal_since_start: f64,
    /// Processes that used most of the CPUs meanwhile, and how many CPUs' worth.
    pub busiest: Vec<Busy>,
    /// The frequency of each CPU in MHz, where known.
    pub mhz: BTreeMap<usize, f64>,
    /// Number of thermal throttling events.
    pub thermal_throttles: i64,
    /// How often the control group of this process was throttled.
    pub quota_throttles: u64,
    /// Pages that were swapped in and out since the machine was started.
    pub swapped_pages: u64,
    /// The same, while it was watched.
    pub swaps_pages: u64,
    /// Tracked connections; `None` without connection tracking.
    pub connections: Option<i64>,
    /// The cost of reading the clock, in nanoseconds (`CLOCK_MONOTONIC`).
    pub clock_cost_ns: f64,
    /// Its resolution in nanoseconds.
    pub clock_resolution_ns: u64,
}

/// A process that is busy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// Its name.
    pub name: String,
    /// CPUs' worth of time.
    pub cpus: f64,
}

impl CurrentState {
    /// Watches a machine for [`WATCH_TIME`]; of a tree of files, what it says at once.
    pub(super) fn watch(machine: &Machine) -> Self {
        let proc = machine.path("proc");
        // CPUs are read last before the pause and first after it, so that reading processes does
        // not count.
        let (swaps, processes) = (swapped(machine), processes(machine));
        let times = cpu_times(&proc);
        let began = Instant::now();
        if machine.is_this() {
            sleep(WATCH_TIME);
        }
        let wall = began.elapsed();
        let later = cpu_times(&proc);
        let none = CpuTime::default();
        let before =
            |time: &CpuTime| times.iter().find(|old| old.cpu == time.cpu).copied().unwrap_or(none);
        let since = |time: &CpuTime| time.since(&before(time), wall.as_nanos() as u64);
        let changes: Vec<_> = later.iter().map(since).collect();
        let rounded = |share: f64| (share * 1_000.0).round() / 1_000.0;
        Self {
            load: load(&machine.read("proc/loadavg").unwrap_or_default()),
            busy: changes.iter().map(|time| (time.cpu, rounded(time.busy()))).collect(),
            steal: rounded(stolen(&changes)),
            steal_since_start: rounded(stolen(&later)),
            busiest: busiest(&processes, &self::processes(machine), wall.as_secs_f64()),
            mhz: mhz(&machine.read("proc/cpuinfo").unwrap_or_default()),
            thermal_throttles: thermal_throttles(machine),
            quota_throttles: quota_throttles(machine),
            swapped_pages: swapped(machine),
            swaps_pages: swapped(machine).saturating_sub(swaps),
            connections: machine.number("proc/sys/net/netfilter/nf_conntrack_count"),
            clock_cost_ns: rounded(clock_cost_ns()),
            clock_resolution_ns: clock_getres(ClockId::Monotonic).tv_nsec as u64,
        }
    }
}

pub(super) fn load(text: &str) -> Vec<f64> {
    text.split_whitespace().take(3).map_while(|word| word.parse().ok()).collect()
}

/// Ticks that each process has used, with its name.
fn processes(machine: &Machine) -> BTreeMap<u32, (String, u64)> {
    let pids = machine.list("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let read = |pid| Some((pid, parse_stat(&machine.read(&format!("proc/{pid}/stat"))?)?));
    pids.filter_map(read).collect()
}

/// Those that used most between, ourselves left out.
fn busiest(
    old: &BTreeMap<u32, (String, u64)>,
    new: &BTreeMap<u32, (String, u64)>,
    seconds: f64,
) -> Vec<Busy> {
    let used = |(pid, (name, ticks)): (&u32, &(String, u64))| {
        let before = old.get(pid).map_or(0, |(_, ticks)| *ticks);
        let cpus = ticks.saturating_sub(before) as f64 / 100.0 / seconds;
        let is_other = *pid != std::process::id() && old.contains_key(pid);
        let cpus = (cpus * 100.0).round() / 100.0;
        (is_other && cpus >= 0.05).then(|| Busy { name: name.clone(), cpus })
    };
    let mut found: Vec<_> = new.iter().filter_map(used).collect();
    found.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    found.truncate(BUSY_PROCESSES_MAX);
    found
}

pub(super) fn mhz(info: &str) -> BTreeMap<usize, f64> {
    let values = info.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "cpu MHz").then(|| value.trim().parse().ok())?
    });
    values.enumerate().collect()
}

fn thermal_throttles(machine: &Machine) -> i64 {
    let folder = "sys/devices/system/cpu";
    let count = |name: &String| {
        machine.number(&format!("{folder}/{name}/thermal_throttle/core_throttle_count"))
    };
    machine.list(folder).iter().filter_map(count).fold(0, i64::saturating_add)
}

fn quota_throttles(machine: &Machine) -> u64 {
    let groups = machine.read("proc/self/cgroup").unwrap_or_default();
    let told = stat_file(&groups).and_then(|file| machine.read(&format!("sys/fs/cgroup/{file}")));
    throttle_of(&told.unwrap_or_default()).periods
}

fn swapped(machine: &Machine) -> u64 {
    let text = machine.read("proc/vmstat").unwrap_or_default();
    let count = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        matches!(name, "pswpin" | "pswpout").then(|| count.parse::<u64>().ok())?
    };
    total(text.lines().filter_map(count))
}

/// The minimum of some attempts.
fn clock_cost_ns() -> f64 {
    const ASKED: u32 = 2_000;
    let attempt = |_| {
        let began = Instant::now();
        for _ in 0..ASKED {
            std::hint::black_box(clock_gettime(ClockId::Monotonic));
        }
        began.elapsed().as_nanos() as f64 / f64::from(ASKED)
    };
    (0..5).map(attempt).fold(f64::INFINITY, f64::min)
}
