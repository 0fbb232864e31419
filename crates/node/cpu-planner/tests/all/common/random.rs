//! Random machines.
use super::from_cpus;
use cpu::CpuList;
use cpu_topology::{CoreKind, Cpu, Device, DeviceKind, Topology};
use fastrand::Rng;

/// A machine of up to some 70 CPUs: sockets that hold NUMA nodes or the other way round, with or
/// without L3 domains, cores of one to four threads, numbered by core or by thread, with CPUs
/// offline.
pub fn machine(random: &mut Rng) -> Topology {
    let (outer, inner) = (random.usize(1..=3), random.usize(1..=3));
    let is_socket_outer = random.bool();
    let (l3s, cores, threads) = (random.usize(1..=3), random.usize(1..=3), random.usize(1..=4));
    let has_l3 = random.u8(..4) > 0;
    let is_hybrid = random.u8(..6) == 0;
    let mut cpus: Vec<Cpu> = Vec::new();
    let total = outer * inner * l3s * cores;
    for index in 0..total {
        let (element, l3) = (index / (l3s * cores), index / cores);
        let (large, small) = (element / inner, element);
        let (socket, node) = if is_socket_outer { (large, small) } else { (small, large) };
        let kind = match (is_hybrid, index % cores) {
            (false, _) => CoreKind::Standard,
            (true, 0) => CoreKind::Performance,
            (true, _) => CoreKind::Efficient,
        };
        let threads = if kind == CoreKind::Efficient { 1 } else { threads };
        for thread in 0..threads {
            cpus.push(Cpu {
                id: index + thread * total,
                core: index,
                l2: Some(index),
                l3: has_l3.then_some(l3),
                die: socket,
                node,
                socket,
                kind,
            });
        }
    }
    if random.bool() {
        cpus.iter_mut().enumerate().for_each(|(id, cpu)| cpu.id = id);
    }
    let total = cpus.len();
    if random.u8(..3) == 0 {
        cpus.retain(|cpu| cpu.id == total / 2 || random.u8(..8) > 0);
    }
    let mut machine = from_cpus(cpus);
    machine.offline = (0..total).filter(|id| machine.cpu(*id).is_none()).collect();
    machine.isolated = subset(random, &machine.online(), 6);
    if random.u8(..3) > 0 {
        machine.isolated = CpuList::default();
    }
    let node = machine.nodes[random.usize(..machine.nodes.len())].id;
    machine.devices.push(Device {
        name: "eth0".into(),
        kind: DeviceKind::Network,
        pci: None,
        node: Some(node),
        local: CpuList::default(),
        interrupts: Vec::new(),
    });
    machine
}

/// Each CPU with a probability of `eighths`.
pub fn subset(random: &mut Rng, cpus: &CpuList, eighths: u8) -> CpuList {
    cpus.iter().filter(|_| random.u8(..8) < eighths).collect()
}
