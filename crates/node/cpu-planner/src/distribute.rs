//! Evenly over NUMA nodes, as the kubelet's `distribute-cpus-across-numa`.
use crate::free::{Free, members};
use crate::limits::COMBINATIONS_MAX;
use crate::packed::take_packed;
use crate::request::{Constraints, Spread};
use cpu::CpuList;
use cpu_topology::{Level, Topology};
use std::collections::BTreeMap;

/// Free CPUs by node.
type Counts = BTreeMap<usize, usize>;

/// The nodes to take an even share from, and those that give the rest.
struct Choice {
    nodes: Vec<usize>,
    rest: Vec<usize>,
    balance: f64,
}

/// Takes CPUs `group` at a time from as few nodes as can give equal shares, so that the nodes have
/// equally many left. Without such nodes the CPUs are packed.
pub(crate) fn take(
    topology: &Topology,
    candidates: &CpuList,
    need: usize,
    group: usize,
    constraints: &Constraints,
) -> CpuList {
    let packed = Constraints { spread: Spread::Packed, prefer_l3: false, ..constraints.clone() };
    if need.is_multiple_of(group)
        && let Some(choice) = choose(topology, candidates, need, group)
    {
        return take_choice(topology, candidates, need, group, &choice, &packed);
    }
    take_packed(topology, candidates, need, &packed)
}

fn take_choice(
    topology: &Topology,
    candidates: &CpuList,
    need: usize,
    group: usize,
    choice: &Choice,
    packed: &Constraints,
) -> CpuList {
    let mut free = Free::new(topology, candidates);
    let mut taken = CpuList::default();
    let mut take = |free: &mut Free<'_>, node, number| {
        let cpus = take_packed(topology, &free.within(Level::Node, node), number, packed);
        free.remove(cpus.iter());
        taken = taken.union(&cpus);
    };
    let share = need / choice.nodes.len() / group * group;
    for &node in &choice.nodes {
        take(&mut free, node, share);
    }
    let mut rest = need - share * choice.nodes.len();
    while rest > 0 {
        for &node in &choice.rest {
            if rest > 0 && free.count(Level::Node, node) >= group {
                take(&mut free, node, group);
                rest -= group;
            }
        }
    }
    taken
}

fn choose(topology: &Topology, candidates: &CpuList, need: usize, group: usize) -> Option<Choice> {
    let free = Free::new(topology, candidates);
    let counts: Counts =
        free.elements(Level::Node).iter().map(|(id, cpus)| (*id, cpus.len())).collect();
    // The order of the packed rules: nodes of the fullest socket first.
    let sockets = members(topology, Level::Socket).len();
    let nodes = if sockets >= members(topology, Level::Node).len() {
        free.sorted(Level::Node)
    } else {
        let of_socket = |socket| free.sorted_in(Level::Node, Level::Socket, socket);
        free.sorted(Level::Socket).into_iter().flat_map(of_socket).collect()
    };
    let groups = need / group;
    let capacity = (topology.cpus.len() / group).div_ceil(members(topology, Level::Node).len());
    let least = groups.div_ceil(capacity.max(1)).max(1);
    let mut left = COMBINATIONS_MAX;
    for size in least..=groups.min(nodes.len()) {
        let mut best: Option<Choice> = None;
        let is_done = combinations(&nodes, size, &mut left, &mut |nodes| {
            if let Some(found) = rate(&counts, nodes, need, group)
                && best.as_ref().is_none_or(|best| found.balance < best.balance)
            {
                best = Some(found);
            }
            best.as_ref().is_some_and(|best| best.balance == 0.0)
        });
        if best.is_some() || !is_done {
            return best;
        }
    }
    None
}

/// How even the nodes would be if these gave equal shares; `None` if they cannot.
fn rate(counts: &Counts, nodes: &[usize], need: usize, group: usize) -> Option<Choice> {
    let count = |node: &usize| counts.get(node).copied().unwrap_or(0);
    let in_groups: usize = nodes.iter().map(|node| count(node) / group * group).sum();
    let share = need / nodes.len() / group * group;
    if in_groups < need || nodes.iter().any(|node| count(node) < share) {
        return None;
    }
    let mut after = counts.clone();
    nodes.iter().for_each(|node| *after.entry(*node).or_default() -= share);
    let rest = need - share * nodes.len();
    if rest == 0 {
        return Some(Choice { nodes: nodes.into(), rest: Vec::new(), balance: deviation(&after) });
    }
    let givers: Vec<usize> =
        nodes.iter().copied().filter(|node| after.get(node) >= Some(&group)).collect();
    let mut best: Option<Choice> = None;
    let mut left = COMBINATIONS_MAX;
    for size in (1..=givers.len()).rev() {
        combinations(&givers, size, &mut left, &mut |subset| {
            if let Some(after) = give(&after, subset, rest, group) {
                let balance = deviation(&after);
                if best.as_ref().is_none_or(|best| balance < best.balance) {
                    best = Some(Choice { nodes: nodes.into(), rest: subset.into(), balance });
                }
            }
            false
        });
    }
    best
}

/// What is left when a subset gives the rest, a group in turn; `None` if it has not enough.
fn give(after: &Counts, subset: &[usize], mut rest: usize, group: usize) -> Option<Counts> {
    let mut after = after.clone();
    while rest > 0 {
        let before = rest;
        for node in subset {
            let count = after.get_mut(node)?;
            if rest > 0 && *count >= group {
                *count -= group;
                rest -= group;
            }
        }
        if rest == before {
            return None;
        }
    }
    Some(after)
}

/// The standard deviation of the nodes' free CPUs, by thousandths.
fn deviation(counts: &Counts) -> f64 {
    let thousandths = |value: f64| (value * 1_000.0).round() / 1_000.0;
    let number = counts.len() as f64;
    let mean = thousandths(counts.values().sum::<usize>() as f64 / number);
    let squares: f64 = counts.values().map(|count| (*count as f64 - mean).powi(2)).sum();
    thousandths((squares / number).sqrt())
}

/// Calls `each` with every choice of `size` of the items, in their order, until it returns true or
/// `left` calls are used up. Returns whether none was left out for that.
fn combinations(
    items: &[usize],
    size: usize,
    left: &mut usize,
    each: &mut impl FnMut(&[usize]) -> bool,
) -> bool {
    let mut indices: Vec<usize> = (0..size).collect();
    if size == 0 || size > items.len() {
        return true;
    }
    loop {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        let chosen: Vec<usize> =
            indices.iter().filter_map(|&index| items.get(index)).copied().collect();
        if each(&chosen) {
            return true;
        }
        let Some(moved) = (0..size).rev().find(|&i| indices[i] < items.len() - size + i) else {
            return true;
        };
        let from = indices[moved] + 1;
        for (offset, index) in indices[moved..].iter_mut().enumerate() {
            *index = from + offset;
        }
    }
}
