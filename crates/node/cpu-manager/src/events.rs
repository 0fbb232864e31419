//! Events of a pass.
use cpu::CpuList;
use std::fmt;
use std::time::Duration;

/// An event or a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A group has got exclusive CPUs; the reason of the choice.
    Assigned(String, CpuList, String),
    /// Exclusive CPUs of a group became unusable: they are offline, or reserved.
    Lost(String, CpuList),
    /// A group shares again, or is gone.
    Released(String, CpuList),
    /// A change by another program was undone: group, the value found, the value set.
    Repaired(String, String, String),
    /// A fault of a group, and what to do.
    Failed(String, String),
    /// An interrupt stays on exclusive CPUs: its number, and the error of the kernel.
    Fixed(u32, String),
    /// All previous settings are restored.
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

/// The status after a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Exclusive CPUs.
    pub exclusive: CpuList,
    /// CPUs that all others share.
    pub shared: CpuList,
    /// Groups whose CPUs are in several L3 domains, NUMA nodes and sockets.
    pub split: [usize; 3],
    /// Changes by other programs that were undone.
    pub repaired: u64,
    /// Containers that ran before they got their CPUs, because the manager was not running or none
    /// were free.
    pub late: u64,
    /// How long the last container that got CPUs had waited since the manager received it; 0 if
    /// they were set before it was created.
    pub time_to_exclusive: Duration,
    /// Groups that are cpuset partitions.
    pub partitions: usize,
    /// Interrupts that were moved away from CPUs, or to them.
    pub interrupts: usize,
}
