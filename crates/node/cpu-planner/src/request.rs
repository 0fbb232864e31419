//! A request for CPUs, and its errors.
use cpu::CpuList;
use serde::Serialize;
use std::fmt;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whole CPUs.
    pub cpus: usize,
    /// The device that they should be near: an interface, a PCI address or a `/dev` node.
    pub near: Option<String>,
}

/// Which of two CPUs comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As the kubelet's static policy.
    Kubelet,
    /// Near the device, then the smallest part of the machine where the request fits.
    #[default]
    Dunlin,
}

/// How CPUs are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Close together.
    #[default]
    Packed,
    /// Evenly over as few NUMA nodes as the request needs, so many CPUs at a time (at least 1).
    AcrossNodes(usize),
    /// One thread of each core, as long as there are cores.
    AcrossCores,
}

/// What limits the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Which of two CPUs comes first.
    pub order: Order,
    /// CPUs that are never chosen.
    pub reserved: CpuList,
    /// NUMA nodes to choose from first, as the kubelet's Topology Manager hints.
    pub nodes: Option<Vec<usize>>,
    /// A container that they should be near, by its name and its CPUs: it does not have those.
    /// Its L3 domains come first, then its NUMA nodes, then its sockets.
    pub near_container: Option<(String, CpuList)>,
    /// Whole cores only (`full-pcpus-only`).
    pub full_cores: bool,
    /// How CPUs are spread.
    pub spread: Spread,
    /// The hint holds for the sockets of its nodes (`align-by-socket`).
    pub align_by_socket: bool,
    /// The kubelet order prefers whole L3 domains (`prefer-align-cpus-by-uncorecache`). The other
    /// order always does.
    pub prefer_l3: bool,
    /// Reserved CPUs are not shared either (`strict-cpu-reservation`).
    pub strict_reservation: bool,
    /// CPUs that must stay for those who share.
    pub shared_min: usize,
}

/// Why a request cannot be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// More than are free.
    NotEnough {
        /// CPUs requested.
        requested: usize,
        /// CPUs free and not reserved.
        available: usize,
    },
    /// Not a multiple of the threads of a core, where only whole cores are handed out.
    PartOfCore {
        /// CPUs requested.
        requested: usize,
        /// Threads of a core.
        threads: usize,
    },
    /// Too few whole cores are free.
    NotEnoughCores {
        /// CPUs requested.
        requested: usize,
        /// CPUs of cores that are free as a whole.
        available: usize,
        /// Threads of a core.
        threads: usize,
    },
    /// Those who share would have too few CPUs left.
    SharedTooSmall {
        /// CPUs requested.
        requested: usize,
        /// CPUs that are shared now.
        shared: usize,
        /// CPUs that must stay shared.
        shared_min: usize,
    },
    /// The machine has no such device.
    NoDevice(String),
    /// The device is no place on this machine: it is virtual, or the machine has one NUMA node.
    DeviceNowhere(String),
}

impl PlanError {
    /// The kubelet's words, for the errors that it knows.
    pub fn kubelet_text(&self) -> Option<String> {
        Some(match self {
            Self::NotEnough { requested, available } => format!(
                "not enough cpus available to satisfy request: requested={requested}, \
                 available={available}"
            ),
            Self::PartOfCore { requested, threads } => format!(
                "SMT Alignment Error: requested {requested} cpus not multiple cpus per core = \
                 {threads}"
            ),
            Self::NotEnoughCores { requested, available, threads } => format!(
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = \
                 {available}, requested CPUs = {requested}, CPUs per core = {threads}"
            ),
            _ => return None,
        })
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnough { requested, available } => write!(
                f,
                "{requested} CPUs are requested and {available} are free and not reserved: \
                 request at most {available}, or free some"
            ),
            Self::PartOfCore { requested, threads } => write!(
                f,
                "{requested} CPUs are not whole cores: request a multiple of {threads}, the \
                 threads of a core, or allow parts of cores"
            ),
            Self::NotEnoughCores { requested, available, threads } => write!(
                f,
                "{requested} CPUs in whole cores are requested, and the cores that are free as a \
                 whole have {available} ({threads} threads each): request fewer, or allow parts of \
                 cores"
            ),
            Self::SharedTooSmall { requested, shared, shared_min } => write!(
                f,
                "{requested} of {shared} shared CPUs are requested, and {shared_min} must stay for \
                 all others: request at most {}",
                shared.saturating_sub(*shared_min)
            ),
            Self::NoDevice(name) => write!(
                f,
                "there is no device `{name}`: name an interface, a PCI address or a node of /dev \
                 (`dunlin cpus topology` lists them)"
            ),
            Self::DeviceNowhere(name) => write!(
                f,
                "the kernel tells no NUMA node and no local CPUs of `{name}`: it is a virtual \
                 device, so no CPU is nearer to it than another; name the device behind it"
            ),
        }
    }
}

impl std::error::Error for PlanError {}
