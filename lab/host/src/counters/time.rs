//! CPU time by kind.

use super::total;
use crate::tool::text;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Ticks a second in which `/proc` shows times: always 100 for programs on Linux (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// Time of a CPU by kind (`/proc/stat`), in steps of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// The CPU.
    pub cpu: usize,
    /// Programs, niced ones and guests included.
    pub user_ns: u64,
    /// The kernel, on behalf of programs and its own threads.
    pub system_ns: u64,
    /// Interrupts.
    pub irq_ns: u64,
    /// Softirqs: work that interrupts defer, such as receiving packets.
    pub softirq_ns: u64,
    /// Steal time: the hypervisor ran other guests while this CPU had work.
    pub steal_ns: u64,
    /// Idle, or waiting for disks.
    pub idle_ns: u64,
}

impl CpuTime {
    /// The sum.
    pub fn total_ns(&self) -> u64 {
        let parts = [
            self.user_ns,
            self.system_ns,
            self.irq_ns,
            self.softirq_ns,
            self.steal_ns,
            self.idle_ns,
        ];
        total(parts.into_iter())
    }

    /// The busy share of its time, including steal time, 0 to 1.
    pub fn busy(&self) -> f64 {
        match self.total_ns() {
            0 => 0.0,
            all => (all - self.idle_ns) as f64 / all as f64,
        }
    }

    /// The change since `old`, read `wall_ns` earlier. The kernel measures idle time, and samples
    /// steal time. Other times are sampled by its ticks (`CONFIG_TICK_CPU_ACCOUNTING`), which is
    /// wrong for a load in step with the ticks: so they only decide how the remaining time is
    /// divided.
    pub(crate) fn since(&self, old: &Self, wall_ns: u64) -> Self {
        let steal_ns = self.steal_ns.saturating_sub(old.steal_ns);
        let idle_ns = self.idle_ns.saturating_sub(old.idle_ns);
        let used_ns = wall_ns.saturating_sub(idle_ns).saturating_sub(steal_ns);
        let found = [
            self.user_ns.saturating_sub(old.user_ns),
            self.system_ns.saturating_sub(old.system_ns),
            self.irq_ns.saturating_sub(old.irq_ns),
            self.softirq_ns.saturating_sub(old.softirq_ns),
        ];
        let all = found.map(u128::from).iter().sum::<u128>().max(1);
        let part = |found: u64| (u128::from(used_ns) * u128::from(found) / all) as u64;
        let [user_ns, _, irq_ns, softirq_ns] = found.map(part);
        // Time that no tick has found counts as kernel time.
        let system_ns = used_ns - user_ns - irq_ns - softirq_ns;
        Self { cpu: self.cpu, user_ns, system_ns, irq_ns, softirq_ns, steal_ns, idle_ns }
    }
}

/// The stolen share of these CPUs' time, 0 to 1.
pub(crate) fn stolen(times: &[CpuTime]) -> f64 {
    match total(times.iter().map(CpuTime::total_ns)) {
        0 => 0.0,
        all => total(times.iter().map(|time| time.steal_ns)) as f64 / all as f64,
    }
}

pub(super) fn ticks_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(TICK_NS)
}

pub(crate) fn cpus(proc: &Path) -> Vec<CpuTime> {
    parse_cpus(&text(&proc.join("stat")).unwrap_or_default())
}

/// `cpuN user nice system idle iowait irq softirq steal guest guest_nice`; guests are in user and
/// nice already (proc(5)).
pub(super) fn parse_cpus(text: &str) -> Vec<CpuTime> {
    let parse = |line: &str| {
        let (name, counts) = line.split_once(' ')?;
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = counts.split_whitespace().map_while(|n| n.parse().ok()).collect();
        let at = |index: usize| ticks_ns(ticks.get(index).copied().unwrap_or(0));
        Some(CpuTime {
            cpu,
            user_ns: at(0).saturating_add(at(1)),
            system_ns: at(2),
            idle_ns: at(3).saturating_add(at(4)),
            irq_ns: at(5),
            softirq_ns: at(6),
            steal_ns: at(7),
        })
    };
    text.lines().filter_map(parse).collect()
}
