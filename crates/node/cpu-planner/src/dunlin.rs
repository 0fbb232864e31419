//! The order of Dunlin: near the device first, then the smallest part of the machine in which the
//! request fits, and there the one with the least left over.
use crate::explain::Preference;
use crate::free::{Free, complete_cores};
use crate::kubelet::hinted;
use crate::request::{Constraints, PlanError, Request, Spread};
use cpu::CpuList;
use cpu_topology::{CoreKind, Device, Level, Topology};
use std::collections::BTreeMap;

/// Chooses among `candidates`, of which there are enough. Returns the CPUs, those among which they
/// were chosen, and what narrowed these.
///
/// # Errors
/// The device is not there or virtual, or whole cores cannot make up the request.
pub(crate) fn take(
    topology: &Topology,
    candidates: &CpuList,
    request: &Request,
    constraints: &Constraints,
) -> Result<(CpuList, CpuList, Vec<Preference>), PlanError> {
    let near = request.near.as_deref().map(|name| local(topology, name)).transpose()?;
    let whole = constraints.full_cores.then(|| complete_cores(topology, candidates));
    let (threads, need) = (topology.threads_max(), request.cpus);
    if let Some(whole) = whole.as_ref().filter(|whole| whole.len() < need) {
        let available = whole.len();
        return Err(PlanError::NotEnoughCores { requested: need, available, threads });
    }
    let cpus = whole.unwrap_or_else(|| candidates.clone());
    let mut pool = Pool { topology, cpus, told: Vec::new(), need, spread: constraints.spread };
    if let Some(nodes) = &constraints.nodes {
        let name = format!("on the hinted NUMA nodes {}", words(nodes));
        pool.prefer(name, &hinted(topology, nodes, constraints.align_by_socket));
    }
    if let (Some(name), Some(near)) = (&request.near, &near)
        && !pool.prefer(format!("local to {name}"), near)
    {
        pool.prefer(format!("on the socket of {name}"), &with(topology, Level::Socket, near));
    }
    if let Some((name, cpus)) = &constraints.near_container {
        let levels = [
            (Level::L3, "in the L3 domain"),
            (Level::Node, "on the NUMA node"),
            (Level::Socket, "on the socket"),
        ];
        for (level, what) in levels {
            if pool.prefer(format!("{what} of {name}"), &with(topology, level, cpus)) {
                break;
            }
        }
    }
    // Nothing else may run on these, so they are wasted on those who share.
    pool.prefer_if_there("isolated by the kernel", &topology.isolated);
    for kind in [CoreKind::Performance, CoreKind::Efficient] {
        let cpus: CpuList =
            topology.cpus.iter().filter(|cpu| cpu.kind == kind).map(|cpu| cpu.id).collect();
        let name = if kind == CoreKind::Performance { "performance" } else { "efficient" };
        if pool.prefer_if_there(&format!("on {name} cores"), &cpus) {
            break;
        }
    }
    let near = near.or_else(|| constraints.near_container.as_ref().map(|(_, cpus)| cpus.clone()));
    let near = constraints.nodes.as_ref().map(|nodes| hinted(topology, nodes, false)).or(near);
    let cpus = match constraints.spread {
        Spread::AcrossNodes(group) => {
            let constraints =
                Constraints { spread: Spread::AcrossNodes(group), ..constraints.clone() };
            crate::distribute::take(topology, &pool.cpus, need, group.max(1), &constraints)
        }
        Spread::AcrossCores => take_across_cores(topology, &pool.cpus, need, near.as_ref()),
        Spread::Packed => Taking::new(topology, &pool.cpus, near.as_ref()).take(need),
    };
    if cpus.len() < need || (constraints.full_cores && complete_cores(topology, &cpus) != cpus) {
        return Err(PlanError::PartOfCore { requested: need, threads });
    }
    Ok((cpus, pool.cpus, pool.told))
}

fn words(ids: &[usize]) -> String {
    ids.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The CPUs among which is chosen, narrowed step by step.
struct Pool<'t> {
    topology: &'t Topology,
    cpus: CpuList,
    told: Vec<Preference>,
    need: usize,
    spread: Spread,
}

