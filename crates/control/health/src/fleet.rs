//! What the servers of a fleet find out about targets, and what follows from it.
//!
//! Each target is probed by some of the servers that probe, the same ones in the eyes of all: the
//! first of an order that differs for each target (rendezvous hashing), so a server that comes or
//! goes moves only its share. A target is down if most of them say so.
use crate::limits::FINDINGS_MAX;
use crate::state::{ProbeState, TargetState};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use zone_manager::HealthTarget;

/// What a server says of a target that it probes. It says nothing before it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The state, and since when. It has no certificate.
    pub state: TargetState,
    /// The epoch of the server in which it says so: a finding of an earlier one does not count.
    pub epoch: i64,
}

/// The format of a finding in JSON.
const FORMAT: u64 = 1;

#[derive(Deserialize, Serialize)]
struct FindingJson {
    format: u64,
    state: String,
    ever_up: bool,
    /// In milliseconds since 1970.
    since: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(rename = "life")]
    epoch: i64,
}

impl Finding {
    /// Its JSON.
    ///
    /// # Panics
    /// Never: its parts are numbers and texts.
    pub fn encode(&self) -> Vec<u8> {
        let Self { state, epoch } = self;
        let json = FindingJson {
            format: FORMAT,
            state: state.state.word().into(),
            ever_up: state.ever_up,
            since: state.since.as_millis() as u64,
            reason: state.reason.to_string(),
            epoch: *epoch,
        };
        serde_json::to_vec(&json).expect("a finding is JSON")
    }

    /// Reads its JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(json: &[u8]) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_slice(json).map_err(|why| format!("it is not JSON: {why}"))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(FORMAT) => {}
            Some(format) => {
                return Err(format!("a newer version wrote it, in format {format}"));
            }
            None => return Err("it has no format".into()),
        }
        let json: FindingJson =
            serde_json::from_value(value).map_err(|why| format!("it is no finding: {why}"))?;
        let state = ProbeState::from_word(&json.state)
            .filter(|state| *state != ProbeState::Unknown)
            .ok_or_else(|| format!("{:?} is neither \"up\" nor \"down\"", json.state))?;
        let since = Duration::from_millis(json.since);
        Ok(Self { state: said(state, json.ever_up, since, &json.reason), epoch: json.epoch })
    }
}

/// A state as a server says it: with whole milliseconds, and without what only the server needs.
fn said(state: ProbeState, ever_up: bool, since: Duration, reason: &str) -> TargetState {
    let since = Duration::from_millis(since.as_millis() as u64);
    let mut said = TargetState::saved(state, ever_up, since);
    said.take_reason(reason);
    said
}

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

/// Who said something, and of what.
pub type FindingKey = (Arc<str>, HealthTarget);

/// What changed since the last look.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Servers that probe came or went, or began a new epoch.
    pub vantages: bool,
    pub targets: HashSet<HealthTarget>,
}

#[derive(Default)]
struct Inner {
    vantages: Arc<[Vantage]>,
    /// What each server said last, also in an earlier epoch.
    findings: HashMap<HealthTarget, BTreeMap<Arc<str>, Finding>>,
    /// Their number.
    count: usize,
    is_connected: bool,
    changed: Changed,
    /// What this server says, and what of it was not written yet.
    own: HashMap<HealthTarget, TargetState>,
    unwritten: HashSet<HealthTarget>,
}

/// What the servers of the fleet say: between the prober, and the task that exchanges it.
pub struct FleetStates {
    name: Arc<str>,
    inner: Mutex<Inner>,
    /// Wakes the prober.
    changed: Notify,
    /// Wakes the task.
    said: Notify,
}

impl FleetStates {
    /// Those of the server of this name. Nothing is known yet.
    pub fn new(name: &str) -> Arc<Self> {
        let (changed, said) = (Notify::new(), Notify::new());
        Arc::new(Self { name: name.into(), inner: Mutex::default(), changed, said })
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
        inner.changed.vantages = true;
        if let Some(epoch) = inner.own_epoch().filter(|epoch| before != Some(*epoch)) {
            // What this server says, it says in its new epoch.
            for (target, state) in inner.own.clone() {
                inner.ingest(&self.name, &target, Some(Finding { state, epoch }));
                inner.unwritten.insert(target);
            }
            self.said.notify_one();
        }
        self.changed.notify_one();
    }

    /// Whether what the others say arrives.
    pub fn set_connected(&self, is_connected: bool) {
        let mut inner = self.inner();
        if inner.is_connected != is_connected {
            inner.is_connected = is_connected;
            self.changed.notify_one();
        }
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
            self.said.notify_one();
            return true;
        }
        let is_taken = inner.ingest(server, target, finding);
        self.changed.notify_one();
        is_taken
    }

    /// Forgets everything that was said and is not in `known`.
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
            self.said.notified().await;
        }
    }

    /// Up to `count` targets of which this server says something that was not written, with it;
    /// `None`: it says nothing any more.
    pub fn take_pending(&self, count: usize) -> Vec<(HealthTarget, Option<TargetState>)> {
        let mut inner = self.inner();
        let some: Vec<_> = inner.unwritten.iter().take(count).cloned().collect();
        let said = some.into_iter().map(|target| {
            inner.unwritten.remove(&target);
            let state = inner.own.get(&target).cloned();
            (target, state)
        });
        said.collect()
    }

    /// What was taken could not be written.
    pub fn put_back(&self, said: Vec<(HealthTarget, Option<TargetState>)>) {
        self.inner().unwritten.extend(said.into_iter().map(|(target, _)| target));
        self.said.notify_one();
    }

    /// Everything that this server says is to be written, unless it is taken in as it is.
    pub fn write_all(&self) {
        let mut inner = self.inner();
        let all: Vec<_> = inner.own.keys().cloned().collect();
        inner.unwritten.extend(all);
        self.said.notify_one();
    }

    /// What no server stands behind any more: of servers that `is_gone`, and what this one said in
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
        let state = state.map(|state| said(state.state, state.ever_up, state.since, &state.reason));
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
        self.said.notify_one();
        self.changed.notify_one();
    }
}

impl Inner {
    /// The present epoch of this server; `None`: it is no member, or does not probe.
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
