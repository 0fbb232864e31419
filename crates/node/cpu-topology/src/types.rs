//! The parts of a machine.
use crate::as_text;
use cpu::CpuList;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A machine, as it was when it was read. Every id is unique in the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Topology {
    /// The CPUs that are online, by id.
    pub cpus: Vec<Cpu>,
    /// The NUMA nodes, by id; some have memory only.
    pub nodes: Vec<Node>,
    /// CPUs that are present and offline. The kernel does not tell their core.
    #[serde(serialize_with = "as_text")]
    pub offline: CpuList,
    /// CPUs that the scheduler does not balance (`isolcpus`, isolated partitions).
    #[serde(serialize_with = "as_text")]
    pub isolated: CpuList,
    /// CPUs without a timer tick while one thread runs.
    #[serde(serialize_with = "as_text")]
    pub nohz_full: CpuList,
    /// Network interfaces, block devices and PCI devices.
    pub devices: Vec<Device>,
    /// Devices beyond [`crate::limits::DEVICES_MAX`].
    pub devices_left_out: usize,
    /// Interrupts, by number.
    pub interrupts: Vec<Interrupt>,
    /// Interrupts beyond [`crate::limits::INTERRUPTS_MAX`].
    pub interrupts_left_out: usize,
    /// CPUs that this process may use; `None` of a saved copy.
    #[serde(serialize_with = "optional_as_text")]
    pub allowed: Option<CpuList>,
    /// CPUs' worth of time that its control groups grant; `None`: no limit, or a saved copy.
    pub quota: Option<f64>,
}

fn optional_as_text<S: serde::Serializer>(
    list: &Option<CpuList>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match list {
        Some(list) => as_text(list, serializer),
        None => serializer.serialize_none(),
    }
}

/// A logical CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Its number.
    pub id: usize,
    /// Its core: the lowest online CPU of it.
    pub core: usize,
    /// Its L2 domain, if the kernel tells one.
    pub l2: Option<usize>,
    /// Its L3 domain, if the kernel tells one.
    pub l3: Option<usize>,
    /// Its die.
    pub die: usize,
    /// Its NUMA node.
    pub node: usize,
    /// Its socket.
    pub socket: usize,
    /// What core it is of.
    pub kind: CoreKind,
}

/// A type of core. The order is that of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// The fast ones of a machine that has several types.
    Performance,
    /// All cores are alike, or the kernel does not tell types.
    #[default]
    Standard,
    /// The small ones of a machine that has several types.
    Efficient,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub id: usize,
    /// Distances to the nodes, in the order of [`Topology::nodes`]; 10 is the node itself. Empty
    /// where the kernel does not tell.
    pub distances: Vec<u32>,
    /// Memory in bytes; 0 where the kernel does not tell.
    pub memory_bytes: u64,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A network interface.
    Network,
    /// A disk or a partition of one.
    Block,
    /// A PCI function.
    Pci,
}

/// A device and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// `eth0`, `nvme0n1` or `0000:3b:00.0`.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// The address of the PCI function behind it.
    pub pci: Option<String>,
    /// Its NUMA node, if it has one.
    pub node: Option<usize>,
    /// The CPUs that the kernel calls local to it; empty if it calls none so.
    #[serde(serialize_with = "as_text")]
    pub local: CpuList,
    /// Its interrupts (MSI).
    pub interrupts: Vec<u32>,
}

/// An interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// What raises it, as the drivers say.
    pub name: String,
    /// The CPUs that it may go to.
    #[serde(serialize_with = "as_text")]
    pub allowed: CpuList,
    /// The CPUs that it goes to.
    #[serde(serialize_with = "as_text")]
    pub effective: CpuList,
}

/// A level of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// CPUs of one core.
    Core,
    /// CPUs that share an L2 cache.
    L2,
    /// CPUs that share an L3 cache.
    L3,
    /// CPUs of one die.
    Die,
    /// CPUs of one NUMA node.
    Node,
    /// CPUs of one socket.
    Socket,
    /// All CPUs.
    Machine,
}

impl Level {
    /// The name of some elements of this level: `L3 domain`, `NUMA nodes`.
    pub fn noun(self, number: usize) -> String {
        let s = if number == 1 { "" } else { "s" };
        match self {
            Self::Core => format!("core{s}"),
            Self::L2 => format!("L2 domain{s}"),
            Self::L3 => format!("L3 domain{s}"),
            Self::Die => format!("die{s}"),
            Self::Node => format!("NUMA node{s}"),
            Self::Socket => format!("socket{s}"),
            Self::Machine => format!("machine{s}"),
        }
    }
}

