//! The kubelet's static policy: which CPUs a container gets, and what a state must fulfil.
use crate::packed::take_packed;
use crate::state::State;
use crate::{Constraints, Order, Plan, PlanError, Request, plan};
use cpu::CpuList;
use cpu_topology::Topology;
use std::fmt;

/// The policy of a node: its machine, its reserved CPUs and its options.
#[derive(Clone, Debug)]
pub struct Policy<'t> {
    topology: &'t Topology,
    constraints: Constraints,
}

/// What Kubernetes calls the quality of service of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    /// Requests equal limits, for every container.
    Guaranteed,
    /// Some requests.
    Burstable,
    /// No requests.
    BestEffort,
}

/// Why a policy or a state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// The list of reserved CPUs has another length than their number.
    ReservedSize(CpuList, usize),
    /// A state with assignments has no shared CPUs.
    DefaultEmpty,
    /// Reserved CPUs that those who share must have are not shared.
    ReservedNotShared(CpuList, CpuList),
    /// Reserved CPUs are shared although they are strictly reserved.
    ReservedShared(CpuList, CpuList),
    /// A container's CPUs are shared too.
    Overlap(String, String, CpuList, CpuList),
    /// The machine has other CPUs than the state.
    OtherCpus(CpuList, CpuList),
    /// The reserved CPUs cannot be chosen.
    Plan(PlanError),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedSize(list, number) => write!(
                f,
                "[cpumanager] unable to reserve the required amount of CPUs (size of {list} did \
                 not equal {number})"
            ),
            Self::DefaultEmpty => f.write_str("default cpuset cannot be empty"),
            Self::ReservedNotShared(reserved, shared) => write!(
                f,
                "not all reserved cpus: \"{reserved}\" are present in defaultCpuSet: \"{shared}\""
            ),
            Self::ReservedShared(both, shared) => write!(
                f,
                "some of strictly reserved cpus: \"{both}\" are present in defaultCpuSet: \
                 \"{shared}\""
            ),
            Self::Overlap(pod, container, cpus, shared) => write!(
                f,
                "pod: {pod}, container: {container} cpuset: \"{cpus}\" overlaps with default \
                 cpuset \"{shared}\""
            ),
            Self::OtherCpus(machine, state) => write!(
                f,
                "current set of available CPUs \"{machine}\" doesn't match with CPUs in state \
                 \"{state}\""
            ),
            Self::Plan(error) => {
                f.write_str(&error.kubelet_text().unwrap_or_else(|| error.to_string()))
            }
        }
    }
}

impl std::error::Error for PolicyError {}

impl<'t> Policy<'t> {
    /// A policy that keeps `number` CPUs for the system: those of a list, or chosen ones.
    ///
    /// # Errors
    /// The list has another length, or the machine has fewer CPUs.
    pub fn new(
        topology: &'t Topology,
        number: usize,
        reserved: Option<CpuList>,
        constraints: Constraints,
    ) -> Result<Self, PolicyError> {
        let reserved = match reserved {
            Some(list) if list.len() != number => {
                return Err(PolicyError::ReservedSize(list, number));
            }
            Some(list) => list,
            None => {
                let packed = Constraints { order: Order::Kubelet, ..Constraints::default() };
                take_packed(topology, &topology.online(), number, &packed)
            }
        };
        Ok(Self { topology, constraints: Constraints { reserved, ..constraints } })
    }

    /// The CPUs kept for the system.
    pub fn reserved(&self) -> &CpuList {
        &self.constraints.reserved
    }

    /// Checks a state as the kubelet does when it starts; an empty one is filled.
    ///
    /// # Errors
    /// The state contradicts itself, the reservation or the machine.
    pub fn start(&self, state: &mut State) -> Result<(), PolicyError> {
        let (online, reserved) = (self.topology.online(), self.reserved());
        let strict = self.constraints.strict_reservation;
        if state.shared.is_empty() {
            if !state.assignments.is_empty() {
                return Err(PolicyError::DefaultEmpty);
            }
            state.shared = if strict { online.difference(reserved) } else { online };
            return Ok(());
        }
        let shared = state.shared.clone();
        let both = reserved.intersection(&shared);
        if strict && !both.is_empty() {
            return Err(PolicyError::ReservedShared(both, shared));
        }
        if !strict && &both != reserved {
            return Err(PolicyError::ReservedNotShared(reserved.clone(), shared));
        }
        let mut all = shared.clone();
        for ((pod, container), cpus) in &state.assignments {
            if !cpus.intersection(&shared).is_empty() {
                let (pod, container) = (pod.clone(), container.clone());
                return Err(PolicyError::Overlap(pod, container, cpus.clone(), shared));
            }
            all = all.union(cpus);
        }
        let expected = if strict { online.difference(reserved) } else { online };
        let known = if strict { all.difference(reserved) } else { all };
        if known != expected {
            return Err(PolicyError::OtherCpus(expected, known));
        }
        Ok(())
    }

    /// Gives a container its CPUs: exclusive ones if its pod is Guaranteed and it requests whole
    /// CPUs, else `None`. One that has CPUs keeps them.
    ///
    /// # Errors
    /// The request cannot be met; the state stays as it is.
    pub fn allocate(
        &self,
        state: &mut State,
        (pod, container): (&str, &str),
        qos: Qos,
        request_milli: u64,
    ) -> Result<Option<Plan>, PlanError> {
        let is_exclusive =
            qos == Qos::Guaranteed && request_milli > 0 && request_milli.is_multiple_of(1_000);
        let key = (pod.to_owned(), container.to_owned());
        if !is_exclusive || state.assignments.contains_key(&key) {
            return Ok(None);
        }
        let request = Request { cpus: (request_milli / 1_000) as usize, near: None };
        let plan = plan(self.topology, &state.shared, &request, &self.constraints)?;
        state.shared = state.shared.difference(&plan.cpus);
        state.assignments.insert(key, plan.cpus.clone());
        Ok(Some(plan))
    }

    /// Takes a container's CPUs back into the shared ones, as far as no other container of its pod
    /// has them.
    pub fn release(&self, state: &mut State, (pod, container): (&str, &str)) {
        let key = (pod.to_owned(), container.to_owned());
        let Some(cpus) = state.assignments.remove(&key) else { return };
        let of_pod = state.assignments.iter().filter(|((other, _), _)| other == pod);
        let used = of_pod.fold(CpuList::default(), |used, (_, cpus)| used.union(cpus));
        let freed = cpus.difference(&used);
        let strict = self.constraints.strict_reservation;
        let freed = if strict { freed.difference(self.reserved()) } else { freed };
        state.shared = state.shared.union(&freed);
    }
}
