//! Arrivals and departures on the machine with 80 CPUs, four NUMA nodes and two sockets.

use crate::common::{machine, vectors};
use cpu::CpuList;
use cpu_planner::{Constraints, Order, Request, plan};
use cpu_topology::{Level, Topology};
use fastrand::Rng;

const SEEDS: u64 = 3;
const ARRIVALS: usize = 200;

/// What happened to the requests of a run.
#[derive(Debug, Default)]
struct Outcome {
    plans: usize,
    across_nodes: usize,
    across_sockets: usize,
    /// Over several elements although one had enough.
    avoidable: usize,
}

fn spans(topology: &Topology, cpus: &CpuList, level: Level) -> usize {
    let elements = topology.elements(level);
    elements.values().filter(|members| !members.intersection(cpus).is_empty()).count()
}

fn fits(topology: &Topology, free: &CpuList, level: Level, need: usize) -> bool {
    topology.elements(level).values().any(|members| members.intersection(free).len() >= need)
}

/// Containers of 2 to 16 CPUs come and go; the load stays between 50 and 85 %.
fn run(topology: &Topology, order: Order, seed: u64) -> Outcome {
    let mut random = Rng::with_seed(seed);
    let mut outcome = Outcome::default();
    let mut running: Vec<CpuList> = Vec::new();
    let mut free = topology.online();
    let total = free.len();
    let constraints = Constraints { order, ..Constraints::default() };
    while outcome.plans < ARRIVALS {
        let need = random.usize(2..=16);
        let used = total - free.len();
        if (used + need) * 100 > total * 85 {
            while (total - free.len()) * 100 > total * 50 && !running.is_empty() {
                free = free.union(&running.swap_remove(random.usize(..running.len())));
                if random.bool() {
                    break;
                }
            }
            continue;
        }
        let plan = plan(topology, &free, &Request { cpus: need, near: None }, &constraints);
        let cpus = plan.expect("enough are free").cpus;
        for (level, across) in
            [(Level::Node, &mut outcome.across_nodes), (Level::Socket, &mut outcome.across_sockets)]
        {
            if spans(topology, &cpus, level) > 1 {
                *across += 1;
                outcome.avoidable += usize::from(fits(topology, &free, level, need));
            }
        }
        outcome.plans += 1;
        free = free.difference(&cpus);
        running.push(cpus);
    }
    outcome
}

#[test]
fn requests_stay_within_a_node_and_a_socket_where_one_fits() {
    let vectors = vectors("cpu_assignment_cases.json");
    let topology = machine(&vectors["topologies"]["topoDualSocketMultiNumaPerSocketHT"]);
    assert_eq!((topology.cpus.len(), topology.elements(Level::Node).len()), (80, 4));
    let [kubelet, dunlin] = [Order::Kubelet, Order::Dunlin].map(|order| {
        let outcomes = (0..SEEDS).map(|seed| run(&topology, order, seed));
        outcomes.fold(Outcome::default(), |all, one| Outcome {
            plans: all.plans + one.plans,
            across_nodes: all.across_nodes + one.across_nodes,
            across_sockets: all.across_sockets + one.across_sockets,
            avoidable: all.avoidable + one.avoidable,
        })
    });
    println!("kubelet: {kubelet:?}\ndunlin:  {dunlin:?}");
    assert_eq!(dunlin.avoidable, 0, "{dunlin:?}");
    assert!(kubelet.avoidable > 0, "the comparison says nothing: {kubelet:?}");
    let limit = 0.15 * kubelet.across_nodes as f64;
    assert!(dunlin.across_nodes as f64 <= limit, "{dunlin:?}, limit {limit}");
    assert!(dunlin.across_sockets <= kubelet.across_sockets, "{dunlin:?} {kubelet:?}");
}
