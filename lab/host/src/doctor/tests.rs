use super::*;
use crate::manifest::{Busy, Core, Device, Policy};

/// A machine that nothing is wrong with: four cores, a card with two queues.
fn healthy() -> Manifest {
    let mut manifest = Manifest::default();
    manifest.virtualisation.allowed = "0-3".into();
    manifest.software.profile = "release".into();
    manifest.kernel.clock_source = "tsc".into();
    manifest.now.clock_cost_ns = 30.0;
    manifest.now.busy = (0..4).map(|cpu| (cpu, 0.01)).collect();
    manifest.now.connections = Some(0);
    manifest.sysctls.insert("net.core.rmem_max".into(), "16777216".into());
    manifest.sysctls.insert("net.core.netdev_max_backlog".into(), "1000".into());
    let policy = Policy { governor: "performance".into(), ..Policy::default() };
    manifest.frequency.policies.insert("0-3".into(), policy);
    let core = |cpu: usize| Core { cpu, siblings: cpu.to_string(), ..Core::default() };
    manifest.cpu.cores = (0..4).map(core).collect();
    let queues = ["rx-0", "rx-1"].map(|queue| (queue.to_owned(), String::new()));
    let interrupts = [("eth0-0", "0"), ("eth0-1", "1")];
    let device = Device {
        rx_queues: 2,
        rps: queues.into(),
        rss_udp4: "IP SA, IP DA, L4 bytes 0 & 1 [TCP/UDP src port]".into(),
        interrupts: interrupts.map(|(name, cpus)| (name.to_owned(), cpus.to_owned())).into(),
        ..Device::default()
    };
    manifest.devices.insert("eth0".into(), device);
    manifest
}

fn purpose(cpus: &str) -> Purpose {
    Purpose { cpus: Some(cpus.parse().unwrap()) }
}

#[test]
fn a_healthy_machine_has_no_findings() {
    assert_eq!(judge(&healthy(), &Purpose::default()), []);
    assert_eq!(judge(&healthy(), &purpose("0-1")), []);
    // Unknown values are not findings: a guest without frequencies, a software device.
    let mut bare = healthy();
    bare.frequency.policies.clear();
    bare.sysctls.clear();
    bare.now = crate::manifest::CurrentState::default();
    bare.devices.insert("veth0".into(), Device { rx_queues: 2, node: -1, ..Device::default() });
    assert_eq!(judge(&bare, &purpose("0-1")), []);
}

type Spoil = fn(&mut Manifest);

/// How a machine is spoiled, for which CPUs, and what is said: how bad it is, what, and what to do.
const TABLE: [(Spoil, &str, Severity, &str, &str); 21] = [
    (|m| m.virtualisation.allowed = "2".into(), "", Severity::Invalid, "one CPU", "two CPUs"),
    (|m| m.software.profile = "debug".into(), "", Severity::Invalid, "debugging", "--release"),
    (|m| busy(m, 3), "", Severity::Invalid, "CPU 3 80 %; CPUs used by rustc 0.80", "--cpus"),
    (
        |m| m.now.steal = 0.02,
        "",
        Severity::Invalid,
        "2 % of this machine's CPUs to others, now",
        "own",
    ),
    (|m| m.now.steal_since_start = 0.3, "", Severity::Costs, "30 %", "are idle"),
    (|m| m.virtualisation.quota = Some(1.5), "", Severity::Invalid, "1.5 of 4", "cpu.max"),
    (|m| m.now.swaps_pages = 7, "", Severity::Invalid, "7 pages", "swapoff"),
    (|m| govern(m, "powersave"), "0-1", Severity::Invalid, "0-3 powersave", "lab tune"),
    (|m| govern(m, "schedutil"), "", Severity::Invalid, "schedutil", "lab tune"),
    (|m| m.kernel.irqbalance = true, "", Severity::Invalid, "irqbalance", "systemctl stop"),
    (share_core, "0-1", Severity::Invalid, "share a core (SMT): 0-1", "one CPU of each"),
    (|m| m.now.thermal_throttles = 3, "", Severity::Costs, "3 times", "cooling"),
    (|m| set(m, "rmem_max", "212992"), "", Severity::Costs, "212992 bytes", "lab tune"),
    (|m| m.now.connections = Some(9), "", Severity::Costs, "9 connections", "notrack"),
    (|m| m.now.clock_cost_ns = 900.0, "", Severity::Costs, "900 ns", "clocksource=tsc"),
    (|m| pause(m, "tx"), "", Severity::Invalid, "eth0 may pause", "ethtool -A eth0"),
    (one_queue, "0-1", Severity::Invalid, "one receive queue for 2", "--device eth0 --cpus 0-1"),
    (|m| steer(m, "c"), "0-2", Severity::Invalid, "to CPU 3, where", "--cpus 0-2"),
    (|m| interrupt(m, "0-3"), "0-1", Severity::Costs, "served by CPU 2-3", "--cpus 0-1"),
    (|m| device(m).rss_udp4 = "IP SA, IP DA".into(), "", Severity::Costs, "alone", "udp4 sdfn"),
    (|m| device(m).xdp = "generic".into(), "", Severity::Costs, "generic", "xdpgeneric off"),
];

