//! The CPUs of Dunlin's own workers: one of each core, near the interface.
use cpu::CpuList;
use cpu_planner::{Constraints, PlanError, Request, Spread, plan};
use cpu_topology::{Level, Topology};

/// Chooses at most `most` of the allowed CPUs, one thread of each physical core, near an interface
/// if it is a place. The other threads of the cores stay for the control threads. Returns the CPUs
/// and the reason.
///
/// # Errors
/// The machine cannot be read, or none of the CPUs is online.
pub fn plan_workers(
    allowed: &CpuList,
    most: usize,
    near: Option<&str>,
) -> Result<(CpuList, String), String> {
    let topology = cpu_topology::read().map_err(|error| error.to_string())?;
    plan_on(&topology, allowed, most, near)
}

fn plan_on(
    topology: &Topology,
    allowed: &CpuList,
    most: usize,
    near: Option<&str>,
) -> Result<(CpuList, String), String> {
    let cores = topology.elements(Level::Core).into_values();
    let cores = cores.filter(|core| !core.intersection(allowed).is_empty()).count();
    let cpus = cores.min(most);
    let constraints = Constraints { spread: Spread::AcrossCores, ..Constraints::default() };
    let request = |near: Option<&str>| Request { cpus, near: near.map(str::to_owned) };
    let planned = match plan(topology, allowed, &request(near), &constraints) {
        // A bridge or a tunnel has no place: the workers run all the same.
        Err(PlanError::NoDevice(_) | PlanError::DeviceNowhere(_)) => {
            plan(topology, allowed, &request(None), &constraints)
        }
        planned => planned,
    };
    let plan = planned.map_err(|error| error.to_string())?;
    if plan.cpus.is_empty() {
        return Err(format!("none of the allowed CPUs ({allowed}) is online"));
    }
    let limit = if cpus < cores { format!(", the quota grants {most}") } else { String::new() };
    let why = plan.explanation.to_string().replace('\n', "; ");
    let reason = format!("one on each of {cpus} of {cores} cores{limit}; {why}");
    Ok((plan.cpus, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu_topology::{CoreKind, Cpu, Device, DeviceKind, Node};

    /// Two NUMA nodes of two cores of two threads; `eth0` is on node 1, `br0` is virtual.
    fn machine() -> Topology {
        let cpu = |id: usize| {
            let core = id % 4;
            let (node, kind) = (core / 2, CoreKind::Standard);
            Cpu { id, core, l2: None, l3: Some(node), die: node, node, socket: node, kind }
        };
        let device = |name: &str, node| Device {
            name: name.into(),
            kind: DeviceKind::Network,
            pci: None,
            node,
            local: CpuList::default(),
            interrupts: Vec::new(),
        };
        let node = |id| Node { id, distances: vec![], memory_bytes: 0 };
        Topology {
            cpus: (0..8).map(cpu).collect(),
            nodes: (0..2).map(node).collect(),
            devices: vec![device("eth0", Some(1)), device("br0", None)],
            ..Topology::default()
        }
    }

    fn planned(allowed: &str, most: usize, near: Option<&str>) -> (String, String) {
        let allowed = allowed.parse().expect("a list");
        let (cpus, reason) = plan_on(&machine(), &allowed, most, near).expect("a plan");
        (cpus.to_string(), reason)
    }

    #[test]
    fn workers_are_one_a_core_near_the_interface() {
        assert_eq!(planned("0-7", 99, Some("eth0")).0, "0-3");
        let (cpus, reason) = planned("0-7", 2, Some("eth0"));
        assert_eq!(cpus, "2-3", "{reason}");
        assert!(reason.contains("2 of 4 cores, the quota grants 2; local to eth0"), "{reason}");
        // Only second threads are allowed.
        assert_eq!(planned("5-7", 99, None).0, "5-7");
        assert_eq!(planned("2,6", 99, None).0, "2");
        // Neither is a place.
        assert_eq!(planned("0-7", 99, Some("br0")).0, "0-3");
        assert_eq!(planned("0-7", 99, Some("gone")).0, "0-3");
    }

    #[test]
    fn no_cpu_online_is_an_error() {
        let allowed = "9".parse().expect("a list");
        let error = plan_on(&machine(), &allowed, 1, None).expect_err("no CPU");
        assert!(error.contains("is online"), "{error}");
    }

    #[test]
    fn this_machine_has_a_place_for_workers() {
        let allowed = cpu::allowed().expect("CPUs");
        let (cpus, reason) = plan_workers(&allowed, 99, Some("lo")).expect("a plan");
        assert!(!cpus.is_empty() && cpus.is_subset(&allowed), "{cpus}: {reason}");
    }
}
