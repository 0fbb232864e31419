//! Random machines and requests, beside a second program that knows nothing of how CPUs are chosen.

use crate::common::random::{machine, subset};
use cpu::CpuList;
use cpu_planner::{Constraints, Order, Plan, PlanError, Preference, Reason, Request, Spread, plan};
use cpu_topology::{CoreKind, Cpu, Level, Topology};
use fastrand::Rng;
use std::collections::BTreeSet;

/// A case: what the planner gets.
#[derive(Debug)]
struct Case {
    topology: Topology,
    free: CpuList,
    request: Request,
    constraints: Constraints,
}

fn case(random: &mut Rng) -> Case {
    let topology = machine(random);
    let everything = (0..topology.cpus.len() + 4).collect();
    let eighths = random.u8(3..=8);
    let free = subset(random, &everything, eighths);
    let most = topology.cpus.len() + 2;
    let nodes: Vec<usize> = topology.nodes.iter().map(|node| node.id).collect();
    let request = Request {
        cpus: if random.bool() { random.usize(..=most) } else { random.usize(..=most.min(8)) },
        near: (random.u8(..3) == 0).then(|| "eth0".into()),
    };
    let hint = nodes.iter().copied().filter(|_| random.bool()).collect();
    let constraints = Constraints {
        order: if random.bool() { Order::Kubelet } else { Order::Dunlin },
        reserved: if random.bool() { subset(random, &everything, 1) } else { CpuList::default() },
        nodes: (random.u8(..5) == 0).then_some(hint),
        full_cores: random.u8(..4) == 0,
        spread: match random.u8(..8) {
            0 => Spread::AcrossCores,
            1 => Spread::AcrossNodes(random.usize(1..3)),
            _ => Spread::Packed,
        },
        align_by_socket: random.bool(),
        prefer_l3: random.bool(),
        strict_reservation: random.bool(),
        shared_min: random.usize(..2),
        near_container: None,
    };
    Case { topology, free, request, constraints }
}

#[test]
fn no_plan_has_a_cpu_that_is_not_free_and_every_explanation_is_true() {
    // `make campaign-cpus-sets` draws 100,000.
    let plans = std::env::var("DUNLIN_PLANS");
    check(plans.map_or(4_000, |number| number.parse().expect("a number")));
}

fn check(rounds: u64) {
    let seed = std::env::var("DUNLIN_SEED")
        .map_or_else(|_| fastrand::u64(..), |text| text.parse().expect("a seed"));
    let (mut made, mut refused) = (0, 0);
    for round in 0..rounds {
        let case = case(&mut Rng::with_seed(seed.wrapping_add(round)));
        let seed = seed.wrapping_add(round);
        let result = plan(&case.topology, &case.free, &case.request, &case.constraints);
        let wrong = match &result {
            Ok(plan) => check_plan(&case, plan).err(),
            Err(error) => check_error(&case, error).err(),
        };
        let (Case { free, request, constraints, topology }, cpus) = (&case, &case.topology.cpus);
        assert_eq!(
            wrong, None,
            "DUNLIN_SEED={seed} DUNLIN_PLANS=1\n{result:#?}\nfree {free}\n{request:?}\n\
             {constraints:?}\noffline {}\n{cpus:#?}",
            topology.offline
        );
        if result.is_ok() { made += 1 } else { refused += 1 }
    }
    assert!(rounds < 100 || (made > rounds / 3 && refused > 0), "{made} made, {refused} refused");
}

/// The CPUs that may be chosen.
fn candidates(case: &Case) -> BTreeSet<usize> {
    let is_candidate =
        |id: &usize| case.free.contains(*id) && !case.constraints.reserved.contains(*id);
    case.topology.cpus.iter().map(|cpu| cpu.id).filter(is_candidate).collect()
}

fn find(case: &Case, id: usize) -> Option<&Cpu> {
    case.topology.cpus.iter().find(|cpu| cpu.id == id)
}

/// The CPUs of some that are threads of cores of which all online threads are among them.
fn whole(case: &Case, cpus: &BTreeSet<usize>) -> BTreeSet<usize> {
    let is_whole = |id: &&usize| {
        let core = find(case, **id).map(|cpu| cpu.core);
        case.topology.cpus.iter().all(|cpu| Some(cpu.core) != core || cpus.contains(&cpu.id))
    };
    cpus.iter().filter(is_whole).copied().collect()
}

/// The CPUs that a preference is about.
fn preferred(case: &Case, what: &str) -> BTreeSet<usize> {
    let device_node = case.topology.devices[0].node;
    let hint = case.constraints.nodes.clone().unwrap_or_default();
    let socket_has = |socket, test: &dyn Fn(&Cpu) -> bool| {
        case.topology.cpus.iter().any(|cpu| cpu.socket == socket && test(cpu))
    };
    let is_preferred = |cpu: &Cpu| match what {
        "local to eth0" => Some(cpu.node) == device_node,
        "on the socket of eth0" => socket_has(cpu.socket, &|one| Some(one.node) == device_node),
        "isolated by the kernel" => case.topology.isolated.contains(cpu.id),
        "on performance cores" => cpu.kind == CoreKind::Performance,
        "on efficient cores" => cpu.kind == CoreKind::Efficient,
        _ if case.constraints.align_by_socket => {
            socket_has(cpu.socket, &|one| hint.contains(&one.node))
        }
        _ => hint.contains(&cpu.node),
    };
    case.topology.cpus.iter().filter(|cpu| is_preferred(cpu)).map(|cpu| cpu.id).collect()
}

