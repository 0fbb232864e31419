//! A map that one server at a time writes: the one that has the key `leaders/NAME`, under its lease
//! as a member. Each write requires that this key is still the one of its election, so a writer
//! that was stopped, and continues after another one was elected, writes nothing. No key of the map
//! is under a lease.
mod follow;

use crate::EtcdLink;
use crate::connection::RequestError;
use crate::events::Mirror;
use crate::history::History;
use crate::limits::{
    LED_BATCH, LED_READY_GRACE, NO_SPACE_PAUSE, OPS_MAX, RECONNECT_MAX, TRANSACTION_BYTES_MAX,
};
use crate::list;
use crate::members::OwnLease;
use crate::shared::{LoggedCauses, Retry};
use documents::{Leader, LedMap, MapEvent, MapRequest, MapValue, MapWriter};
use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, PutOptions, Txn, TxnOp};
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The tasks of a map. Dropping it ends them.
pub struct EtcdMap(JoinHandle<()>);

impl EtcdMap {
    /// Takes part in the elections of the server that writes the map of this name.
    pub fn lead(link: &Arc<EtcdLink>, data_dir: &Path, name: &'static str) -> (Self, MapWriter) {
        let (map, writer, ask) = LedMap::new();
        let (server, own) = link.server.clone();
        let folder = crate::replica_folder(data_dir);
        let link = Arc::clone(link);
        let task = Election { link: Arc::clone(&link), map, name, server, own, ask, folder };
        (Self(link.runtime.spawn(task.run())), writer)
    }

    /// Follows the map of this name.
    pub fn follow(
        link: &Arc<EtcdLink>,
        data_dir: &Path,
        name: &'static str,
    ) -> (Self, mpsc::Receiver<MapEvent>) {
        let (events, receiver) = mpsc::channel(crate::limits::MAP_EVENTS_MAX);
        let folder = crate::replica_folder(data_dir);
        let task = follow::Follower { link: Arc::clone(link), name, events, folder };
        (Self(link.runtime.spawn(task.run())), receiver)
    }
}

impl Drop for EtcdMap {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The key of an election.
struct Elected {
    server: String,
    lease: i64,
    /// The revision of etcd of the election.
    life: i64,
}

fn read_elected(kv: &KeyValue) -> Option<Elected> {
    let server = String::from_utf8_lossy(kv.value()).into_owned();
    Some(Elected { server, lease: kv.lease(), life: kv.create_revision() })
}

struct Election {
    link: Arc<EtcdLink>,
    map: Arc<LedMap>,
    name: &'static str,
    server: String,
    own: OwnLease,
    ask: mpsc::Sender<MapRequest>,
    folder: PathBuf,
}

/// What a round knows.
struct Round {
    leaders: Mirror<Elected>,
    /// The election of this server, and what etcd has: the hash of the value of each key.
    term: Option<Term>,
    /// When the next batch is written.
    write_at: Option<Instant>,
    /// Why etcd has taken no write.
    logged: LoggedCauses,
    /// Since when this server does not know all values.
    unready: Option<Instant>,
    /// When to look again whether this server can be elected.
    look_at: Instant,
}

struct Term {
    life: i64,
    known: HashMap<String, u64>,
    /// Whether etcd has, or had, all keys: before that, those that are there are not all.
    is_complete: bool,
}

/// The key that says so. It has no slash, as keys of objects have.
const COMPLETE: &str = "complete";

impl Election {
    async fn run(self) {
        let mut history = History::new(self.folder.clone());
        let mut retry = Retry::new(RECONNECT_MAX);
        let mut logged = LoggedCauses::default();
        loop {
            let began = Instant::now();
            let Err(ended) = self.take_part(&mut history, &mut logged).await;
            // It may lead still, and finds out.
            self.map.clear();
            let leader = Leader { fault: Some(ended.why().to_owned()), ..Leader::default() };
            if retry.is_lasting(began) && logged.is_new(ended.why()) {
                let name = self.name;
                tracing::error!("this server cannot write {name} for the fleet: {}", ended.why());
            }
            self.map.set_leader(leader);
            retry.pause(began).await;
        }
    }

    fn key(&self) -> String {
        self.link.keys.leader(self.name)
    }

