//! One scaler: parameters, what it remembers, and its decisions.
use crate::decision::{Decision, Nodes, Observation};
use crate::limits::REPLICAS_MAX;
use crate::load::{Floor, LoadState, QUIET_S};
use crate::params::Params;
use crate::proportional::Need;
use crate::rivals::{EksState, HpaState};
use crate::window::Trough;

/// Decides by observations, which come in the order of their time.
#[derive(Clone, Debug)]
pub struct Scaler {
    params: Params,
    unready: Unready,
    load: Option<LoadState>,
    eks: EksState,
    hpa: HpaState,
}

impl Scaler {
    /// A scaler that knows nothing of the time before its first observation.
    pub fn new(params: Params) -> Self {
        let (eks, hpa) = (EksState::default(), HpaState::default());
        Self { params, unready: Unready::default(), load: None, eks, hpa }
    }

    /// Its parameters.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Goes on with other parameters; what is remembered stays.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
    }

    /// Decides. Every decision says why.
    pub fn decide(&mut self, seen: &Observation) -> Decision {
        let held = self.unready.hold(seen);
        let load = self.load.get_or_insert_with(|| LoadState::new(seen.time_s));
        let mut draft = Draft::new(seen);
        match &self.params {
            Params::Linear(linear) if linear.keeps_traps => {
                draft.need(linear.need(&seen.nodes));
                return draft.finish();
            }
            Params::Ladder(ladder) if ladder.keeps_traps => {
                draft.need(ladder.need(&seen.nodes));
                return draft.finish();
            }
            Params::Linear(linear) => draft.hold(seen, &held, |nodes| linear.need(nodes)),
            Params::Ladder(ladder) => draft.hold(seen, &held, |nodes| ladder.need(nodes)),
            Params::Load(params) => {
                let floor = |floor: &Floor| {
                    let mut draft = Draft::new(seen);
                    draft.hold(seen, &held, |nodes| floor.need(nodes));
                    Need { replicas: draft.decision.replicas.into(), reason: draft.decision.reason }
                };
                let asked = load.need(params, seen, params.floor.as_ref().map(floor));
                draft.decision.peak_qps = asked.peak_qps;
                draft.decision.capacity = Some(seen.capacity.unwrap_or(params.capacity));
                draft.need(asked.need);
                draft.fall(asked.may_fall_to);
            }
            Params::Eks(eks) => {
                draft.need(self.eks.decide(eks, seen));
                return draft.finish();
            }
            Params::Hpa(hpa) => {
                draft.need(self.hpa.decide(hpa, seen));
                return draft.finish();
            }
        }
        draft.guard(seen);
        let decision = draft.finish();
        load.decided(seen, decision.replicas);
        decision
    }
}

/// A decision in the making.
struct Draft {
    decision: Decision,
}

impl Draft {
    fn new(seen: &Observation) -> Self {
        let (t, from) = (seen.time_s, seen.replicas);
        let (peak_qps, capacity, reason) = (None, None, String::new());
        Self {
            decision: Decision { t, from, replicas: from, need: from, peak_qps, capacity, reason },
        }
    }

    fn need(&mut self, need: Need) {
        let replicas = need.replicas.clamp(0, REPLICAS_MAX.into()) as u32;
        (self.decision.need, self.decision.replicas) = (replicas, replicas);
        self.decision.reason = need.reason;
    }

    /// The need by nodes, which does not fall below what is there because nodes are not ready.
    fn hold(&mut self, seen: &Observation, held: &Nodes, rule: impl Fn(&Nodes) -> Need) {
        self.need(rule(&seen.nodes));
        let now = self.decision.replicas;
        let kept = rule(held).replicas.clamp(0, REPLICAS_MAX.into()) as u32;
        let kept = kept.min(seen.replicas);
        if kept > now {
            let away = seen.nodes.total - seen.nodes.ready;
            self.decision.replicas = kept;
            self.decision.reason += &format!(
                "; {kept} are kept, because {away} nodes are not ready, some for less than 10 \
                 minutes"
            );
        }
    }

    /// Bounds a fall of `load`.
    fn fall(&mut self, may_fall_to: Result<u32, &'static str>) {
        let Decision { from, replicas, reason, .. } = &mut self.decision;
        if *replicas >= *from {
            return;
        }
        match may_fall_to {
            Ok(least) if least > *replicas => {
                *reason += &format!("; a step down is a third at most, to {least}");
                *replicas = least;
            }
            Ok(_) => {}
            Err(why) => {
                *reason += &format!("; {from} stay: {why}");
                *replicas = *from;
            }
        }
    }

    /// What holds for every policy of Dunlin.
    fn guard(&mut self, seen: &Observation) {
        let Decision { from, replicas, reason, .. } = &mut self.decision;
        if *replicas > *from && seen.unschedulable > 0 {
            *reason += &format!(
                "; {from} stay: no node takes {} of them, so more would not run",
                seen.unschedulable
            );
            *replicas = *from;
        }
        let budget = seen.min_available.map(|available| available.saturating_add(1));
        let Some(least) = budget.filter(|_| *replicas < *from) else { return };
        let least = least.min(*from);
        if *replicas < least {
            *reason += &format!("; a PodDisruptionBudget keeps {least}");
            *replicas = least;
        }
    }

    fn finish(self) -> Decision {
        self.decision
    }
}

/// How many nodes have not been ready for less than 10 minutes.
#[derive(Clone, Debug)]
struct Unready {
    since_s: Option<f64>,
    nodes: Trough,
    cores: Trough,
}

impl Default for Unready {
    fn default() -> Self {
        Self { since_s: None, nodes: Trough::new(QUIET_S), cores: Trough::new(QUIET_S) }
    }
}

impl Unready {
    /// The nodes, with those counted as schedulable that have been away for less than 10 minutes.
    /// What was before the first observation is not known: all that are away then count.
    fn hold(&mut self, seen: &Observation) -> Nodes {
        let nodes = seen.nodes;
        let since_s = *self.since_s.get_or_insert(seen.time_s);
        let away = nodes.total.saturating_sub(nodes.ready);
        let away_cores = nodes.total_cores.saturating_sub(nodes.ready_cores);
        let mut long = self.nodes.push(seen.time_s, away as f64) as u64;
        let mut long_cores = self.cores.push(seen.time_s, away_cores as f64) as u64;
        if seen.time_s - since_s < QUIET_S {
            (long, long_cores) = (0, 0);
        }
        let add = |schedulable: u64, away: u64, long: u64, total: u64| {
            schedulable.saturating_add(away.saturating_sub(long)).min(total)
        };
        Nodes {
            schedulable: add(nodes.schedulable, away, long, nodes.total),
            schedulable_cores: add(
                nodes.schedulable_cores,
                away_cores,
                long_cores,
                nodes.total_cores,
            ),
            ..nodes
        }
    }
}
