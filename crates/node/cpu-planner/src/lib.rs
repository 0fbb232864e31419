//! Chooses CPUs for a request, and says why. A pure function of the machine, what is free, what is
//! asked for and the constraints.
#![forbid(unsafe_code)]

mod distribute;
mod dunlin;
mod explain;
mod free;
mod kubelet;
pub mod limits;
mod packed;
pub mod policy;
mod request;
pub mod state;

pub use explain::{Explanation, Preference, Reason};
pub use request::{Constraints, Order, PlanError, Request, Spread};

use cpu::CpuList;
use cpu_topology::Topology;
use serde::Serialize;

/// The CPUs for a request, and why these.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The CPUs, as many as requested.
    #[serde(serialize_with = "cpu_topology::as_text")]
    pub cpus: CpuList,
    /// Why these.
    pub explanation: Explanation,
}

/// Chooses CPUs. `free` are those that no one else has exclusively; the reserved ones among them
/// are never chosen, nor is one that is not online. The result depends on the arguments only.
///
/// # Errors
/// The request cannot be met. Nothing is chosen then.
pub fn plan(
    topology: &Topology,
    free: &CpuList,
    request: &Request,
    constraints: &Constraints,
) -> Result<Plan, PlanError> {
    let free = free.intersection(&topology.online());
    let candidates = free.difference(&constraints.reserved);
    if constraints.order == Order::Kubelet && constraints.full_cores {
        kubelet::check_full_cores(topology, &free, request.cpus, constraints)?;
    }
    if request.cpus > candidates.len() {
        let (requested, available) = (request.cpus, candidates.len());
        return Err(PlanError::NotEnough { requested, available });
    }
    let kept = if constraints.strict_reservation { &candidates } else { &free };
    if request.cpus > 0 && kept.len() < request.cpus + constraints.shared_min {
        let (requested, shared_min) = (request.cpus, constraints.shared_min);
        return Err(PlanError::SharedTooSmall { requested, shared: kept.len(), shared_min });
    }
    let (cpus, pool, preferences) = match constraints.order {
        Order::Kubelet => {
            let cpus = kubelet::take(topology, &candidates, request.cpus, constraints)?;
            (cpus, candidates, Vec::new())
        }
        Order::Dunlin => dunlin::take(topology, &candidates, request, constraints)?,
    };
    let explanation = Explanation::of(topology, &cpus, &pool, request, constraints, preferences);
    Ok(Plan { cpus, explanation })
}
