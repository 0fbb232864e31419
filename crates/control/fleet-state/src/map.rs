//! A map that one server at a time writes: the one that has the key `leaders/NAME`, under its lease
//! as a member. Each write requires that this key is still the one of its election, so a writer
//! that was stopped, and continues after another one was elected, writes nothing. No key of the map
//! is under a lease.
mod follow;
mod origin;
mod retire;

pub use retire::{read_cluster, retire};

use crate::limits::{MAP_BATCH, MAP_EVENTS_MAX, MAP_READY_GRACE, NO_SPACE_PAUSE};
use documents::{Leader, MapEvent, MapRequest, MapTask, MapValue, MapWriter, ReplicatedMap};
use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, TxnOp};
use etcd_link::limits::{OPS_MAX, TRANSACTION_BYTES_MAX};
use etcd_link::{LoggedCauses, Pages, RequestError, is_absent, put_under};
use follow::MapFollower;
use keyspace::limits::RECONNECT_MAX;
use keyspace::{
    EtcdLink, EtcdSettings, FollowedKeys, Follower, History, LinkReport, Task, replica_folder,
};
use retire::Retirement;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// The task of a map. Dropping it ends it.
pub struct EtcdMap(#[expect(dead_code, reason = "dropping it ends the task")] Task);

impl EtcdMap {
    /// Takes part in the elections of the server that writes the map of this name.
    pub fn lead(link: &Arc<EtcdLink>, data_dir: &Path, name: &str) -> (Self, MapWriter) {
        let (task, writer) = ReplicatedMap::channel(MAP_EVENTS_MAX);
        let folder = replica_folder(data_dir);
        let lost = format!("this server cannot write {name} for the fleet");
        let again = format!("this server can write {name} for the fleet again");
        let report = LinkReport::new(Some(lost), again);
        let history = History::new(&folder, None);
        let followed = FollowedKeys::new(link, vec![link.keys.leader(name)], history, &report);
        let leadership = Leadership::new(link, folder, name, task);
        (Self(link.spawn(followed.follow(leadership))), writer)
    }

    /// Follows the map of this name.
    pub fn follow(
        link: &Arc<EtcdLink>,
        data_dir: &Path,
        name: &str,
    ) -> (Self, mpsc::Receiver<MapEvent>) {
        Self::follow_by(link, data_dir, |events| MapFollower::new(&link.keys, name, events))
    }

    /// Follows the keys of all clusters that contain this text, each behind the name of its
    /// cluster. They are always taken for complete: each cluster says for itself what it lacks.
    pub fn follow_clusters(
        link: &Arc<EtcdLink>,
        data_dir: &Path,
        only: &'static str,
    ) -> (Self, mpsc::Receiver<MapEvent>) {
        let follower = |events| MapFollower::of_clusters(&link.keys, only, events);
        Self::follow_by(link, data_dir, follower)
    }

    /// The same of another site, whose etcd has these settings and is only read. Its copy of
    /// records is in the folder: it says which history is accepted.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn follow_clusters_of_site(
        settings: EtcdSettings,
        folder: &Path,
        only: &'static str,
    ) -> io::Result<(Self, mpsc::Receiver<MapEvent>)> {
        let (site, settings) =
            (settings.site.clone(), EtcdSettings { may_write: false, ..settings });
        let link = EtcdLink::start_named(settings, "etcd-clusters")?;
        let follower = |events| MapFollower::of_clusters(&link.keys, only, events).at_site(site);
        Ok(Self::follow_by(&link, folder, follower))
    }

    fn follow_by(
        link: &Arc<EtcdLink>,
        data_dir: &Path,
        follower: impl FnOnce(mpsc::Sender<MapEvent>) -> MapFollower,
    ) -> (Self, mpsc::Receiver<MapEvent>) {
        let (events, receiver) = mpsc::channel(MAP_EVENTS_MAX);
        (Self(follower(events).spawn(link, &replica_folder(data_dir))), receiver)
    }
}

/// The key of an election.
struct Elected {
    server: String,
    lease: i64,
    /// The revision of etcd of the election.
    epoch: i64,
}

