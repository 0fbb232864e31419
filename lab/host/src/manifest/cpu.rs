//! CPUs and their frequencies.

use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs (`/proc/cpuinfo`, `/sys/devices/system/cpu`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The model's name.
    pub model: String,
    /// Vendor, family, model, stepping: as `/proc/cpuinfo` has them.
    pub version: String,
    /// The version of its microcode.
    pub microcode: String,
    /// Its feature flags.
    pub flags: String,
    /// Which are online, as a list.
    pub online: String,
    /// Whether SMT is on, if known.
    pub smt: Option<bool>,
    /// Each that is online.
    pub cores: Vec<Core>,
    /// Caches, each once.
    pub caches: Vec<Cache>,
}

/// Where a CPU is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Its number.
    pub cpu: usize,
    /// Its socket.
    pub package: i64,
    /// Its die in the socket.
    pub die: i64,
    /// Its core in the socket.
    pub core: i64,
    /// Its NUMA node.
    pub node: i64,
    /// The CPUs that are threads of the same core, itself included, as a list.
    pub siblings: String,
}

/// A cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is next to the core.
    pub level: i64,
    /// Its type: `Data`, `Instruction`, `Unified`.
    pub kind: String,
    /// Its size, such as `32K`.
    pub size: String,
    /// The CPUs that share it, as a list.
    pub cpus: String,
}

impl Cpu {
    pub(super) fn read(machine: &Machine) -> Self {
        let info = machine.read("proc/cpuinfo").unwrap_or_default();
        let names: Vec<_> = machine.list(CPUS);
        let numbers = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok());
        let numbers: Vec<usize> = numbers.collect();
        let mut caches: Vec<_> = numbers.iter().flat_map(|cpu| caches(machine, *cpu)).collect();
        caches.sort();
        caches.dedup();
        Self {
            model: field(&info, "model name").or(field(&info, "CPU part")).unwrap_or_default(),
            version: version(&info),
            microcode: field(&info, "microcode").unwrap_or_default(),
            flags: field(&info, "flags").or(field(&info, "Features")).unwrap_or_default(),
            online: machine.read(&format!("{CPUS}/online")).unwrap_or_default(),
            smt: machine.number(&format!("{CPUS}/smt/active")).map(|active| active == 1),
            cores: numbers.iter().filter_map(|cpu| core(machine, *cpu)).collect(),
            caches,
        }
    }

    /// Describes which CPUs share which cache; instruction caches are omitted, because they equal
    /// data caches.
    pub fn shared_caches(&self) -> String {
        let mut levels: BTreeMap<(i64, &str), Vec<&str>> = BTreeMap::new();
        for cache in self.caches.iter().filter(|cache| cache.kind != "Instruction") {
            levels.entry((cache.level, &cache.size)).or_default().push(&cache.cpus);
        }
        let level = |((level, size), sets): (&(i64, &str), &Vec<&str>)| {
            let sets = match sets.iter().any(|cpus| cpus.contains(['-', ','])) {
                true => format!("shared by CPUs {}", sets.join(", by ")),
                false => "one for each CPU".into(),
            };
            format!("L{level} ({size}) {sets}")
        };
        let levels: Vec<String> = levels.iter().map(level).collect();
        if levels.is_empty() { "unknown".into() } else { levels.join("; ") }
    }
}

/// The first processor's value of that name.
pub(super) fn field(info: &str, name: &str) -> Option<String> {
    let pair = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    info.lines().find_map(pair)
}

fn version(info: &str) -> String {
    let names = ["vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU variant"];
    let known = names.iter().filter_map(|name| Some(format!("{name} {}", field(info, name)?)));
    known.collect::<Vec<_>>().join(", ")
}

fn core(machine: &Machine, cpu: usize) -> Option<Core> {
    let folder = format!("{CPUS}/cpu{cpu}");
    let topology = |file: &str| machine.number(&format!("{folder}/topology/{file}")).unwrap_or(0);
    let siblings = machine.read(&format!("{folder}/topology/thread_siblings_list"))?;
    let entries = machine.list(&folder);
    let node = entries.iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
    Some(Core {
        cpu,
        package: topology("physical_package_id"),
        die: topology("die_id"),
        core: topology("core_id"),
        node: node.unwrap_or(0),
        siblings,
    })
}

fn caches(machine: &Machine, cpu: usize) -> Vec<Cache> {
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    let read = |name: String| {
        let file = |file: &str| format!("{folder}/{name}/{file}");
        Some(Cache {
            level: machine.number(&file("level"))?,
            kind: machine.read(&file("type"))?,
            size: machine.read(&file("size"))?,
            cpus: machine.read(&file("shared_cpu_list"))?,
        })
    };
    machine.list(&folder).into_iter().filter_map(read).collect()
}

/// Frequency and sleep control of the CPUs (`cpufreq`, `cpuidle`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// Policies by CPU list. Empty: the kernel does not set frequencies.
    pub policies: BTreeMap<String, Policy>,
    /// Whether they may run faster than their nominal frequency; unknown where the kernel does not
    /// say.
    pub boost: Option<bool>,
    /// The idle driver and governor.
    pub idle: String,
    /// Idle states that they may use.
    pub idle_states: Vec<IdleState>,
}

/// The policy of some CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The driver.
    pub driver: String,
    /// The governor: `performance`, `powersave`, `schedutil`.
    pub governor: String,
    /// The least, in kHz.
    pub khz_min: i64,
    /// The most, in kHz.
    pub khz_max: i64,
    /// The hint to a CPU that chooses its frequency itself (EPP).
    pub preference: String,
}

/// A way to sleep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// Microseconds it takes to wake up from it.
    pub latency_us: i64,
    /// Whether it is used.
    pub enabled: bool,
}

impl Frequency {
    pub(super) fn read(machine: &Machine) -> Self {
        let folder = format!("{CPUS}/cpufreq");
        let names = machine.list(&folder).into_iter().filter(|name| name.starts_with("policy"));
        let policies = names.filter_map(|name| {
            let file = |file: &str| format!("{folder}/{name}/{file}");
            let text = |name: &str| machine.read(&file(name)).unwrap_or_default();
            let number = |name: &str| machine.number(&file(name)).unwrap_or(0);
            let cpus = machine.read(&file("affected_cpus"))?;
            let cpus: cpu::CpuList = cpus.replace(' ', ",").parse().ok()?;
            let policy = Policy {
                driver: text("scaling_driver"),
                governor: text("scaling_governor"),
                khz_min: number("scaling_min_freq"),
                khz_max: number("scaling_max_freq"),
                preference: text("energy_performance_preference"),
            };
            Some((cpus.to_string(), policy))
        });
        let no_turbo = machine.number(&format!("{CPUS}/intel_pstate/no_turbo")).map(|n| n == 0);
        let idle = |file| machine.read(&format!("{CPUS}/cpuidle/{file}")).unwrap_or_default();
        let states = machine.list(&format!("{CPUS}/cpu0/cpuidle"));
        let state = |name: String| {
            let file = |file: &str| format!("{CPUS}/cpu0/cpuidle/{name}/{file}");
            Some(IdleState {
                name: machine.read(&file("name"))?,
                latency_us: machine.number(&file("latency"))?,
                enabled: machine.number(&file("disable")) != Some(1),
            })
        };
        Self {
            policies: policies.collect(),
            boost: no_turbo.or(machine.number(&format!("{folder}/boost")).map(|n| n == 1)),
            idle: format!("{} {}", idle("current_driver"), idle("current_governor_ro"))
                .trim()
                .to_owned(),
            idle_states: states.into_iter().filter_map(state).collect(),
        }
    }
}
