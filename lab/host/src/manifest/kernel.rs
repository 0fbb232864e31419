//! The kernel, and virtualization around it.

use super::cpu::field;
use crate::counters::{group_file, stat_file};
use crate::machine::Machine;
use crate::threads;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Words of the command line that affect speed. Others may be secrets.
const WORDS: [&str; 34] = [
    "amd_iommu",
    "amd_pstate",
    "audit",
    "clocksource",
    "cpufreq.default_governor",
    "cpuidle.governor",
    "cpuidle.off",
    "cpuidle_haltpoll.force",
    "default_hugepagesz",
    "haltpoll.guest_halt_poll_ns",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "irqaffinity",
    "isolcpus",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "skew_tick",
    "threadirqs",
    "transparent_hugepage",
];

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its release.
    pub release: String,
    /// When and how it was built.
    pub version: String,
    /// The parts of its command line that affect speed.
    pub command_line: BTreeMap<String, String>,
    /// CPUs that the scheduler leaves alone, as a list.
    pub isolated: String,
    /// CPUs without a tick while one thread runs, as a list.
    pub nohz_full: String,
    /// The preemption model; empty if unknown.
    pub preemption: String,
    /// Vulnerabilities of the CPU and their mitigations.
    pub vulnerabilities: BTreeMap<String, String>,
    /// Mode of transparent huge pages.
    pub huge_pages: String,
    /// The clock source.
    pub clock_source: String,
    /// Memory in kB.
    pub memory_kb: i64,
    /// Room to swap memory out to, in kB.
    pub swap_kb: i64,
    /// Whether irqbalance runs, which moves interrupts now and then.
    pub irqbalance: bool,
}

impl Kernel {
    pub(super) fn read(machine: &Machine) -> Self {
        let text = |file: &str| machine.read(file).unwrap_or_default();
        let folder = "sys/devices/system/cpu/vulnerabilities";
        let weakness = |name: String| {
            let told = machine.read(&format!("{folder}/{name}"))?;
            Some((name, told))
        };
        let memory = text("proc/meminfo");
        let kb = |name: &str| {
            let value = field(&memory, name).unwrap_or_default();
            value.trim_end_matches(" kB").parse().unwrap_or(0)
        };
        Self {
            release: text("proc/sys/kernel/osrelease"),
            version: text("proc/sys/kernel/version"),
            command_line: command_line(&text("proc/cmdline")),
            isolated: text("sys/devices/system/cpu/isolated"),
            nohz_full: text("sys/devices/system/cpu/nohz_full").replace("(null)", ""),
            preemption: machine
                .chosen("sys/kernel/debug/sched/preempt")
                .map_or_else(String::new, |told| told.trim_matches(['(', ')']).to_owned()),
            vulnerabilities: machine.list(folder).into_iter().filter_map(weakness).collect(),
            huge_pages: machine
                .chosen("sys/kernel/mm/transparent_hugepage/enabled")
                .unwrap_or_default(),
            clock_source: text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            memory_kb: kb("MemTotal"),
            swap_kb: kb("SwapTotal"),
            irqbalance: runs(machine, "irqbalance"),
        }
    }
}

/// Those of [`WORDS`] that are there.
pub(super) fn command_line(text: &str) -> BTreeMap<String, String> {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        WORDS.contains(&name).then(|| (name.to_owned(), value.to_owned()))
    };
    text.split_whitespace().filter_map(pair).collect()
}

fn runs(machine: &Machine, name: &str) -> bool {
    machine
        .list("proc")
        .iter()
        .filter(|pid| pid.parse::<u32>().is_ok())
        .any(|pid| machine.read(&format!("proc/{pid}/comm")).as_deref() == Some(name))
        && threads::find(&machine.path("proc"), |thread| thread == name).is_empty()
}

/// The hypervisor and control groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Virtualisation {
    /// The hypervisor, if known; empty: none.
    pub hypervisor: String,
    /// The container we are in; empty: none.
    pub container: String,
    /// CPU quota of the control group, in CPUs; `None`: no quota.
    pub quota: Option<f64>,
    /// The CPUs that our control group may use, as a list. The affinity of this process is ignored.
    pub allowed: String,
}

impl Virtualisation {
    pub(super) fn read(machine: &Machine) -> Self {
        let info = machine.read("proc/cpuinfo").unwrap_or_default();
        let flags = field(&info, "flags").unwrap_or_default();
        let is_virtual = flags.split(' ').any(|flag| flag == "hypervisor");
        let vendor = ["sys/hypervisor/type", "sys/class/dmi/id/sys_vendor"];
        let vendor = vendor.iter().find_map(|file| machine.read(file));
        let container = machine.read("run/systemd/container").or_else(|| {
            let kinds = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
            let found = kinds.into_iter().find(|(file, _)| machine.has(file));
            found.map(|(_, kind)| kind.to_owned())
        });
        Self {
            hypervisor: match is_virtual {
                true => vendor.unwrap_or_else(|| "unknown".to_owned()),
                false => String::new(),
            },
            container: container.unwrap_or_default(),
            quota: if machine.is_this() { cpu::quota().or(quota_v1(machine)) } else { None },
            allowed: allowed(machine),
        }
    }
}

/// CPUs of the control group; all online ones where there is no limit.
fn allowed(machine: &Machine) -> String {
    let groups = machine.read("proc/self/cgroup").unwrap_or_default();
    // Of v2, and of v1, where it is also without what is offline or not the parent's.
    let files = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
    let told = files.iter().find_map(|file| {
        let file = group_file(&groups, "cpuset", file)?;
        machine.read(&format!("sys/fs/cgroup/{file}"))
    });
    told.or(machine.read("sys/devices/system/cpu/online")).unwrap_or_default()
}

/// The CPU quota of cgroup v1.
fn quota_v1(machine: &Machine) -> Option<f64> {
    let groups = machine.read("proc/self/cgroup")?;
    let file = stat_file(&groups)?;
    let folder = format!("sys/fs/cgroup/{}", file.trim_end_matches("cpu.stat"));
    let quota = machine.number(&format!("{folder}cpu.cfs_quota_us")).filter(|us| *us > 0)?;
    let period = machine.number(&format!("{folder}cpu.cfs_period_us")).filter(|us| *us > 0)?;
    Some(quota as f64 / period as f64)
}
