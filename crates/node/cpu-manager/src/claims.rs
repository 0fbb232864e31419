//! Claims: containers with exclusive CPUs.
use crate::events::Event;
use crate::groups::Groups;
use crate::limits::CLAIMS_MAX;
use crate::manager::{Manager, constraints};
use crate::rules::Rules;
use cpu::CpuList;
use cpu_planner::{Request, plan};
use cpu_topology::Topology;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// A container that has or requests exclusive CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Identifies its pod.
    pub pod: String,
    /// Its name in the pod, which it keeps when it starts again.
    pub name: String,
    /// Its control group, below the root of the hierarchy. It may not exist yet.
    pub path: String,
    /// Whole CPUs.
    pub cpus: usize,
    /// The device to be near.
    pub near: Option<String>,
    /// Whole cores only.
    pub full_cores: bool,
    /// Whether the interrupts of that device go to its CPUs.
    pub interrupts: bool,
    /// The quota that it would have, in the format of `cpu.max`.
    pub quota: String,
    /// Whether it runs. The CPUs of an ended container stay reserved for other containers of its
    /// pod.
    pub is_running: bool,
}

impl<G: Groups> Manager<G> {
    /// Adds a container that requests exclusive CPUs; the next pass assigns them.
    ///
    /// As in the kubelet, CPUs of containers of its pod that have ended, such as init containers,
    /// are used first: those that it had itself, or else any. A container that has not ended, such
    /// as a sidecar, keeps its own.
    pub fn claim(
        &mut self,
        topology: &Topology,
        rules: &Rules,
        id: &str,
        claim: Claim,
    ) -> Vec<Event> {
        if let Some(known) = self.state.claims.get_mut(id) {
            known.is_running = claim.is_running;
            return Vec::new();
        }
        if self.state.claims.len() >= CLAIMS_MAX {
            let what = format!("more than {CLAIMS_MAX} containers claim CPUs; it shares");
            return vec![Event::Failed(claim.path, what)];
        }
        if claim.is_running && self.is_there(&claim.path) {
            self.summary.late += 1;
            self.waiting.insert(claim.path.clone(), Instant::now());
        }
        if claim.is_running {
            self.take_over(topology, rules, &claim);
        }
        self.state.claims.insert(id.to_owned(), claim);
        Vec::new()
    }

    /// Gives a container the CPUs of those of its pod that have ended, if they are enough.
    fn take_over(&mut self, topology: &Topology, rules: &Rules, claim: &Claim) {
        let has_ended = |other: &Claim| other.pod == claim.pod && !other.is_running;
        let ended = self.state.claims.iter().filter(|(_, other)| has_ended(other));
        let mut ended: Vec<(String, String, bool)> = ended
            .map(|(id, other)| {
                let is_itself = other.name == claim.name && other.cpus == claim.cpus;
                (id.clone(), other.path.clone(), is_itself)
            })
            .collect();
        if ended.iter().any(|(_, _, is_itself)| *is_itself) {
            ended.retain(|(_, _, is_itself)| *is_itself);
            ended.truncate(1);
        }
        let sets: Vec<CpuList> = ended.iter().map(|(_, path, _)| self.set_of(path)).collect();
        let reusable = sets.iter().fold(CpuList::default(), |all, set| all.union(set));
        let request = Request { cpus: claim.cpus, near: claim.near.clone() };
        // No other group has these CPUs, so none must be left for others.
        let constraints =
            cpu_planner::Constraints { shared_min: 0, ..constraints(rules, claim.full_cores) };
        let own = match reusable.len() >= claim.cpus {
            true => plan(topology, &reusable, &request, &constraints).map(|plan| plan.cpus).ok(),
            false => None,
        };
        for ((id, path, _), set) in ended.into_iter().zip(sets) {
            let left = own.as_ref().map_or(CpuList::default(), |own| set.difference(own));
            if left.is_empty() {
                self.state.claims.remove(&id);
                self.state.assigned.remove(&path);
            } else if let Some(other) = self.state.claims.get_mut(&id) {
                other.cpus = left.len();
                self.state.assigned.insert(path, left.to_string());
            }
        }
        if let Some(own) = own {
            self.state.assigned.insert(claim.path.clone(), own.to_string());
        }
    }

    fn set_of(&self, path: &str) -> CpuList {
        let text = self.state.assigned.get(path);
        text.and_then(|text| CpuList::from_kernel(text).ok()).unwrap_or_default()
    }

    /// Records that a container has ended. Its CPUs stay reserved for other containers of its pod.
    pub fn stopped(&mut self, id: &str) {
        if let Some(claim) = self.state.claims.get_mut(id) {
            claim.is_running = false;
        }
    }

    /// Records that a container was removed: its CPUs are free.
    pub fn removed(&mut self, id: &str) {
        self.state.claims.remove(id);
    }

    /// Records that a pod has ended: the CPUs of all its containers are free.
    pub fn pod_ended(&mut self, pod: &str) {
        self.state.claims.retain(|_, claim| claim.pod != pod);
    }

    /// Removes containers that the runtime does not have, and records which of the others run.
    pub fn keep_only(&mut self, running: &BTreeMap<String, bool>) {
        self.state.claims.retain(|id, _| running.contains_key(id));
        for (id, claim) in &mut self.state.claims {
            claim.is_running = running.get(id).copied().unwrap_or(false);
        }
    }

    /// The exclusive CPUs of a container.
    pub fn own_cpus(&self, id: &str) -> Option<CpuList> {
        let claim = self.state.claims.get(id)?;
        Some(self.set_of(&claim.path)).filter(|cpus| !cpus.is_empty())
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
