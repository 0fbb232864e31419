//! Whole elements first: the order in which the kubelet packs CPUs.
use crate::free::{Free, members};
use crate::request::{Constraints, Spread};
use cpu::CpuList;
use cpu_topology::{Level, Topology};
use std::collections::BTreeSet;

/// Takes as many CPUs as needed, or all where there are fewer.
pub(crate) fn take_packed(
    topology: &Topology,
    candidates: &CpuList,
    need: usize,
    constraints: &Constraints,
) -> CpuList {
    let mut packing = Packing {
        free: Free::new(topology, candidates),
        need,
        taken: Vec::new(),
        across_cores: constraints.spread == Spread::AcrossCores,
    };
    let (first, second) = packing.levels();
    packing.take_complete(first);
    packing.take_complete(second);
    if constraints.prefer_l3 {
        packing.take_l3();
    }
    if !packing.across_cores {
        packing.take_complete(Level::Core);
    }
    for cpu in packing.sorted_cpus() {
        if packing.need == 0 {
            break;
        }
        packing.take(&[cpu]);
    }
    packing.taken.into_iter().collect()
}

struct Packing<'t> {
    free: Free<'t>,
    need: usize,
    taken: Vec<usize>,
    across_cores: bool,
}

impl Packing<'_> {
    /// The outer and the inner level: NUMA nodes hold sockets, or sockets hold NUMA nodes.
    fn levels(&self) -> (Level, Level) {
        let count = |level| members(self.free.topology, level).len();
        if count(Level::Socket) >= count(Level::Node) {
            (Level::Node, Level::Socket)
        } else {
            (Level::Socket, Level::Node)
        }
    }

    fn take(&mut self, cpus: &[usize]) {
        let fresh: Vec<_> =
            cpus.iter().copied().filter(|cpu| self.free.cpus.contains(cpu)).collect();
        self.free.remove(fresh.iter().copied());
        self.need = self.need.saturating_sub(fresh.len());
        self.taken.extend(fresh);
    }

    /// Elements of a level in the order in which they are filled.
    fn sorted(&self, level: Level) -> Vec<usize> {
        let (first, second) = self.levels();
        if level == first {
            return self.free.sorted(first);
        }
        let outer = if level == second { first } else { second };
        let of_outer = |id| self.free.sorted_in(level, outer, id);
        let mut seen = BTreeSet::new();
        let all = self.sorted(outer).into_iter().flat_map(of_outer);
        all.filter(|id| seen.insert(*id)).collect()
    }

    /// L3 domains in the order in which they are filled: node by node.
    fn sorted_l3(&self) -> Vec<usize> {
        let of_node = |node| self.free.sorted_in(Level::L3, Level::Node, node);
        let mut seen = BTreeSet::new();
        let all = self.sorted(Level::Node).into_iter().flat_map(of_node);
        all.filter(|id| seen.insert(*id)).collect()
    }

    /// Takes elements that are free as a whole and not larger than what is needed.
    fn take_complete(&mut self, level: Level) {
        let sorted = if level == Level::L3 { self.sorted_l3() } else { self.sorted(level) };
        let members = members(self.free.topology, level);
        let elements = self.free.elements(level);
        for id in sorted {
            let Some(free) = elements.get(&id) else { continue };
            if members.get(&id) == Some(&free.len()) && self.need >= free.len() {
                self.take(free);
            }
        }
    }

    /// Takes whole L3 domains, or a part of one that is just what is needed.
    fn take_l3(&mut self) {
        let members = members(self.free.topology, Level::L3);
        let size = self.free.topology.cpus.len() / members.len().max(1);
        for id in self.sorted_l3() {
            if self.need >= size {
                self.take_complete(Level::L3);
            }
            if self.need == 0 {
                return;
            }
            self.take_part_of_l3(id);
        }
    }

    fn take_part_of_l3(&mut self, id: usize) {
        let threads = self.free.topology.threads_max();
        let cpus = self.free.within(Level::L3, id);
        let inside = Free::new(self.free.topology, &cpus);
        let cores = inside.elements(Level::Core).into_values();
        let mut part: Vec<usize> = cores.take(self.need.div_ceil(threads)).flatten().collect();
        part.sort_unstable();
        if threads > 1 && !self.need.is_multiple_of(2) && part.len() > self.need {
            part.pop();
        }
        if part.len() == self.need {
            self.take(&part);
        }
    }

    /// Single CPUs in the order in which they are taken.
    fn sorted_cpus(&self) -> Vec<usize> {
        let level = if self.across_cores { Level::Socket } else { Level::Core };
        let elements = self.free.elements(level);
        let sorted = self.sorted(level);
        sorted.iter().filter_map(|id| elements.get(id)).flatten().copied().collect()
    }
}
