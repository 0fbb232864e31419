//! Follows the commits in etcd: catches up, then watches.
use crate::connection::RequestError;
use crate::encoding::{self, StoredCommit};
use crate::events::Events;
use crate::keys::Head;
use crate::limits::{COMMITS_QUEUED, RECONNECT_MAX};
use crate::list::{self, Listing};
use crate::replica::Origin;
use crate::shared::{Retry, Shared};
use crate::staged;
use etcd_client::{EventType, GetOptions, KeyValue};
use records::codec::milliseconds;
use records::{Commit, PreparedWrite, Revision, WatchWaker};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

/// What the task found.
pub enum Found {
    Commit(Commit),
    /// Commits are missing, and this is everything.
    Everything(Box<Listing>),
}

/// What a replica is a copy of, to see whether etcd still has the same history.
pub struct Known {
    pub revision: Revision,
    /// `None`: the replica was never filled.
    pub origin: Option<Origin>,
    /// The time and principal of the commit of that revision, if the replica's journal has it.
    pub last: Option<(u64, String)>,
}

/// Follows etcd from what a replica knows.
pub struct Follower {
    pub shared: Arc<Shared>,
    pub known: Known,
    pub list_path: PathBuf,
    pub found: Sender<Found>,
    pub waker: WatchWaker,
    /// A commit that replaces everything was passed.
    pub is_restored: bool,
}

/// Why a round of following ended.
enum Ended {
    Request(RequestError),
    /// The content of etcd cannot be followed without an operator.
    Refused(String),
    /// The receiver is gone.
    Done,
}

impl From<RequestError> for Ended {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// What a journal keeps of a write, to recognize it.
fn identity(write: &PreparedWrite) -> (u64, String) {
    (milliseconds(write.when), write.by.to_string())
}

impl Follower {
    /// Runs until the receiver is gone, or needs a full list and has got it.
    pub async fn run(mut self) {
        let mut retry = Retry::new(RECONNECT_MAX);
        loop {
            let began = Instant::now();
            match self.follow().await {
                Ok(()) | Err(Ended::Done) => return,
                Err(Ended::Request(error)) => self.shared.breaks(error.why()),
                Err(Ended::Refused(why)) => self.shared.breaks(&why),
            }
            retry.pause(began).await;
        }
    }

    /// Returns once everything was read.
    async fn follow(&mut self) -> Result<(), Ended> {
        let shared = Arc::clone(&self.shared);
        let (endpoint, _) = shared.connection.client().await?;
        let (head, at) = self.check_head().await?;
        if let Some(why) = shared.held(&head) {
            return Err(Ended::Refused(why));
        }
        if self.known.origin.is_none() || !self.is_continued(&head).await? {
            return self.list().await;
        }
        if !self.catch_up(at).await? {
            return self.list().await;
        }
        shared.follows(head);
        let ended = self.watch(at + 1).await;
        shared.connection.leave(endpoint);
        ended
    }

    /// The newest revision in etcd, and etcd's own.
    async fn check_head(&self) -> Result<(Head, i64), Ended> {
        let (connection, keys) = (&self.shared.connection, &self.shared.keys);
        let format = connection.value(&keys.format()).await?;
        crate::keys::check_format(format.as_deref()).map_err(Ended::Refused)?;
        let got = connection.get(keys.revision(), GetOptions::new()).await?;
        let header = got.header().ok_or_else(|| RequestError::Refused("no header".into()))?;
        let head = Head::read(got.kvs().first().map(KeyValue::value)).ok_or_else(|| {
            Ended::Refused(format!("the key {} in etcd is damaged", keys.revision()))
        })?;
        self.check_cluster(header.cluster_id(), &head)?;
        Ok((head, header.revision()))
    }

    /// Whether this is the etcd that the replica is a copy of, and not an older one.
    fn check_cluster(&self, cluster: u64, head: &Head) -> Result<(), Ended> {
        let Some(origin) = &self.known.origin else { return Ok(()) };
        let cluster = format!("{cluster:x}");
        if origin.cluster != cluster {
            return Err(Ended::Refused(format!(
                "etcd is another cluster ({cluster}) than the one that this server has a copy of \
                 ({}): correct `[etcd] endpoints`, or accept it by `dunlin fleet adopt`",
                origin.cluster
            )));
        }
        // The watch may not have brought this server's last commits yet.
        let known = self.known.revision.max(self.shared.newest());
        if head.revision < known {
            return Err(Ended::Refused(format!(
                "etcd has revision {}, and this server has revision {known} already: etcd was set \
                 back. Accept that by `dunlin fleet adopt`",
                head.revision
            )));
        }
        Ok(())
    }

