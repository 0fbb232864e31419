//! The order of the kubelet's static policy.
//!
//! One difference on purpose: sizes of elements are counted, never averages, so that an offline
//! sibling cannot lead to a CPU that is not free. On machines whose elements are alike it is the
//! same.
use crate::distribute;
use crate::packed::take_packed;
use crate::request::{Constraints, PlanError, Spread};
use cpu::CpuList;
use cpu_topology::Topology;
use std::collections::BTreeSet;

/// What the kubelet checks of a request for whole cores. `free` has the reserved CPUs in it.
pub(crate) fn check_full_cores(
    topology: &Topology,
    free: &CpuList,
    requested: usize,
    constraints: &Constraints,
) -> Result<(), PlanError> {
    let threads = topology.threads_max();
    if !requested.is_multiple_of(threads) {
        return Err(PlanError::PartOfCore { requested, threads });
    }
    let available = free.difference(&topology.with_siblings(&constraints.reserved)).len();
    if requested > available {
        return Err(PlanError::NotEnoughCores { requested, available, threads });
    }
    Ok(())
}

/// Takes CPUs out of `candidates`, of which there are enough: those of the hinted nodes first.
pub(crate) fn take(
    topology: &Topology,
    candidates: &CpuList,
    need: usize,
    constraints: &Constraints,
) -> Result<CpuList, PlanError> {
    let Some(nodes) = &constraints.nodes else {
        return Ok(take_by_topology(topology, candidates, need, constraints));
    };
    let hinted = hinted(topology, nodes, constraints.align_by_socket).intersection(candidates);
    let first = take_by_topology(topology, &hinted, need.min(hinted.len()), constraints);
    let rest = candidates.difference(&first);
    let second = take_by_topology(topology, &rest, need - first.len(), constraints);
    Ok(first.union(&second))
}

/// The CPUs of some nodes, or of the sockets of these.
pub(crate) fn hinted(topology: &Topology, nodes: &[usize], by_socket: bool) -> CpuList {
    let of_nodes = || topology.cpus.iter().filter(|cpu| nodes.contains(&cpu.node));
    let sockets: BTreeSet<usize> = of_nodes().map(|cpu| cpu.socket).collect();
    let is_hinted = |cpu: &&cpu_topology::Cpu| {
        nodes.contains(&cpu.node) || (by_socket && sockets.contains(&cpu.socket))
    };
    topology.cpus.iter().filter(is_hinted).map(|cpu| cpu.id).collect()
}

fn take_by_topology(
    topology: &Topology,
    candidates: &CpuList,
    need: usize,
    constraints: &Constraints,
) -> CpuList {
    match constraints.spread {
        Spread::AcrossNodes(group) => {
            distribute::take(topology, candidates, need, group.max(1), constraints)
        }
        _ => take_packed(topology, candidates, need, constraints),
    }
}