impl Pool<'_> {
    /// Whether the request fits: onto as many cores, where it is spread over cores and there are
    /// so many.
    fn has_room(&self, cpus: &CpuList) -> bool {
        let cores = |cpus| Free::new(self.topology, cpus).elements(Level::Core).len();
        let by_core = self.spread == Spread::AcrossCores && cores(&self.cpus) >= self.need;
        self.need <= if by_core { cores(cpus) } else { cpus.len() }
    }

    /// Narrows it to `wanted` if the request fits there.
    fn prefer(&mut self, what: String, wanted: &CpuList) -> bool {
        let narrowed = self.cpus.intersection(wanted);
        let is_met = self.has_room(&narrowed);
        self.told.push(Preference { what, free: narrowed.len(), is_met });
        if is_met {
            self.cpus = narrowed;
        }
        is_met
    }

    /// The same, unless it makes no difference.
    fn prefer_if_there(&mut self, what: &str, wanted: &CpuList) -> bool {
        let narrowed = self.cpus.intersection(wanted);
        let is_some = !narrowed.is_empty() && narrowed.len() < self.cpus.len();
        is_some && self.prefer(what.to_owned(), wanted)
    }
}

/// The CPUs that are local to a device.
fn local(topology: &Topology, name: &str) -> Result<CpuList, PlanError> {
    let device = topology.device(name).ok_or_else(|| PlanError::NoDevice(name.to_owned()))?;
    let by_node = |device: &Device| -> CpuList {
        let is_near = |cpu: &&cpu_topology::Cpu| Some(cpu.node) == device.node;
        topology.cpus.iter().filter(is_near).map(|cpu| cpu.id).collect()
    };
    let near = [by_node(device), device.local.intersection(&topology.online())];
    let no_place = || PlanError::DeviceNowhere(name.to_owned());
    near.into_iter().find(|cpus| !cpus.is_empty()).ok_or_else(no_place)
}

/// All CPUs of the elements of a level that have some of these.
fn with(topology: &Topology, level: Level, cpus: &CpuList) -> CpuList {
    let is_in = |element: &CpuList| !element.intersection(cpus).is_empty();
    let elements = topology.elements(level).into_values();
    elements.filter(is_in).fold(CpuList::default(), |all, element| all.union(&element))
}

/// One thread of each core, idle cores first; more only where there are no more cores.
fn take_across_cores(
    topology: &Topology,
    pool: &CpuList,
    need: usize,
    near: Option<&CpuList>,
) -> CpuList {
    let firsts = |cpus: &CpuList| -> CpuList {
        let cores = Free::new(topology, cpus).elements(Level::Core).into_values();
        cores.filter_map(|cpus| cpus.first().copied()).collect()
    };
    let take = |cpus: &CpuList, need| Taking::new(topology, cpus, near).take(need);
    let (idle, any) = (firsts(&complete_cores(topology, pool)), firsts(pool));
    match () {
        () if idle.len() >= need => take(&idle, need),
        () if any.len() >= need => idle.union(&take(&any.difference(&idle), need - idle.len())),
        () => any.union(&take(&pool.difference(&any), need - any.len())),
    }
}

struct Taking<'t> {
    free: Free<'t>,
    /// Levels with more than one element, the one with the smallest elements first, and each
    /// element's members.
    levels: Vec<(Level, BTreeMap<usize, CpuList>)>,
    near: Vec<usize>,
}

impl<'t> Taking<'t> {
    fn new(topology: &'t Topology, cpus: &CpuList, near: Option<&CpuList>) -> Self {
        let mut levels: Vec<_> = [Level::L3, Level::Node, Level::Socket, Level::Machine]
            .map(|level| (level, topology.elements(level)))
            .into_iter()
            .filter(|(_, elements)| !elements.is_empty())
            .collect();
        // Sub-NUMA clusters are smaller than an L3 domain, and old boards have sockets smaller
        // than a node: the sizes decide, not the names.
        levels.sort_by_key(|(_, elements)| elements.values().map(CpuList::len).max());
        let is_near = |cpu: &&cpu_topology::Cpu| near.is_some_and(|near| near.contains(cpu.id));
        let mut nodes: Vec<_> = topology.cpus.iter().filter(is_near).map(|cpu| cpu.node).collect();
        nodes.dedup();
        Self { free: Free::new(topology, cpus), levels, near: nodes }
    }

    fn free_in(&self, members: &CpuList) -> CpuList {
        members.iter().filter(|cpu| self.free.cpus.contains(cpu)).collect()
    }

    /// Distance of some CPUs from the device; 0 without one.
    fn distance(&self, cpus: &CpuList) -> u32 {
        let topology = self.free.topology;
        let from = |cpu: &cpu_topology::Cpu| {
            self.near.iter().map(|&node| topology.distance(node, cpu.node)).min().unwrap_or(0)
        };
        cpus.iter().filter_map(|id| topology.cpu(id)).map(from).min().unwrap_or(0)
    }

