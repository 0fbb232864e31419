//! What the servers of the fleet say of the targets that they probe: a key for each server and
//! target, without a lease. A server writes only its own keys, and only while it is a member.
use crate::EtcdLink;
use crate::connection::RequestError;
use crate::events::{Events, Mirror};
use crate::history::History;
use crate::limits::{
    NO_SPACE_PAUSE, OPS_MAX, RECONNECT_MAX, STATES_BATCH, STATES_KEPT, STATES_SWEEP_INTERVAL,
    UNUSABLE_STATES_MAX,
};
use crate::list;
use crate::members::{OwnLease, read_member};
use crate::shared::{LoggedCauses, Retry};
use etcd_client::{Compare, CompareOp, EventType, KeyValue, Txn, TxnOp};
use health::{Finding, FindingKey, FleetStates, Vantage};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use zone_manager::status::DocumentsStatus;

/// The role of servers that probe.
const ROLE: &str = "health";

/// A server of the fleet.
struct Server {
    /// The revision of etcd at which it became a member: differs in each of its lives.
    life: i64,
    lease: i64,
    probes: bool,
}

fn read_server(kv: &KeyValue) -> Option<Server> {
    let probes = read_member(kv)?.roles.iter().any(|role| role == ROLE);
    Some(Server { life: kv.create_revision(), lease: kv.lease(), probes })
}

/// Exchanges findings with the other servers. Dropping it ends that.
pub struct EtcdStates {
    exchange: Arc<Exchange>,
    task: JoinHandle<()>,
}

struct Exchange {
    link: Arc<EtcdLink>,
    states: Arc<FleetStates>,
    own: OwnLease,
    /// The folder of the replica.
    folder: PathBuf,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Faults {
    /// Why the findings of others do not arrive, or none is written.
    fault: Option<String>,
    logged: LoggedCauses,
    /// Keys that cannot be used, and why.
    unusable: BTreeMap<String, String>,
}

/// What a round knows of etcd.
struct Round {
    members: Mirror<Server>,
    events: Events,
    /// The life of this server, if it probes and may write.
    life: Option<i64>,
    /// When the next batch is written.
    write_at: Option<Instant>,
    sweep_at: Instant,
    /// Since when servers are no members.
    absent: HashMap<Arc<str>, Instant>,
}

impl EtcdStates {
    /// Begins to exchange findings. `data_dir` is that of the store.
    pub fn start(link: &Arc<EtcdLink>, data_dir: &Path) -> Self {
        let (name, own) = link.server.clone();
        let (link, states) = (Arc::clone(link), FleetStates::new(&name));
        let folder = crate::replica_folder(data_dir);
        let exchange = Exchange { link, states, own, folder, faults: Mutex::default() };
        let exchange = Arc::new(exchange);
        let task = exchange.link.runtime.spawn(Arc::clone(&exchange).run());
        Self { exchange, task }
    }

    /// The findings.
    pub fn states(&self) -> Arc<FleetStates> {
        Arc::clone(&self.exchange.states)
    }

    /// The status.
    pub fn status(&self) -> DocumentsStatus {
        let faults = self.exchange.faults();
        let unusable = faults.unusable.iter().map(|(key, why)| format!("{key}: {why}"));
        DocumentsStatus {
            name: "states".into(),
            documents: self.exchange.states.count() as u64,
            fault: faults.fault.clone(),
            unusable: unusable.collect(),
        }
    }
}

impl Drop for EtcdStates {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Exchange {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self: Arc<Self>) {
        let mut history = History::new(self.folder.clone());
        let mut retry = Retry::new(RECONNECT_MAX);
        loop {
            let began = Instant::now();
            let Err(ended) = self.follow(&mut history).await;
            self.states.set_connected(false);
            if retry.is_lasting(began) {
                self.breaks(ended.why());
            }
            retry.pause(began).await;
        }
    }