/// What two CPUs share, closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The core: they are its threads.
    SameCore,
    /// The L2 cache.
    SameL2,
    /// The L3 cache.
    SameL3,
    /// The NUMA node.
    SameNode,
    /// The socket.
    SameSocket,
    /// Only the machine.
    OtherSocket,
}

impl Relation {
    /// All of them, closest first.
    pub const ALL: [Self; 6] = [
        Self::SameCore,
        Self::SameL2,
        Self::SameL3,
        Self::SameNode,
        Self::SameSocket,
        Self::OtherSocket,
    ];
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SameCore => "same core",
            Self::SameL2 => "same L2",
            Self::SameL3 => "same L3",
            Self::SameNode => "same NUMA node",
            Self::SameSocket => "same socket",
            Self::OtherSocket => "other socket",
        })
    }
}

impl Cpu {
    /// The element of a level that this CPU is in; `None` where the kernel tells none.
    pub fn element(&self, level: Level) -> Option<usize> {
        match level {
            Level::Core => Some(self.core),
            Level::L2 => self.l2,
            Level::L3 => self.l3,
            Level::Die => Some(self.die),
            Level::Node => Some(self.node),
            Level::Socket => Some(self.socket),
            Level::Machine => Some(0),
        }
    }
}

impl Topology {
    /// The CPU with this number, if it is online.
    pub fn cpu(&self, id: usize) -> Option<&Cpu> {
        let index = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        self.cpus.get(index)
    }

    /// The CPUs that are online.
    pub fn online(&self) -> CpuList {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// The elements of a level, by id, each with its online CPUs. CPUs of which the kernel tells
    /// no element of this level are in none.
    pub fn elements(&self, level: Level) -> BTreeMap<usize, CpuList> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for cpu in &self.cpus {
            if let Some(element) = cpu.element(level) {
                members.entry(element).or_default().push(cpu.id);
            }
        }
        members.into_iter().map(|(id, cpus)| (id, cpus.into_iter().collect())).collect()
    }

    /// The online CPUs that share a core with one of `cpus`, those themselves among them.
    pub fn with_siblings(&self, cpus: &CpuList) -> CpuList {
        let cores: Vec<_> = cpus.iter().filter_map(|id| self.cpu(id)).map(|cpu| cpu.core).collect();
        self.cpus.iter().filter(|cpu| cores.contains(&cpu.core)).map(|cpu| cpu.id).collect()
    }

    /// Threads of the core that has the most of them online; 1 where there is no CPU.
    pub fn threads_max(&self) -> usize {
        self.elements(Level::Core).values().map(CpuList::len).max().unwrap_or(1)
    }

    /// What two CPUs share; `None` if one of them is not online.
    pub fn relation(&self, one: usize, other: usize) -> Option<Relation> {
        let (one, other) = (self.cpu(one)?, self.cpu(other)?);
        let shares =
            |level| one.element(level).is_some() && one.element(level) == other.element(level);
        Some(match () {
            () if shares(Level::Core) => Relation::SameCore,
            () if shares(Level::L2) => Relation::SameL2,
            () if shares(Level::L3) => Relation::SameL3,
            () if shares(Level::Node) => Relation::SameNode,
            () if shares(Level::Socket) => Relation::SameSocket,
            () => Relation::OtherSocket,
        })
    }

    /// The distance between two NUMA nodes; without the kernel's word 10 to itself, else 20.
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        let index = |id| self.nodes.iter().position(|node: &Node| node.id == id);
        let told = index(from).zip(index(to)).and_then(|(from, to)| {
            self.nodes.get(from).and_then(|node| node.distances.get(to)).copied()
        });
        told.unwrap_or(if from == to { 10 } else { 20 })
    }

    /// The device by its name, its PCI address (the domain `0000:` may be left out), or its node
    /// in `/dev`.
    pub fn device(&self, name: &str) -> Option<&Device> {
        let name = name.strip_prefix("/dev/").unwrap_or(name);
        let long = format!("0000:{name}");
        self.devices.iter().find(|device| device.name == name || device.name == long)
    }
}
