//! Findings of the servers of a fleet about targets, and the state that follows from them.
//!
//! Each target is probed by some of the servers that probe, the same ones in the eyes of all: the
//! first of an order that differs for each target (rendezvous hashing), so a server that comes or
//! goes moves only its share. A target is down if most of them say so.
mod finding;
mod silence;

pub use finding::Finding;
use finding::reported_state;

use crate::fleet::silence::Silence;
use crate::limits::FINDINGS_MAX;
use crate::state::{ProbeState, TargetState};
use ring::digest::{SHA256, digest};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use zone_manager::HealthTarget;

/// A server that probes, and lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vantage {
    /// Its name.
    pub name: Arc<str>,
    /// Differs in each epoch of the server.
    pub epoch: i64,
    /// Whether it is this server, and not another one of its name.
    pub is_own: bool,
    key: u64,
}

impl Vantage {
    /// The server of this name, in this epoch.
    pub fn new(name: &str, epoch: i64, is_own: bool) -> Self {
        Self { name: name.into(), epoch, is_own, key: hash(&[name.as_bytes()]) }
    }
}

/// The first eight bytes of the SHA-256 of the parts, each after its length: the same in all
/// versions, since all servers must agree.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(*part);
    }
    let digest = digest(&SHA256, &bytes);
    digest.as_ref().first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// The rank of a server for a target: SplitMix64's finalizer, which mixes all bits.
fn rank(vantage: &Vantage, target: u64) -> u64 {
    let mut mixed = vantage.key ^ target;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The servers that probe a target: the first `count` of its order, or all if there are fewer.
/// `vantages` are in the order of their names, which decides between equal ranks.
pub fn assigned<'a>(
    target: &HealthTarget,
    vantages: &'a [Vantage],
    count: usize,
) -> Vec<&'a Vantage> {
    let target = hash(&[target.check.as_bytes(), target.address.to_string().as_bytes()]);
    let mut best: Vec<(u64, &Vantage)> = Vec::with_capacity(count + 1);
    for vantage in vantages {
        let rank = rank(vantage, target);
        let at = best.partition_point(|(other, _)| *other >= rank);
        if at < count {
            best.insert(at, (rank, vantage));
            best.truncate(count);
        }
    }
    best.into_iter().map(|(_, vantage)| vantage).collect()
}

/// What follows from the findings of the servers that probe a target, in their order: it is down
/// if most of them say so. `None`: no server knows.
pub fn verdict<'a>(findings: impl Iterator<Item = &'a TargetState> + Clone) -> Option<TargetState> {
    let is_down = |state: &&TargetState| state.state == ProbeState::Down;
    let (all, down) = (findings.clone().count(), findings.clone().filter(is_down).count());
    let state = if 2 * down > all { ProbeState::Down } else { ProbeState::Up };
    let ever_up = findings.clone().any(|one| one.ever_up);
    let mut agreeing = findings.filter(|one| one.state == state);
    let first = agreeing.next()?;
    let since = agreeing.map(|one| one.since).max().unwrap_or_default().max(first.since);
    let mut verdict = TargetState::saved(state, ever_up, since);
    verdict.take_reason(&first.reason);
    Some(verdict)
}

/// The server that reported something, and of what.
pub type FindingKey = (Arc<str>, HealthTarget);

/// What changed since the last look.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Servers that probe came or went, or began a new epoch.
    pub vantages: bool,
    pub targets: HashSet<HealthTarget>,
    /// Time has passed in which servers may have been silent.
    pub silence: bool,
}

/// How soon silence counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilenceTiming {
    /// The shortest interval of the checks: a server that probes shows so often that it lives.
    pub period: Duration,
    /// After what times a server is silent for one of the checks: at least one, in order.
    pub limits: Arc<[Duration]>,
}

impl SilenceTiming {
    fn shortest(&self) -> Duration {
        self.limits.first().copied().unwrap_or(Duration::MAX)
    }
}