    /// CPUs of the request that could not be threads of whole cores, if it were met by `cpus`.
    fn loss(&self, cpus: &CpuList, need: usize) -> usize {
        let whole = complete_cores(self.free.topology, cpus);
        let cores = Free::new(self.free.topology, &whole).elements(Level::Core);
        let mut sizes: Vec<usize> = cores.into_values().map(|core| core.len()).collect();
        sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
        sizes.into_iter().fold(need, |left, size| if size <= left { left - size } else { left })
    }

    /// Free CPUs in the elements of each level that the first of some CPUs is in, smallest level
    /// first: what would be broken up.
    fn around(&self, cpus: &CpuList) -> Vec<usize> {
        let Some(first) = cpus.iter().next() else { return Vec::new() };
        let element = |elements: &BTreeMap<usize, CpuList>| {
            let members = elements.values().find(|members| members.contains(first))?;
            Some(self.free_in(members).len())
        };
        self.levels.iter().filter_map(|(_, elements)| element(elements)).collect()
    }

    /// Takes `need` CPUs, or all where there are fewer.
    fn take(mut self, need: usize) -> CpuList {
        let all: CpuList = self.free.cpus.iter().copied().collect();
        let levels = self.levels.len();
        self.take_within(&all, need, levels).into_iter().collect()
    }

    /// Takes CPUs out of `pool`, looking at the `levels` smallest levels.
    fn take_within(&mut self, pool: &CpuList, need: usize, levels: usize) -> Vec<usize> {
        if need == 0 || pool.is_empty() {
            return Vec::new();
        }
        let parts = |level: usize| -> Vec<CpuList> {
            let Some((_, elements)) = self.levels.get(level) else { return Vec::new() };
            let parts = elements.values().map(|members| members.intersection(pool));
            parts.filter(|part| !part.is_empty()).collect()
        };
        for level in 0..levels {
            let best =
                parts(level).into_iter().filter(|part| part.len() >= need).min_by_key(|part| {
                    let (left_over, around) = (part.len(), self.around(part));
                    (self.distance(part), self.loss(part, need), left_over, around, part.clone())
                });
            let Some(best) = best else { continue };
            return if level == 0 {
                self.take_cores(&best, need)
            } else {
                self.split(&best, need, level)
            };
        }
        // Some CPUs are in no element of any level that was looked at.
        self.take_cores(pool, need)
    }

    /// Takes CPUs out of an element, of which no part of a smaller level has enough: the largest
    /// parts first, so that there are few of them, and the rest where it fits best.
    fn split(&mut self, pool: &CpuList, need: usize, level: usize) -> Vec<usize> {
        let whole = complete_cores(self.free.topology, pool);
        // It is split anyway: then no core is.
        let pool = if whole.len() >= need && self.loss(pool, need) == 0 { &whole } else { pool };
        let (mut pool, mut need, mut taken) = (pool.clone(), need, Vec::new());
        let Some((_, elements)) = self.levels.get(level - 1).cloned() else { return taken };
        loop {
            let parts = elements.values().map(|members| members.intersection(&pool));
            let fitting = parts.filter(|part| !part.is_empty() && part.len() <= need);
            let has_fit =
                elements.values().any(|members| members.intersection(&pool).len() >= need);
            let largest = fitting.max_by_key(|part| {
                let id = std::cmp::Reverse(part.clone());
                (std::cmp::Reverse(self.distance(part)), part.len(), id)
            });
            let Some(largest) = largest.filter(|_| !has_fit) else { break };
            need -= largest.len();
            self.free.remove(largest.iter());
            taken.extend(largest.iter());
            pool = pool.difference(&largest);
        }
        taken.extend(self.take_within(&pool, need, level));
        taken
    }

    /// Takes whole cores as long as they fit, then threads of the cores with the fewest free.
    fn take_cores(&mut self, pool: &CpuList, mut need: usize) -> Vec<usize> {
        let whole = complete_cores(self.free.topology, pool);
        let mut cores: Vec<Vec<usize>> =
            Free::new(self.free.topology, pool).elements(Level::Core).into_values().collect();
        // Large cores first, so that small ones make up what is left.
        cores.sort_by_key(|core| (std::cmp::Reverse(core.len()), core.first().copied()));
        let mut taken = Vec::new();
        for core in &cores {
            let is_whole = core.first().is_some_and(|cpu| whole.contains(*cpu));
            if is_whole && core.len() <= need {
                need -= core.len();
                taken.extend(core);
            }
        }
        cores.sort_by_key(|core| (core.len(), core.first().copied()));
        let left: Vec<usize> =
            cores.into_iter().flatten().filter(|cpu| !taken.contains(cpu)).take(need).collect();
        taken.extend(left);
        self.free.remove(taken.iter().copied());
        taken
    }
}
