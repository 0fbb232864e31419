//! Machines and vectors for the tests.
#![allow(dead_code, reason = "each test uses a part")]

pub mod random;

use cpu::CpuList;
use cpu_planner::{Constraints, Order, Plan, PlanError, Request, Spread};
use cpu_topology::{CoreKind, Cpu, Node, Topology};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The vectors of a file.
pub fn vectors(file: &str) -> Value {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = here.ancestors().map(|dir| dir.join("crates/node/cpu-planner/tests/vectors"));
    let path = path.filter(|dir| dir.exists()).map(|dir| dir.join(file)).next().expect("a folder");
    serde_json::from_str(&std::fs::read_to_string(path).expect("vectors")).expect("JSON")
}

pub fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

pub fn list(value: &Value) -> CpuList {
    value.as_array().into_iter().flatten().map(number).collect()
}

/// A machine of the vectors.
pub fn machine(value: &Value) -> Topology {
    let cpus = value["cpus"].as_array().expect("CPUs").iter().map(|cpu| Cpu {
        id: number(&cpu["cpu"]),
        core: number(&cpu["core"]),
        l2: None,
        l3: Some(number(&cpu["uncore"])),
        die: number(&cpu["socket"]),
        node: number(&cpu["numa"]),
        socket: number(&cpu["socket"]),
        kind: CoreKind::Standard,
    });
    from_cpus(cpus.collect())
}

/// A machine of these CPUs.
pub fn from_cpus(mut cpus: Vec<Cpu>) -> Topology {
    cpus.sort_by_key(|cpu| cpu.id);
    let ids: BTreeSet<usize> = cpus.iter().map(|cpu| cpu.node).collect();
    let socket_of = |node| cpus.iter().find(|cpu| cpu.node == node).map(|cpu| cpu.socket);
    let distance = |from, to| match () {
        () if from == to => 10,
        () if socket_of(from) == socket_of(to) => 12,
        () => 32,
    };
    let nodes = ids.iter().map(|&id| Node {
        id,
        distances: ids.iter().map(|&to| distance(id, to)).collect(),
        memory_bytes: 0,
    });
    Topology { nodes: nodes.collect(), cpus, ..Topology::default() }
}

/// A case of cpu_assignment_cases.json as a request.
pub fn take_case(case: &Value, order: Order) -> (CpuList, Request, Constraints) {
    let option = |name: &str| case["options"][name].as_bool().unwrap_or(false);
    let spread = match case["fn"].as_str() {
        Some("distributed") => Spread::AcrossNodes(number(&case["cpu_group_size"])),
        _ if option("DistributeCPUsAcrossCores") => Spread::AcrossCores,
        _ => Spread::Packed,
    };
    let shared_min = usize::from(order == Order::Dunlin);
    let prefer_l3 = option("PreferAlignByUncoreCacheOption");
    let constraints =
        Constraints { order, spread, prefer_l3, shared_min, ..Constraints::default() };
    let request = Request { cpus: number(&case["num_cpus"]), near: None };
    (list(&case["available"]), request, constraints)
}

/// The constraints of a case of policy_static_cases.json, its reserved CPUs excepted.
pub fn policy_constraints(case: &Value, order: Order) -> Constraints {
    let option = |name: &str| case["options"][name] == "true";
    let hint = case["numa_hint"].as_array();
    Constraints {
        order,
        nodes: hint.map(|nodes| nodes.iter().map(number).collect()),
        full_cores: option("full-pcpus-only"),
        align_by_socket: option("align-by-socket"),
        strict_reservation: option("strict-cpu-reservation"),
        shared_min: usize::from(order == Order::Dunlin),
        ..Constraints::default()
    }
}

/// What a case leads to, as text: the CPUs, or the kubelet's error, or ours.
pub fn outcome(result: &Result<Plan, PlanError>) -> String {
    match result {
        Ok(plan) => plan.cpus.to_string(),
        Err(error) => error.kubelet_text().unwrap_or_else(|| error.to_string()),
    }
}
