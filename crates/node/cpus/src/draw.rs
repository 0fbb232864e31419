//! The machine as text.
use command_line::{Side, align, plain, plural};
use cpu::CpuList;
use cpu_topology::usage::{User, UserKind};
use cpu_topology::{CoreKind, Device, DeviceKind, Interrupt, Level, Topology};
use std::io::{self, Write};

/// Interrupts that are listed; the rest is counted.
const INTERRUPTS_SHOWN: usize = 32;

/// Writes the machine from its sockets down to its threads, and who uses what.
pub fn write(out: &mut impl Write, machine: &Topology, users: &[User]) -> io::Result<()> {
    write_summary(out, machine)?;
    writeln!(out)?;
    for (socket, cpus) in machine.elements(Level::Socket) {
        writeln!(out, "socket {socket}")?;
        write_nodes(out, machine, &cpus)?;
    }
    write_nodes_without_cpus(out, machine)?;
    write_distances(out, machine)?;
    write_users(out, machine, users)
}

fn write_summary(out: &mut impl Write, machine: &Topology) -> io::Result<()> {
    let count = |level| machine.elements(level).len();
    let l3 = match count(Level::L3) {
        0 => "no L3 cache that the kernel tells of".to_owned(),
        number => plural(number, "L3 domain"),
    };
    writeln!(
        out,
        "{}, {}, {l3}, {}, {}, {}",
        plural(machine.cpus.len(), "CPU"),
        plural(count(Level::Core), "core"),
        plural(count(Level::Die), "die"),
        plural(count(Level::Node), "NUMA node"),
        plural(count(Level::Socket), "socket"),
    )?;
    let lists = [
        ("offline", &machine.offline),
        ("isolated", &machine.isolated),
        ("nohz_full", &machine.nohz_full),
    ];
    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        writeln!(out, "{name}: {list}")?;
    }
    if let Some(allowed) = &machine.allowed {
        let quota = machine.quota.map_or_else(
            || "without a quota".to_owned(),
            |quota| format!("for the time of {quota:.2} CPUs"),
        );
        writeln!(out, "this process may use {allowed}, {quota}")?;
    }
    Ok(())
}

fn write_nodes(out: &mut impl Write, machine: &Topology, of: &CpuList) -> io::Result<()> {
    for (id, cpus) in machine.elements(Level::Node) {
        let inside = cpus.intersection(of);
        if inside.is_empty() {
            continue;
        }
        let memory = machine.nodes.iter().find(|node| node.id == id);
        let memory = memory.filter(|node| node.memory_bytes > 0);
        let memory = memory.map_or(String::new(), |node| format!(", {}", gib(node.memory_bytes)));
        let near: Vec<String> = machine
            .devices
            .iter()
            .filter(|device| device.kind != DeviceKind::Pci && is_in(device, id, &cpus, machine))
            .map(|device| plain(&device.name))
            .collect();
        let near = if near.is_empty() { String::new() } else { format!(", {}", near.join(" ")) };
        writeln!(out, "  NUMA node {id}{memory}{near}")?;
        write_domains(out, machine, &inside)?;
    }
    Ok(())
}

/// Memory as its modules are sold.
fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Whether a device is local to a node. On a machine with one node the kernel tells CPUs only.
fn is_in(device: &Device, node: usize, cpus: &CpuList, machine: &Topology) -> bool {
    match device.node {
        Some(own) => own == node,
        None => machine.nodes.len() == 1 && !device.local.intersection(cpus).is_empty(),
    }
}

fn write_domains(out: &mut impl Write, machine: &Topology, of: &CpuList) -> io::Result<()> {
    let domains = machine.elements(Level::L3);
    let known = domains.values().fold(CpuList::default(), |all, cpus| all.union(cpus));
    for (id, cpus) in &domains {
        let inside = cpus.intersection(of);
        if !inside.is_empty() {
            writeln!(out, "    L3 {id:<3} {}", cores(machine, &inside))?;
        }
    }
    let rest = of.difference(&known);
    if !rest.is_empty() {
        writeln!(out, "    {:6} {}", "", cores(machine, &rest))?;
    }
    Ok(())
}

/// Cores as brackets around their threads; `P` and `E` before those of a machine with both types.
fn cores(machine: &Topology, of: &CpuList) -> String {
    let core = |(_, cpus): (usize, CpuList)| {
        let threads: Vec<String> =
            cpus.iter().filter(|cpu| of.contains(*cpu)).map(|cpu| cpu.to_string()).collect();
        let kind = cpus.iter().next().and_then(|id| machine.cpu(id)).map(|cpu| cpu.kind);
        let kind = match kind {
            Some(CoreKind::Performance) => "P",
            Some(CoreKind::Efficient) => "E",
            _ => "",
        };
        (!threads.is_empty()).then(|| format!("{kind}[{}]", threads.join(" ")))
    };
    machine.elements(Level::Core).into_iter().filter_map(core).collect::<Vec<_>>().join(" ")
}

fn write_nodes_without_cpus(out: &mut impl Write, machine: &Topology) -> io::Result<()> {
    let with = machine.elements(Level::Node);
    for node in machine.nodes.iter().filter(|node| !with.contains_key(&node.id)) {
        writeln!(out, "NUMA node {}, {}, no CPU", node.id, gib(node.memory_bytes))?;
    }
    Ok(())
}

fn write_distances(out: &mut impl Write, machine: &Topology) -> io::Result<()> {
    if machine.nodes.len() < 2 {
        return Ok(());
    }
    writeln!(out, "\ndistances of NUMA nodes")?;
    for node in &machine.nodes {
        let row: String = node.distances.iter().map(|distance| format!(" {distance:>3}")).collect();
        writeln!(out, "  {:>3}{row}", node.id)?;
    }
    Ok(())
}

fn write_users(out: &mut impl Write, machine: &Topology, users: &[User]) -> io::Result<()> {
    let mut rows: Vec<[String; 3]> = users
        .iter()
        .map(|user| {
            let kind = match user.kind {
                UserKind::Worker => "worker",
                UserKind::Container => "container",
                UserKind::Group => "group",
            };
            [kind.to_owned(), user.cpus.to_string(), plain(&user.name)]
        })
        .collect();
    let online = machine.online();
    // One that may go anywhere says nothing.
    let is_bound = |interrupt: &&Interrupt| {
        !interrupt.effective.is_empty() && (interrupt.effective != online || online.len() == 1)
    };
    let bound: Vec<_> = machine.interrupts.iter().filter(is_bound).collect();
    rows.extend(bound.iter().take(INTERRUPTS_SHOWN).map(|interrupt| {
        let name = format!("{} {}", interrupt.number, interrupt.name);
        ["interrupt".into(), interrupt.effective.to_string(), plain(&name)]
    }));
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nwho uses what")?;
    for line in align([Side::Left, Side::Left, Side::Left], &rows) {
        writeln!(out, "  {line}")?;
    }
    let more = bound.len().saturating_sub(INTERRUPTS_SHOWN) + machine.interrupts_left_out;
    if more > 0 {
        writeln!(out, "  and {} more", plural(more, "interrupt"))?;
    }
    Ok(())
}
