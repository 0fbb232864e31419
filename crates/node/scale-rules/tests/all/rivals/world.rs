//! A cluster that runs what a policy decides.
use super::courses::{Made, Moment, STEP_S};
use scale_rules::{Demand, Nodes, Observation, Params, Scaler};
use std::collections::VecDeque;

/// Steps until a new replica answers: 30 seconds.
const START_STEPS: usize = 2;
/// Replicas that one node takes.
const SLOTS_PER_NODE: u64 = 4;

/// What a policy costs, and what it spares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Minutes with more queries than the replicas carry.
    pub minutes_over: f64,
    /// Replicas times hours.
    pub replica_hours: f64,
}

impl Cost {
    pub fn add(&mut self, other: Self) {
        self.minutes_over += other.minutes_over;
        self.replica_hours += other.replica_hours;
    }

    /// Whether both are less.
    pub fn beats(&self, other: &Self) -> bool {
        self.minutes_over < other.minutes_over && self.replica_hours < other.replica_hours
    }
}

/// Runs a policy through a course. Metrics are those of the step before.
pub fn run(params: &Params, made: &Made) -> Cost {
    let mut scaler = Scaler::new(params.clone());
    let mut cost = Cost::default();
    // Every policy begins with what the first moment needs.
    let first = made.moments[0].qps / (0.5 * made.capacity);
    let mut replicas = (first.ceil() as u32).max(2);
    let mut pods = VecDeque::from([replicas; START_STEPS + 1]);
    let mut demand = Some(Demand { qps: made.moments[0].qps, dropped: 0.0, p99_ms: None });
    for (index, moment) in made.moments.iter().enumerate() {
        let slots = u32::try_from(moment.ready * SLOTS_PER_NODE).expect("few nodes");
        let seen = Observation {
            time_s: index as f64 * STEP_S,
            replicas,
            nodes: nodes(moment),
            demand,
            capacity: None,
            unschedulable: replicas.saturating_sub(slots),
            is_rolling_out: false,
            min_available: None,
            largest_zone: 0.0,
        };
        replicas = scaler.decide(&seen).replicas;
        pods.push_back(replicas.min(slots));
        // A replica answers once it has been there for the time of a start.
        let started = pods.iter().copied().min().unwrap_or(0);
        pods.pop_front();
        let share = moment.ready as f64 / moment.nodes as f64;
        let carried = f64::from(started) * share * made.capacity;
        let minutes = STEP_S / 60.0;
        if moment.qps > carried {
            cost.minutes_over += minutes;
        }
        cost.replica_hours += f64::from(replicas.min(slots)) * minutes / 60.0;
        let dropped = (1.0 - carried / moment.qps).max(0.0);
        let known = Demand { qps: moment.qps, dropped, p99_ms: None };
        demand = (!moment.is_blind).then_some(known);
    }
    cost
}

const fn nodes(moment: &Moment) -> Nodes {
    let cores = moment.cores_per_node;
    Nodes {
        total: moment.nodes,
        ready: moment.ready,
        schedulable: moment.ready,
        total_cores: moment.nodes * cores,
        ready_cores: moment.ready * cores,
        schedulable_cores: moment.ready * cores,
    }
}
