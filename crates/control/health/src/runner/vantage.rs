//! Agreement of the servers of a fleet: which server probes which target, and the state that
//! follows.
use super::{IdleTarget, Runner};
use crate::check::Check;
use crate::fleet::{FleetStates, SilenceTiming, Vantage, assigned, verdict};
use crate::prober::{ProbeId, Transition};
use crate::report::VantageReport;
use crate::state::{ProbeState, TargetState};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use zone_manager::HealthTarget;

/// The known servers and their findings.
pub(super) struct FleetView {
    states: Arc<FleetStates>,
    /// How many servers probe each target.
    vantage: usize,
    /// The state that holds, of each target that sets name.
    agreed: HashMap<HealthTarget, TargetState>,
    /// Targets that are up, and that no server knows.
    unbacked: HashSet<HealthTarget>,
    /// The servers that are silent for a check, and the check.
    silent: HashSet<(Arc<str>, String)>,
}

impl FleetView {
    pub(super) fn new(states: Arc<FleetStates>, vantage: usize) -> Self {
        let (agreed, unbacked, silent) = Default::default();
        Self { states, vantage, agreed, unbacked, silent }
    }

    /// This server does not probe a target any more.
    pub(super) fn say_nothing(&self, target: &HealthTarget) {
        self.states.say(target, None);
    }
}

/// Returns after a change in the fleet; never if there is none.
pub(super) async fn changed(fleet: Option<&FleetView>) {
    match fleet {
        Some(fleet) => fleet.states.changed().await,
        None => std::future::pending().await,
    }
}

