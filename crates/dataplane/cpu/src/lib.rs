//! Which CPUs this process may use, and pinning to them.
#![forbid(unsafe_code)]

pub mod limits;
mod list;
mod quota;
mod receive;

pub use list::{CpuList, ParseCpuListError};
pub use quota::quota;
pub use receive::receives_everywhere;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
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
    fn a_cpu_that_is_not_there_is_refused() {
        assert!(pin(limits::CPUS_MAX - 1).is_err());
        assert!(pin(usize::MAX).is_err());
    }
}