    fn breaks(&self, why: &str) {
        let mut faults = self.faults();
        if faults.logged.is_new(why) {
            tracing::error!(
                "what other servers find out about health does not arrive; states stay unless this \
                 server knows better: {why}"
            );
        }
        faults.fault = Some(why.to_owned());
    }

    fn mends(&self) {
        let mut faults = self.faults();
        faults.logged.clear();
        if faults.fault.take().is_some() {
            let endpoint = self.link.connection.endpoint();
            tracing::info!(endpoint, "states of health are exchanged with other servers again");
        }
    }

    /// Follows etcd until that fails.
    async fn follow(&self, history: &mut History) -> Result<Infallible, RequestError> {
        let (connection, keys) = (&self.link.connection, &self.link.keys);
        let (endpoint, _) = connection.client().await?;
        let at = history.check(&self.link).await?;
        let members = Mirror::start(connection, keys.members(), read_server).await?;
        let mut round = Round {
            members,
            events: Events::start(connection, keys.states(), at + 1).await?,
            life: None,
            write_at: None,
            sweep_at: Instant::now() + RECONNECT_MAX,
            absent: HashMap::new(),
        };
        self.take_servers(&mut round);
        self.states.write_all();
        self.list(at).await?;
        self.states.set_connected(true);
        self.mends();
        let Err(ended) = self.exchange(&mut round, history).await;
        connection.leave(endpoint);
        Err(ended)
    }

    async fn list(&self, at: i64) -> Result<(), RequestError> {
        let mut listed = HashSet::new();
        self.faults().unusable.clear();
        let prefix = self.link.keys.states();
        let each = |kv: &KeyValue| listed.extend(self.take(kv, EventType::Put));
        list::pages(&self.link.connection, &prefix, at, each).await?;
        self.states.retain(&listed);
        Ok(())
    }

    /// Takes in a key that was listed or changed.
    fn take(&self, kv: &KeyValue, event: EventType) -> Option<FindingKey> {
        let Some((server, target)) = self.link.keys.read_state(kv.key()) else {
            self.note_unusable(kv.key(), "it is not the key of a server and its target", event);
            return None;
        };
        let finding = match event {
            EventType::Put => match Finding::decode(kv.value()) {
                Ok(finding) => Some(finding),
                Err(why) => {
                    self.note_unusable(kv.key(), &why, event);
                    self.states.take_in(server, &target, None);
                    return None;
                }
            },
            EventType::Delete => None,
        };
        if self.states.take_in(server, &target, finding) {
            let key = String::from_utf8_lossy(kv.key());
            self.faults().unusable.remove(&*key);
        } else {
            self.note_unusable(kv.key(), "there are too many", event);
        }
        Some((server.into(), target))
    }

    fn note_unusable(&self, key: &[u8], why: &str, event: EventType) {
        let key = String::from_utf8_lossy(key).into_owned();
        let mut faults = self.faults();
        if event == EventType::Delete {
            faults.unusable.remove(&key);
        } else if faults.unusable.len() < UNUSABLE_STATES_MAX {
            if faults.unusable.get(&key).is_none_or(|before| before != why) {
                tracing::error!("the key {key} in etcd is ignored: {why}");
            }
            faults.unusable.insert(key, why.to_owned());
        }
    }

    /// Takes in which servers probe.
    fn take_servers(&self, round: &mut Round) {
        let prefix = self.link.keys.members();
        let name = |key: &[u8]| {
            let key = str::from_utf8(key).ok()?;
            key.strip_prefix(&prefix).map(str::to_owned)
        };
        let vantages = round.members.values.iter().filter(|(_, server)| server.probes);
        let vantages = vantages.filter_map(|(key, server)| {
            Some(Vantage::new(&name(key)?, server.life, self.own.is(server.lease)))
        });
        let vantages: Vec<_> = vantages.collect();
        let own = vantages.iter().find(|vantage| vantage.is_own);
        round.life = own.map(|own| own.life);
        self.states.set_vantages(vantages);
    }

