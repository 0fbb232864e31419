//! Processes, their CPU time and their CPUs: `/proc/PID`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use cpu::CpuList;

use crate::limits::TASKS_MAX;

/// Nanoseconds of the ticks in which `/proc` shows times (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// A thread, how long it ran, and on which CPU it ran last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessTime {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    pub cpu: usize,
    pub user_ns: u64,
    pub system_ns: u64,
    /// A kernel thread.
    pub kernel: bool,
}

/// CPU time of programs on one CPU between two samples, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OnCpu {
    /// CPU time of all other processes.
    pub strangers_s: f64,
    /// User time of all processes.
    pub user_s: f64,
}

/// Processes that ran between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RanBetween {
    /// Other processes, by CPU time, highest first: name, process id, seconds.
    pub strangers: Vec<(String, u32, f64)>,
    /// Each CPU.
    pub cpus: BTreeMap<usize, OnCpu>,
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// All threads of this machine.
pub(super) fn running() -> Vec<ProcessTime> {
    let of = |pid: u32| {
        let folder = Path::new("/proc").join(format!("{pid}/task"));
        numbers(&folder).into_iter().filter_map(move |tid| {
            let stat = fs::read_to_string(folder.join(format!("{tid}/stat"))).ok()?;
            parse_stat(&stat, pid, tid)
        })
    };
    numbers(Path::new("/proc")).into_iter().flat_map(of).take(TASKS_MAX).collect()
}

/// proc(5): behind the name, which is in brackets and may contain anything, flags are the 7th
/// field, user and system time the 12th and 13th, the CPU the 37th.
fn parse_stat(text: &str, pid: u32, tid: u32) -> Option<ProcessTime> {
    let (begin, fields) = text.rsplit_once(") ")?;
    let (_, name) = begin.split_once('(')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let time = |index| Some(number(index)?.saturating_mul(TICK_NS));
    Some(ProcessTime {
        pid,
        tid,
        name: name.to_owned(),
        cpu: usize::try_from(number(36)?).ok()?,
        user_ns: time(11)?,
        system_ns: time(12)?,
        // PF_KTHREAD, include/linux/sched.h
        kernel: number(6)? & 0x0020_0000 != 0,
    })
}

/// Processes that ran between two samples on any of these CPUs. A thread is taken to have run all
/// the time where it ran last.
pub(super) fn between(
    before: &[ProcessTime],
    after: &[ProcessTime],
    cpus: &[usize],
    known: &[u32],
) -> RanBetween {
    let then: HashMap<(u32, u32), &ProcessTime> =
        before.iter().map(|ran| ((ran.pid, ran.tid), ran)).collect();
    let (mut processes, mut found) = (HashMap::new(), RanBetween::default());
    for ran in after.iter().filter(|ran| !ran.kernel && cpus.contains(&ran.cpu)) {
        let then = then.get(&(ran.pid, ran.tid));
        let (user_ns, system_ns) = then.map_or((0, 0), |then| (then.user_ns, then.system_ns));
        let user_s = ran.user_ns.saturating_sub(user_ns) as f64 / 1e9;
        let system_s = ran.system_ns.saturating_sub(system_ns) as f64 / 1e9;
        let on = found.cpus.entry(ran.cpu).or_default();
        on.user_s += user_s;
        if !known.contains(&ran.pid) {
            on.strangers_s += user_s + system_s;
            let process = processes.entry(ran.pid).or_insert((ran.name.clone(), ran.pid, 0.0));
            process.2 += user_s + system_s;
        }
    }
    found.strangers = processes.into_values().collect();
    found.strangers.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.1.cmp(&b.1)));
    found
}

/// Whether the process is stopped by a signal.
pub(super) fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
}

/// Processes that hold any of these sockets open.
pub(super) fn owners(inodes: &[u64]) -> Vec<u32> {
    let names: BTreeSet<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let holds = |pid: &u32| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| names.contains(link)))
    };
    numbers(Path::new("/proc")).into_iter().filter(holds).collect()
}

/// CPUs that any thread of these processes may use.
pub(super) fn cpus(pids: &[u32]) -> CpuList {
    let of = |pid: &u32| {
        let folder = format!("/proc/{pid}/task");
        numbers(Path::new(&folder)).into_iter().filter_map(move |tid| {
            let status = fs::read_to_string(format!("{folder}/{tid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            line.trim().parse::<CpuList>().ok()
        })
    };
    let lists: Vec<CpuList> = pids.iter().flat_map(of).collect();
    lists.iter().flat_map(|list| list.as_slice()).copied().collect()
}

/// Bytes of the processes in RAM; a page that several have counts in parts (`Pss`).
pub(super) fn resident(pids: &[u32]) -> Option<u64> {
    let of = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    };
    let all: Vec<u64> = pids.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_parsed_with_any_process_name() {
        let line = "77 (a) b (c) R 1 77 77 0 -1 4194304 0 0 0 0 250 50 0 0 20 0 1 0 5 0 0 0 0 0 \
                    0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0";
        let ran = parse_stat(line, 77, 77).unwrap();
        assert_eq!((ran.name.as_str(), ran.cpu), ("a) b (c", 3));
        assert_eq!((ran.user_ns, ran.system_ns), (2_500_000_000, 500_000_000));
        assert!(!ran.kernel);
        assert_eq!(parse_stat("77 (a) R 1", 77, 77), None);
    }

    fn ran(pid: u32, tid: u32, cpu: usize, user_ns: u64, system_ns: u64) -> ProcessTime {
        ProcessTime { pid, tid, name: format!("p{pid}"), cpu, user_ns, system_ns, kernel: pid == 9 }
    }

    #[test]
    fn processes_of_neither_side_are_competing() {
        let before = [ran(1, 1, 0, 4_000_000_000, 1_000_000_000), ran(2, 2, 0, 0, 0)];
        let after = [
            ran(1, 1, 0, 4_500_000_000, 1_500_000_000),
            ran(1, 7, 0, 0, 500_000_000),
            ran(2, 2, 0, 7_000_000_000, 2_000_000_000),
            ran(3, 3, 1, 9_000_000_000, 0),
            ran(4, 4, 0, 1_000_000_000, 2_000_000_000),
            ran(9, 9, 0, 0, 9_000_000_000),
        ];
        let found = between(&before, &after, &[0], &[2]);
        assert_eq!(found.strangers, [("p4".to_owned(), 4, 3.0), ("p1".to_owned(), 1, 1.5)]);
        let on = OnCpu { strangers_s: 4.5, user_s: 8.5 };
        assert_eq!(found.cpus, BTreeMap::from([(0, on)]));
    }

    #[test]
    fn many_threads_are_compared_quickly() {
        let all: Vec<ProcessTime> =
            (0..TASKS_MAX as u32).map(|n| ran(n / 64 + 10, n, 0, 0, 1)).collect();
        let began = std::time::Instant::now();
        assert_eq!(between(&all, &all, &[0], &[]).strangers.len(), TASKS_MAX / 64);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn this_process_is_found_by_its_socket() {
        use std::os::linux::fs::MetadataExt;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket));
        let inode = fs::metadata(link).unwrap().st_ino();
        assert_eq!(owners(&[inode]), [std::process::id()]);
        assert_eq!(owners(&[]), [0; 0]);
        let own = [std::process::id()];
        assert!(!cpus(&own).as_slice().is_empty());
        assert!(resident(&own).unwrap() > 0);
        assert!(!is_stopped(own[0]));
        assert!(running().iter().any(|ran| ran.pid == own[0]));
    }
}