#[derive(Default)]
struct Inner {
    vantages: Arc<[Vantage]>,
    /// The last report of each server, also from an earlier epoch.
    findings: HashMap<HealthTarget, BTreeMap<Arc<str>, Finding>>,
    /// Their number.
    count: usize,
    is_connected: bool,
    changed: Changed,
    /// The findings of this server, and those that are not written yet.
    own: HashMap<HealthTarget, TargetState>,
    unwritten: HashSet<HealthTarget>,
    silence: Silence,
    /// `None`: no set has a check.
    timing: Option<SilenceTiming>,
    /// The prober waits until silence is seen.
    is_waiting: bool,
}

/// What the servers of the fleet say: between the prober, and the task that exchanges it.
pub struct FleetStates {
    name: Arc<str>,
    inner: Mutex<Inner>,
    /// Wakes the prober.
    changed: Notify,
    /// Wakes the task.
    reported: Notify,
}

impl FleetStates {
    /// Those of the server of this name. Nothing is known yet.
    pub fn new(name: &str) -> Arc<Self> {
        let (changed, reported) = (Notify::new(), Notify::new());
        Arc::new(Self { name: name.into(), inner: Mutex::default(), changed, reported })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of this server.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The servers that probe and live.
    pub fn set_vantages(&self, mut vantages: Vec<Vantage>) {
        vantages.sort_by(|a, b| a.name.cmp(&b.name));
        let mut inner = self.inner();
        if *inner.vantages == *vantages {
            return;
        }
        let before = inner.own_epoch();
        inner.vantages = vantages.into();
        let Inner { silence, vantages, findings, .. } = &mut *inner;
        let has_said = |name: &Arc<str>| findings.values().any(|by| by.contains_key(name));
        silence.retain(|name| vantages.iter().any(|one| one.name == *name) || has_said(name));
        inner.changed.vantages = true;
        if let Some(epoch) = inner.own_epoch().filter(|epoch| before != Some(*epoch)) {
            // What this server says, it says in its new epoch.
            for (target, state) in inner.own.clone() {
                inner.ingest(&self.name, &target, Some(Finding { state, epoch }));
                inner.unwritten.insert(target);
            }
            self.reported.notify_one();
        }
        self.changed.notify_one();
    }

    /// Whether what the others say arrives.
    pub fn set_connected(&self, is_connected: bool) {
        let mut inner = self.inner();
        if is_connected {
            inner.silence.begin(Instant::now());
        }
        if inner.is_connected != is_connected {
            inner.is_connected = is_connected;
            self.changed.notify_one();
        }
    }

    /// A server that probes has shown that it lives.
    pub fn hear(&self, server: &str) {
        self.hear_at(server, Instant::now());
    }

    pub(crate) fn hear_at(&self, server: &str, at: Instant) {
        let mut inner = self.inner();
        let lasted = inner.silence.of(server);
        inner.silence.hear(server, at);
        if inner.timing.as_ref().is_some_and(|timing| lasted >= timing.shortest()) {
            inner.changed.silence = true;
            self.changed.notify_one();
        }
    }

    /// All that was written to etcd before this time is known.
    pub fn reach(&self, at: Instant) {
        let mut inner = self.inner();
        inner.silence.reach(at);
        let shortest = inner.timing.as_ref().map(SilenceTiming::shortest);
        let mut others = inner.vantages.iter().filter(|vantage| !vantage.is_own);
        let is_silent =
            shortest.is_some_and(|limit| others.any(|one| inner.silence.of(&one.name) >= limit));
        if inner.is_waiting || is_silent {
            inner.changed.silence = true;
            self.changed.notify_one();
        }
    }

    /// How soon silence counts; `None`: there is nothing to probe.
    pub fn timing(&self) -> Option<SilenceTiming> {
        self.inner().timing.clone()
    }

    /// When a server that probes is late next for one of the checks, after this time; `None`: not
    /// unless it shows that it lives before.
    pub fn late_after(&self, time: Instant) -> Option<Instant> {
        let inner = self.inner();
        let timing = inner.timing.as_ref()?;
        let others = inner.vantages.iter().filter(|vantage| !vantage.is_own);
        others.filter_map(|one| inner.silence.late_after(&one.name, time, &timing.limits)).min()
    }

    /// The servers that probe and may be silent; `None`: that makes no difference now, so etcd
    /// need not be read for it.
    pub fn late(&self) -> Option<Vec<Arc<str>>> {
        let inner = self.inner();
        let (shortest, now) = (inner.timing.as_ref()?.shortest(), Instant::now());
        let others = inner.vantages.iter().filter(|vantage| !vantage.is_own);
        let late = others.filter(|one| inner.silence.is_late(&one.name, now, shortest));
        let late: Vec<_> = late.map(|one| Arc::clone(&one.name)).collect();
        (inner.is_waiting || !late.is_empty()).then_some(late)
    }

    pub(crate) fn set_timing(&self, timing: Option<SilenceTiming>) {
        self.inner().timing = timing;
    }

    /// Whether the prober waits until silence is seen.
    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        self.inner().is_waiting = is_waiting;
    }

