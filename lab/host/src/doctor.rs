//! Checks a manifest for problems that make results unreliable.

mod device;
mod host;

use crate::manifest::Manifest;
use cpu::CpuList;
use serde::Serialize;

/// Its severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A result would be unreliable.
    Invalid,
    /// A result would be repeatable, but the machine is not at its best.
    Costs,
}

impl Severity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Costs => "costs",
        }
    }
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The finding.
    pub what: String,
    /// Why it matters: by how much, or how.
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

/// The planned measurement, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    /// The CPUs of the server's threads, one each.
    pub cpus: Option<CpuList>,
}

impl Purpose {
    fn cpus(&self) -> &[usize] {
        self.cpus.as_ref().map_or(&[], CpuList::as_slice)
    }
}

/// A rule: checks one property of the machine, and returns a finding or `None`.
type Rule = fn(&Manifest, &Purpose) -> Option<Finding>;

/// All rules, those with the largest effect first.
const RULES: [Rule; 13] = [
    host::one_cpu,
    host::debug_build,
    host::other_load,
    host::steal,
    host::quota,
    host::swapping,
    host::governor,
    host::irqbalance,
    host::siblings,
    host::heat,
    host::buffers,
    host::conntrack,
    host::clock,
];

/// Rules for one device, by its name.
const DEVICE_RULES: [device::Rule; 8] = [
    device::pause,
    device::one_queue,
    device::steered_elsewhere,
    device::interrupts_elsewhere,
    device::hash,
    device::far_node,
    device::generic_xdp,
    device::backlog,
];

/// Findings of a machine, those that invalidate results first. Empty if there are none.
pub fn judge(manifest: &Manifest, purpose: &Purpose) -> Vec<Finding> {
    let mut found: Vec<_> = RULES.iter().filter_map(|rule| rule(manifest, purpose)).collect();
    for (name, device) in &manifest.devices {
        let look = device::ManifestOptions { manifest, purpose, name, device };
        found.extend(DEVICE_RULES.iter().filter_map(|rule| rule(&look)));
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

/// Formats a share.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
