//! Machines as sysfs tells them, well and badly.
use super::*;
use crate::types::{Device, DeviceKind, Interrupt, Level, Relation};
use std::fs;
use test_support::folder::Folder;

fn write(folder: &Folder, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, text).expect("a file");
}

/// Two sockets of two NUMA nodes with two L3 domains each; two cores of two threads share an L3.
fn machine() -> Topology {
    let cores = 2 * 2 * 2 * 2;
    let cpu = |id: usize| {
        let core = id % cores;
        let kind = CoreKind::Standard;
        let (l2, l3) = (Some(core), Some(core / 2));
        Cpu { id, core, l2, l3, die: core / 8, node: core / 4, socket: core / 8, kind }
    };
    let node = |id: usize| {
        let distance = |to: usize| match () {
            () if to == id => 10,
            () if to / 2 == id / 2 => 12,
            () => 32,
        };
        Node { id, distances: (0..4).map(distance).collect(), memory_bytes: 1 << 30 }
    };
    let list = |text: &str| text.parse::<CpuList>().expect("a list");
    let pci = |name: &str, kind, node: usize, local| Device {
        name: name.into(),
        kind,
        pci: Some(format!("0000:{node}b:00.0")),
        node: Some(node),
        local: list(local),
        interrupts: vec![40 + node as u32],
    };
    let virtual_one = Device {
        name: "veth0".into(),
        kind: DeviceKind::Network,
        pci: None,
        node: None,
        local: CpuList::default(),
        interrupts: Vec::new(),
    };
    let interrupt = |number: u32, cpus| Interrupt {
        number,
        name: format!("queue-{number}"),
        allowed: list("0-31"),
        effective: list(cpus),
    };
    Topology {
        cpus: (0..2 * cores).map(cpu).collect(),
        nodes: (0..4).map(node).collect(),
        isolated: list("12-15"),
        nohz_full: list("14-15"),
        devices: vec![
            pci("eth0", DeviceKind::Network, 1, "4-7,20-23"),
            virtual_one,
            pci("nvme0n1", DeviceKind::Block, 3, "12-15,28-31"),
            pci("0000:1b:00.0", DeviceKind::Pci, 1, "4-7,20-23"),
            pci("0000:3b:00.0", DeviceKind::Pci, 3, "12-15,28-31"),
        ],
        interrupts: vec![interrupt(41, "4"), interrupt(43, "12")],
        ..Topology::default()
    }
}

#[test]
fn a_saved_machine_is_read_as_it_was() {
    let dir = Folder::new("saved");
    let machine = machine();
    crate::save(&machine, &dir).expect("saved");
    let read = read_saved(&dir).expect("read");
    assert_eq!(read, machine);
    // What a tool that copies only /sys leaves.
    assert_eq!(read_saved(&dir.join("sys")).expect("read").cpus, machine.cpus);
    assert!(crate::save(&machine, &dir).expect_err("not empty").to_string().contains("another"));
}

#[test]
fn random_machines_are_read_as_they_were() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..20 {
        let dir = Folder::new(&format!("random-{round}"));
        let mut machine = machine();
        machine.cpus.retain(|_| random.u8(..4) > 0);
        if machine.cpus.is_empty() {
            continue;
        }
        machine.offline = (0..32).filter(|id| machine.cpu(*id).is_none()).collect();
        machine.isolated = CpuList::default();
        machine.nohz_full = machine.online();
        crate::save(&machine, &dir).expect("saved");
        let read = read_saved(&dir).expect("read");
        assert_eq!((read.online(), &read.offline), (machine.online(), &machine.offline), "{seed}");
        for level in [Level::Core, Level::L2, Level::L3, Level::Die, Level::Node, Level::Socket] {
            let sets = |topology: &Topology| -> Vec<CpuList> {
                let mut sets: Vec<_> = topology.elements(level).into_values().collect();
                sets.sort();
                sets
            };
            assert_eq!(sets(&read), sets(&machine), "{level:?}, seed {seed}");
        }
    }
}

#[test]
fn pairs_have_the_class_of_what_they_share() {
    let machine = machine();
    for (one, other, class) in [
        (0, 16, Relation::SameCore),
        (0, 1, Relation::SameL3),
        (0, 2, Relation::SameNode),
        (0, 4, Relation::SameSocket),
        (0, 8, Relation::OtherSocket),
    ] {
        assert_eq!(machine.relation(one, other), Some(class), "{one} {other}");
    }
    assert_eq!(machine.relation(0, 99), None);
    assert_eq!(machine.distance(0, 1), 12);
    assert_eq!(machine.distance(0, 9), 20);
    assert_eq!(machine.threads_max(), 2);
    let both: CpuList = "3,19".parse().expect("a list");
    assert_eq!(machine.with_siblings(&CpuList::from_iter([19])), both);
}

