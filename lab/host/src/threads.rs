//! Kernel threads that work for a device or a CPU, and their CPUs.

use crate::tool::text;
use cpu::CpuList;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;
use std::path::Path;

/// A kernel thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelThread {
    /// Its number.
    pub pid: u32,
    /// Its name, such as `napi/eth0-8193` or `ksoftirqd/1`.
    pub name: String,
}

/// Those whose name `is_wanted`, by number. That a process has taken such a name counts for
/// nothing: its parent is not `kthreadd`.
pub fn find(proc: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<KernelThread> {
    let folders = fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    let named = pids.filter_map(|pid| {
        let name = text(&proc.join(format!("{pid}/comm")))?.trim_end().to_owned();
        is_wanted(&name).then_some(KernelThread { pid, name })
    });
    let is_kernels = |thread: &KernelThread| {
        let stat = text(&proc.join(format!("{}/stat", thread.pid))).unwrap_or_default();
        // proc(5): the parent is the second field behind the name in brackets.
        let behind = stat.rsplit_once(") ").map(|(_, fields)| fields);
        behind.and_then(|fields| fields.split(' ').nth(1)) == Some("2")
    };
    let mut found: Vec<_> = named.filter(is_kernels).collect();
    found.sort_unstable_by_key(|thread| thread.pid);
    found
}

/// The polling threads of a device (threaded NAPI), one a receive queue, in the queues' order.
pub fn polling(proc: &Path, device: &str) -> Vec<KernelThread> {
    let prefix = format!("napi/{device}-");
    let mut found =
        find(proc, |name| name.strip_prefix(&prefix).is_some_and(|id| id.parse::<u32>().is_ok()));
    let id = |thread: &KernelThread| thread.name[prefix.len()..].parse::<u32>().ok();
    found.sort_by_key(id);
    found
}

/// Lets a thread run on `cpus` only.
///
/// # Errors
/// The thread is gone, we may not, or none of the CPUs is there.
pub fn pin(pid: u32, cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.as_slice().iter().for_each(|&cpu| set.set(cpu));
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok(sched_setaffinity(Some(pid.ok_or(io::ErrorKind::InvalidInput)?), &set)?)
}

/// The CPUs that a thread may run on. Nothing where it is gone.
pub fn allowed(pid: u32) -> Option<CpuList> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let set = sched_getaffinity(Some(pid)).ok()?;
    Some((0..cpu::limits::CPUS_MAX).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_distinguished_from_processes_with_their_name() {
        let proc = std::env::temp_dir().join(format!("threads-{}", std::process::id()));
        for (pid, name, parent) in [
            (12, "napi/eth0-8194", 2),
            (11, "napi/eth0-10", 2),
            (13, "napi/eth0-x", 2),
            (14, "napi/eth01-1", 2),
            (900, "napi/eth0-1", 1),
        ] {
            let folder = proc.join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
            fs::write(folder.join("stat"), format!("{pid} ({name}) S {parent} 0 0\n")).unwrap();
        }
        let found = polling(&proc, "eth0");
        fs::remove_dir_all(&proc).unwrap();
        let names: Vec<_> = found.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(names, ["napi/eth0-10", "napi/eth0-8194"]);
    }
}
