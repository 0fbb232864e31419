//! Follows the commits in etcd: catches up, then watches.
use crate::encoding::{self, NO_COMMIT, StoredCommit};
use crate::limits::{COMMIT_WAIT, COMMITS_QUEUED, COMMITS_STORED};
use crate::list::{self, Listing};
use crate::replica::Origin;
use crate::shared::Shared;
use crate::{staged, unreadable};
use etcd_client::KeyValue;
use etcd_link::{Pages, RequestError};
use keyspace::keys::{Head, check_format};
use keyspace::{EtcdLink, Follower, Keys, Position, set_back};
use records::{Commit, CommitId, Form, PreparedWrite, Revision, WatchWaker};
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use store::codec::milliseconds;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};

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
    /// The commit of that revision, if a file says so.
    pub newest: Option<CommitId>,
    /// The time and principal of the commit of that revision, if the replica's journal has it.
    pub last: Option<(u64, String)>,
    /// The commit of that revision, once etcd was seen to have it.
    pub commit: CommitId,
    /// Whether it names the one before it: then the next one does.
    pub is_linked: bool,
    /// The revision of etcd that changed it last.
    pub changed: i64,
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
    /// A newer revision than the commits that came, and until when its commit has to come.
    pub awaited: Option<(Revision, Instant)>,
}

/// What a journal keeps of a write, to recognize it.
fn identity(write: &PreparedWrite) -> (u64, String) {
    (milliseconds(write.when), write.by.to_string())
}

/// What etcd has when it is followed again decides.
fn edited(key: &str) -> RequestError {
    RequestError::Unanswered(format!("the key {key} in etcd was changed, and not by Dunlin"))
}

impl Follower for CommitFollower {
    const IS_AWAITED: bool = true;

    /// Passes on the commits that are missing, or everything.
    async fn list(
        &mut self,
        _: &EtcdLink,
        _: &[String],
        at: &Position,
        _: bool,
    ) -> Result<(), RequestError> {
        self.note_form(at.form);
        let head = at.head(&self.shared.link.keys)?;
        let is_mended = self.is_mended(at).await?;
        if let Some(why) = self.shared.held(&head).filter(|_| !is_mended) {
            return Err(RequestError::Unusable(why));
        }
        if !self.is_bound(at.adopted) {
            return self.list_all().await;
        }
        let is_joined = self.join(&head).await?;
        if is_mended || !is_joined || !self.catch_up(at.revision).await? {
            return self.list_all().await;
        }
        if head.revision != self.known.revision {
            return Err(self.rewritten("lacks commits after revision", self.known.revision));
        }
        self.shared.notes(head);
        Ok(())
    }

    async fn take(&mut self, kv: &KeyValue, is_put: bool) -> Result<(), RequestError> {
        let keys = &self.shared.link.keys;
        if kv.key() == keys.format().as_bytes() {
            let value = Some(kv.value()).filter(|_| is_put);
            self.note_form(check_format(value).map_err(RequestError::Unusable)?);
            return Ok(());
        }
        if self.is_unreadable(kv) {
            // Now it may be right.
            return self.list_all().await;
        }
        let is_commit = kv.key().starts_with(keys.commits().as_bytes());
        // Others begin as an unreadable one does.
        if !is_commit && kv.key() != keys.revision().as_bytes() {
            return Ok(());
        }
        if !is_commit && self.awaited().is_none() {
            let head = Head::read(Some(kv.value()).filter(|_| is_put));
            self.awaited = head.map(|head| (head.revision, Instant::now() + COMMIT_WAIT));
        }
        if is_commit && is_put {
            if !self.pass(kv).await? {
                return self.list_all().await;
            }
        } else if self.is_suspicious(kv, is_commit, is_put) {
            return Err(edited(&String::from_utf8_lossy(kv.key())));
        }
        Ok(())
    }

    async fn due(&mut self) {
        match self.awaited() {
            Some(until) => sleep_until(until).await,
            None => pending().await,
        }
    }

    async fn work(&mut self) -> Result<bool, RequestError> {
        match self.awaited() {
            Some(until) if until <= Instant::now() => {
                self.awaited = None;
                Err(edited(&self.shared.link.keys.revision()))
            }
            _ => Ok(false),
        }
    }

    async fn ended(&mut self, _: &str, _: bool) {}
}

