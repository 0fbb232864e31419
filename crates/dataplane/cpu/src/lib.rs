//! The CPUs that this process may use, and pinning to them.
#![forbid(unsafe_code)]

pub mod limits;
mod list;
mod quota;
mod receive;

pub use list::{CpuList, ParseCpuListError};
pub use quota::quota;
pub use receive::receives_everywhere;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::io;

/// The CPUs the calling thread may run on, lowest first: the cpuset it was given, less what its
/// affinity mask leaves out.
///
/// # Errors
/// The kernel knows more CPUs than [`limits::CPUS_MAX`].
pub fn allowed() -> io::Result<CpuList> {
    let set = sched_getaffinity(None)?;
    Ok((0..limits::CPUS_MAX).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Lets the calling thread run on `cpu` only.
///
/// # Errors
/// There is no such CPU, or the process' cpuset does not contain it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= limits::CPUS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the thread of this process with this name run on `cpu` only. The first one counts, if
/// several have the name.
///
/// # Errors
/// There is no such thread or CPU, or the process' cpuset does not contain it.
pub fn pin_thread(name: &str, cpu: usize) -> io::Result<()> {
    if cpu >= limits::CPUS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        // A thread may have ended meanwhile.
        let Ok(found) = std::fs::read_to_string(task.path().join("comm")) else { continue };
        let number = task.file_name().to_str().and_then(|number| number.parse().ok());
        if let Some(pid) = number.and_then(Pid::from_raw).filter(|_| found.trim_end() == name) {
            return Ok(sched_setaffinity(Some(pid), &set)?);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no thread {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_that_cpu_only() {
        let last = *allowed().unwrap().as_slice().last().unwrap();
        let seen = std::thread::spawn(move || {
            pin(last).unwrap();
            allowed().unwrap()
        });
        assert_eq!(seen.join().unwrap().as_slice(), [last]);
    }

    #[test]
    fn a_thread_is_pinned_by_its_name() {
        let last = *allowed().unwrap().as_slice().last().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (started, is_started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("pin-by-name".into());
        let thread = thread.spawn(move || {
            started.send(()).unwrap();
            let () = receiver.recv().unwrap();
            allowed().unwrap()
        });
        is_started.recv().unwrap();
        pin_thread("pin-by-name", last).unwrap();
        sender.send(()).unwrap();
        assert_eq!(thread.unwrap().join().unwrap().as_slice(), [last]);
        assert!(pin_thread("no-such-thread", last).is_err() && pin_thread("x", 1 << 40).is_err());
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert!(pin(limits::CPUS_MAX - 1).is_err());
        assert!(pin(usize::MAX).is_err());
    }
}
