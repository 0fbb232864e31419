//! What the kubelet's CPU manager does badly and this planner decides otherwise. The letters are
//! those of docs/cpus.md.

use crate::common::{from_cpus, machine, vectors};
use cpu::CpuList;
use cpu_planner::{Constraints, Order, Plan, PlanError, Request, plan};
use cpu_topology::{CoreKind, Cpu, Device, DeviceKind, Level, Topology};

fn cpus(text: &str) -> CpuList {
    CpuList::from_kernel(text).expect("a list")
}

fn fixture(name: &str) -> Topology {
    machine(&vectors("cpu_assignment_cases.json")["topologies"][name])
}

fn request(cpus: usize) -> Request {
    Request { cpus, near: None }
}

fn take(topology: &Topology, free: &str, need: usize, order: Order) -> String {
    let constraints = Constraints { order, ..Constraints::default() };
    let plan = plan(topology, &cpus(free), &request(need), &constraints).expect("a plan");
    plan.cpus.to_string()
}

/// `sockets` of `l3s` L3 domains of `cores` cores of one thread; a NUMA node is a socket.
fn chiplets(sockets: usize, l3s: usize, cores: usize) -> Topology {
    let per_socket = l3s * cores;
    let cpu = |id: usize| {
        let socket = id / per_socket;
        let (l3, kind) = (Some(id / cores), CoreKind::Standard);
        Cpu { id, core: id, l2: Some(id), l3, die: socket, node: socket, socket, kind }
    };
    from_cpus((0..sockets * per_socket).map(cpu).collect())
}

#[test]
fn a_a_request_stays_on_the_socket_where_it_fits() {
    let dual = fixture("topoDualSocketHT");
    assert_eq!(take(&dual, "0-2,6,8", 3, Order::Kubelet), "0-1,6");
    assert_eq!(take(&dual, "0-2,6,8", 3, Order::Dunlin), "0,2,6");
}

#[test]
fn b_a_request_is_not_split_where_a_node_has_room() {
    let dual = fixture("topoDualSocketHT");
    assert_eq!(take(&dual, "0-1,3,5-7,9,11", 4, Order::Kubelet), "0-1,6-7");
    assert_eq!(take(&dual, "0-1,3,5-7,9,11", 4, Order::Dunlin), "1,3,7,9");
}

#[test]
fn c_an_offline_sibling_does_not_give_away_a_reserved_cpu() {
    let mut single = fixture("topoSingleSocketHT");
    single.cpus.retain(|cpu| cpu.id != 7);
    single.offline = cpus("7");
    for order in [Order::Kubelet, Order::Dunlin] {
        let constraints = Constraints { order, reserved: cpus("0"), ..Constraints::default() };
        let plan = plan(&single, &cpus("0-7"), &request(2), &constraints).expect("a plan");
        assert!(!plan.cpus.contains(0) && !plan.cpus.contains(7), "{order:?}: {}", plan.cpus);
    }
}

#[test]
fn c_types_of_cores_are_not_mixed_where_one_type_has_room() {
    // Two performance cores of two threads, four efficient ones.
    let cpu = |id: usize| {
        let (core, kind) =
            if id < 4 { (id / 2 * 2, CoreKind::Performance) } else { (id, CoreKind::Efficient) };
        Cpu { id, core, l2: None, l3: Some(0), die: 0, node: 0, socket: 0, kind }
    };
    let hybrid = from_cpus((0..8).map(cpu).collect());
    assert_eq!(take(&hybrid, "0-7", 4, Order::Dunlin), "0-3");
    assert_eq!(take(&hybrid, "0-1,4-7", 4, Order::Dunlin), "4-7");
    assert_eq!(take(&hybrid, "0-1,4-7", 5, Order::Dunlin), "0-1,4-6");
}

#[test]
fn h_isolated_cpus_are_for_exclusive_use_first() {
    let mut machine = chiplets(1, 2, 4);
    machine.isolated = cpus("5-7");
    assert_eq!(take(&machine, "0-7", 2, Order::Kubelet), "0-1");
    assert_eq!(take(&machine, "0-7", 2, Order::Dunlin), "5-6");
    assert_eq!(take(&machine, "0-7", 4, Order::Dunlin), "0-3");
}

fn near(topology: &Topology, free: &str, need: usize) -> Result<Plan, PlanError> {
    let request = Request { cpus: need, near: Some("eth0".into()) };
    plan(topology, &cpus(free), &request, &Constraints::default())
}