    async fn exchange(
        &self,
        round: &mut Round,
        history: &mut History,
    ) -> Result<Infallible, RequestError> {
        loop {
            let is_idle = round.life.is_some() && round.write_at.is_none();
            let now = Instant::now();
            tokio::select! {
                changed = round.members.change() => {
                    changed?;
                    self.take_servers(round);
                }
                message = round.events.next() => {
                    let message = message?;
                    history.reached(&message);
                    for event in message.events() {
                        if let Some(kv) = event.kv() {
                            self.take(kv, event.event_type());
                        }
                    }
                }
                () = self.states.said(), if is_idle => {
                    round.write_at = Some(now + STATES_BATCH);
                }
                () = sleep_until(round.write_at.unwrap_or(now)), if round.write_at.is_some() => {
                    round.write_at = self.write(round).await?;
                }
                () = sleep_until(round.sweep_at) => {
                    round.sweep_at = Instant::now() + STATES_SWEEP_INTERVAL;
                    self.sweep(round).await?;
                }
            }
        }
    }

    /// Whether the key of this server is the one of this life.
    fn is_member(&self, life: i64) -> Compare {
        let key = self.link.keys.member(self.states.name());
        Compare::create_revision(key, CompareOp::Equal, life)
    }

    /// Writes a batch of what this server says. Returns when to write the next one.
    async fn write(&self, round: &mut Round) -> Result<Option<Instant>, RequestError> {
        let Some(life) = round.life else { return Ok(None) };
        let said = self.states.take_said(OPS_MAX);
        let op = |(target, state): &(_, Option<_>)| {
            let key = self.link.keys.state(self.states.name(), target);
            match state.clone() {
                Some(state) => TxnOp::put(key, Finding { state, life }.encode(), None),
                None => TxnOp::delete(key, None),
            }
        };
        let ops: Vec<_> = said.iter().map(op).collect();
        if ops.is_empty() {
            return Ok(None);
        }
        let is_full = ops.len() == OPS_MAX;
        let txn = Txn::new().when([self.is_member(life)]).and_then(ops);
        let done = self.link.connection.transact(txn).await;
        if done.as_ref().is_ok_and(|done| done.succeeded()) {
            self.mends();
            return Ok(is_full.then(Instant::now));
        }
        self.states.put_back(said);
        match done {
            // Until a new life begins.
            Ok(_) => {
                round.life = None;
                Ok(None)
            }
            Err(RequestError::NoSpace(why)) => {
                self.breaks(&why);
                Ok(Some(Instant::now() + NO_SPACE_PAUSE))
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes what no server stands for any more.
    async fn sweep(&self, round: &mut Round) -> Result<(), RequestError> {
        let Some(life) = round.life else { return Ok(()) };
        let keys = &self.link.keys;
        let is_member =
            |name: &str| round.members.values.contains_key(keys.member(name).as_bytes());
        let mut by_server = BTreeMap::<Arc<str>, Vec<String>>::new();
        for (server, target) in self.states.left_over(|name| !is_member(name)) {
            let key = keys.state(&server, &target);
            by_server.entry(server).or_default().push(key);
        }
        round.absent.retain(|server, _| by_server.contains_key(server));
        for (server, left) in by_server {
            let since = *round.absent.entry(Arc::clone(&server)).or_insert_with(Instant::now);
            let is_own = *server == **self.states.name();
            if !is_own && since.elapsed() < STATES_KEPT {
                continue;
            }
            for some in left.chunks(OPS_MAX) {
                let mut when = vec![self.is_member(life)];
                if !is_own {
                    when.push(Compare::create_revision(keys.member(&server), CompareOp::Equal, 0));
                }
                let ops: Vec<_> =
                    some.iter().map(|key| TxnOp::delete(key.as_str(), None)).collect();
                // What a server that has returned says stays.
                self.link.connection.transact(Txn::new().when(when).and_then(ops)).await?;
            }
        }
        Ok(())
    }
}