    /// Whether etcd has the commit that the replica ends with; otherwise everything is needed.
    async fn is_continued(&self, head: &Head) -> Result<bool, Ended> {
        let revision = self.known.revision;
        if revision == Revision::NONE {
            return Ok(true);
        }
        let key = self.shared.keys.commit(revision);
        let got = self.shared.connection.get(key, GetOptions::new()).await?;
        let origin = self.known.origin.as_ref().filter(|origin| origin.revision == revision.0);
        let Some(kv) = got.kvs().first() else {
            // Deleted with old ones: nothing is missing if nothing was written since the list.
            return Ok(origin.is_some_and(|origin| origin.head == head.value));
        };
        let Ok(mut commit) = encoding::read_commit(kv.value()) else { return Ok(false) };
        if let Some(origin) = origin {
            return Ok(origin.commit == Some(commit.id.to_string()));
        }
        if self.fill(&mut commit, kv).await.is_err() {
            return Ok(false);
        }
        let Some(last) = commit.writes.last() else { return Ok(false) };
        let is_same = self.known.last == Some(identity(last));
        if !is_same {
            tracing::warn!(
                %revision, newest = %head.revision,
                "etcd has another commit of this revision: everything is read again"
            );
        }
        Ok(is_same)
    }

    async fn fill(&self, commit: &mut StoredCommit, kv: &KeyValue) -> Result<(), RequestError> {
        let (connection, keys) = (&self.shared.connection, &self.shared.keys);
        staged::fill(connection, keys, commit, kv.mod_revision()).await
    }

    /// Passes on the commits after the known revision, up to a revision of etcd. Returns whether
    /// none is missing.
    async fn catch_up(&mut self, at: i64) -> Result<bool, Ended> {
        let shared = Arc::clone(&self.shared);
        let end = shared.keys.commit(Revision(u64::MAX));
        let mut limit = COMMITS_QUEUED as i64;
        loop {
            let from = shared.keys.commit(self.known.revision.next());
            let range = (from.as_bytes(), end.as_bytes());
            let page = shared.connection.page(range, at, &mut limit).await?;
            for kv in page.kvs() {
                if !self.pass(kv).await? {
                    return Ok(false);
                }
            }
            if !page.more() {
                break;
            }
        }
        let options = GetOptions::new().with_revision(at);
        let got = shared.connection.get(shared.keys.revision(), options).await?;
        let head = Head::read(got.kvs().first().map(KeyValue::value));
        Ok(head.is_some_and(|head| head.revision == self.known.revision))
    }

    /// Passes on a commit. Returns whether it follows the known revision.
    async fn pass(&mut self, kv: &KeyValue) -> Result<bool, Ended> {
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        let Ok(mut commit) = encoding::read_commit(kv.value()) else {
            return Err(Ended::Refused(format!(
                "the key {key} in etcd is no commit, or one of a newer version: upgrade this \
                 server"
            )));
        };
        if commit.is_snapshot {
            // Everything is read, unless it is known already.
            let head = Head::new(self.known.revision, commit.id).value;
            let origin = self.known.origin.as_ref();
            self.is_restored = true;
            return Ok(origin.is_some_and(|origin| origin.head == head));
        }
        match self.fill(&mut commit, kv).await {
            Err(RequestError::Compacted) => return Ok(false),
            filled => filled?,
        }
        let Some(commit) = commit.whole() else {
            return Err(Ended::Refused(format!("the key {key} in etcd is damaged")));
        };
        if commit.revision() <= self.known.revision {
            return Ok(true);
        }
        if commit.base != self.known.revision {
            return Ok(false);
        }
        self.known.revision = commit.revision();
        self.known.last = commit.writes.last().map(identity);
        self.shared.notes(Head::new(commit.revision(), commit.id));
        self.send(Found::Commit(commit)).await?;
        Ok(true)
    }

    async fn send(&self, found: Found) -> Result<(), Ended> {
        let sent = self.found.send(found).await;
        (self.waker)();
        sent.map_err(|_| Ended::Done)
    }

    /// Reads everything, and ends.
    async fn list(&mut self) -> Result<(), Ended> {
        let (connection, keys) = (&self.shared.connection, &self.shared.keys);
        let listed = list::read(connection, keys, &self.list_path).await;
        let listing = listed.map_err(|error| match error {
            list::ListError::Request(error) => Ended::Request(error),
            other => Ended::Refused(other.why()),
        })?;
        let listing = Listing { is_restored: self.is_restored, ..listing };
        self.send(Found::Everything(Box::new(listing))).await
    }

    /// Watches the commits from a revision of etcd on.
    async fn watch(&mut self, from: i64) -> Result<(), Ended> {
        let commits = self.shared.keys.commits();
        let mut events = Events::start(&self.shared.connection, commits, from).await?;
        loop {
            let message = events.next().await?;
            for event in message.events() {
                let Some(kv) = event.kv().filter(|_| event.event_type() == EventType::Put) else {
                    continue;
                };
                if !self.pass(kv).await? {
                    return self.list().await;
                }
            }
        }
    }
}