#[test]
fn i_cpus_near_the_device_come_first() {
    let mut machine = fixture("topoDualSocketMultiNumaPerSocketHT");
    let device = |name: &str, node| Device {
        name: name.into(),
        kind: DeviceKind::Network,
        pci: None,
        node,
        local: CpuList::default(),
        interrupts: Vec::new(),
    };
    machine.devices = vec![device("eth0", Some(3)), device("veth0", None)];
    let all = machine.online().to_string();
    let node_of = |plan: &Plan, level| -> Vec<usize> {
        let elements = machine.elements(level).into_iter();
        let used = elements.filter(|(_, members)| !members.intersection(&plan.cpus).is_empty());
        used.map(|(id, _)| id).collect()
    };
    let plan_near = near(&machine, &all, 4).expect("a plan");
    assert_eq!(node_of(&plan_near, Level::Node), [3]);
    assert!(plan_near.explanation.to_string().starts_with("local to eth0"));
    // Its node is taken: the other one of its socket is next.
    let rest = machine.online().difference(&machine.elements(Level::Node)[&3]);
    let plan_near = near(&machine, &rest.to_string(), 4).expect("a plan");
    assert_eq!(node_of(&plan_near, Level::Node), [2]);
    // Some of it is free, but no socket has enough: it begins at the device.
    let plan_near = near(&machine, &all, 50).expect("a plan");
    assert!(machine.elements(Level::Socket)[&1].is_subset(&plan_near.cpus));
    for (name, what) in [("eth9", "there is no device"), ("veth0", "virtual")] {
        let request = Request { cpus: 1, near: Some(name.into()) };
        let error = plan(&machine, &cpus(&all), &request, &Constraints::default());
        assert!(error.expect_err("no place").to_string().contains(what), "{name}");
    }
}

#[test]
fn k_l3_domains_count_for_requests_larger_than_a_node_too() {
    // Sub-NUMA clustering: an L3 domain of eight CPUs holds two nodes of four.
    let cpu = |id: usize| {
        let (l3, kind) = (Some(id / 8), CoreKind::Standard);
        Cpu { id, core: id, l2: None, l3, die: id / 8, node: id / 4, socket: id / 8, kind }
    };
    let clusters = from_cpus((0..16).map(cpu).collect());
    assert_eq!(take(&clusters, "0-2,4-7,8-15", 6, Order::Dunlin), "0-1,4-7");
    let chiplets = chiplets(2, 2, 4);
    // One L3 domain is broken: of the rest of a request beyond a node, whole ones come first.
    assert_eq!(take(&chiplets, "0-7,9-15", 12, Order::Dunlin), "0-7,12-15");
}

#[test]
fn l_the_shared_cpus_never_run_out() {
    let machine = chiplets(1, 1, 4);
    let constraints = Constraints {
        reserved: cpus("0"),
        strict_reservation: true,
        shared_min: 1,
        ..Constraints::default()
    };
    let error = plan(&machine, &cpus("0-3"), &request(3), &constraints).expect_err("the last");
    assert!(error.to_string().contains("request at most 2"), "{error}");
    // Reserved CPUs that are shared are enough for the others.
    let constraints = Constraints { strict_reservation: false, ..constraints };
    let plan = plan(&machine, &cpus("0-3"), &request(3), &constraints).expect("a plan");
    assert_eq!(plan.cpus, cpus("1-3"));
}

/// Two that talk much: one L3 domain, else one NUMA node, else one socket, else anywhere.
#[test]
fn cpus_near_a_container_are_in_its_l3_domain_then_on_its_node_and_socket() {
    // Two sockets of a node of two L3 domains of four CPUs.
    let cpu = |id: usize| Cpu {
        id,
        core: id,
        l2: None,
        l3: Some(id / 4),
        die: id / 8,
        node: id / 8,
        socket: id / 8,
        kind: CoreKind::Standard,
    };
    let machine = from_cpus((0..16).map(cpu).collect());
    let place = |free: &str, need| {
        let near_container = Some(("web".to_owned(), cpus("4-5")));
        let constraints = Constraints { near_container, ..Constraints::default() };
        let request = Request { cpus: need, near: None };
        plan(&machine, &cpus(free), &request, &constraints).expect("a plan")
    };
    let near = place("0-3,6-15", 2);
    assert_eq!(near.cpus.to_string(), "6-7");
    assert!(near.explanation.to_string().contains("in the L3 domain of web"), "{near:?}");
    assert_eq!(place("0-3,6-15", 3).cpus.to_string(), "0-2");
    let far = place("8-15", 4);
    assert!(far.cpus.is_subset(&cpus("8-15")));
    assert!(far.explanation.to_string().contains("on the socket of web"), "{far:?}");
}