    async fn take_part(
        &self,
        history: &mut History,
        logged: &mut LoggedCauses,
    ) -> Result<Infallible, RequestError> {
        let connection = &self.link.connection;
        let (endpoint, _) = connection.client().await?;
        history.check(&self.link).await?;
        let mut round = Round {
            leaders: Mirror::start(connection, self.key(), read_elected).await?,
            term: None,
            write_at: None,
            logged: LoggedCauses::default(),
            unready: None,
            look_at: Instant::now(),
        };
        logged.clear();
        let Err(ended) = self.lead_or_wait(&mut round).await;
        connection.leave(endpoint);
        Err(ended)
    }

    async fn lead_or_wait(&self, round: &mut Round) -> Result<Infallible, RequestError> {
        let hasher = RandomState::new();
        let mut ready = self.map.ready();
        loop {
            let is_ready = *ready.borrow_and_update();
            self.look(round, is_ready, &hasher).await?;
            let now = Instant::now();
            let is_idle = round.term.is_some() && round.write_at.is_none();
            tokio::select! {
                changed = round.leaders.change() => changed?,
                // The sender is in `self`.
                _ = ready.changed() => {}
                () = self.map.touched(), if is_idle => round.write_at = Some(now + LED_BATCH),
                () = sleep_until(round.write_at.unwrap_or(now)), if round.write_at.is_some() => {
                    round.write_at = self.write(round, &hasher).await?;
                }
                () = sleep_until(round.look_at) => {}
            }
        }
    }

    /// Takes in who is elected, and tries to be, or gives it up.
    async fn look(
        &self,
        round: &mut Round,
        is_ready: bool,
        hasher: &RandomState,
    ) -> Result<(), RequestError> {
        let now = Instant::now();
        round.unready = (!is_ready).then(|| round.unready.unwrap_or(now));
        let elected = round.leaders.values.get(self.key().as_bytes());
        let own = elected.filter(|elected| self.own.is(elected.lease));
        let term = round.term.as_ref().map(|term| term.life);
        match (own, term) {
            (Some(own), Some(term)) if own.life == term => {
                let is_over = round.unready.is_some_and(|since| now >= since + LED_READY_GRACE);
                if is_over {
                    tracing::warn!("{} of the fleet are left to another server", self.name);
                    self.resign(term).await?;
                }
            }
            (Some(own), _) => {
                let life = own.life;
                let (listed, is_complete) = self.listed().await?;
                let hash =
                    |(key, value): &(String, Vec<u8>)| (key.clone(), hasher.hash_one(&value[..]));
                let known: HashMap<String, u64> = listed.iter().map(hash).collect();
                self.map.clear();
                // Those that have no value any more are deleted.
                self.map.touch(known.keys().cloned());
                round.term = Some(Term { life, known, is_complete });
                tracing::info!("this server writes {} for the fleet", self.name);
                let name = Some(self.server.clone());
                self.map.set_leader(Leader { name, is_own: true, ..Leader::default() });
                self.send(MapRequest::Elected(is_complete.then_some(listed))).await;
            }
            (None, term) => {
                if term.is_some() {
                    tracing::warn!("this server writes {} for the fleet no more", self.name);
                    (round.term, round.write_at) = (None, None);
                    self.map.clear();
                }
                let name = elected.map(|elected| elected.server.clone());
                let is_free = name.is_none();
                self.map.set_leader(Leader { name, ..Leader::default() });
                if is_free && is_ready && now >= round.look_at {
                    self.stand().await?;
                }
            }
        }
        round.look_at = now + RECONNECT_MAX / 4;
        Ok(())
    }

    /// Stands for election. The watch brings who is elected.
    async fn stand(&self) -> Result<(), RequestError> {
        let Some(lease) = self.own.get() else { return Ok(()) };
        let (key, member) = (self.key(), self.link.keys.member(&self.server));
        let put = PutOptions::new().with_lease(lease);
        let txn = Txn::new()
            .when([
                Compare::create_revision(key.as_str(), CompareOp::Equal, 0),
                // Another server may have the name.
                Compare::lease(member, CompareOp::Equal, lease),
            ])
            .and_then([TxnOp::put(key, self.server.as_str(), Some(put))]);
        self.link.connection.transact(txn).await.map(drop)
    }

    async fn resign(&self, life: i64) -> Result<(), RequestError> {
        let txn =
            Txn::new().when([self.is_elected(life)]).and_then([TxnOp::delete(self.key(), None)]);
        self.link.connection.transact(txn).await.map(drop)
    }

    fn is_elected(&self, life: i64) -> Compare {
        Compare::create_revision(self.key(), CompareOp::Equal, life)
    }

