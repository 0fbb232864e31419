//! Reading a machine's CPUs, caches and NUMA nodes.
use crate::devices;
use crate::limits::NODES_MAX;
use crate::sysfs::{ReadError, Roots, list, number, numbered, optional, optional_list};
use crate::types::{CoreKind, Cpu, Node, Topology};
use cpu::CpuList;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads this machine.
///
/// # Errors
/// sysfs is not mounted, or says what no kernel says.
pub fn read() -> Result<Topology, ReadError> {
    with_process(read_roots(&Roots::live())?)
}

/// The same with what this process may use.
pub(crate) fn with_process(mut topology: Topology) -> Result<Topology, ReadError> {
    topology.allowed = Some(cpu::allowed().map_err(ReadError::Affinity)?);
    topology.quota = cpu::quota();
    Ok(topology)
}

/// Reads a machine from a saved copy: a directory with `sys` and `proc` of it, or with what is in
/// its `/sys`.
///
/// # Errors
/// There is no copy of sysfs, or it says what no kernel says.
pub fn read_saved(dir: &Path) -> Result<Topology, ReadError> {
    read_roots(&Roots::saved(dir)?)
}

pub(crate) fn read_roots(roots: &Roots) -> Result<Topology, ReadError> {
    let cpu_dir = roots.sys.join("devices/system/cpu");
    let online = list(&cpu_dir.join("online"))?;
    if online.is_empty() {
        let path = cpu_dir.join("online");
        return Err(ReadError::Malformed(path, "no CPU is online".into()));
    }
    let node_dir = roots.sys.join("devices/system/node");
    let (nodes, node_of) = read_nodes(&node_dir)?;
    let kinds = read_kinds(&roots.sys, &cpu_dir, &online)?;
    let mut groups = Groups::default();
    let mut cpus = Vec::new();
    for id in online.iter() {
        let node = node_of.get(&id).copied().unwrap_or(0);
        let kind = kinds.get(&id).copied().unwrap_or_default();
        cpus.push(read_cpu(
            &cpu_dir.join(format!("cpu{id}")),
            id,
            &online,
            &mut groups,
            node,
            kind,
        )?);
    }
    let mut topology = Topology {
        cpus,
        nodes,
        offline: optional_list(&cpu_dir.join("present"))?.difference(&online),
        isolated: optional_list(&cpu_dir.join("isolated"))?.intersection(&online),
        nohz_full: optional_list(&cpu_dir.join("nohz_full"))?.intersection(&online),
        ..Topology::default()
    };
    devices::read(roots, &mut topology);
    Ok(topology)
}

/// Groups of CPUs that share something, numbered in the order in which they are met.
#[derive(Default)]
struct Groups(BTreeMap<(&'static str, CpuList), usize>, BTreeMap<&'static str, usize>);

impl Groups {
    fn number(&mut self, what: &'static str, members: CpuList) -> usize {
        let next = self.1.entry(what).or_default();
        *self.0.entry((what, members)).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }
}

fn read_cpu(
    dir: &Path,
    id: usize,
    online: &CpuList,
    groups: &mut Groups,
    node: usize,
    kind: CoreKind,
) -> Result<Cpu, ReadError> {
    let topology = dir.join("topology");
    let own = || CpuList::from_iter([id]);
    // Old kernels have the second name only; without either, each CPU is a core.
    let members = |new: &str, old: &str| -> Result<CpuList, ReadError> {
        let path =
            [new, old].map(|name| topology.join(name)).into_iter().find(|path| path.exists());
        let found = path.map_or(Ok(own()), |path| list(&path))?;
        // The CPU itself belongs to it whatever a damaged copy says.
        Ok(found.intersection(online).union(&own()))
    };
    let threads = members("core_cpus_list", "thread_siblings_list")?;
    let package = members("package_cpus_list", "core_siblings_list")?;
    let die = match topology.join("die_cpus_list") {
        path if path.exists() => list(&path)?.intersection(online).union(&own()),
        _ => package.clone(),
    };
    let socket = number(&topology.join("physical_package_id"));
    let mut caches = [None, None];
    for index in numbered(&dir.join("cache"), "index") {
        let cache = dir.join(format!("cache/index{index}"));
        let slot = match optional(&cache.join("level")).as_deref() {
            Some("2") => 0,
            Some("3") => 1,
            _ => continue,
        };
        let shared = list(&cache.join("shared_cpu_list"))?.intersection(online).union(&own());
        caches[slot] = Some(groups.number(["l2", "l3"][slot], shared));
    }
    Ok(Cpu {
        id,
        core: threads.iter().next().unwrap_or(id),
        l2: caches[0],
        l3: caches[1],
        die: groups.number("die", die),
        node,
        socket: socket.unwrap_or_else(|| groups.number("socket", package)),
        kind,
    })
}

/// The NUMA nodes, and the node of each CPU. Without NUMA there is one node.
fn read_nodes(dir: &Path) -> Result<(Vec<Node>, BTreeMap<usize, usize>), ReadError> {
    let mut nodes = Vec::new();
    let mut node_of = BTreeMap::new();
    for id in numbered(dir, "node").into_iter().filter(|&id| id < NODES_MAX) {
        let own = dir.join(format!("node{id}"));
        for cpu in list(&own.join("cpulist"))?.iter() {
            node_of.insert(cpu, id);
        }
        let distances = optional(&own.join("distance")).unwrap_or_default();
        let distances = distances.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let memory_bytes = optional(&own.join("meminfo")).and_then(|text| memory_bytes(&text));
        nodes.push(Node { id, distances, memory_bytes: memory_bytes.unwrap_or(0) });
    }
    if nodes.is_empty() {
        nodes.push(Node { id: 0, distances: vec![10], memory_bytes: 0 });
    }
    Ok((nodes, node_of))
}

/// `Node 0 MemTotal:       24602456 kB`
fn memory_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
    kib.checked_mul(1_024)
}

/// Types of cores: by the PMU of each type on x86, by the capacity of each CPU on Arm.
fn read_kinds(
    sys: &Path,
    cpu_dir: &Path,
    online: &CpuList,
) -> Result<BTreeMap<usize, CoreKind>, ReadError> {
    let mut kinds = BTreeMap::new();
    for (pmu, kind) in [("cpu_core", CoreKind::Performance), ("cpu_atom", CoreKind::Efficient)] {
        let cpus = optional_list(&sys.join("devices").join(pmu).join("cpus"))?;
        kinds.extend(cpus.iter().map(|cpu| (cpu, kind)));
    }
    if !kinds.is_empty() {
        return Ok(kinds);
    }
    let capacity = |cpu| number(&cpu_dir.join(format!("cpu{cpu}/cpu_capacity")));
    let capacities: Vec<_> = online.iter().filter_map(|cpu| Some((cpu, capacity(cpu)?))).collect();
    let highest = capacities.iter().map(|(_, capacity)| *capacity).max().unwrap_or(0);
    if capacities.iter().any(|(_, capacity)| *capacity < highest) {
        kinds.extend(capacities.iter().map(|&(cpu, capacity)| {
            let is_fast = capacity == highest;
            (cpu, if is_fast { CoreKind::Performance } else { CoreKind::Efficient })
        }));
    }
    Ok(kinds)
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
