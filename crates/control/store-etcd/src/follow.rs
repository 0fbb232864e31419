//! Follows the commits in etcd: catches up, then watches.
use crate::connection::RequestError;
use crate::encoding::{self, StoredCommit};
use crate::keys::Head;
use crate::keyspace::{Follower, Position, set_back};
use crate::limits::COMMITS_QUEUED;
use crate::list::{self, Listing};
use crate::replica::Origin;
use crate::shared::Shared;
use crate::staged;
use etcd_client::{EventType, GetOptions, KeyValue, WatchResponse};
use records::codec::milliseconds;
use records::{Commit, PreparedWrite, Revision, WatchWaker};
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

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

/// Follows the commits in etcd from what a replica knows.
pub struct CommitFollower {
    pub shared: Arc<Shared>,
    pub known: Known,
    pub list_path: PathBuf,
    pub found: Sender<Found>,
    pub waker: WatchWaker,
    /// A commit that replaces everything was passed.
    pub is_restored: bool,
}

/// What a journal keeps of a write, to recognize it.
fn identity(write: &PreparedWrite) -> (u64, String) {
    (milliseconds(write.when), write.by.to_string())
}

impl Follower for CommitFollower {
    const IS_AWAITED: bool = true;

    /// Passes on the commits that are missing, or everything.
    async fn list(&mut self, at: &Position, _: bool) -> Result<(), RequestError> {
        let head = self.check_head(at)?;
        if let Some(why) = self.shared.held(&head) {
            return Err(RequestError::Unusable(why));
        }
        let has_all = self.known.origin.is_some()
            && self.is_continued(&head).await?
            && self.catch_up(at.revision).await?;
        if !has_all {
            return self.list_all().await;
        }
        self.shared.notes(head);
        Ok(())
    }

    async fn apply(&mut self, message: &WatchResponse) -> Result<(), RequestError> {
        for event in message.events() {
            let is_put = event.event_type() == EventType::Put;
            let Some(kv) = event.kv().filter(|_| is_put) else { continue };
            if !self.pass(kv).await? {
                return self.list_all().await;
            }
        }
        Ok(())
    }

    async fn ended(&mut self, _: &str, _: bool) {}
}

impl CommitFollower {
    /// The newest revision in etcd, which is not older than what this server has.
    fn check_head(&self, at: &Position) -> Result<Head, RequestError> {
        let keys = &self.shared.link.keys;
        let head = Head::read(at.head.as_deref()).ok_or_else(|| {
            RequestError::Unusable(format!("the key {} in etcd is damaged", keys.revision()))
        })?;
        if self.known.origin.is_none() {
            return Ok(head);
        }
        // The watch may not have brought this server's last commits yet.
        let known = self.known.revision.max(self.shared.newest());
        if head.revision < known {
            let newest = head.revision;
            return Err(set_back(&format!(
                "etcd has revision {newest}, and this server has revision {known} already"
            )));
        }
        Ok(head)
    }

    /// Whether etcd has the commit that the replica ends with; otherwise everything is needed.
    async fn is_continued(&self, head: &Head) -> Result<bool, RequestError> {
        let revision = self.known.revision;
        if revision == Revision::NONE {
            return Ok(true);
        }
        let key = self.shared.link.keys.commit(revision);
        let got = self.shared.link.connection.get(key, GetOptions::new()).await?;
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
        let (connection, keys) = (&self.shared.link.connection, &self.shared.link.keys);
        staged::fill(connection, keys, commit, kv.mod_revision()).await
    }

    /// Passes on the commits after the known revision, up to a revision of etcd. Returns whether
    /// none is missing.
    async fn catch_up(&mut self, at: i64) -> Result<bool, RequestError> {
        let shared = Arc::clone(&self.shared);
        let end = shared.link.keys.commit(Revision(u64::MAX));
        let mut limit = COMMITS_QUEUED as i64;
        loop {
            let from = shared.link.keys.commit(self.known.revision.next());
            let range = (from.as_bytes(), end.as_bytes());
            let page = shared.link.connection.page(range, at, &mut limit).await?;
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
        let got = shared.link.connection.get(shared.link.keys.revision(), options).await?;
        let head = Head::read(got.kvs().first().map(KeyValue::value));
        Ok(head.is_some_and(|head| head.revision == self.known.revision))
    }

    /// Passes on a commit. Returns whether it follows the known revision.
    async fn pass(&mut self, kv: &KeyValue) -> Result<bool, RequestError> {
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        let Ok(mut commit) = encoding::read_commit(kv.value()) else {
            return Err(RequestError::Unusable(format!(
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
            return Err(RequestError::Unusable(format!("the key {key} in etcd is damaged")));
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
        self.send(Found::Commit(commit)).await;
        Ok(true)
    }

    async fn send(&self, found: Found) {
        let sent = self.found.send(found).await;
        (self.waker)();
        if sent.is_err() {
            // The receiver is gone, and so will this task be.
            pending().await
        }
    }

    /// Reads everything. The replica is then followed by another task.
    async fn list_all(&mut self) -> Result<(), RequestError> {
        let link = &self.shared.link;
        let listing = list::read(&link.connection, &link.keys, &self.list_path).await?;
        let listing = Listing { is_restored: self.is_restored, ..listing };
        self.send(Found::Everything(Box::new(listing))).await;
        pending().await
    }
}
