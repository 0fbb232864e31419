//! CPU time and waiting time of threads.

use super::time::ticks_ns;
use crate::limits::THREADS_MAX;
use crate::threads;
use crate::tool::text;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// A thread's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time in the run queue: other threads were on its CPU.
    pub run_delay_ns: u64,
}

impl Thread {
    pub(super) fn key(&self) -> (u32, u32) {
        (self.pid, self.tid)
    }

    pub(super) fn since(&self, old: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(old.cpu_ns),
            run_delay_ns: self.run_delay_ns.saturating_sub(old.run_delay_ns),
            ..self.clone()
        }
    }
}

/// How long control groups were throttled by their quota (`cpu.stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    /// How often.
    pub periods: u64,
    /// How long, all CPUs together.
    pub time_ns: u64,
}

impl Throttle {
    pub(super) fn since(&self, old: &Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(old.periods),
            time_ns: self.time_ns.saturating_sub(old.time_ns),
        }
    }
}

/// Each thread of each process. Threads that have ended are left out.
pub(super) fn threads(proc: &Path, pids: &[u32]) -> Vec<Thread> {
    let of = |pid: &u32| {
        let folder = proc.join(format!("{pid}/task"));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut tids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        tids.sort_unstable();
        let pid = *pid;
        tids.into_iter().filter_map(move |tid| thread(&folder.join(tid.to_string()), pid, tid))
    };
    pids.iter().flat_map(of).take(THREADS_MAX).collect()
}

/// Polling threads of the device, and `ksoftirqd` of the host's CPUs.
pub(super) fn kernel_threads(
    proc: &Path,
    device: Option<&str>,
    is_ours: impl Fn(usize) -> bool,
) -> Vec<Thread> {
    let soft = |name: &str| {
        name.strip_prefix("ksoftirqd/").and_then(|cpu| cpu.parse().ok()).is_some_and(&is_ours)
    };
    let mut found = threads::find(proc, soft);
    found.extend(device.into_iter().flat_map(|device| threads::polling(proc, device)));
    let read = |found: &threads::KernelThread| {
        thread(&proc.join(found.pid.to_string()), found.pid, found.pid)
    };
    found.iter().filter_map(read).collect()
}

fn thread(folder: &Path, pid: u32, tid: u32) -> Option<Thread> {
    let stat = text(&folder.join("stat"))?;
    let (name, ticks) = parse_stat(&stat)?;
    let schedstat = text(&folder.join("schedstat")).unwrap_or_default();
    let (cpu_ns, run_delay_ns) = parse_schedstat(&schedstat).unwrap_or((ticks_ns(ticks), 0));
    Some(Thread { pid, tid, name, cpu_ns, run_delay_ns })
}

/// The name, which is in brackets and may contain anything, and user and system time in ticks: the
/// 12th and 13th field behind it (proc(5)).
pub(crate) fn parse_stat(text: &str) -> Option<(String, u64)> {
    let (begin, fields) = text.rsplit_once(") ")?;
    let (_, name) = begin.split_once('(')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((name.to_owned(), next()?.saturating_add(next()?)))
}

/// Time on a CPU, time waited for one, and how often it ran.
pub(super) fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some((next()?, next()?))
}

/// Of the groups that the processes are in, each once.
pub(super) fn throttle(proc: &Path, groups: &Path, pids: &[u32]) -> Throttle {
    let own = |pid: &u32| text(&proc.join(format!("{pid}/cgroup")));
    let mut files: Vec<_> = pids
        .iter()
        .filter_map(own)
        .filter_map(|told| stat_file(&told).map(|file| groups.join(file)))
        .collect();
    files.sort();
    files.dedup();
    let all = files.iter().filter_map(|file| text(file)).map(|told| parse_throttle(&told));
    all.fold(Throttle::default(), |sum, one| Throttle {
        periods: sum.periods.saturating_add(one.periods),
        time_ns: sum.time_ns.saturating_add(one.time_ns),
    })
}

/// Where the group counts, below the folder of all groups.
pub(crate) fn stat_file(groups: &str) -> Option<String> {
    group_file(groups, "cpu", "cpu.stat")
}

/// The path of a controller's file of the group, below the root of the hierarchies: with cgroup v1,
/// each controller has a hierarchy of its own. If both versions have it, it is that of v1.
pub(crate) fn group_file(groups: &str, controller: &str, file: &str) -> Option<String> {
    let mut unified = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.trim_matches('/');
        if controllers.split(',').any(|name| name == controller) {
            return Some(join(&[controllers, path, file]));
        }
        if controllers.is_empty() {
            unified = Some(join(&[path, file]));
        }
    }
    unified
}

fn join(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/")
}

/// `throttled_usec` is cgroup v2's, `throttled_time`, in nanoseconds, v1's.
pub(crate) fn parse_throttle(text: &str) -> Throttle {
    let mut throttle = Throttle::default();
    for line in text.lines() {
        let Some((name, count)) = line.split_once(' ') else { continue };
        let count: u64 = count.trim().parse().unwrap_or(0);
        match name {
            "nr_throttled" => throttle.periods = count,
            "throttled_usec" => throttle.time_ns = count.saturating_mul(1_000),
            "throttled_time" => throttle.time_ns = count,
            _ => {}
        }
    }
    throttle
}
