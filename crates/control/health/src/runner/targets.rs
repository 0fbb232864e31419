//! The probed targets: those that published sets name, within the limits.
use super::{IdleTarget, Runner, wall};
use crate::limits::REMEMBERED_MAX;
use crate::prober::{NotProbed, rate_of};
use crate::state::TargetState;
use std::borrow::Cow;
use zone_manager::{HealthTarget, TargetUse, ZoneKey};

/// Why targets wait: all zones together need too many probes a second, and theirs most.
const WAITS: &str = "it waits: the zones together need too many probes a second, and its zone has \
                     its share of them";
const CROWDED: &str = "it waits: there would be too many probes a second to its address";
const NO_CHECK: &str = "there is no such check";

impl Runner {
    /// Starts and stops to probe targets whose use by zones has changed.
    pub(super) fn take_targets(&mut self) {
        let mut changed = self.publisher.health().take_changed();
        // In one order, so that after each start the same targets get a share.
        changed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let is_changed = !changed.is_empty();
        for (target, by) in changed {
            match by {
                TargetUse::Zones(zones) => self.add(target, zones),
                TargetUse::Unused => self.remove(target, true),
                TargetUse::ZoneDeleted => self.remove(target, false),
            }
        }
        if is_changed {
            self.settle();
            self.set_timing();
            self.count();
        }
    }

    /// Adds a target that sets of these zones name.
    fn add(&mut self, target: HealthTarget, zones: Vec<ZoneKey>) {
        let is_known = self.zones.insert(target.clone(), zones.clone()).is_some();
        if is_known {
            if let Some(check) = self.prober.check(&target.check)
                && !self.shares.owners(&target).is_empty()
            {
                self.shares.put(&target, rate_of(check), zones);
            }
            return;
        }
        let state = self.remembered.remove(&target).map(|(state, _)| state).unwrap_or_default();
        self.begin_to_agree(&target, &state);
        let class = self.class(&target, &state);
        self.verdicts.insert(target.clone(), Some(class));
        self.has_changed = true;
        self.start(target, state);
    }

    /// Starts to probe a target that is not probed, or notes why not. [`settle`](Self::settle)
    /// has to follow.
    pub(super) fn start(&mut self, target: HealthTarget, state: TargetState) {
        if let Some(why) = self.elsewhere(&target) {
            self.idle.insert(target, IdleTarget { state, why: why.map(Cow::Owned) });
            return;
        }
        let Some(check) = self.prober.check(&target.check) else {
            return self.refuse(target, state, "check", NO_CHECK);
        };
        let (rate, port) = (rate_of(check), check.port);
        if let Err(why) = self.allowed(&target, port) {
            return self.refuse(target, state, "address", why);
        }
        // Until it has its share.
        let zones = self.zones.get(&target).cloned().unwrap_or_default();
        self.idle.insert(target.clone(), IdleTarget { state, why: Some(WAITS.into()) });
        self.shares.put(&target, rate, zones);
        if !self.shares.is_admitted(&target)
            && let Some(IdleTarget { state, .. }) = self.idle.remove(&target)
        {
            self.refuse(target, state, "share", WAITS);
        }
    }

    /// Begins and ends to probe what got or lost its share.
    pub(super) fn settle(&mut self) {
        loop {
            for target in std::mem::take(&mut self.uncrowded) {
                if let Some(state) = self.stop(&target) {
                    self.start(target, state);
                }
            }
            let changes = self.shares.take_changes();
            if changes.is_empty() && self.uncrowded.is_empty() {
                return;
            }
            for (target, is_admitted) in changes {
                match is_admitted {
                    true => self.probe(target),
                    false => self.suspend(target),
                }
            }
        }
    }

    /// A target got its share.
    fn probe(&mut self, target: HealthTarget) {
        let Some(IdleTarget { state, .. }) = self.idle.remove(&target) else { return };
        let now = self.now();
        match self.prober.add(target.clone(), state.clone(), now) {
            Ok(()) => {}
            Err(NotProbed::NoCheck) => self.refuse(target, state, "check", NO_CHECK),
            Err(NotProbed::AddressRate) => {
                self.shares.remove(&target);
                self.crowded.entry(target.address).or_default().insert(target.clone());
                self.refuse(target, state, "address rate", CROWDED);
            }
        }
    }

    /// A target lost its share.
    fn suspend(&mut self, target: HealthTarget) {
        let Some(state) = self.stop_probes(&target) else { return };
        if let Some(fleet) = &self.fleet {
            fleet.say_nothing(&target);
        }
        self.refuse(target, state, "share", WAITS);
    }

    /// Notes why a target is not probed. Nothing is known of it any more: an old state may be
    /// wrong for ever.
    fn refuse(
        &mut self,
        target: HealthTarget,
        state: TargetState,
        kind: &'static str,
        why: impl Into<Cow<'static, str>>,
    ) {
        let why = why.into();
        if self.logged.insert(kind) {
            tracing::warn!(%target, "not probed, and its state is unknown: {why}. `dunlin health` \
                shows all such targets; further ones are not logged");
        }
        let state = state.forgotten();
        self.begin_to_agree(&target, &state);
        let class = self.class(&target, &state);
        self.verdicts.insert(target.clone(), Some(class));
        self.has_changed = true;
        self.idle.insert(target, IdleTarget { state, why: Some(why) });
    }

    /// Whether the address may be probed.
    fn allowed(&self, target: &HealthTarget, port: u16) -> Result<(), String> {
        match &self.allow {
            Some(allow) => allow.check(target.address, port).map_err(|why| why.to_string()),
            None => Err("this server does not probe: [server] roles lacks `health`".into()),
        }
    }

    /// No set names a target any more. `is_remembered`: one may soon do again.
    fn remove(&mut self, target: HealthTarget, is_remembered: bool) {
        self.zones.remove(&target);
        let Some(state) = self.stop(&target) else {
            if !is_remembered && self.remembered.remove(&target).is_some() {
                self.has_changed = true;
                self.verdicts.insert(target, None);
            }
            return;
        };
        let state = self.end_to_agree(&target).unwrap_or(state);
        self.has_changed = true;
        if is_remembered && self.remembered.len() < REMEMBERED_MAX {
            self.remembered.insert(target, (state, wall()));
        } else {
            self.verdicts.insert(target, None);
        }
    }

    /// Takes a target out of everything; returns its state. [`settle`](Self::settle) has to
    /// follow.
    pub(super) fn stop(&mut self, target: &HealthTarget) -> Option<TargetState> {
        self.shares.remove(target);
        if let Some(crowded) = self.crowded.get_mut(&target.address) {
            crowded.remove(target);
            if crowded.is_empty() {
                self.crowded.remove(&target.address);
            }
        }
        let idle = self.idle.remove(target).map(|idle| idle.state);
        idle.or_else(|| self.stop_probes(target))
    }

    /// Ends the probes of a target, so that others of its address may be probed.
    fn stop_probes(&mut self, target: &HealthTarget) -> Option<TargetState> {
        let state = self.prober.remove(target)?;
        self.uncrowded.extend(self.crowded.remove(&target.address).into_iter().flatten());
        Some(state)
    }
}
