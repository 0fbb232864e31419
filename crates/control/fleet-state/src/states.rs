//! Findings of the servers of the fleet about the targets that they probe: a key for each server
//! and target, without a lease. A server writes only its own keys, and only while it is a member.
mod life;

use crate::limits::{
    NO_SPACE_PAUSE, STATES_BATCH, STATES_LIFETIME, STATES_SWEEP_INTERVAL, UNUSABLE_STATES_MAX,
};
use etcd_client::{Compare, CompareOp, KeyValue, TxnOp};
use etcd_link::limits::OPS_MAX;
use etcd_link::{RequestError, is_absent};
use health::{Finding, FindingKey, FleetStates, HealthTarget, Vantage};
use keyspace::keys::read_member;
use keyspace::limits::RECONNECT_MAX;
use keyspace::{
    EtcdLink, FollowedKeys, Follower, History, Keys, LinkReport, Position, Task, replica_folder,
};
use life::Life;
use server_status::DocumentsStatus;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::{Instant, sleep_until};

/// The role of servers that probe.
const ROLE: &str = "health";

/// A server of the fleet.
struct Server {
    /// The revision of etcd at which it became a member: differs in each of its epochs.
    epoch: i64,
    lease: i64,
    probes: bool,
    /// The revision of etcd at which it has written its key last.
    written: i64,
}

fn state_key(keys: &Keys, server: &str, target: &HealthTarget) -> String {
    keys.state(server, &target.check, target.address)
}

/// Exchanges findings with the other servers. Dropping it ends that.
pub struct EtcdStates {
    shared: Arc<Shared>,
    _task: Task,
}

struct Shared {
    states: Arc<FleetStates>,
    /// Why the findings of others do not arrive, or none is written.
    report: Arc<LinkReport>,
    /// Keys that cannot be used, and why.
    unusable: Mutex<BTreeMap<String, String>>,
}

/// The task.
struct Exchange {
    link: Arc<EtcdLink>,
    shared: Arc<Shared>,
    /// By name.
    members: BTreeMap<String, Server>,
    /// Members have come or gone since the vantages were set.
    has_new_members: bool,
    /// The findings of a list that is not complete yet.
    listed: Option<HashSet<FindingKey>>,
    /// The epoch of this server, if it probes and may write.
    epoch: Option<i64>,
    /// When the next batch is written.
    write_at: Option<Instant>,
    sweep_at: Instant,
    life: Life,
    /// Since when servers are not members.
    absent: HashMap<Arc<str>, Instant>,
}

impl EtcdStates {
    /// Begins to exchange findings. `data_dir` is that of the store.
    pub fn start(link: &Arc<EtcdLink>, data_dir: &Path) -> Self {
        let lost = "what other servers find out about health does not arrive; states stay unless \
                    this server knows better";
        let again = "states of health are exchanged with other servers again".to_owned();
        let shared = Arc::new(Shared {
            states: FleetStates::new(&link.server.0),
            report: LinkReport::new(Some(lost.to_owned()), again),
            unusable: Mutex::default(),
        });
        let exchange = Exchange {
            link: Arc::clone(link),
            shared: Arc::clone(&shared),
            members: BTreeMap::new(),
            has_new_members: false,
            listed: None,
            epoch: None,
            write_at: None,
            sweep_at: Instant::now(),
            life: Life::default(),
            absent: HashMap::new(),
        };
        let prefixes = vec![link.keys.members(), link.keys.states()];
        let history = History::new(&replica_folder(data_dir), None);
        let followed = FollowedKeys::new(link, prefixes, history, &shared.report);
        Self { shared, _task: link.spawn(followed.follow(exchange)) }
    }

    /// The findings.
    pub fn states(&self) -> Arc<FleetStates> {
        Arc::clone(&self.shared.states)
    }

    /// The status.
    pub fn status(&self) -> DocumentsStatus {
        let unusable = self.shared.unusable();
        DocumentsStatus {
            name: "states".into(),
            documents: self.shared.states.count() as u64,
            fault: self.shared.report.fault(),
            unusable: unusable.iter().map(|(key, why)| format!("{key}: {why}")).collect(),
        }
    }
}

impl Follower for Exchange {
    const IS_AWAITED: bool = false;

