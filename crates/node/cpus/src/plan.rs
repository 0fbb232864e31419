//! `dunlin cpus plan`: the CPUs that a request gets, and why.
use crate::cli::{self, Output, PlanCpus};
use crate::{machine, write_json};
use command_line::plain;
use cpu::CpuList;
use cpu_planner::policy::{Policy, Qos};
use cpu_planner::state::State;
use cpu_planner::{Constraints, Order, Plan, PlanError, Request, Spread, plan};
use cpu_topology::Topology;
use serde::Serialize;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// What is written.
#[derive(Serialize)]
struct Answer {
    /// The CPUs; `null` where the container shares those of all others.
    cpus: Option<Vec<usize>>,
    /// The same as the kernel writes them.
    list: Option<String>,
    /// Why, a sentence each.
    why: Vec<String>,
    #[serde(flatten)]
    plan: Option<Plan>,
    /// CPUs that stay for those who share.
    shared: String,
    /// CPUs that are never chosen.
    reserved: String,
}

/// Plans and tells.
///
/// # Errors
/// The machine or the state cannot be read, a list names a CPU that is not there, or the request
/// cannot be met.
pub fn run(command: &PlanCpus) -> Result<ExitCode, Box<dyn Error>> {
    let topology = machine(command.sysfs.as_deref())?;
    let lists = [("--free", &command.free), ("--reserved", &command.reserved)];
    for (flag, list) in lists {
        check_cpus(&topology, flag, list.as_ref())?;
    }
    let number = command.reserve.or(command.reserved.as_ref().map(CpuList::len)).unwrap_or(0);
    let near_container = near_container(command, &topology)?;
    let constraints = Constraints { near_container, ..constraints(command, &topology) };
    let policy = Policy::new(&topology, number, command.reserved.clone(), constraints.clone())?;
    let mut state = state(command, &topology, &policy, constraints.near_container.as_ref())?;
    let constraints = Constraints { reserved: policy.reserved().clone(), ..constraints };
    let plan = request(command, &topology, &mut state, &constraints)
        .map_err(|error| told(command, &error))?;
    let asked = command.request.is_some();
    let answer = Answer {
        cpus: plan.as_ref().map(|plan| plan.cpus.iter().collect()),
        list: plan.as_ref().map(|plan| plan.cpus.to_string()),
        why: why(plan.as_ref(), asked),
        plan,
        shared: state.shared.to_string(),
        reserved: constraints.reserved.to_string(),
    };
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => write_json(&mut out, &answer)?,
        Output::Text => write(&mut out, &answer)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn why(plan: Option<&Plan>, asked: bool) -> Vec<String> {
    match plan {
        Some(plan) => plan.explanation.to_string().lines().map(plain).collect(),
        None if asked => vec![
            "it shares: only Guaranteed pods that request whole CPUs have CPUs of their own".into(),
        ],
        None => Vec::new(),
    }
}

fn write(out: &mut impl Write, answer: &Answer) -> io::Result<()> {
    match &answer.list {
        Some(list) if list.is_empty() => writeln!(out, "no CPU")?,
        Some(list) => writeln!(out, "CPUs {list}")?,
        None => {}
    }
    for line in &answer.why {
        writeln!(out, "  {line}")?;
    }
    let none = |list: &str| if list.is_empty() { "none".to_owned() } else { list.to_owned() };
    writeln!(out, "shared by all others: {}", none(&answer.shared))?;
    if !answer.reserved.is_empty() {
        writeln!(out, "reserved: {}", answer.reserved)?;
    }
    Ok(())
}

/// An error in the words of the order that is asked for.
fn told(command: &PlanCpus, error: &PlanError) -> String {
    match error.kubelet_text().filter(|_| command.order == cli::Order::Kubelet) {
        Some(text) => format!("{text} ({error})"),
        None => error.to_string(),
    }
}

fn constraints(command: &PlanCpus, topology: &Topology) -> Constraints {
    let group = if command.full_cores { topology.threads_max() } else { 1 };
    let (order, shared_min) = match command.order {
        cli::Order::Kubelet => (Order::Kubelet, 0),
        cli::Order::Dunlin => (Order::Dunlin, 1),
    };
    Constraints {
        order,
        shared_min,
        reserved: CpuList::default(),
        nodes: command.nodes.clone(),
        near_container: None,
        full_cores: command.full_cores,
        spread: match (command.across_nodes, command.across_cores) {
            (true, _) => Spread::AcrossNodes(command.group.unwrap_or(group).max(1)),
            (_, true) => Spread::AcrossCores,
            _ => Spread::Packed,
        },
        align_by_socket: command.align_by_socket,
        prefer_l3: command.prefer_l3,
        strict_reservation: command.strict_reservation,
    }
}

/// The container to be near, with its CPUs.
fn near_container(
    command: &PlanCpus,
    topology: &Topology,
) -> Result<Option<(String, CpuList)>, String> {
    let Some(name) = &command.near_container else { return Ok(None) };
    let found = fabric::find().map_err(|error| format!("cannot list interfaces: {error}"))?;
    let is_named = |one: &&fabric::Container| {
        one.name == *name || (name.len() >= 4 && one.id.starts_with(name))
    };
    let own = found.iter().filter(is_named).map(|one| &one.cpus);
    let cpus = own.fold(CpuList::default(), |all, more| all.union(more));
    if cpus.is_empty() {
        let mut names: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        return Err(format!(
            "--near-container {name}: there is no such container with a process and a network of \
             its own; there are: {names}"
        ));
    }
    if cpus == topology.online() {
        return Err(format!(
            "--near-container {name}: it may run on all CPUs, so none is nearer to it than \
             another; give it CPUs of its own first"
        ));
    }
    Ok(Some((name.clone(), cpus)))
}

/// Who has which CPUs: as a kubelet says, or as the command line does.
fn state(
    command: &PlanCpus,
    topology: &Topology,
    policy: &Policy<'_>,
    near_container: Option<&(String, CpuList)>,
) -> Result<State, Box<dyn Error>> {
    let Some(file) = &command.state else {
        let others = |(_, cpus): &(String, CpuList)| topology.online().difference(cpus);
        let free = || near_container.map_or_else(|| topology.online(), others);
        let shared = command.free.clone().unwrap_or_else(free);
        return Ok(State { shared, ..State::default() });
    };
    let place = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut state = State::load(file).map_err(|error| place(&error))?;
    // What is released from need not be what a kubelet would start from.
    let Some(name) = &command.release else {
        policy.start(&mut state).map_err(|error| place(&error))?;
        return Ok(state);
    };
    let expected = || format!("--release {name}: expected POD/CONTAINER");
    policy.release(&mut state, name.split_once('/').ok_or_else(expected)?);
    Ok(state)
}

/// The plan; `None` where the container shares, or nothing is requested.
fn request(
    command: &PlanCpus,
    topology: &Topology,
    state: &mut State,
    constraints: &Constraints,
) -> Result<Option<Plan>, PlanError> {
    let qos = match command.qos {
        cli::Qos::Guaranteed => Qos::Guaranteed,
        cli::Qos::Burstable => Qos::Burstable,
        cli::Qos::BestEffort => Qos::BestEffort,
    };
    let is_exclusive = |milli: &u64| qos == Qos::Guaranteed && milli.is_multiple_of(1_000);
    let Some(milli) = command.request.filter(is_exclusive) else { return Ok(None) };
    let request = Request { cpus: (milli / 1_000) as usize, near: command.near.clone() };
    let plan = plan(topology, &state.shared, &request, constraints)?;
    state.shared = state.shared.difference(&plan.cpus);
    if constraints.strict_reservation {
        state.shared = state.shared.difference(&constraints.reserved);
    }
    Ok(Some(plan))
}

/// Refuses CPUs that are not there.
fn check_cpus(topology: &Topology, flag: &str, list: Option<&CpuList>) -> Result<(), String> {
    let Some(list) = list else { return Ok(()) };
    let missing = list.difference(&topology.online());
    let Some(first) = missing.iter().next() else { return Ok(()) };
    Err(if topology.offline.contains(first) {
        format!("{flag}: CPU {first} is offline: bring it online, or leave it out")
    } else {
        let online = topology.online();
        format!("{flag}: there is no CPU {first}: the machine has {online}")
    })
}