impl Runner {
    /// The state of a target that holds: that of the fleet, or `own` without one.
    pub(super) fn agreed<'a>(
        &'a self,
        target: &HealthTarget,
        own: &'a TargetState,
    ) -> &'a TargetState {
        self.fleet.as_ref().and_then(|fleet| fleet.agreed.get(target)).unwrap_or(own)
    }

    /// A set names a target, whose state was this.
    pub(super) fn begin_to_agree(&mut self, target: &HealthTarget, state: &TargetState) {
        let Some(fleet) = &mut self.fleet else { return };
        fleet.agreed.insert(target.clone(), state.clone());
        self.weigh(target);
    }

    /// No set names a target any more. Returns its state.
    pub(super) fn end_to_agree(&mut self, target: &HealthTarget) -> Option<TargetState> {
        let fleet = self.fleet.as_mut()?;
        fleet.states.say(target, None);
        fleet.unbacked.remove(target);
        fleet.agreed.remove(target)
    }

    /// Whether other servers probe a target, and if none does, why; `None`: this one probes it.
    pub(super) fn elsewhere(&self, target: &HealthTarget) -> Option<Option<String>> {
        let fleet = self.fleet.as_ref()?;
        let vantages = fleet.states.vantages();
        let assigned = assigned(target, &vantages, fleet.vantage);
        if assigned.is_empty() {
            let why = "no server of the fleet probes: none with the role `health` is a member";
            return Some(Some(why.into()));
        }
        let is_own = assigned.iter().any(|vantage| vantage.is_own);
        (!is_own).then_some(None)
    }

    /// Says what a probe has confirmed.
    pub(super) fn say(&self, id: ProbeId) {
        let Some(fleet) = &self.fleet else { return };
        if let Some((target, state)) = self.prober.confirmed(id) {
            fleet.states.say(target, Some(state));
        }
    }

    /// Takes in what changed in the fleet.
    pub(super) fn take_findings(&mut self) {
        let Some(fleet) = &self.fleet else { return };
        self.prober.set_fleet(fleet.states.is_connected());
        let mut changed = fleet.states.take_changed();
        if !changed.vantages {
            if changed.silence {
                changed.targets.extend(self.take_silence());
            }
            changed.targets.iter().for_each(|target| self.weigh(target));
            return self.wait_for_silence();
        }
        self.take_silence();
        let Some(fleet) = &self.fleet else { return };
        for target in fleet.agreed.keys().cloned().collect::<Vec<_>>() {
            self.reassign(&target);
            self.weigh(&target);
        }
        self.wait_for_silence();
        self.settle();
        self.count();
    }

    /// Begins or ends to probe a target, if this server was or is one of those that do.
    fn reassign(&mut self, target: &HealthTarget) {
        let is_probed = self.prober.state(target).is_some();
        match (is_probed, self.elsewhere(target)) {
            (true, Some(why)) => {
                let Some(state) = self.stop(target) else { return };
                if let Some(fleet) = &self.fleet {
                    fleet.say_nothing(target);
                }
                let why = why.map(Cow::Owned);
                self.idle.insert(target.clone(), IdleTarget { state, why });
            }
            (false, _) => {
                let Some(state) = self.stop(target) else { return };
                let state = self.agreed(target, &state).clone();
                self.start(target.clone(), state);
            }
            (true, None) => {}
        }
    }

    /// Says how soon silence counts: checks, or targets of theirs, came or went.
    pub(super) fn set_timing(&self) {
        let Some(fleet) = &self.fleet else { return };
        let names: HashSet<_> = fleet.agreed.keys().map(|target| &*target.check).collect();
        let checks = || names.iter().filter_map(|name| self.prober.check(name));
        let limits: BTreeSet<_> = checks().map(|check| check.silence_max()).collect();
        let period = checks().map(|check| check.interval).min();
        let timing = |period| SilenceTiming { period, limits: limits.into_iter().collect() };
        let timing = period.map(timing);
        fleet.states.set_timing(timing);
        self.wait_for_silence();
    }

    /// Tells the task that exchanges findings whether silence makes a difference.
    fn wait_for_silence(&self) {
        if let Some(fleet) = &self.fleet {
            fleet.states.set_waiting(!fleet.unbacked.is_empty());
        }
    }

    /// Takes in which servers are silent. Returns the targets for which that makes a difference.
    fn take_silence(&mut self) -> Vec<HealthTarget> {
        let Some(fleet) = &mut self.fleet else { return Vec::new() };
        let mut silent = HashSet::new();
        for vantage in &*fleet.states.vantages() {
            let lasts = fleet.states.silence(vantage);
            let is_silent = |check: &&Arc<Check>| lasts >= check.silence_max();
            let checks = self.known_checks.values().filter(is_silent);
            silent.extend(checks.map(|check| (Arc::clone(&vantage.name), check.name.clone())));
        }
        let before = std::mem::replace(&mut fleet.silent, silent);
        let changed = before.symmetric_difference(&fleet.silent).map(|(_, check)| &**check);
        let changed: HashSet<&str> = changed.collect();
        let of_check = fleet.agreed.keys().filter(|target| changed.contains(&*target.check));
        of_check.chain(&fleet.unbacked).cloned().collect()
    }

    /// What the servers say of a target that are not silent; `None`: none of them knows it.
    fn verdict(&self, target: &HealthTarget, assigned: &[&Vantage]) -> Option<TargetState> {
        let fleet = self.fleet.as_ref()?;
        let is_silent =
            |name: &Arc<str>| fleet.silent.contains(&(Arc::clone(name), target.check.to_string()));
        let mut findings = fleet.states.findings(target, assigned);
        findings.retain(|(name, _)| fleet.silent.is_empty() || !is_silent(name));
        verdict(findings.iter().map(|(_, state)| state))
    }

    /// No server knows a target. If it was up, that holds until all who may know were silent for
    /// as long as it takes to find it dead. What is down stays so.
    fn doubt(&mut self, target: &HealthTarget) {
        let Some(fleet) = &mut self.fleet else { return };
        let Some(agreed) = fleet.agreed.get_mut(target) else { return };
        let check = self.prober.check(&target.check);
        let limit = check.map(|check| check.silence_max());
        let is_over = limit.is_some_and(|limit| fleet.states.silence_about(target) >= limit);
        let is_up = agreed.state == ProbeState::Up && limit.is_some();
        if is_up && !is_over {
            fleet.unbacked.insert(target.clone());
            return;
        }
        fleet.unbacked.remove(target);
        if !is_up {
            return;
        }
        *agreed = agreed.forgotten();
        tracing::warn!(%target, "its state is unknown: the servers that probe it are silent");
        let class = self.class(target, &TargetState::default());
        self.verdicts.insert(target.clone(), Some(class));
        self.has_changed = true;
    }

    /// Decides from what the servers say of a target.
    fn weigh(&mut self, target: &HealthTarget) {
        let Some(fleet) = &self.fleet else { return };
        let vantages = fleet.states.vantages();
        let assigned = assigned(target, &vantages, fleet.vantage);
        let Some(mut now) = self.verdict(target, &assigned) else { return self.doubt(target) };
        let Some(fleet) = &mut self.fleet else { return };
        fleet.unbacked.remove(target);
        let Some(agreed) = fleet.agreed.get_mut(target) else { return };
        now.ever_up |= agreed.ever_up;
        if now.state == agreed.state {
            now.since = agreed.since;
        }
        let (before, class) = (std::mem::replace(agreed, now.clone()), now.class());
        if before.state != now.state {
            let tells = assigned.first().is_some_and(|first| first.is_own);
            let transition = Transition { target: target.clone(), before: before.state, now };
            self.take_transition(transition, tells);
        } else if before.class() != class {
            let class = self.class(target, &before);
            self.verdicts.insert(target.clone(), Some(class));
            self.has_changed = true;
        }
    }

    /// What each server that probes a target says of it.
    pub(super) fn vantages(&self, target: &HealthTarget) -> Vec<VantageReport> {
        let Some(fleet) = &self.fleet else { return Vec::new() };
        let vantages = fleet.states.vantages();
        let assigned = assigned(target, &vantages, fleet.vantage);
        let findings = fleet.states.findings(target, &assigned);
        let report = |name: &Arc<str>| {
            let found = findings.iter().find(|(server, _)| server == name).map(|(_, state)| state);
            let state = found.map_or(ProbeState::Unknown, |found| found.state);
            VantageReport {
                server: name.to_string(),
                state: state.word().into(),
                since_seconds: found.map(|found| found.since.as_secs()),
                reason: found
                    .filter(|found| !found.reason.is_empty())
                    .map(|found| found.reason.to_string()),
            }
        };
        assigned.iter().map(|vantage| report(&vantage.name)).collect()
    }
}
