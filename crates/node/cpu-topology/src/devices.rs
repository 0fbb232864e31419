//! Reading devices and interrupts. What cannot be read of them is left out: a plan needs them only
//! when it names one.
use crate::limits::{DEVICES_MAX, INTERRUPTS_MAX};
use crate::sysfs::{Roots, names, number, numbered, optional, optional_list};
use crate::types::{Device, DeviceKind, Interrupt, Topology};
use cpu::CpuList;
use std::path::{Path, PathBuf};

pub(crate) fn read(roots: &Roots, topology: &mut Topology) {
    let classes = [("class/net", DeviceKind::Network), ("class/block", DeviceKind::Block)];
    for (class, kind) in classes.into_iter().chain([("bus/pci/devices", DeviceKind::Pci)]) {
        let dir = roots.sys.join(class);
        let names = names(&dir);
        topology.devices_left_out += names.len().saturating_sub(DEVICES_MAX);
        let devices = names.into_iter().take(DEVICES_MAX);
        topology.devices.extend(devices.map(|name| read_device(&dir.join(&name), name, kind)));
    }
    let irq = roots.proc.join("irq");
    let numbers = numbered(&irq, "");
    topology.interrupts_left_out = numbers.len().saturating_sub(INTERRUPTS_MAX);
    for number in numbers.into_iter().take(INTERRUPTS_MAX) {
        let name = roots.sys.join(format!("kernel/irq/{number}/actions"));
        let (allowed, effective) = read_affinity(roots, number as u32);
        topology.interrupts.push(Interrupt {
            number: number as u32,
            name: optional(&name).unwrap_or_default(),
            allowed,
            effective,
        });
    }
}

/// Reads again which CPUs the known interrupts may go to.
pub(crate) fn read_affinities(roots: &Roots, topology: &mut Topology) {
    for interrupt in &mut topology.interrupts {
        (interrupt.allowed, interrupt.effective) = read_affinity(roots, interrupt.number);
    }
}

fn read_affinity(roots: &Roots, number: u32) -> (CpuList, CpuList) {
    let own = roots.proc.join("irq").join(number.to_string());
    let list = |name: &str| optional_list(&own.join(name)).unwrap_or_default();
    (list("smp_affinity_list"), list("effective_affinity_list"))
}

fn read_device(path: &Path, name: String, kind: DeviceKind) -> Device {
    let behind = behind(path, kind);
    let of = |file: &str| behind.as_ref().map(|dir| dir.join(file));
    let interrupts = of("msi_irqs").map(|dir| numbered(&dir, "")).unwrap_or_default();
    Device {
        name,
        kind,
        pci: behind.as_ref().and_then(|dir| pci_address(dir)),
        // -1 says that there is none; on a machine without NUMA it always does.
        node: of("numa_node").and_then(|file| number(&file)),
        local: of("local_cpulist").and_then(|file| optional_list(&file).ok()).unwrap_or_default(),
        interrupts: interrupts.into_iter().map(|number| number as u32).collect(),
    }
}

/// The directory of the device that says where it is: the first on the way up from the interface or
/// disk. Virtual ones have none.
fn behind(path: &Path, kind: DeviceKind) -> Option<PathBuf> {
    let start = match kind {
        DeviceKind::Pci => path.canonicalize().ok()?,
        // A partition has no link of its own; its disk, the directory above, has.
        DeviceKind::Network | DeviceKind::Block => {
            let own = path.canonicalize().ok()?;
            let with_link = own.ancestors().take(2).map(|dir| dir.join("device"));
            with_link.filter_map(|link| link.canonicalize().ok()).next()?
        }
    };
    let is_place =
        |dir: &&Path| dir.join("numa_node").exists() || dir.join("local_cpulist").exists();
    start.ancestors().find(is_place).map(Path::to_owned)
}

/// The last part of a path, if it is a PCI address such as `0000:3b:00.0`.
fn pci_address(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let is_address = name.len() >= 12
        && name.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        && name.matches(':').count() == 2;
    is_address.then(|| name.to_owned())
}