/// This server as one that writes the map, or would.
struct Leadership {
    link: Arc<EtcdLink>,
    map: Arc<ReplicatedMap>,
    name: Box<str>,
    requests: mpsc::Sender<MapRequest>,
    ready: watch::Receiver<bool>,
    /// The origin of the values of this server, such as the ID of a cluster, and the one in etcd.
    own_origin: watch::Receiver<Option<String>>,
    found_origin: Option<String>,
    /// The map has ended.
    retired: Option<Retirement>,
    /// Receives what others write while this server is refused; the task that follows their writes.
    events: mpsc::Sender<MapEvent>,
    following: Option<Task>,
    folder: PathBuf,
    hasher: RandomState,
    /// The elected server.
    elected: Option<Elected>,
    /// The term of this server, if it is elected.
    term: Option<Term>,
    /// When the next batch is written, and when the last one was.
    write_at: Option<Instant>,
    wrote: Instant,
    /// Why etcd refused the last writes.
    unwritten: LoggedCauses,
    /// Since when this server lacks values.
    unready: Option<Instant>,
    /// When to try again to be elected.
    campaign_at: Instant,
}

/// The time for which this server writes.
struct Term {
    /// The revision of etcd of its election.
    epoch: i64,
    /// The hash of the value that etcd has for each key.
    written: HashMap<String, u64>,
    /// Whether all keys were written once. Until then a key that etcd lacks may still come.
    is_complete: bool,
}

/// Why a server whose values have no known origin is not elected.
const UNKNOWN_ORIGIN: &str = "it is not known which cluster this server watches: the log says why";

/// The key that says that all keys were written. Keys of objects have a slash, this one has none.
const COMPLETE: &str = "complete";

impl Follower for Leadership {
    const IS_AWAITED: bool = false;

    async fn begin(&mut self) {
        (self.elected, self.term, self.write_at) = (None, None, None);
        (self.found_origin, self.retired) = (None, None);
        self.campaign_at = Instant::now();
    }

    /// Reads the elected server and the origin of the map.
    async fn take(&mut self, kv: &KeyValue, is_put: bool) -> Result<(), RequestError> {
        let value = || String::from_utf8_lossy(kv.value()).into_owned();
        if kv.key() == self.key().as_bytes() {
            let (server, lease, epoch) = (value(), kv.lease(), kv.create_revision());
            self.elected = is_put.then_some(Elected { server, lease, epoch });
        } else if kv.key() == self.origin_key().as_bytes() {
            self.found_origin = is_put.then(value);
        } else if kv.key() == self.link.keys.retired(&self.name).as_bytes() {
            self.retired = is_put.then(|| Retirement::read(kv));
        }
        Ok(())
    }

    async fn due(&mut self) {
        let now = Instant::now();
        let is_idle = self.term.is_some() && self.write_at.is_none();
        tokio::select! {
            // The sender is in `self`.
            _ = self.ready.changed() => {}
            _ = self.own_origin.changed() => {}
            // A change alone does not wait.
            () = self.map.touched(), if is_idle => {
                self.write_at = Some(now.max(self.wrote + MAP_BATCH));
            }
            () = sleep_until(self.write_at.unwrap_or(now)), if self.write_at.is_some() => {}
            () = sleep_until(self.campaign_at) => {}
        }
    }

    async fn work(&mut self) -> Result<bool, RequestError> {
        self.follow_election().await?;
        if self.write_at.is_some_and(|at| at <= Instant::now()) {
            self.wrote = Instant::now();
            self.write_at = self.write().await?;
        }
        Ok(false)
    }

    /// The election may have changed meanwhile; the next list says.
    async fn ended(&mut self, why: &str, _: bool) {
        self.map.clear();
        let (fault, is_refused) = (Some(why.to_owned()), self.following.is_some());
        self.map.set_leader(Leader { fault, is_refused, ..Leader::default() });
    }
}

