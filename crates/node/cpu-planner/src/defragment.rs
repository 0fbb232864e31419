//! Which containers to restart so that fewer are split.
use crate::{Constraints, Order, Request, Spread, plan};
use cpu::CpuList;
use cpu_topology::{Level, Topology};
use serde::Serialize;
use std::collections::BTreeMap;

/// A container that would be better off elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The container.
    pub name: String,
    /// Its CPUs.
    #[serde(serialize_with = "cpu_topology::as_text")]
    pub from: CpuList,
    /// The CPUs that it would have.
    #[serde(serialize_with = "cpu_topology::as_text")]
    pub to: CpuList,
}

/// Proposes moves that make fewer containers split over sockets, then NUMA nodes, then L3 domains:
/// of one container to free CPUs, or of two at once. Nothing is moved while it runs: these
/// containers get these CPUs when they are restarted in this order.
pub fn defragment(
    topology: &Topology,
    used: &BTreeMap<String, CpuList>,
    free: &CpuList,
    constraints: &Constraints,
) -> Vec<Move> {
    let mut moves: Vec<Move> = Vec::new();
    let (mut used, mut free) = (used.clone(), free.clone());
    let mut split: Vec<String> = used.keys().cloned().collect();
    split.sort_by_key(|name| {
        let cpus = used.get(name).cloned().unwrap_or_default();
        (std::cmp::Reverse(cost(topology, &cpus)), name.clone())
    });
    for name in split {
        let is_split = used.get(&name).is_some_and(|cpus| cost(topology, cpus) > [0; 3]);
        let is_moved = |name: &String| moves.iter().any(|one| one.name == *name);
        if !is_split || is_moved(&name) {
            continue;
        }
        let others = used.keys().filter(|other| **other != name && !is_moved(other));
        let pairs = others.map(|other| vec![name.clone(), other.clone()]);
        let found = std::iter::once(vec![name.clone()])
            .chain(pairs)
            .find_map(|names| again(topology, &used, &free, &names, constraints));
        for one in found.into_iter().flatten() {
            // Both have left before either comes.
            free = free.union(&one.from);
            used.insert(one.name.clone(), one.to.clone());
            moves.push(one);
        }
        let taken = used.values().fold(CpuList::default(), |all, cpus| all.union(cpus));
        free = free.difference(&taken);
    }
    moves
}

/// Elements too many that a set is in: sockets, NUMA nodes, L3 domains.
fn cost(topology: &Topology, cpus: &CpuList) -> [usize; 3] {
    [Level::Socket, Level::Node, Level::L3].map(|level| {
        let elements = topology.elements(level).into_values();
        let used = elements.filter(|members| !members.intersection(cpus).is_empty()).count();
        used.saturating_sub(1)
    })
}

/// Plans some containers anew, the largest first. `None` unless they are split less then.
fn again(
    topology: &Topology,
    used: &BTreeMap<String, CpuList>,
    free: &CpuList,
    names: &[String],
    constraints: &Constraints,
) -> Option<Vec<Move>> {
    let mut sets: Vec<(&String, &CpuList)> =
        names.iter().filter_map(|name| used.get_key_value(name)).collect();
    sets.sort_by_key(|(name, cpus)| (std::cmp::Reverse(cpus.len()), (*name).clone()));
    let mut free = sets.iter().fold(free.clone(), |free, (_, cpus)| free.union(cpus));
    let (order, spread, shared_min) = (Order::Dunlin, Spread::Packed, 0);
    let constraints = Constraints { order, spread, shared_min, nodes: None, ..constraints.clone() };
    let mut moves = Vec::new();
    for (name, from) in &sets {
        let request = Request { cpus: from.len(), near: None };
        let to = plan(topology, &free, &request, &constraints).ok()?.cpus;
        free = free.difference(&to);
        moves.push(Move { name: (*name).clone(), from: (*from).clone(), to });
    }
    let sum = |sets: Vec<&CpuList>| {
        sets.into_iter()
            .map(|cpus| cost(topology, cpus))
            .fold([0; 3], |sum, cost| std::array::from_fn(|index| sum[index] + cost[index]))
    };
    let before = sum(sets.iter().map(|(_, cpus)| *cpus).collect());
    let after = sum(moves.iter().map(|one| &one.to).collect());
    moves.retain(|one| one.from != one.to);
    (after < before).then_some(moves)
}
