//! The free CPUs of a machine, by element.
use cpu::CpuList;
use cpu_topology::{Cpu, Level, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// CPUs that can still be taken.
#[derive(Clone)]
pub(crate) struct Free<'t> {
    pub topology: &'t Topology,
    pub cpus: BTreeSet<usize>,
}

impl<'t> Free<'t> {
    pub fn new(topology: &'t Topology, cpus: &CpuList) -> Self {
        Self { topology, cpus: cpus.iter().collect() }
    }

    /// The free CPUs with what is known of them, by id.
    pub fn details(&self) -> impl Iterator<Item = &'t Cpu> + '_ {
        self.topology.cpus.iter().filter(|cpu| self.cpus.contains(&cpu.id))
    }

    /// Elements that have a free CPU, with their free CPUs.
    pub fn elements(&self, level: Level) -> BTreeMap<usize, Vec<usize>> {
        let mut elements: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for cpu in self.details() {
            elements.entry(element(cpu, level)).or_default().push(cpu.id);
        }
        elements
    }

    /// Free CPUs in an element.
    pub fn count(&self, level: Level, id: usize) -> usize {
        self.details().filter(|cpu| element(cpu, level) == id).count()
    }

    /// The free CPUs of an element.
    pub fn within(&self, level: Level, id: usize) -> CpuList {
        self.details().filter(|cpu| element(cpu, level) == id).map(|cpu| cpu.id).collect()
    }

    /// The sub-elements with a free CPU of an element, those with the fewest free CPUs first.
    pub fn sorted_in(&self, level: Level, outer: Level, id: usize) -> Vec<usize> {
        let inside: BTreeSet<usize> = self
            .details()
            .filter(|cpu| element(cpu, outer) == id)
            .map(|cpu| element(cpu, level))
            .collect();
        let mut sorted: Vec<_> = inside.into_iter().collect();
        sorted.sort_by_cached_key(|&inner| (self.count(level, inner), inner));
        sorted
    }

    /// The elements with a free CPU, those with the fewest first.
    pub fn sorted(&self, level: Level) -> Vec<usize> {
        let elements = self.elements(level);
        let mut sorted: Vec<_> = elements.iter().map(|(id, cpus)| (cpus.len(), *id)).collect();
        sorted.sort_unstable();
        sorted.into_iter().map(|(_, id)| id).collect()
    }

    /// Takes CPUs away.
    pub fn remove(&mut self, cpus: impl IntoIterator<Item = usize>) {
        for cpu in cpus {
            self.cpus.remove(&cpu);
        }
    }
}

/// The element that a CPU is in. Where the kernel tells no L3 domain, the socket stands for it.
pub(crate) fn element(cpu: &Cpu, level: Level) -> usize {
    cpu.element(level).unwrap_or(cpu.socket)
}

/// Members of each element of a level, by the machine.
pub(crate) fn members(topology: &Topology, level: Level) -> BTreeMap<usize, usize> {
    let mut members = BTreeMap::new();
    for cpu in &topology.cpus {
        *members.entry(element(cpu, level)).or_insert(0) += 1;
    }
    members
}

/// The CPUs of cores of which every online thread is among `cpus`.
pub(crate) fn complete_cores(topology: &Topology, cpus: &CpuList) -> CpuList {
    let cores = topology.elements(Level::Core).into_values();
    cores
        .filter(|core| core.is_subset(cpus))
        .flat_map(|core| core.iter().collect::<Vec<_>>())
        .collect()
}