impl Leadership {
    fn new(
        link: &Arc<EtcdLink>,
        folder: PathBuf,
        name: &str,
        MapTask { map, requests, events }: MapTask,
    ) -> Self {
        Self {
            link: Arc::clone(link),
            ready: map.ready(),
            own_origin: map.origin(),
            found_origin: None,
            retired: None,
            events,
            following: None,
            folder,
            map,
            name: name.into(),
            requests,
            hasher: RandomState::new(),
            elected: None,
            term: None,
            write_at: None,
            wrote: Instant::now(),
            unwritten: LoggedCauses::default(),
            unready: None,
            campaign_at: Instant::now(),
        }
    }

    fn key(&self) -> String {
        self.link.keys.leader(&self.name)
    }

    /// Acts on who is elected: campaigns, begins a term, resigns, or ends its term.
    async fn follow_election(&mut self) -> Result<(), RequestError> {
        let is_known = self.own_origin.borrow_and_update().is_some();
        let (now, is_ready) = (Instant::now(), *self.ready.borrow_and_update() && is_known);
        let is_due = now >= self.campaign_at;
        self.campaign_at = now + RECONNECT_MAX / 4;
        if let Some(why) = self.refusal() {
            return self.refuse(why).await;
        }
        self.allow();
        self.unready = (!is_ready).then(|| self.unready.unwrap_or(now));
        let (server, own_lease) = &self.link.server;
        let own = self.elected.as_ref().filter(|elected| own_lease.is(elected.lease));
        let term = self.term.as_ref().map(|term| term.epoch);
        match (own.map(|own| own.epoch), term) {
            (Some(own), Some(term)) if own == term => {
                if self.unready.is_some_and(|since| now >= since + MAP_READY_GRACE) {
                    tracing::warn!("another server is now the leader for {}", self.name);
                    self.resign(term).await?;
                } else if self.found_origin.is_none() {
                    self.claim(term).await?;
                }
            }
            (Some(epoch), _) => self.begin_term(epoch, server.clone()).await?,
            (None, term) => {
                if term.is_some() {
                    tracing::warn!("this server is no longer the leader for {}", self.name);
                    (self.term, self.write_at) = (None, None);
                    self.map.clear();
                }
                let name = self.elected.as_ref().map(|elected| elected.server.clone());
                let is_free = name.is_none();
                let lasts = self.unready.is_some_and(|since| now >= since + MAP_READY_GRACE);
                let fault = (lasts && !is_known).then(|| UNKNOWN_ORIGIN.to_owned());
                self.map.set_leader(Leader { name, fault, ..Leader::default() });
                if is_free && is_ready && is_due {
                    self.campaign().await?;
                }
            }
        }
        Ok(())
    }

    /// Begins the term of this server, which was elected.
    async fn begin_term(&mut self, epoch: i64, server: String) -> Result<(), RequestError> {
        let (listed, is_complete) = self.read_all().await?;
        let hash = |(key, value): &(String, Vec<u8>)| {
            let hash = self.hasher.hash_one(&value[..]);
            (key.clone(), hash)
        };
        let written: HashMap<String, u64> = listed.iter().map(hash).collect();
        self.map.clear();
        // The source has no value for some of them any more: they are deleted.
        self.map.touch(written.keys().cloned());
        self.term = Some(Term { epoch, written, is_complete });
        tracing::info!("this server writes {} for the fleet", self.name);
        self.map.set_leader(Leader { name: Some(server), is_own: true, ..Leader::default() });
        self.send(MapRequest::Elected(is_complete.then_some(listed))).await;
        Ok(())
    }

    /// Tries to be elected. The watch reports the result.
    async fn campaign(&self) -> Result<(), RequestError> {
        let (server, own_lease) = &self.link.server;
        let Some(lease) = own_lease.get() else { return Ok(()) };
        let (key, member) = (self.key(), self.link.keys.member(server));
        let when = [
            is_absent(key.as_str()),
            // Another server may have the same name.
            Compare::lease(member, CompareOp::Equal, lease),
            self.has_same_origin(),
            is_absent(self.link.keys.retired(&self.name)),
        ];
        let put = put_under(lease, key, server.as_str());
        self.link.connection.write(when, [put]).await.map(drop)
    }