impl CommitFollower {
    /// Until when a commit has to come.
    fn awaited(&self) -> Option<Instant> {
        let is_missing = |(revision, _): &(Revision, Instant)| *revision > self.known.revision;
        self.awaited.filter(is_missing).map(|(_, until)| until)
    }

    /// The keys have this form, which the writer reports.
    fn note_form(&self, form: Option<Form>) {
        self.shared.has_form(form);
        (self.waker)();
    }

    /// Whether etcd must have the history of this server: it has a copy, and no operator has
    /// accepted another history since.
    fn is_bound(&self, adopted: Revision) -> bool {
        self.known.origin.is_some() && adopted <= self.known.revision
    }

    /// Whether etcd has the commit that the replica ends with; `false`: it has deleted that as an
    /// old one, and everything is needed.
    ///
    /// # Errors
    /// etcd has another history.
    async fn join(&mut self, head: &Head) -> Result<bool, RequestError> {
        // The watch may not have brought this server's last commits yet.
        let newest = self.shared.newest().filter(|newest| newest.revision > self.known.revision);
        let known = newest.as_ref().map_or(self.known.revision, |newest| newest.revision);
        if head.revision < known {
            let newest = head.revision;
            return Err(set_back(&format!(
                "etcd has revision {newest}, and this server has revision {known} already"
            )));
        }
        if let Some(newest) = newest {
            self.check_newest(&newest).await?;
        }
        let revision = self.known.revision;
        if revision == Revision::NONE {
            return Ok(true);
        }
        let key = self.shared.link.keys.commit(revision);
        let found = self.shared.link.connection.find(key, 0).await?;
        let origin = self.known.origin.as_ref().filter(|origin| origin.revision == revision.0);
        let Some(kv) = &found else {
            if let Some(origin) = origin.filter(|origin| origin.head == head.value) {
                // Nothing was written since the list.
                let commit = origin.commit();
                self.known.commit = commit.unwrap_or(NO_COMMIT);
                self.shared.begins_with(revision, commit);
                return Ok(true);
            }
            return match head.revision.0 > revision.0.saturating_add(COMMITS_STORED) {
                true => Ok(false),
                false => Err(self.rewritten("lacks the commit of revision", revision)),
            };
        };
        let mut commit = self.read(kv)?;
        let commit_known = Some(self.known.commit).filter(|known| *known != NO_COMMIT);
        let newest = commit_known.or(self.known.newest).or(origin.and_then(Origin::commit));
        let is_same = match (newest, &self.known.last) {
            (Some(newest), _) => newest == commit.id,
            (None, None) => return Ok(false),
            (None, Some(_)) => match self.fill(&mut commit, kv).await {
                Err(RequestError::Compacted) => return Ok(false),
                filled => {
                    filled?;
                    self.known.last == commit.writes.last().map(identity)
                }
            },
        };
        if !is_same {
            return Err(self.rewritten("has another commit of revision", revision));
        }
        self.know(kv, &commit);
        self.shared.begins_with(revision, Some(commit.id));
        Ok(true)
    }

    /// Checks that etcd has not another commit in place of one that this server has acknowledged
    /// and not yet followed.
    ///
    /// # Errors
    /// It has.
    async fn check_newest(&self, newest: &Head) -> Result<(), RequestError> {
        let key = self.shared.link.keys.commit(newest.revision);
        let Some(kv) = self.shared.link.connection.find(key, 0).await? else { return Ok(()) };
        match Head::new(newest.revision, self.read(&kv)?.id) == *newest {
            true => Ok(()),
            false => Err(self.rewritten("has another commit of revision", newest.revision)),
        }
    }

    /// This commit is the last known one.
    fn know(&mut self, kv: &KeyValue, commit: &StoredCommit) {
        self.known.commit = commit.id;
        self.known.is_linked |= commit.link.is_some();
        self.known.changed = kv.mod_revision();
    }

    /// Why etcd is not followed: its history is not that of this server.
    fn rewritten(&self, what: &str, revision: Revision) -> RequestError {
        RequestError::Unusable(format!(
            "etcd {what} {revision}, which this server has: etcd was set back, emptied, or changed \
             by hand. If etcd is right, run `dunlin fleet adopt`; if not, docs/etcd.md says how to \
             write the records of this server again"
        ))
    }