#[test]
fn devices_are_found_by_each_of_their_names() {
    let machine = machine();
    for (name, node) in [("eth0", 1), ("/dev/nvme0n1", 3), ("0000:3b:00.0", 3), ("3b:00.0", 3)] {
        assert_eq!(machine.device(name).and_then(|device| device.node), Some(node), "{name}");
    }
    assert_eq!(machine.device("eth9"), None);
    assert_eq!(machine.device("veth0").and_then(|device| device.node), None);
}

#[test]
fn core_types_are_found_by_pmu_or_capacity() {
    let dir = Folder::new("kinds");
    write(&dir, "devices/system/cpu/online", "0-2\n");
    write(&dir, "devices/cpu_core/cpus", "0-1\n");
    write(&dir, "devices/cpu_atom/cpus", "2\n");
    let kinds = |dir: &Folder| -> Vec<CoreKind> {
        read_saved(dir).expect("read").cpus.iter().map(|cpu| cpu.kind).collect()
    };
    use CoreKind::{Efficient, Performance, Standard};
    assert_eq!(kinds(&dir), [Performance, Performance, Efficient]);
    let arm = Folder::new("capacity");
    write(&arm, "devices/system/cpu/online", "0-1\n");
    write(&arm, "devices/system/cpu/cpu0/cpu_capacity", "446\n");
    write(&arm, "devices/system/cpu/cpu1/cpu_capacity", "446\n");
    assert_eq!(kinds(&arm), [Standard, Standard]);
    write(&arm, "devices/system/cpu/cpu1/cpu_capacity", "1024\n");
    assert_eq!(kinds(&arm), [Efficient, Performance]);
}

#[test]
fn a_machine_that_tells_little_is_one_socket_of_single_cores() {
    let dir = Folder::new("bare");
    write(&dir, "devices/system/cpu/online", "0-1\n");
    let bare = read_saved(&dir).expect("read");
    assert_eq!(bare.elements(Level::Core).len(), 2);
    assert!(bare.elements(Level::L3).is_empty());
    assert_eq!(bare.elements(Level::Node).len(), 1);
    assert_eq!(bare.distance(0, 0), 10);
}

#[test]
fn damaged_copies_are_errors_with_their_file() {
    let error = |dir: &Folder| read_saved(dir).expect_err("damaged").to_string();
    let dir = Folder::new("damaged");
    assert!(error(&dir).contains("--save"), "{}", error(&dir));
    for text in ["", "x", "0-", "0-99999999999"] {
        write(&dir, "devices/system/cpu/online", text);
        assert!(error(&dir).contains("cpu/online"), "{text}: {}", error(&dir));
    }
    write(&dir, "devices/system/cpu/online", "0-1\n");
    write(&dir, "devices/system/cpu/cpu1/topology/core_cpus_list", "0-oops");
    assert!(error(&dir).contains("core_cpus_list"), "{}", error(&dir));
    // A copy that disagrees with itself is still read: each CPU is in its own core at least.
    write(&dir, "devices/system/cpu/cpu1/topology/core_cpus_list", "77\n");
    let read = read_saved(&dir).expect("read");
    assert_eq!(read.elements(Level::Core).values().map(CpuList::len).sum::<usize>(), 2);
}

#[test]
fn this_machine_is_read() {
    let machine = read().expect("this machine");
    let allowed = machine.allowed.as_ref().expect("of this process");
    assert!(allowed.is_subset(&machine.online()), "{allowed} of {}", machine.online());
    assert!(machine.devices.iter().any(|device| device.name == "lo"), "the loopback device");
    for level in [Level::Core, Level::Die, Level::Node, Level::Socket, Level::Machine] {
        let members = machine.elements(level).values().map(CpuList::len).sum::<usize>();
        assert_eq!(members, machine.cpus.len(), "{level:?}");
    }
}

#[test]
fn a_reader_sees_what_changes() {
    let dir = Folder::new("reader");
    crate::save(&machine(), &dir).expect("saved");
    let roots = Roots::saved(&dir).expect("a copy");
    let mut reader = crate::reader::Reader::saved(roots);
    let mut check = |what: &str| {
        let read = reader.read().expect("a machine");
        assert_eq!(read, read_saved(&dir).expect("a machine"), "{what}");
        read
    };
    let first = check("at first");
    let number = first.interrupts.first().expect("an interrupt").number;
    let affinity = format!("proc/irq/{number}/smp_affinity_list");
    write(&dir, &affinity, "3");
    let second = check("an interrupt that was moved");
    assert_ne!(first, second);
    write(&dir, "proc/irq/999/smp_affinity_list", "1");
    assert_eq!(check("a new interrupt").interrupts.len(), first.interrupts.len() + 1);
    write(&dir, "sys/devices/system/cpu/online", "0-30");
    assert_eq!(check("an offline CPU").cpus.len(), 31);
    write(&dir, "sys/class/net/eth9/address", "x");
    assert_eq!(check("a new interface").devices.len(), first.devices.len() + 1);
}