    async fn resign(&self, epoch: i64) -> Result<(), RequestError> {
        let (is_elected, gone) = (self.is_elected(epoch), TxnOp::delete(self.key(), None));
        self.link.connection.write([is_elected], [gone]).await.map(drop)
    }

    fn is_elected(&self, epoch: i64) -> Compare {
        Compare::create_revision(self.key(), CompareOp::Equal, epoch)
    }

    /// Returns once the source has room. If the source has ended, so will this task be.
    async fn send(&self, request: MapRequest) {
        if self.requests.send(request).await.is_err() {
            std::future::pending().await
        }
    }

    /// Reads all keys of the map, and whether all were written once.
    async fn read_all(&self) -> Result<(Vec<(String, Vec<u8>)>, bool), RequestError> {
        let (connection, prefix) = (&self.link.connection, self.link.keys.documents(&self.name));
        let got = connection.get(prefix.as_str(), GetOptions::new()).await?;
        let at = got.header().map_or(0, |header| header.revision());
        let (mut listed, mut is_complete) = (Vec::new(), false);
        let mut pages = Pages::new(&prefix, at);
        while let Some(page) = pages.next(connection).await? {
            for kv in page.kvs() {
                let key = String::from_utf8_lossy(kv.key());
                match key.strip_prefix(&prefix).unwrap_or(&key) {
                    COMPLETE => is_complete = true,
                    key => listed.push((key.to_owned(), kv.value().to_vec())),
                }
            }
        }
        Ok((listed, is_complete))
    }

    /// Writes a batch of what changed. Returns when to write the next one.
    async fn write(&mut self) -> Result<Option<Instant>, RequestError> {
        let Some(epoch) = self.term.as_ref().map(|term| term.epoch) else { return Ok(None) };
        if self.own_origin.borrow().is_none() || self.found_origin.is_none() {
            // Nothing is written before this server and etcd know the origin.
            return Ok(Some(Instant::now() + RECONNECT_MAX / 2));
        }
        let guard = [self.is_elected(epoch), self.has_same_origin()];
        let keys = self.map.take(OPS_MAX);
        let is_full = keys.len() == OPS_MAX;
        let (answer, values) = oneshot::channel();
        self.send(MapRequest::Values { keys: keys.clone(), answer }).await;
        let Ok(values) = values.await else {
            // The source does not want them to be written now.
            self.map.touch(keys);
            return Ok(Some(Instant::now() + RECONNECT_MAX / 2));
        };
        let Some(Term { written, is_complete, .. }) = &mut self.term else { return Ok(None) };
        let hash = |value: &Vec<u8>| self.hasher.hash_one(&value[..]);
        let is_new =
            |(key, value): &MapValue| written.get(key).copied() != value.as_ref().map(hash);
        let changed: Vec<MapValue> = values.into_iter().filter(is_new).collect();
        let prefix = self.link.keys.documents(&self.name);
        for part in parts(&changed) {
            let op = |(key, value): &MapValue| {
                let key = format!("{prefix}{key}");
                match value {
                    Some(value) => TxnOp::put(key, value.as_slice(), None),
                    None => TxnOp::delete(key, None),
                }
            };
            let ops: Vec<_> = part.iter().map(op).collect();
            match self.link.connection.write(guard.clone(), ops).await {
                Ok(true) => {
                    self.map.note_write();
                    self.unwritten.clear();
                    for (key, value) in part {
                        match value {
                            Some(value) => written.insert(key.clone(), hash(value)),
                            None => written.remove(key),
                        };
                    }
                }
                // Another server is elected, or the origin has changed; the watch reports it.
                Ok(false) => {
                    self.map.touch(keys);
                    return Ok(Some(Instant::now() + RECONNECT_MAX / 2));
                }
                Err(RequestError::NoSpace(why)) => {
                    if self.unwritten.is_new(&why) {
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
            let put = TxnOp::put(key, "", None);
            *is_complete = self.link.connection.write(guard, [put]).await?;
        }
        Ok(is_full.then(Instant::now))
    }
}

/// Splits values into parts that fit transactions.
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