    /// For how long a server has been silent.
    pub(crate) fn silence(&self, vantage: &Vantage) -> Duration {
        if vantage.is_own { Duration::ZERO } else { self.inner().silence.of(&vantage.name) }
    }

    /// For how long all servers have been silent that have ever known a target.
    pub(crate) fn silence_about(&self, target: &HealthTarget) -> Duration {
        let inner = self.inner();
        let by = inner.findings.get(target);
        inner.silence.of_any(by.into_iter().flat_map(|by| by.keys().map(|name| &**name)))
    }

    /// Takes in what a server says of a target; `None`: nothing any more. Returns `false` if it is
    /// ignored, because there are too many.
    pub fn ingest(&self, server: &str, target: &HealthTarget, finding: Option<Finding>) -> bool {
        let mut inner = self.inner();
        let own = inner.own.get(target).filter(|_| *server == *self.name).cloned();
        if let Some(own) = own {
            // What this server says counts, not what etcd has of it.
            let epoch = inner.own_epoch();
            match finding.filter(|found| Some(found.epoch) == epoch && found.state == own) {
                Some(_) => drop(inner.unwritten.remove(target)),
                None => drop(inner.unwritten.insert(target.clone())),
            }
            self.reported.notify_one();
            return true;
        }
        let is_taken = inner.ingest(server, target, finding);
        self.changed.notify_one();
        is_taken
    }

    /// Forgets everything that was reported and is not in `known`.
    pub fn retain(&self, known: &HashSet<FindingKey>) {
        let gone = self.keys(|key| !known.contains(key));
        for (server, target) in &gone {
            self.ingest(server, target, None);
        }
    }

    /// The servers and targets of findings.
    fn keys(&self, is_it: impl Fn(&FindingKey) -> bool) -> Vec<FindingKey> {
        let inner = self.inner();
        let of = |(target, by): (&HealthTarget, &BTreeMap<Arc<str>, Finding>)| {
            by.keys().map(|server| (Arc::clone(server), target.clone())).collect::<Vec<_>>()
        };
        inner.findings.iter().flat_map(of).filter(is_it).collect()
    }

    /// How many findings are known.
    pub fn count(&self) -> usize {
        self.inner().count
    }

    /// Returns once this server says something that was not written.
    pub async fn pending_reports(&self) {
        loop {
            if !self.inner().unwritten.is_empty() {
                return;
            }
            self.reported.notified().await;
        }
    }

    /// Up to `count` targets of which this server says something that was not written, with it;
    /// `None`: it says nothing any more.
    pub fn take_pending(&self, count: usize) -> Vec<(HealthTarget, Option<TargetState>)> {
        let mut inner = self.inner();
        let some: Vec<_> = inner.unwritten.iter().take(count).cloned().collect();
        let reported = some.into_iter().map(|target| {
            inner.unwritten.remove(&target);
            let state = inner.own.get(&target).cloned();
            (target, state)
        });
        reported.collect()
    }