    async fn begin(&mut self) {
        self.members.clear();
        self.listed = Some(HashSet::new());
        self.shared.unusable().clear();
        self.shared.states.write_all();
    }

    async fn take(&mut self, kv: &KeyValue, is_put: bool) -> Result<(), RequestError> {
        let prefix = self.link.keys.members();
        if kv.key().starts_with(prefix.as_bytes()) {
            self.has_new_members = true;
            self.shared.take_member(&mut self.members, &prefix, kv, is_put);
        } else {
            let taken = self.shared.take(&self.link, kv, is_put);
            self.listed.iter_mut().for_each(|listed| listed.extend(taken.clone()));
        }
        Ok(())
    }

    async fn listed(&mut self, _: &Position, _: bool) -> Result<(), RequestError> {
        let states = &self.shared.states;
        states.retain(&self.listed.take().unwrap_or_default());
        states.set_connected(true);
        (self.write_at, self.absent) = (None, HashMap::new());
        self.sweep_at = Instant::now() + RECONNECT_MAX;
        self.set_vantages();
        Ok(())
    }

    fn changed(&mut self) {
        if self.has_new_members {
            self.set_vantages();
        }
        self.shared.states.reach(Instant::now());
    }

    async fn due(&mut self) {
        let now = Instant::now();
        let is_idle = self.epoch.is_some() && self.write_at.is_none();
        let life_at = self.life.due_at(&self.shared.states);
        tokio::select! {
            () = self.shared.states.pending_reports(), if is_idle => {
                self.write_at = Some(now + STATES_BATCH);
            }
            () = sleep_until(self.write_at.unwrap_or(now)), if self.write_at.is_some() => {}
            () = sleep_until(self.sweep_at) => {}
            () = sleep_until(life_at) => {}
        }
    }

    async fn work(&mut self) -> Result<bool, RequestError> {
        let now = Instant::now();
        if self.write_at.is_some_and(|at| at <= now) {
            self.write_at = self.write().await?;
        }
        if self.life.due_at(&self.shared.states) <= now {
            self.show_life().await?;
        }
        if self.sweep_at <= now {
            self.sweep_at = now + STATES_SWEEP_INTERVAL;
            self.sweep().await?;
        }
        Ok(false)
    }

    async fn ended(&mut self, _: &str, _: bool) {
        self.shared.states.set_connected(false);
    }
}

impl Shared {
    fn unusable(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.unusable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a key of a member that was listed or changed.
    fn take_member(
        &self,
        members: &mut BTreeMap<String, Server>,
        prefix: &str,
        kv: &KeyValue,
        is_put: bool,
    ) {
        let name = str::from_utf8(kv.key()).ok().and_then(|key| key.strip_prefix(prefix));
        let Some(name) = name else { return };
        if is_put && kv.lease() == 0 {
            let why = "it has no lease, so no server stands behind it: delete it";
            self.note_unusable(kv.key(), why, is_put);
        } else {
            self.unusable().remove(&*String::from_utf8_lossy(kv.key()));
        }
        match read_member(kv).filter(|_| is_put) {
            Some(member) => {
                let probes = member.roles.iter().any(|role| role == ROLE);
                let (epoch, lease, written) = (kv.create_revision(), kv.lease(), kv.mod_revision());
                let server = Server { epoch, lease, probes, written };
                let before = members.insert(name.to_owned(), server);
                if probes && before.is_none_or(|before| before.written < written) {
                    self.states.hear(name);
                }
            }
            None => drop(members.remove(name)),
        }
    }

    /// Takes in a key that was listed or changed.
    fn take(&self, link: &EtcdLink, kv: &KeyValue, is_put: bool) -> Option<FindingKey> {
        let Some((server, check, address)) = link.keys.read_state(kv.key()) else {
            self.note_unusable(kv.key(), "it is not the key of a server and its target", is_put);
            return None;
        };
        let target = HealthTarget { check: check.into(), address };
        let finding = match is_put.then(|| Finding::decode(kv.value())).transpose() {
            Ok(finding) => finding,
            Err(why) => {
                self.note_unusable(kv.key(), &why, is_put);
                self.states.ingest(server, &target, None);
                return None;
            }
        };
        if self.states.ingest(server, &target, finding) {
            let key = String::from_utf8_lossy(kv.key());
            self.unusable().remove(&*key);
        } else {
            self.note_unusable(kv.key(), "there are too many", is_put);
        }
        Some((server.into(), target))
    }

    fn note_unusable(&self, key: &[u8], why: &str, is_put: bool) {
        let key = String::from_utf8_lossy(key).into_owned();
        let mut unusable = self.unusable();
        if !is_put {
            unusable.remove(&key);
        } else if unusable.len() < UNUSABLE_STATES_MAX {
            if unusable.get(&key).is_none_or(|before| before != why) {
                tracing::error!("the key {key} in etcd is ignored: {why}");
            }
            unusable.insert(key, why.to_owned());
        }
    }
}

impl Exchange {
    /// Says which servers probe.
    fn set_vantages(&mut self) {
        self.has_new_members = false;
        let own = &self.link.server.1;
        let vantages = self.members.iter().filter(|(_, server)| server.probes);
        let vantages =
            vantages.map(|(name, server)| Vantage::new(name, server.epoch, own.is(server.lease)));
        let vantages: Vec<_> = vantages.collect();
        let own = vantages.iter().find(|vantage| vantage.is_own);
        self.epoch = own.map(|own| own.epoch);
        self.shared.states.set_vantages(vantages);
    }