    /// Returns once the source has room. If the source has ended, so will this task be.
    async fn send(&self, request: MapRequest) {
        if self.ask.send(request).await.is_err() {
            std::future::pending().await
        }
    }

    /// What etcd has, and whether that is all.
    async fn listed(&self) -> Result<(Vec<(String, Vec<u8>)>, bool), RequestError> {
        let (connection, prefix) = (&self.link.connection, self.link.keys.documents(self.name));
        let got = connection.get(prefix.as_str(), GetOptions::new()).await?;
        let at = got.header().map_or(0, |header| header.revision());
        let (mut listed, mut is_complete) = (Vec::new(), false);
        list::pages(connection, &prefix, at, |kv| {
            let key = String::from_utf8_lossy(kv.key());
            match key.strip_prefix(&prefix).unwrap_or(&key) {
                COMPLETE => is_complete = true,
                key => listed.push((key.to_owned(), kv.value().to_vec())),
            }
        })
        .await?;
        Ok((listed, is_complete))
    }

    /// Writes a batch of what changed. Returns when to write the next one.
    async fn write(
        &self,
        round: &mut Round,
        hasher: &RandomState,
    ) -> Result<Option<Instant>, RequestError> {
        let Some(Term { life, known, is_complete }) = &mut round.term else { return Ok(None) };
        let keys = self.map.take(OPS_MAX);
        let is_full = keys.len() == OPS_MAX;
        let (answer, values) = oneshot::channel();
        self.send(MapRequest::Values { keys: keys.clone(), answer }).await;
        let Ok(values) = values.await else {
            // It does not want them to be written now.
            self.map.touch(keys);
            return Ok(Some(Instant::now() + RECONNECT_MAX / 2));
        };
        let is_new = |(key, value): &MapValue| {
            known.get(key).copied() != value.as_ref().map(|value| hasher.hash_one(&value[..]))
        };
        let changed: Vec<MapValue> = values.into_iter().filter(is_new).collect();
        let prefix = self.link.keys.documents(self.name);
        for part in parts(&changed) {
            let op = |(key, value): &MapValue| {
                let key = format!("{prefix}{key}");
                match value {
                    Some(value) => TxnOp::put(key, value.as_slice(), None),
                    None => TxnOp::delete(key, None),
                }
            };
            let ops: Vec<_> = part.iter().map(op).collect();
            let txn = Txn::new().when([self.is_elected(*life)]).and_then(ops);
            match self.link.connection.transact(txn).await {
                Ok(done) if done.succeeded() => {
                    self.map.note_write();
                    round.logged.clear();
                    for (key, value) in part {
                        match value {
                            Some(value) => known.insert(key.clone(), hasher.hash_one(&value[..])),
                            None => known.remove(key),
                        };
                    }
                }
                // Another server is elected, and the watch brings it.
                Ok(_) => return Ok(None),
                Err(RequestError::NoSpace(why)) => {
                    if round.logged.is_new(&why) {
                        tracing::error!("{} of the fleet are not written: {why}", self.name);
                    }
                    self.map.touch(keys);
                    return Ok(Some(Instant::now() + NO_SPACE_PAUSE));
                }
                Err(error) => return Err(error),
            }
        }
        if !*is_complete && self.map.is_clean() {
            let key = format!("{prefix}{COMPLETE}");
            let txn =
                Txn::new().when([self.is_elected(*life)]).and_then([TxnOp::put(key, "", None)]);
            *is_complete = self.link.connection.transact(txn).await?.succeeded();
        }
        Ok(is_full.then(Instant::now))
    }
}

/// The parts that fit transactions.
fn parts(values: &[MapValue]) -> Vec<&[MapValue]> {
    let len =
        |(key, value): &(String, Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len);
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (at, value) in values.iter().enumerate() {
        if at > from && bytes + len(value) > TRANSACTION_BYTES_MAX {
            parts.push(&values[from..at]);
            (from, bytes) = (at, 0);
        }
        bytes += len(value);
    }
    if from < values.len() {
        parts.push(&values[from..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_transactions_and_leave_nothing_out() {
        let value = |len: usize| ("k".to_owned(), Some(vec![0; len]));
        let half = TRANSACTION_BYTES_MAX / 2;
        let values = vec![value(half), value(half), value(1), value(3 * half), value(0)];
        let lens: Vec<usize> = parts(&values).iter().map(|part| part.len()).collect();
        assert_eq!(lens, [1, 2, 1, 1]);
        assert!(parts(&[]).is_empty());
    }
}