    /// What was taken could not be written.
    pub fn put_back(&self, reported: Vec<(HealthTarget, Option<TargetState>)>) {
        self.inner().unwritten.extend(reported.into_iter().map(|(target, _)| target));
        self.reported.notify_one();
    }

    /// Everything that this server says is to be written, unless it is taken in as it is.
    pub fn write_all(&self) {
        let mut inner = self.inner();
        let all: Vec<_> = inner.own.keys().cloned().collect();
        inner.unwritten.extend(all);
        self.reported.notify_one();
    }

    /// What no server reports any more: of servers that `is_gone`, and what this one reported in
    /// an earlier epoch.
    pub fn expired(&self, is_gone: impl Fn(&str) -> bool) -> Vec<FindingKey> {
        let own: HashSet<_> = self.inner().own.keys().cloned().collect();
        self.keys(|(server, target)| match *server == self.name {
            true => !own.contains(target),
            false => is_gone(server),
        })
    }

    /// Returns after a change that the prober has not taken.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn take_changed(&self) -> Changed {
        std::mem::take(&mut self.inner().changed)
    }

    /// The servers that probe and live, by name.
    pub fn vantages(&self) -> Arc<[Vantage]> {
        Arc::clone(&self.inner().vantages)
    }

    /// Whether what the others say arrives.
    pub fn is_connected(&self) -> bool {
        self.inner().is_connected
    }

    /// What these servers say of a target in their present lives, in their order.
    pub fn findings(
        &self,
        target: &HealthTarget,
        assigned: &[&Vantage],
    ) -> Vec<(Arc<str>, TargetState)> {
        let inner = self.inner();
        let Some(by) = inner.findings.get(target) else { return Vec::new() };
        let of = |vantage: &&Vantage| {
            let finding = by.get(&vantage.name).filter(|found| found.epoch == vantage.epoch)?;
            Some((Arc::clone(&vantage.name), finding.state.clone()))
        };
        assigned.iter().filter_map(of).collect()
    }

    /// This server says this of a target; `None`: nothing any more.
    pub fn say(&self, target: &HealthTarget, state: Option<&TargetState>) {
        let mut inner = self.inner();
        let state = state
            .map(|state| reported_state(state.state, state.ever_up, state.since, &state.reason));
        // Transitions are written, not reasons of single probes.
        let what = |state: &TargetState| (state.state, state.since, state.ever_up);
        if inner.own.get(target).map(what) == state.as_ref().map(what) {
            return;
        }
        // It counts here at once, also without etcd.
        let epoch = inner.own_epoch();
        let finding = state.clone().zip(epoch).map(|(state, epoch)| Finding { state, epoch });
        inner.ingest(&self.name, target, finding);
        match state {
            Some(state) => drop(inner.own.insert(target.clone(), state)),
            None => drop(inner.own.remove(target)),
        }
        inner.unwritten.insert(target.clone());
        self.reported.notify_one();
        self.changed.notify_one();
    }
}

impl Inner {
    /// The present epoch of this server; `None`: it is not a member, or does not probe.
    fn own_epoch(&self) -> Option<i64> {
        self.vantages.iter().find(|one| one.is_own).map(|one| one.epoch)
    }

    fn ingest(&mut self, server: &str, target: &HealthTarget, finding: Option<Finding>) -> bool {
        let Some(finding) = finding else {
            let Some(by) = self.findings.get_mut(target) else { return true };
            if by.remove(server).is_some() {
                self.count -= 1;
                self.changed.targets.insert(target.clone());
            }
            if by.is_empty() {
                self.findings.remove(target);
            }
            return true;
        };
        let by = self.findings.get_mut(target);
        let before = by.and_then(|by| by.get_mut(server));
        match before {
            Some(before) if *before == finding => return true,
            Some(before) => *before = finding,
            None if self.count >= FINDINGS_MAX => return false,
            None => {
                self.count += 1;
                let by = self.findings.entry(target.clone()).or_default();
                by.insert(server.into(), finding);
            }
        }
        self.changed.targets.insert(target.clone());
        true
    }
}

#[cfg(test)]
mod tests;
