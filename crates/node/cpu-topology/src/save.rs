//! Writing a machine as a directory that [`crate::read_saved`] reads as the same machine.
use crate::types::{CoreKind, Cpu, Device, DeviceKind, Level, Topology};
use cpu::CpuList;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Saves what [`crate::read()`] found, so that the machine can be planned for elsewhere. What this
/// process may use is not of the machine, and is left out.
///
/// # Errors
/// The directory holds something already, or cannot be written.
pub fn save(topology: &Topology, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    if fs::read_dir(dir)?.next().is_some() {
        let what = format!("{} is not empty: name another directory", dir.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    let sys = dir.join("sys");
    let cpu_dir = sys.join("devices/system/cpu");
    let online = topology.online();
    write(&cpu_dir.join("online"), &online)?;
    write(&cpu_dir.join("present"), online.union(&topology.offline))?;
    write(&cpu_dir.join("isolated"), &topology.isolated)?;
    write(&cpu_dir.join("nohz_full"), &topology.nohz_full)?;
    let members = [Level::Core, Level::L2, Level::L3, Level::Die, Level::Socket]
        .map(|level| (level, topology.elements(level)));
    for cpu in &topology.cpus {
        save_cpu(&cpu_dir.join(format!("cpu{}", cpu.id)), cpu, &BTreeMap::from(members.clone()))?;
    }
    for (pmu, kind) in [("cpu_core", CoreKind::Performance), ("cpu_atom", CoreKind::Efficient)] {
        let cpus: CpuList =
            topology.cpus.iter().filter(|cpu| cpu.kind == kind).map(|cpu| cpu.id).collect();
        if !cpus.is_empty() {
            write(&sys.join("devices").join(pmu).join("cpus"), cpus)?;
        }
    }
    save_nodes(topology, &sys.join("devices/system/node"))?;
    for device in &topology.devices {
        save_device(device, &sys)?;
    }
    for interrupt in &topology.interrupts {
        let own = dir.join(format!("proc/irq/{}", interrupt.number));
        write(&own.join("smp_affinity_list"), &interrupt.allowed)?;
        write(&own.join("effective_affinity_list"), &interrupt.effective)?;
        let actions = format!("kernel/irq/{}/actions", interrupt.number);
        write(&sys.join(actions), &interrupt.name)?;
    }
    Ok(())
}

fn save_cpu(
    dir: &Path,
    cpu: &Cpu,
    members: &BTreeMap<Level, BTreeMap<usize, CpuList>>,
) -> io::Result<()> {
    let shared = |level| {
        let element = cpu.element(level)?;
        members.get(&level)?.get(&element)
    };
    let topology = dir.join("topology");
    write(&topology.join("physical_package_id"), cpu.socket)?;
    let lists = [
        ("core_cpus_list", Level::Core),
        ("die_cpus_list", Level::Die),
        ("package_cpus_list", Level::Socket),
    ];
    for (name, level) in lists {
        if let Some(cpus) = shared(level) {
            write(&topology.join(name), cpus)?;
        }
    }
    for (index, number, level) in [("index2", 2, Level::L2), ("index3", 3, Level::L3)] {
        if let Some(cpus) = shared(level) {
            write(&dir.join("cache").join(index).join("level"), number)?;
            write(&dir.join("cache").join(index).join("shared_cpu_list"), cpus)?;
        }
    }
    Ok(())
}

fn save_nodes(topology: &Topology, dir: &Path) -> io::Result<()> {
    let cpus = topology.elements(Level::Node);
    for node in &topology.nodes {
        let own = dir.join(format!("node{}", node.id));
        write(&own.join("cpulist"), cpus.get(&node.id).cloned().unwrap_or_default())?;
        let distances: Vec<String> = node.distances.iter().map(u32::to_string).collect();
        write(&own.join("distance"), distances.join(" "))?;
        let total = node.memory_bytes / 1_024;
        write(&own.join("meminfo"), format!("Node {} MemTotal: {total} kB", node.id))?;
    }
    Ok(())
}

fn save_device(device: &Device, sys: &Path) -> io::Result<()> {
    let own = sys.join(match device.kind {
        DeviceKind::Network => "class/net",
        DeviceKind::Block => "class/block",
        DeviceKind::Pci => "bus/pci/devices",
    });
    let own = own.join(&device.name);
    fs::create_dir_all(&own)?;
    let place = match (&device.pci, device.kind) {
        (Some(address), DeviceKind::Network | DeviceKind::Block) => {
            symlink(format!("../../../bus/pci/devices/{address}"), own.join("device"))?;
            sys.join("bus/pci/devices").join(address)
        }
        (_, DeviceKind::Pci) => own,
        // A virtual one has no place.
        (None, _) if device.node.is_none() && device.local.is_empty() => return Ok(()),
        (None, _) => own.join("device"),
    };
    let node = device.node.map_or(-1, |node| node as i64);
    write(&place.join("numa_node"), node)?;
    write(&place.join("local_cpulist"), &device.local)?;
    for interrupt in &device.interrupts {
        write(&place.join(format!("msi_irqs/{interrupt}")), "msi")?;
    }
    Ok(())
}

/// Writes a file as the kernel would show it, and the directories above it.
fn write(path: &Path, value: impl std::fmt::Display) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, format!("{value}\n"))
}
