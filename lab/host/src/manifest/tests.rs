use super::*;
use crate::machine::tests::Tree;

const CPUINFO: &str = "\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Xeon 8480
stepping\t: 8
microcode\t: 0x2b
cpu MHz\t\t: 3800.5
flags\t\t: fpu avx2 hypervisor

processor\t: 1
model name\t: Xeon 8480
cpu MHz\t\t: broken
";

/// A machine of two threads of one core.
fn tree(test: &str) -> Tree {
    let cpu = "sys/devices/system/cpu";
    let net = "sys/class/net/eth0";
    let tree = Tree::new(
        test,
        &[
            ("proc/cpuinfo", CPUINFO),
            ("proc/sys/kernel/osrelease", "6.18.1\n"),
            ("proc/sys/kernel/hostname", "secret-host\n"),
            ("proc/cmdline", "root=/dev/sda token=hunter2 isolcpus=1 nosmt mitigations=off\n"),
            ("proc/meminfo", "MemTotal:  1000 kB\nSwapTotal:  5 kB\n"),
            ("proc/loadavg", "1.50 0.25 x 1/2 3\n"),
            ("proc/vmstat", "pswpin 3\npswpout 4\nother 9\n"),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/ipv4/udp_mem", "1\t2\t3\n"),
            ("proc/interrupts", "  CPU0 CPU1\n 40:  1 2 PCI-MSI 0-edge  eth0-rx-0\nNMI: 0 0\n"),
            ("proc/irq/40/smp_affinity_list", "0-1\n"),
            ("proc/self/cgroup", "0::/pod\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ],
    );
    let files = [
        ("online", "0-1"),
        ("smt/active", "1"),
        ("vulnerabilities/meltdown", "Not affected"),
        ("cpufreq/policy0/affected_cpus", "0 1"),
        ("cpufreq/policy0/scaling_driver", "acpi-cpufreq"),
        ("cpufreq/policy0/scaling_governor", "powersave"),
        ("cpufreq/policy0/scaling_max_freq", "3800000"),
        ("cpufreq/boost", "1"),
        ("cpu0/cpuidle/state1/name", "C6"),
        ("cpu0/cpuidle/state1/latency", "170"),
        ("cpu0/thermal_throttle/core_throttle_count", "4"),
    ];
    files.iter().for_each(|(file, text)| tree.write(&format!("{cpu}/{file}"), text));
    for number in ["0", "1"] {
        let cpu = format!("{cpu}/cpu{number}");
        tree.write(&format!("{cpu}/topology/thread_siblings_list"), "0-1\n");
        tree.write(&format!("{cpu}/topology/core_id"), "5\n");
        tree.write(&format!("{cpu}/node1/cpulist"), "0-1\n");
        for (file, text) in [("level", "2"), ("type", "Unified"), ("size", "2048K")] {
            tree.write(&format!("{cpu}/cache/index2/{file}"), text);
        }
        tree.write(&format!("{cpu}/cache/index2/shared_cpu_list"), "0-1");
    }
    let files = [
        ("operstate", "up"),
        ("address", "02:00:00:00:00:07"),
        ("mtu", "1500"),
        ("speed", "-1"),
        ("device/numa_node", "1"),
        ("device/msi_irqs/40", "msix"),
        ("queues/rx-0/rps_cpus", "00000000,00000002"),
        ("queues/rx-1/rps_cpus", "00000000,00000000"),
        ("queues/tx-0/xps_cpus", "1"),
        ("threaded", "1"),
    ];
    files.iter().for_each(|(file, text)| tree.write(&format!("{net}/{file}"), text));
    tree.write("sys/class/net/lo/operstate", "unknown");
    tree
}

fn take(tree: &Tree) -> Manifest {
    Manifest::take(&tree.machine(), &ManifestOptions::default(), Software::default()).unwrap()
}

#[test]
fn a_machine_is_read() {
    let manifest = take(&tree("manifest-read"));
    let cpu = &manifest.cpu;
    assert_eq!((cpu.model.as_str(), cpu.microcode.as_str()), ("Xeon 8480", "0x2b"));
    assert_eq!(cpu.version, "vendor_id GenuineIntel, cpu family 6, model 143, stepping 8");
    assert_eq!((cpu.smt, cpu.cores.len(), cpu.caches.len()), (Some(true), 2, 1));
    assert_eq!((cpu.cores[1].core, cpu.cores[1].node), (5, 1));
    assert_eq!(cpu.cores[1].siblings, "0-1");
    let policy = &manifest.frequency.policies["0-1"];
    assert_eq!((policy.governor.as_str(), policy.khz_max), ("powersave", 3_800_000));
    assert_eq!(manifest.frequency.boost, Some(true));
    assert_eq!(manifest.frequency.idle_states[0].latency_us, 170);
    assert_eq!(manifest.virtualisation.hypervisor, "unknown");
    // All that is online, until the control group says otherwise.
    assert_eq!(manifest.virtualisation.allowed, "0-1");
    for (groups, file) in [
        ("0::/pod\n", "pod/cpuset.cpus.effective"),
        ("3:cpuset:/box\n0::/y\n", "cpuset/box/cpuset.effective_cpus"),
    ] {
        let tree = tree("manifest-cpuset");
        tree.write("proc/self/cgroup", groups);
        tree.write(&format!("sys/fs/cgroup/{file}"), "1\n");
        assert_eq!(take(&tree).virtualisation.allowed, "1", "{groups}");
    }
    let kernel = &manifest.kernel;
    assert_eq!((kernel.release.as_str(), kernel.huge_pages.as_str()), ("6.18.1", "madvise"));
    assert_eq!((kernel.memory_kb, kernel.swap_kb, kernel.irqbalance), (1_000, 5, false));
    assert_eq!(manifest.sysctls["net.core.rmem_max"], "212992");
    assert_eq!(manifest.sysctls["net.ipv4.udp_mem"], "1 2 3");
    let now = &manifest.now;
    assert_eq!((now.load.clone(), now.thermal_throttles), (vec![1.5, 0.25], 4));
    assert_eq!((now.swapped_pages, now.mhz.get(&0).copied()), (7, Some(3_800.5)));
    assert!(now.clock_cost_ns > 0.0 && now.clock_resolution_ns > 0);
}

#[test]
fn devices_are_read() {
    let manifest = take(&tree("manifest-devices"));
    assert_eq!(manifest.devices.keys().collect::<Vec<_>>(), ["eth0"]);
    let device = &manifest.devices["eth0"];
    assert_eq!((device.node, device.speed, device.mtu, device.threaded), (1, 0, 1_500, true));
    assert_eq!((device.rx_queues, device.tx_queues), (2, 1));
    assert_eq!(device.rps["rx-0"], "00000000,00000002");
    assert_eq!(device.rps["rx-1"], "");
    assert_eq!(device.interrupts["eth0-rx-0"], "0-1");
    // Of software only, where there is nothing else.
    let soft = Tree::new("manifest-soft", &[("sys/class/net/veth1/carrier", "1")]);
    soft.write("sys/class/net/veth2/operstate", "down");
    assert_eq!(devices_up(&soft.machine()), ["veth1"]);
    soft.write("sys/class/net/eth0/operstate", "up");
    soft.write("sys/class/net/eth0/device/numa_node", "0");
    assert_eq!(devices_up(&soft.machine()), ["eth0"]);
    let look = ManifestOptions { devices: vec!["eth7".into()], ..ManifestOptions::default() };
    let machine = tree("manifest-no-device").machine();
    let said = Manifest::take(&machine, &look, Software::default()).unwrap_err();
    assert!(said.contains("no device eth7"), "{said}");
}

#[test]
fn identity_is_included_only_on_request() {
    let tree = tree("manifest-secrets");
    let json = serde_json::to_string(&take(&tree)).unwrap();
    for secret in ["secret-host", "hunter2", "02:00:00:00:00:07", "/dev/sda"] {
        assert!(!json.contains(secret), "{secret}");
    }
    assert!(json.contains("\"isolcpus\":\"1\"") && json.contains("\"nosmt\":\"\""), "{json}");
    let look = ManifestOptions { identify: true, ..ManifestOptions::default() };
    let asked = Manifest::take(&tree.machine(), &look, Software::default()).unwrap();
    let identity = asked.identity.expect("it was asked for");
    assert_eq!(identity.host_name, "secret-host");
    assert_eq!(identity.link_addresses["eth0"], "02:00:00:00:00:07");
}

#[test]
fn differences_are_listed_by_importance() {
    let tree = tree("manifest-diff");
    let a = take(&tree);
    tree.write("proc/loadavg", "9 9 9");
    let mut b = take(&tree);
    b.software.commit = "later".into();
    let differ = diff(&a, &b);
    assert!(differ.iter().all(|difference| !difference.matters), "{differ:?}");
    assert!(differ.iter().any(|difference| difference.path == "now.load"), "{differ:?}");
    assert_eq!(a.fingerprint, b.hash());

    tree.write("proc/sys/net/core/rmem_max", "1");
    tree.write("sys/class/net/eth0/mtu", "9000");
    let mut c = take(&tree);
    c.virtualisation.quota = Some(0.5);
    let differ = diff(&a, &c);
    let matter: Vec<_> = differ.iter().take_while(|difference| difference.matters).collect();
    let found = matter.iter().map(|d| (d.path.as_str(), d.a.as_deref(), d.b.as_deref()));
    let found: Vec<_> = found.collect();
    let wanted = [
        ("devices.eth0.mtu", Some("1500"), Some("9000")),
        ("sysctls.net.core.rmem_max", Some("212992"), Some("1")),
        ("virtualisation.quota", None, Some("0.5")),
    ];
    assert_eq!(found, wanted);
    assert_ne!(a.fingerprint, c.fingerprint);
    assert_eq!(a.fingerprint.len(), 16);
}

#[test]
fn a_manifest_survives_a_round_trip() {
    let manifest = take(&tree("manifest-json"));
    let json = serde_json::to_string(&manifest).unwrap();
    assert_eq!(Manifest::parse(&json).unwrap(), manifest);
    assert_eq!(json, serde_json::to_string(&Manifest::parse(&json).unwrap()).unwrap());
    let other = json.replacen("\"schema\":1", "\"schema\":2", 1);
    assert!(Manifest::parse(&other).unwrap_err().contains("schema 2"));
    assert!(Manifest::parse("{}").unwrap_err().contains("not a manifest"));
}

#[test]
fn an_empty_machine_has_a_manifest() {
    let manifest = take(&Tree::new("manifest-empty", &[("proc/x", "")]));
    assert!(manifest.devices.is_empty() && manifest.cpu.cores.is_empty());
}

#[test]
fn ethtool_is_read() {
    let rings = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\n\
        Current hardware settings:\nRX:\t\t256\nRX Mini:\tn/a\nTX Push:\toff\n";
    assert_eq!(ethtool::pairs(rings)["rx"], "256");
    let coalescing = "Coalesce parameters for eth0:\nAdaptive RX: off  TX: n/a\n\
        stats-block-usecs:\tn/a\nrx-usecs: 3\nCQE mode RX: n/a  TX: n/a\n\ntorn\n";
    let pairs = ethtool::pairs(coalescing);
    assert_eq!(pairs["adaptive-rx"], "off TX: n/a");
    assert_eq!((pairs["rx-usecs"].as_str(), pairs.len()), ("3", 2));
    let features = "Features for eth0:\nrx-checksumming: on [fixed]\n\ttx-gso: off\ngro: on\n";
    assert_eq!(ethtool::offloads(features), "rx-checksumming gro");
    let table = "RX flow hash indirection table for eth0 with 2 RX ring(s):\n    0:  0 1 0 1\n\
        \u{20}   4:  1 x 1\nRSS hash key:\n6d:5a\nRSS hash function:\n    toeplitz: on\n";
    let rss = ethtool::rss(table);
    assert_eq!((rss["rx-0"].as_str(), rss["rx-1"].as_str(), rss.len()), ("2", "3", 2));
    let fields =
        "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n\n";
    assert_eq!(ethtool::hash_fields(fields), "IP SA, IP DA");
    assert_eq!(ethtool::hash_fields("UDP over …:\nNone\n"), "");
    assert_eq!(ethtool::root_qdisc(r#"[{"kind":"mq","root":true},{"kind":"fq"}]"#), "mq");
    assert_eq!(ethtool::xdp(r#"[{"xdp":{"mode":1}}]"#), "driver");
    for wrong in ["", "{}", "[", "[7]"] {
        assert_eq!((ethtool::root_qdisc(wrong), ethtool::xdp(wrong)), Default::default());
    }
    let table = " 40: 1 PCI-MSI 0-edge eth0-0\n4: 2 IO-APIC x\ntorn\n";
    assert_eq!(device::interrupt_name(table, 4).as_deref(), Some("x"));
    assert_eq!(device::interrupt_name(table, 5), None);
}

#[test]
fn this_machine_has_a_manifest() {
    let look = ManifestOptions::default();
    let manifest = Manifest::take(&Machine::this(), &look, Software::default()).unwrap();
    assert!(!manifest.cpu.cores.is_empty() && !manifest.kernel.release.is_empty());
    assert!(manifest.now.load.len() == 3, "{:?}", manifest.now);
}

#[test]
fn caches_are_listed_by_level_and_shared_cpus() {
    let cache = |level, kind: &str, size: &str, cpus: &str| Cache {
        level,
        kind: kind.into(),
        size: size.into(),
        cpus: cpus.into(),
    };
    let mut cpu = Cpu::default();
    assert_eq!(cpu.shared_caches(), "unknown");
    cpu.caches = vec![
        cache(1, "Data", "32K", "0"),
        cache(1, "Data", "32K", "1"),
        cache(1, "Instruction", "64K", "0"),
        cache(2, "Unified", "1024K", "0-1"),
        cache(2, "Unified", "1024K", "2-3"),
    ];
    let text = "L1 (32K) one for each CPU; L2 (1024K) shared by CPUs 0-1, by 2-3";
    assert_eq!(cpu.shared_caches(), text);
}