    /// Whether the key of this server is the one of this epoch.
    fn is_member(&self, epoch: i64) -> Compare {
        let key = self.link.keys.member(self.shared.states.name());
        Compare::create_revision(key, CompareOp::Equal, epoch)
    }

    /// Writes a batch of what this server says. Returns when to write the next one.
    async fn write(&mut self) -> Result<Option<Instant>, RequestError> {
        let Some(epoch) = self.epoch else { return Ok(None) };
        let Shared { states, report, .. } = &*self.shared;
        let pending = states.take_pending(OPS_MAX);
        let op = |(target, state): &(_, Option<_>)| {
            let key = state_key(&self.link.keys, states.name(), target);
            match state.clone() {
                Some(state) => TxnOp::put(key, Finding { state, epoch }.encode(), None),
                None => TxnOp::delete(key, None),
            }
        };
        let ops: Vec<_> = pending.iter().map(op).collect();
        if ops.is_empty() {
            return Ok(None);
        }
        let is_full = ops.len() == OPS_MAX;
        let done = self.link.connection.write([self.is_member(epoch)], ops).await;
        if matches!(done, Ok(true)) {
            report.follows(&self.link.connection.endpoint());
            return Ok(is_full.then(Instant::now));
        }
        states.put_back(pending);
        match done {
            // Until a new epoch begins.
            Ok(_) => {
                self.epoch = None;
                Ok(None)
            }
            Err(RequestError::NoSpace(why)) => {
                report.report_fault(&why);
                Ok(Some(Instant::now() + NO_SPACE_PAUSE))
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes what no server stands behind any more.
    async fn sweep(&mut self) -> Result<(), RequestError> {
        let Some(epoch) = self.epoch else { return Ok(()) };
        let (states, keys) = (&self.shared.states, &self.link.keys);
        let mut by_server = BTreeMap::<Arc<str>, Vec<String>>::new();
        for (server, target) in states.expired(|name| !self.members.contains_key(name)) {
            let key = state_key(keys, &server, &target);
            by_server.entry(server).or_default().push(key);
        }
        self.absent.retain(|server, _| by_server.contains_key(server));
        for (server, keys_left) in by_server {
            let since = *self.absent.entry(Arc::clone(&server)).or_insert_with(Instant::now);
            let is_own = *server == **states.name();
            if !is_own && since.elapsed() < STATES_LIFETIME {
                continue;
            }
            for some in keys_left.chunks(OPS_MAX) {
                let mut when = vec![self.is_member(epoch)];
                if !is_own {
                    when.push(is_absent(keys.member(&server)));
                }
                let gone = some.iter().map(|key| TxnOp::delete(key.as_str(), None));
                // What a server that has returned says stays.
                self.link.connection.write(when, gone.collect::<Vec<_>>()).await?;
            }
        }
        Ok(())
    }
}
