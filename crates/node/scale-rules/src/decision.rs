//! Observations and decisions.
use serde::Serialize;

/// The nodes of a cluster, counted. Cores are allocatable ones, rounded up once for all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// All nodes.
    pub total: u64,
    /// Those that are ready.
    pub ready: u64,
    /// Those that are ready and not cordoned.
    pub schedulable: u64,
    /// Cores of all nodes.
    pub total_cores: u64,
    /// Cores of ready nodes.
    pub ready_cores: u64,
    /// Cores of nodes that are ready and not cordoned.
    pub schedulable_cores: u64,
}

impl Nodes {
    /// Nodes and cores that count.
    pub const fn counted(&self, include_unschedulable: bool) -> (u64, u64) {
        match include_unschedulable {
            true => (self.total, self.total_cores),
            false => (self.schedulable, self.schedulable_cores),
        }
    }
}

/// What is asked of the replicas, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Queries a second that were offered: answered and dropped.
    pub qps: f64,
    /// The share of them that was dropped, 0 to 1.
    pub dropped: f64,
    /// The 99th percentile of the latency in milliseconds, if it is known.
    pub p99_ms: Option<f64>,
}

/// All that a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The clock, in seconds since any fixed moment. It must not go back.
    pub time_s: f64,
    /// Replicas that the target asks for now.
    pub replicas: u32,
    /// The nodes.
    pub nodes: Nodes,
    /// The load; `None` where the metrics are stale.
    pub demand: Option<Demand>,
    /// What one replica carries, in queries a second, where it is known better than the parameters
    /// say.
    pub capacity: Option<f64>,
    /// Replicas that no node takes.
    pub unschedulable: u32,
    /// Whether the target's pods are being replaced.
    pub is_rolling_out: bool,
    /// The integer `minAvailable` of a PodDisruptionBudget that matches the target's pods.
    pub min_available: Option<u32>,
    /// The share of the replicas in the zone that has most of them: 0 with one zone or none known.
    pub largest_zone: f64,
}

/// How many replicas there should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The clock of the observation, in seconds.
    pub t: f64,
    /// Replicas before.
    pub from: u32,
    /// Replicas from now on.
    pub replicas: u32,
    /// What the policy asks for, before anything held it back.
    pub need: u32,
    /// The peak of the load in queries a second, where the policy looks at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_qps: Option<f64>,
    /// What one replica carries, in queries a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
}