fn device(manifest: &mut Manifest) -> &mut Device {
    manifest.devices.get_mut("eth0").unwrap()
}

fn busy(manifest: &mut Manifest, cpu: usize) {
    manifest.now.busy.insert(cpu, 0.8);
    manifest.now.busiest.push(Busy { name: "rustc".into(), cpus: 0.8 });
}

fn govern(manifest: &mut Manifest, governor: &str) {
    manifest.frequency.policies.get_mut("0-3").unwrap().governor = governor.into();
}

fn set(manifest: &mut Manifest, name: &str, value: &str) {
    manifest.sysctls.insert(format!("net.core.{name}"), value.into());
}

fn share_core(manifest: &mut Manifest) {
    manifest.cpu.cores[0].siblings = "0-1".into();
    manifest.cpu.cores[1].siblings = "0-1".into();
}

fn pause(manifest: &mut Manifest, direction: &str) {
    device(manifest).pause.insert(direction.into(), "on".into());
}

fn one_queue(manifest: &mut Manifest) {
    device(manifest).rx_queues = 1;
    device(manifest).rps.remove("rx-1");
}

fn steer(manifest: &mut Manifest, mask: &str) {
    device(manifest).rps.insert("rx-0".into(), mask.into());
    set(manifest, "netdev_max_backlog", "16384");
}

fn interrupt(manifest: &mut Manifest, cpus: &str) {
    device(manifest).interrupts.insert("eth0-1".into(), cpus.into());
}

#[test]
fn findings_have_a_remedy() {
    for (spoil, cpus, severity, what, remedy) in TABLE {
        let mut manifest = healthy();
        spoil(&mut manifest);
        let purpose = if cpus.is_empty() { Purpose::default() } else { purpose(cpus) };
        let found = judge(&manifest, &purpose);
        let [finding] = found.as_slice() else { panic!("{what}: {found:?}") };
        assert_eq!(finding.severity, severity, "{finding:?}");
        assert!(finding.what.contains(what), "{what} in {finding:?}");
        assert!(finding.remedy.contains(remedy), "{remedy} in {finding:?}");
        assert!(!finding.why.is_empty(), "{finding:?}");
    }
}

#[test]
fn findings_outside_the_purpose_are_omitted() {
    let mut manifest = healthy();
    busy(&mut manifest, 3);
    share_core(&mut manifest);
    interrupt(&mut manifest, "2");
    device(&mut manifest).interrupts.insert("eth0-0".into(), "2".into());
    assert_eq!(judge(&manifest, &purpose("2")), []);
    device(&mut manifest).node = 1;
    let found = judge(&manifest, &purpose("2"));
    assert!(found.len() == 1 && found[0].what.contains("node 1, CPU 2 is not"), "{found:?}");
}

#[test]
fn invalidating_findings_come_first() {
    let mut manifest = healthy();
    steer(&mut manifest, "f");
    set(&mut manifest, "netdev_max_backlog", "1000");
    let found = judge(&manifest, &Purpose::default());
    assert!(found.len() == 1 && found[0].why.contains("5 ms"), "{found:?}");
    manifest.now.swaps_pages = 1;
    pause(&mut manifest, "rx");
    let severities: Vec<_> =
        judge(&manifest, &Purpose::default()).iter().map(|f| f.severity).collect();
    assert_eq!(severities, [Severity::Invalid, Severity::Invalid, Severity::Costs]);
}