fn ensure(is_so: bool, what: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

fn check_plan(case: &Case, plan: &Plan) -> Result<(), String> {
    let chosen: BTreeSet<usize> = plan.cpus.iter().collect();
    let candidates = candidates(case);
    ensure(chosen.len() == case.request.cpus, "as many as requested")?;
    ensure(chosen.is_subset(&candidates), "free, online and not reserved")?;
    let is_ours = case.constraints.order == Order::Dunlin;
    if is_ours && case.constraints.full_cores {
        ensure(whole(case, &chosen) == chosen, "whole cores")?;
    }
    let mut pool = candidates;
    if is_ours && case.constraints.full_cores {
        pool = whole(case, &pool);
    }
    for Preference { what, free, is_met } in &plan.explanation.preferences {
        let there: BTreeSet<usize> = preferred(case, what).intersection(&pool).copied().collect();
        ensure(there.len() == *free, "the number that is free at a preferred place")?;
        let cores = |cpus: &BTreeSet<usize>| {
            let core = |id: &usize| find(case, *id).map(|cpu| cpu.core);
            cpus.iter().map(core).collect::<BTreeSet<_>>().len()
        };
        let spread = case.constraints.spread == Spread::AcrossCores;
        let by_core = spread && cores(&pool) >= chosen.len();
        let room = if by_core { cores(&there) } else { there.len() };
        ensure(*is_met == (room >= chosen.len()), "whether a preference is met")?;
        if *is_met {
            pool = there;
        }
    }
    ensure(plan.explanation.free == pool.len(), "the number to choose from")?;
    ensure(chosen.is_subset(&pool), "preferences that are met")?;
    for reason in &plan.explanation.reasons {
        check_reason(case, &chosen, &pool, reason)?;
    }
    let has_reason = chosen.is_empty()
        || plan.explanation.reasons.iter().any(|reason| matches!(reason, Reason::Within { .. }));
    ensure(has_reason, "the smallest element that holds all is reported")
}

fn check_reason(
    case: &Case,
    chosen: &BTreeSet<usize>,
    pool: &BTreeSet<usize>,
    reason: &Reason,
) -> Result<(), String> {
    let element = |id: &usize, level| find(case, *id).and_then(|cpu| cpu.element(level));
    let is_packed =
        case.constraints.order == Order::Dunlin && case.constraints.spread == Spread::Packed;
    match reason {
        Reason::Within { level, element: told, free } => {
            let inside = |id: &&usize| element(id, *level) == Some(*told);
            ensure(chosen.iter().all(|id| inside(&id)), "all are within")?;
            ensure(pool.iter().filter(inside).count() == *free, "free within")
        }
        Reason::Split { level, elements, largest } => {
            let used: BTreeSet<usize> =
                chosen.iter().filter_map(|id| element(id, *level)).collect();
            ensure(used.into_iter().collect::<Vec<_>>() == *elements, "the elements of a split")?;
            let all: BTreeSet<usize> = pool.iter().filter_map(|id| element(id, *level)).collect();
            let free =
                |one: &usize| pool.iter().filter(|id| element(id, *level) == Some(*one)).count();
            ensure(all.iter().map(free).max() == Some(*largest), "the largest of a split")?;
            let fits = *largest >= chosen.len();
            let is_composed = case.constraints.full_cores;
            ensure(!is_packed || !fits || is_composed, "no split where one element fits")
        }
        Reason::PartsOfCores { cores, whole: told } => {
            let parts: BTreeSet<usize> = chosen
                .difference(&whole(case, chosen))
                .filter_map(|id| element(id, Level::Core))
                .collect();
            ensure(parts.into_iter().collect::<Vec<_>>() == *cores, "parts of cores")?;
            ensure(whole(case, pool).len() == *told, "whole cores to choose from")
        }
        Reason::Spread { over, elements } => {
            let used: BTreeSet<_> = chosen.iter().map(|id| element(id, *over)).collect();
            ensure(used.len() == *elements, "elements of a spread")
        }
    }
}

fn check_error(case: &Case, error: &PlanError) -> Result<(), String> {
    let candidates = candidates(case);
    let requested = case.request.cpus;
    let threads = |cores: &BTreeSet<usize>| {
        let core = |id: &usize| find(case, *id).map(|cpu| cpu.core);
        cores.iter().map(|id| cores.iter().filter(|one| core(one) == core(id)).count()).max()
    };
    let online = case.topology.cpus.iter().map(|cpu| cpu.id).collect();
    match error {
        PlanError::NotEnough { available, .. } => {
            ensure(*available == candidates.len() && requested > *available, "not enough")
        }
        PlanError::SharedTooSmall { shared_min, .. } => {
            let strict = case.constraints.strict_reservation;
            let is_shared = |id: &&usize| case.free.contains(**id);
            let shared: BTreeSet<usize> = online;
            let free = shared.iter().filter(is_shared).count();
            let left = if strict { candidates.len() } else { free };
            ensure(left < requested + shared_min, "too few stay shared")
        }
        PlanError::PartOfCore { .. } => {
            // Greedy composition can fail where cores have several sizes.
            let sizes = threads(&online);
            ensure(case.constraints.full_cores && sizes > Some(1), "no whole cores")
        }
        PlanError::NotEnoughCores { .. } => {
            let whole = whole(case, &candidates).len();
            let is_ours = case.constraints.order == Order::Dunlin;
            ensure(case.constraints.full_cores && (!is_ours || whole < requested), "cores")
        }
        PlanError::NoDevice(_) | PlanError::DeviceNowhere(_) => {
            let name = case.request.near.is_some();
            let node = case.topology.devices[0].node;
            let has_cpus = case.topology.cpus.iter().any(|cpu| Some(cpu.node) == node);
            ensure(name && !has_cpus, "the device is there")
        }
    }
}
