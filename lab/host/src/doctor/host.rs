//! Rules for the machine.

use super::Severity::{Costs, Invalid};
use super::{Finding, Purpose, percent};
use crate::manifest::Manifest;
use cpu::CpuList;

/// The share of a CPU that other processes may use without effect: a server that uses the CPU alone
/// loses the same share of its rate.
const BUSY_MAX: f64 = 0.05;
/// The acceptable share of steal time.
const STEAL_MAX: f64 = 0.01;
/// Bytes of socket buffer that Linux charges for one queued DNS query (`truesize`).
const DATAGRAM_BYTES: i64 = 768;
/// Datagrams for which a buffer should have room: those of 20 ms at 200,000 a second.
const DATAGRAMS_MIN: i64 = 4_000;
/// The highest acceptable cost of reading the clock.
const CLOCK_COST_NS_MAX: f64 = 200.0;

fn allowed(manifest: &Manifest) -> usize {
    let list = manifest.virtualisation.allowed.parse::<CpuList>();
    list.map_or(0, |list| list.as_slice().len())
}

pub(super) fn one_cpu(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    (allowed(manifest) == 1).then(|| Finding {
        severity: Invalid,
        what: "only one CPU may be used".into(),
        why: "server and generator take turns on it: each is measured while it waits for the other"
            .into(),
        remedy: "measure on two CPUs or more, or put the generator on another machine".into(),
    })
}

pub(super) fn debug_build(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    (manifest.software.profile == "debug").then(|| Finding {
        severity: Invalid,
        what: "this program was built for debugging".into(),
        why: "without optimisation the generator is the slower one: it would be measured, not the \
              server"
            .into(),
        remedy: "cargo build --release".into(),
    })
}

pub(super) fn other_load(manifest: &Manifest, purpose: &Purpose) -> Option<Finding> {
    let is_ours = |cpu: usize| purpose.cpus().is_empty() || purpose.cpus().contains(&cpu);
    let busy = manifest.now.busy.iter().filter(|(cpu, busy)| is_ours(**cpu) && **busy > BUSY_MAX);
    let busy: Vec<_> = busy.map(|(cpu, busy)| format!("CPU {cpu} {}", percent(*busy))).collect();
    let who: Vec<_> =
        manifest.now.busiest.iter().map(|p| format!("{} {:.2}", p.name, p.cpus)).collect();
    let who =
        if who.is_empty() { String::new() } else { format!("; CPUs used by {}", who.join(", ")) };
    (!busy.is_empty()).then(|| Finding {
        severity: Invalid,
        what: format!("others keep CPUs busy: {}{who}", busy.join(", ")),
        why:
            "what they take, the server lacks, and its queries wait for their time slices of some \
              milliseconds"
                .into(),
        remedy: "end them, wait for them, or measure on CPUs that they do not use (--cpus)".into(),
    })
}

pub(super) fn steal(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    let (now, all) = (manifest.now.steal, manifest.now.steal_since_start);
    let (severity, share, when) = if now > STEAL_MAX {
        (Invalid, now, "now")
    } else if all > STEAL_MAX {
        (Costs, all, "of all the time since the machine was started")
    } else {
        return None;
    };
    Some(Finding {
        severity,
        what: format!(
            "the hypervisor gives {} of this machine's CPUs to others, {when}",
            percent(share)
        ),
        why: "the machine stands still meanwhile, by milliseconds, without noticing".into(),
        remedy:
            "measure on a machine with CPUs of its own, or when other machines of the host are idle"
                .into(),
    })
}

pub(super) fn quota(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    let quota = manifest.virtualisation.quota?;
    let count = allowed(manifest);
    let throttled = manifest.now.quota_throttles;
    (quota < count as f64).then(|| Finding {
        severity: Invalid,
        what: format!(
            "the control group grants {quota} of {count} CPUs, and held back {throttled} times"
        ),
        why: "who has used his share stands still until its period of mostly 100 ms is over".into(),
        remedy: "measure without a limit (cpu.max), or bind to as many whole CPUs as are granted"
            .into(),
    })
}

pub(super) fn swapping(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    let pages = manifest.now.swaps_pages;
    (pages > 0).then(|| Finding {
        severity: Invalid,
        what: format!("memory is being swapped: {pages} pages in half a second"),
        why: "a query that touches such a page waits for the disk".into(),
        remedy: "free memory, or `swapoff -a`".into(),
    })
}