    fn read(&self, kv: &KeyValue) -> Result<StoredCommit, RequestError> {
        encoding::read_commit(kv.value()).map_err(|_| {
            let key = String::from_utf8_lossy(kv.key());
            RequestError::Unusable(format!(
                "the key {key} in etcd is not a commit, is damaged, or is one of a newer version: \
                 upgrade this server"
            ))
        })
    }

    /// Whether keys that could not be read were changed meanwhile.
    async fn is_mended(&self, at: &Position) -> Result<bool, RequestError> {
        let (connection, keys) = (&self.shared.link.connection, &self.shared.link.keys);
        let Some(origin) = &self.known.origin else { return Ok(false) };
        for (key, why) in &origin.unreadable {
            let found = connection.find(key.as_str(), at.revision).await?;
            if unreadable::is_mended(keys, key, why, found.as_ref().map(KeyValue::value)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a key is one that could not be read.
    fn is_unreadable(&self, kv: &KeyValue) -> bool {
        let unreadable = self.known.origin.as_ref().map(|origin| &origin.unreadable);
        let key = || str::from_utf8(kv.key()).unwrap_or_default();
        unreadable.is_some_and(|unreadable| unreadable.contains_key(key()))
    }

    /// Whether a key that was deleted, or the newest revision, is not as Dunlin changes it.
    fn is_suspicious(&self, kv: &KeyValue, is_commit: bool, is_put: bool) -> bool {
        if is_commit {
            // Old ones are deleted.
            let limit = self.known.revision.0.saturating_sub(COMMITS_STORED / 2);
            return kv.key() >= self.shared.link.keys.commit(Revision(limit)).as_bytes();
        }
        let head = Head::read(Some(kv.value()).filter(|_| is_put));
        let is_lower = head.is_none_or(|head| head.revision < self.known.revision);
        kv.mod_revision() > self.known.changed && is_lower
    }

    async fn fill(&self, commit: &mut StoredCommit, kv: &KeyValue) -> Result<(), RequestError> {
        staged::fill(&self.shared.link, commit, kv.mod_revision()).await
    }

    /// Passes on the commits after the known revision, up to a revision of etcd. Returns whether
    /// none is missing.
    async fn catch_up(&mut self, at: i64) -> Result<bool, RequestError> {
        let link = Arc::clone(&self.shared.link);
        let from = link.keys.commit(self.known.revision.next());
        let mut pages = Pages::new(&link.keys.commits(), at).from(from);
        pages.limit = COMMITS_QUEUED as i64;
        while let Some(page) = pages.next(&link.connection).await? {
            for kv in page.kvs() {
                if !self.pass(kv).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Passes on a commit that follows the known one. `false`: everything has to be read.
    ///
    /// # Errors
    /// It does not follow.
    async fn pass(&mut self, kv: &KeyValue) -> Result<bool, RequestError> {
        let mut commit = self.read(kv)?;
        let known = self.known.revision;
        let is_next = match commit.link {
            Some(link) => link.before == self.known.commit,
            // Its number decides, until one has a link.
            None => !self.known.is_linked,
        };
        if commit.is_snapshot {
            self.is_restored = true;
            let adopted = self.shared.link.keys.adopted();
            let adopted = self.shared.link.connection.value(&adopted).await?;
            if is_next || Keys::read_adopted(adopted.as_deref()) > known {
                return Ok(false);
            }
        }
        if !is_next || commit.base != known {
            return Err(self.rewritten("has a commit that does not follow revision", known));
        }
        match self.fill(&mut commit, kv).await {
            Err(RequestError::Compacted) => return Ok(false),
            filled => filled?,
        }
        self.know(kv, &commit);
        let Some(commit) = commit.whole() else {
            let key = String::from_utf8_lossy(kv.key());
            return Err(RequestError::Unusable(format!("the key {key} in etcd is damaged")));
        };
        self.known.revision = commit.revision();
        self.known.last = commit.writes.last().map(identity);
        self.known.newest = None;
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
        let listing = list::read(&self.shared.link, &self.list_path).await?;
        if self.is_bound(listing.adopted) {
            // It may have been emptied or set back since it was looked at.
            self.join(&listing.head).await?;
        }
        let listing = Listing { is_restored: self.is_restored, ..listing };
        self.send(Found::Everything(Box::new(listing))).await;
        pending().await
    }
}
