//! Every maximum of this crate.

/// CPUs are numbered below this: the size of the kernel's fixed mask (`CPU_SETSIZE`).
pub const CPUS_MAX: usize = rustix::thread::CpuSet::MAX_CPU;