pub(super) fn governor(manifest: &Manifest, purpose: &Purpose) -> Option<Finding> {
    let policies = manifest.frequency.policies.iter().filter(|(cpus, policy)| {
        let cpus = cpus.parse::<CpuList>().unwrap_or_default();
        let is_ours = purpose.cpus().is_empty()
            || cpus.as_slice().iter().any(|cpu| purpose.cpus().contains(cpu));
        is_ours && policy.governor != "performance"
    });
    let list: Vec<_> =
        policies.map(|(cpus, policy)| format!("{cpus} {}", policy.governor)).collect();
    (!list.is_empty()).then(|| Finding {
        severity: Invalid,
        what: format!("CPUs do not run as fast as they can (governor): {}", list.join(", ")),
        why: "their frequency follows the load, so that a rate decides how fast it is served"
            .into(),
        remedy: "dunlin lab tune (governor performance)".into(),
    })
}

pub(super) fn irqbalance(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    manifest.kernel.irqbalance.then(|| Finding {
        severity: Invalid,
        what: "irqbalance runs".into(),
        why: "every ten seconds it may move the device's interrupts to another CPU, such as the \
              server's or the generator's"
            .into(),
        remedy: "systemctl stop irqbalance".into(),
    })
}

pub(super) fn siblings(manifest: &Manifest, purpose: &Purpose) -> Option<Finding> {
    let mut pairs: Vec<String> = manifest
        .cpu
        .cores
        .iter()
        .filter(|core| purpose.cpus().contains(&core.cpu))
        .filter(|core| {
            let siblings = core.siblings.parse::<CpuList>().unwrap_or_default();
            siblings.as_slice().iter().filter(|cpu| purpose.cpus().contains(cpu)).count() > 1
        })
        .map(|core| core.siblings.clone())
        .collect();
    pairs.dedup();
    (!pairs.is_empty()).then(|| Finding {
        severity: Invalid,
        what: format!("CPUs share a core (SMT): {}", pairs.join(" and ")),
        why: "both share its units and caches: what is measured is neither one core nor two".into(),
        remedy: "choose one CPU of each core (`dunlin lab manifest` lists siblings)".into(),
    })
}

pub(super) fn heat(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    let times = manifest.now.thermal_throttles;
    (times > 0).then(|| Finding {
        severity: Costs,
        what: format!("CPUs slowed down {times} times since the start, as they were too hot"),
        why: "a long measurement ends slower than it began".into(),
        remedy: "look after the cooling, or measure at a lower frequency that can be kept".into(),
    })
}

pub(super) fn buffers(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    let bytes: i64 = manifest.sysctls.get("net.core.rmem_max")?.parse().ok()?;
    let datagrams = bytes / DATAGRAM_BYTES;
    (datagrams < DATAGRAMS_MIN).then(|| Finding {
        severity: Costs,
        what: format!("sockets may have buffers of {bytes} bytes only (net.core.rmem_max)"),
        why: format!(
            "that is {datagrams} waiting queries: at 200,000 a second they are lost after {:.1} ms \
             in which the server does something else",
            datagrams as f64 / 200.0
        ),
        remedy: "dunlin lab tune".into(),
    })
}

pub(super) fn conntrack(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    let count = manifest.now.connections.filter(|count| *count > 0)?;
    Some(Finding {
        severity: Costs,
        what: format!("the kernel follows {count} connections (conntrack)"),
        why:
            "each packet is looked up, and each new client takes an entry until the table is full \
              and its packets are dropped"
                .into(),
        remedy: "exempt port 53: nft add rule … udp dport 53 notrack, and for replies sport 53"
            .into(),
    })
}

pub(super) fn clock(manifest: &Manifest, _: &Purpose) -> Option<Finding> {
    let cost = manifest.now.clock_cost_ns;
    let source = &manifest.kernel.clock_source;
    (cost > CLOCK_COST_NS_MAX).then(|| Finding {
        severity: Costs,
        what: format!("asking for the time costs {cost:.0} ns (clock source {source})"),
        why: "each query asks twice, and each time is a call to the kernel where the CPU's own \
              counter needs none"
            .into(),
        remedy: "boot with clocksource=tsc, if the kernel has not found the counter unstable"
            .into(),
    })
}
