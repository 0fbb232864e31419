//! What the tests share.
use scale_rules::{Demand, Dialect, Nodes, Observation, Params, Scaler};

/// A scaler by the text of its parameters.
pub fn scaler(params: &str) -> Scaler {
    Scaler::new(Params::from_file(params, Dialect::Strict).expect("parameters"))
}

/// A cluster of so many nodes with 4 cores each, all ready, and replicas.
pub fn seen(time_s: f64, nodes: u64, replicas: u32) -> Observation {
    let cores = 4 * nodes;
    Observation {
        time_s,
        replicas,
        nodes: Nodes {
            total: nodes,
            ready: nodes,
            schedulable: nodes,
            total_cores: cores,
            ready_cores: cores,
            schedulable_cores: cores,
        },
        demand: None,
        capacity: None,
        unschedulable: 0,
        is_rolling_out: false,
        min_available: None,
        largest_zone: 0.0,
    }
}

/// The same with nodes that are not ready.
pub fn away(mut seen: Observation, away: u64) -> Observation {
    seen.nodes.ready -= away;
    seen.nodes.schedulable -= away;
    seen.nodes.ready_cores -= 4 * away;
    seen.nodes.schedulable_cores -= 4 * away;
    seen
}

/// The same under a load that is answered well.
pub fn asked(mut seen: Observation, qps: f64) -> Observation {
    seen.demand = Some(Demand { qps, dropped: 0.0, p99_ms: Some(1.0) });
    seen
}
