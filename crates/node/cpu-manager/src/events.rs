//! What a pass tells.
use cpu::CpuList;
use std::fmt;
use std::time::Duration;

/// What happened, or could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A group has CPUs of its own now, and why these.
    Assigned(String, CpuList, String),
    /// CPUs of a group's own are not to be had any more: they are offline, or reserved.
    Lost(String, CpuList),
    /// A group shares again, or is gone.
    Released(String, CpuList),
    /// What another program had changed is as it should be again: group, what was found, what is.
    Repaired(String, String, String),
    /// Something is not as it should be: group, and what to do.
    Failed(String, String),
    /// An interrupt stays on CPUs that a group has for itself: its number, and the kernel's words.
    Fixed(u32, String),
    /// All is as it was found.
    Restored,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assigned(group, cpus, why) => {
                write!(f, "{group} has CPUs {cpus} of its own: {why}")
            }
            Self::Lost(group, cpus) => {
                write!(f, "{group} has lost CPUs {cpus}: they are offline, or reserved")
            }
            Self::Released(group, cpus) => write!(f, "{group} has given CPUs {cpus} back"),
            Self::Repaired(group, found, now) => {
                write!(f, "{group} had CPUs \"{found}\" by another program, and has {now} again")
            }
            Self::Failed(group, what) => write!(f, "{group}: {what}"),
            Self::Fixed(number, why) => {
                write!(
                    f,
                    "interrupt {number} stays where it is, the kernel does not move it: {why}"
                )
            }
            Self::Restored => f.write_str("every group is as it was found"),
        }
    }
}

/// How things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// CPUs that groups have for themselves.
    pub exclusive: CpuList,
    /// CPUs that all others share.
    pub shared: CpuList,
    /// Groups whose CPUs are in several L3 domains, NUMA nodes and sockets.
    pub split: [usize; 3],
    /// Changes by other programs that were undone.
    pub repaired: u64,
    /// Containers that ran before they had their CPUs: the manager was away, or none were free.
    pub late: u64,
    /// How long the container that had its CPUs last had waited for them since the manager learned
    /// of it; 0 if they stood before it was created.
    pub time_to_exclusive: Duration,
    /// Groups that are partitions of the kernel.
    pub partitions: usize,
    /// Interrupts that were moved away from CPUs, or to them.
    pub interrupts: usize,
}
