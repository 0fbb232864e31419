//! Who runs, how long, and where: `/proc/PID`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cpu::CpuList;

use crate::limits::TASKS_MAX;

/// Nanoseconds of the ticks in which `/proc` shows times (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// A thread, how long it ran, and on which CPU it ran last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    pub cpu: usize,
    pub cpu_ns: u64,
    /// A thread of the kernel's.
    pub kernel: bool,
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// All threads of this machine.
pub(super) fn running() -> Vec<Ran> {
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
fn parse_stat(text: &str, pid: u32, tid: u32) -> Option<Ran> {
    let (begin, fields) = text.rsplit_once(") ")?;
    let (_, name) = begin.split_once('(')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = number(11)?.saturating_add(number(12)?);
    Some(Ran {
        pid,
        tid,
        name: name.to_owned(),
        cpu: usize::try_from(number(36)?).ok()?,
        cpu_ns: ticks.saturating_mul(TICK_NS),
        // PF_KTHREAD, include/linux/sched.h
        kernel: number(6)? & 0x0020_0000 != 0,
    })
}

/// What each process ran between two looks on any of these CPUs, most first; name, process id,
/// seconds.
pub(super) fn strangers(
    before: &[Ran],
    after: &[Ran],
    cpus: &[usize],
    known: &[u32],
) -> Vec<(String, u32, f64)> {
    let mut found: Vec<(String, u32, f64)> = Vec::new();
    let is_stranger =
        |ran: &&Ran| !ran.kernel && cpus.contains(&ran.cpu) && !known.contains(&ran.pid);
    for ran in after.iter().filter(is_stranger) {
        let then = before.iter().find(|then| (then.pid, then.tid) == (ran.pid, ran.tid));
        let ns = ran.cpu_ns.saturating_sub(then.map_or(0, |then| then.cpu_ns));
        match found.iter_mut().find(|(_, pid, _)| *pid == ran.pid) {
            Some((.., seconds)) => *seconds += ns as f64 / 1e9,
            None => found.push((ran.name.clone(), ran.pid, ns as f64 / 1e9)),
        }
    }
    found.sort_by(|a, b| b.2.total_cmp(&a.2));
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

/// Octets of the processes in RAM; a page that several have counts in parts (`Pss`).
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
    fn a_line_of_stat_is_read_whatever_the_name() {
        let line = "77 (a) b (c) R 1 77 77 0 -1 4194304 0 0 0 0 250 50 0 0 20 0 1 0 5 0 0 0 0 0 \
                    0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0";
        let ran = parse_stat(line, 77, 77).unwrap();
        assert_eq!((ran.name.as_str(), ran.cpu, ran.cpu_ns), ("a) b (c", 3, 3_000_000_000));
        assert!(!ran.kernel);
        assert_eq!(parse_stat("77 (a) R 1", 77, 77), None);
    }

    #[test]
    fn strangers_are_those_nobody_knows() {
        let ran = |pid, tid, cpu, cpu_ns| Ran {
            pid,
            tid,
            name: format!("p{pid}"),
            cpu,
            cpu_ns,
            kernel: pid == 9,
        };
        let before = [ran(1, 1, 0, 5_000_000_000), ran(2, 2, 0, 0)];
        let after = [
            ran(1, 1, 0, 6_000_000_000),
            ran(1, 7, 0, 500_000_000),
            ran(2, 2, 0, 9_000_000_000),
            ran(3, 3, 1, 9_000_000_000),
            ran(9, 9, 0, 9_000_000_000),
        ];
        let found = strangers(&before, &after, &[0], &[2]);
        assert_eq!(found, [("p1".to_owned(), 1, 1.5)]);
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
