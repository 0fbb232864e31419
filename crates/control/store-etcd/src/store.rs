//! The store.
mod replace;
mod upgrade;

use crate::commit::{self, Committed};
use crate::commit_lock::CommitLock;
use crate::encoding::{self, CommitName, Link, NO_COMMIT};
use crate::follow::{CommitFollower, Known};
use crate::limits::{BATCH_CONFLICTS_MAX, COMMITS_QUEUED, OUTCOME_MAX};
use crate::list::{self, Listing};
use crate::replica::{Origin, Replica};
use crate::shared::Shared;
use crate::watch::EtcdWatch;
use crate::{staged, unreadable};
use etcd_link::RequestError;
use fleet_members::{EtcdFleet, Membership};
use keyspace::keys::Head;
use keyspace::limits::{FIRST_LIST_MAX, WRITE_MAX};
use keyspace::{EtcdSettings, FollowedKeys, History, Position};
use records::{
    Action, Commit, CommitError, CommitId, Fleet, Form, PreparedWrite, Reader, RestoreInfo,
    Revision, Store, StoreError, Watch, WatchWaker,
};
use server_status::FleetStatus;
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use store::codec::zone_key;
use tokio::sync::mpsc::channel;

/// A store that any number of servers share.
pub struct EtcdStore {
    pub(crate) shared: Arc<Shared>,
    replica: Arc<Mutex<Replica>>,
    /// Reads what fills a new replica.
    first: Option<EtcdWatch>,
    fleet: Arc<EtcdFleet>,
    /// Makes this server a member of the fleet while the store is open.
    membership: Option<Membership>,
    /// Whether it is a copy of another site's, of whose fleet this server is no member.
    is_mirror: bool,
    /// How often other servers were first with a commit before the large batch of this one, and
    /// the lock that it then takes.
    conflicts: u32,
    lock: Option<CommitLock>,
    /// The last commit, whose outcome may be unknown.
    last: Option<CommitName>,
}

impl EtcdStore {
    /// The store of a server, not yet open. Its replica is in `data_dir`.
    ///
    /// # Errors
    /// The folder cannot be created, or no thread can be started.
    pub fn closed(data_dir: &Path, settings: EtcdSettings) -> Result<Self, StoreError> {
        let replica = Replica::closed(data_dir)?;
        let (member, is_mirror) = (settings.member.clone(), settings.site.is_some());
        let shared = Shared::start(settings)
            .map_err(|why| StoreError::Failed(format!("no thread for etcd: {why}")))?;
        let following = Arc::clone(&shared);
        replica.store.set_condition(Box::new(move || following.writable()));
        let replica = Arc::new(Mutex::new(replica));
        let (link, report) = (Arc::clone(&shared.link), Arc::clone(&shared.report));
        let copy = Arc::clone(&shared);
        let add_copy = Box::new(move |status: &mut FleetStatus| {
            (status.unsaved, status.unreadable) = (copy.unsaved(), copy.unreadable());
        });
        let fleet = EtcdFleet::new(link, report, member, add_copy);
        Ok(Self {
            shared,
            replica,
            first: None,
            fleet,
            membership: None,
            is_mirror,
            conflicts: 0,
            lock: None,
            last: None,
        })
    }

    /// The servers that share it.
    pub fn fleet(&self) -> Arc<dyn Fleet> {
        Arc::<EtcdFleet>::clone(&self.fleet)
    }

    fn replica(&self) -> MutexGuard<'_, Replica> {
        self.replica.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills a new replica once everything was read.
    fn fill(&mut self) -> Result<(), StoreError> {
        self.shared.begins_with_form(self.replica().store.form());
        if self.replica().origin.is_none() {
            let from = self.replica().revision()?;
            let first = self.first.take().map_or_else(|| self.follow(from, Arc::new(|| ())), Ok);
            let mut watch = first?;
            // A small fleet is there at once; the writer asks again otherwise.
            let is_over = watch.next(FIRST_LIST_MAX).is_err();
            if self.replica().origin.is_none() {
                self.first = Some(watch).filter(|_| !is_over);
                let reading = || "everything is being read from etcd".to_owned();
                let why = self.shared.writable().err().map_or_else(reading, |why| why.to_string());
                return Err(StoreError::Unreachable(format!("its outcome is unknown: {why}")));
            }
        }
        if self.membership.is_none() && !self.is_mirror {
            self.membership = Some(self.fleet.join());
        }
        Ok(())
    }

    /// Opens the replica. One that cannot be used is set aside if etcd has what it had.
    fn open_replica(&self, waits: bool) -> Result<(), StoreError> {
        let mut replica = self.replica();
        let keys = &self.shared.link.keys;
        let why = match replica.open(keys, waits) {
            Err(StoreError::Damaged(why)) => why,
            opened => return opened,
        };
        let folder = replica.folder().display().to_string();
        let link = &self.shared.link;
        let reason = match link.wait(FIRST_LIST_MAX, Position::read(link)).and_then(Result::ok) {
            None => Some("is filled from etcd once etcd can be asked".to_owned()),
            Some(at) => replica.told_origin().and_then(|(cluster, revision)| {
                let found = at.head(keys).map_or(0, |head| head.revision.0);
                match () {
                    () if at.cluster != cluster => Some(format!(
                        "was one of the etcd {cluster}, and not of {}: correct `[etcd] endpoints`, \
                         or remove it",
                        at.cluster
                    )),
                    () if found < revision.0 => Some(format!(
                        "had revision {revision}, and etcd has only revision {found}: restore \
                         etcd, or remove the folder, and what etcd has is served"
                    )),
                    () => None,
                }
            }),
        };
        if let Some(reason) = reason {
            return Err(StoreError::Failed(format!("{why}; the copy in {folder} {reason}")));
        }
        replica.set_aside()?;
        tracing::error!(
            "the copy of etcd in {folder} cannot be used, is in its folder `unusable` from now \
             on, and is filled from etcd again: {why}"
        );
        replica.open(keys, waits)
    }

    /// What the replica knows, for one who has read it at a revision.
    fn known(&self, from: Revision) -> Result<Known, StoreError> {
        let mut replica = self.replica();
        let revision = replica.revision_from(from)?;
        let reader = replica.reader();
        let mut zone = None;
        reader.scan_zones(None, &mut |stored| {
            if stored.stamp.revision != revision {
                return ControlFlow::Continue(());
            }
            zone = Some(stored.origin);
            ControlFlow::Break(())
        })?;
        let before = Revision(revision.0.saturating_sub(1));
        let part = match &zone {
            Some(zone) => reader.journal(zone.as_name(), before, 1)?,
            None => None,
        };
        let entry = part.and_then(|part| part.entries.into_iter().next());
        let last = entry.map(|entry| (store::codec::milliseconds(entry.when), entry.by));
        let newest = replica.last_commit(revision);
        let (origin, commit) = (replica.origin.clone(), NO_COMMIT);
        Ok(Known { revision, origin, newest, last, commit, is_linked: false, changed: 0 })
    }

    /// Begins to follow etcd from a revision of the replica.
    fn follow(&self, from: Revision, waker: WatchWaker) -> Result<EtcdWatch, StoreError> {
        let known = self.known(from)?;
        if known.revision != from {
            return Err(StoreError::Failed(format!(
                "the copy of etcd is at revision {}, not {from}",
                known.revision
            )));
        }
        let (send, found) = channel(COMMITS_QUEUED);
        let list_path = self.replica().list_path();
        let shared = Arc::clone(&self.shared);
        let folder = self.replica().folder().to_owned();
        let position =
            |origin: &Origin| Position { cluster: origin.cluster.clone(), ..Position::default() };
        let unreadable = known.origin.as_ref().map(|origin| origin.unreadable.clone());
        let unreadable = unreadable.unwrap_or_default();
        let keys = &shared.link.keys;
        let mut prefixes = vec![keys.commits(), keys.revision(), keys.format()];
        prefixes.extend(unreadable.keys().cloned());
        shared.notes_unreadable(unreadable);
        let history = History::new(&folder, known.origin.as_ref().map(position));
        let followed = FollowedKeys::new(&shared.link, prefixes, history, &shared.report);
        let follower = CommitFollower {
            shared,
            known,
            list_path,
            found: send,
            waker: Arc::clone(&waker),
            is_restored: false,
            awaited: None,
        };
        let shared = Arc::clone(&self.shared);
        let link = &self.shared.link;
        let mut tasks = vec![link.spawn(followed.follow(follower))];
        if self.shared.link.may_write {
            tasks.push(link.spawn(async move { staged::sweep(&shared).await }));
        }
        let (shared, replica) = (Arc::clone(&self.shared), Arc::clone(&self.replica));
        let (next, pending, retry_at, retry) = (None, None, None, None);
        Ok(EtcdWatch { shared, replica, found, next, pending, retry_at, waker, tasks, retry })
    }

    /// Gives each write the offset of its zone's serials, so that it depends on nothing else.
    fn fill_offsets(&self, writes: &mut [PreparedWrite]) -> Result<(), StoreError> {
        let reader = self.replica().reader();
        let mut offsets: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for write in writes {
            let zone = write.zone.as_name();
            let key = zone_key(zone);
            let is_new = matches!(write.action, Action::Create(_));
            let before = match offsets.get(&key) {
                _ if is_new => 0,
                Some(offset) => *offset,
                None => reader.zone(zone)?.map_or(0, |zone| zone.stamp.offset),
            };
            let offset = write.offset.get_or_insert(before);
            offsets.insert(key, *offset);
        }
        Ok(())
    }

    fn commit_in(
        &self,
        (name, content): (CommitName, &[u8]),
        writes: &[PreparedWrite],
        until: Instant,
    ) -> Result<Committed, CommitError> {
        let left = || until.saturating_duration_since(Instant::now());
        let head = self.shared.head(left()).map_err(CommitError::Refused)?;
        let named = (name, content);
        let limits = (until, self.lock.is_some());
        let committing = commit::commit(&self.shared, named, writes, head, limits);
        let done = self.shared.link.wait(left(), committing);
        let late = || Err(CommitError::Unknown(StoreError::Unreachable(late())));
        done.map_or_else(late, |done| done.map_err(commit_error))
    }

    /// Reads everything from etcd.
    fn list(&self) -> Result<Listing, StoreError> {
        let path = self.replica().asked_list_path();
        let listing = self.shared.link.runtime.block_on(list::read(&self.shared.link, &path));
        listing.map_err(|error| StoreError::Unreachable(error.why().to_owned()))
    }
}

fn late() -> String {
    format!("etcd did not answer within {} s", WRITE_MAX.as_secs())
}

fn store_error(error: RequestError) -> StoreError {
    match error {
        RequestError::NoSpace(why) => StoreError::NoSpace(why),
        error => StoreError::Unreachable(error.why().to_owned()),
    }
}

fn commit_error(error: RequestError) -> CommitError {
    match error {
        RequestError::Unanswered(_) => CommitError::Unknown(store_error(error)),
        error => CommitError::Refused(store_error(error)),
    }
}

/// Replaces the replica by a full list.
///
/// # Errors
/// Its disk.
pub fn adopt(shared: &Shared, replica: &mut Replica, listing: Listing) -> Result<(), StoreError> {
    let keys = &shared.link.keys;
    if let Some(why) = listing.fault() {
        return Err(StoreError::Unreachable(why));
    }
    let Listing { file, origin, head, .. } = listing;
    let list = (&*file, head.revision, shared.form());
    unreadable::keep_copies(list, keys, &origin.unreadable, &*replica.reader())?;
    let (revision, last) = (head.revision, origin.commit());
    replica.replace(&file, origin).inspect_err(|why| {
        shared.report.report_fault(&format!("what was read from etcd cannot be stored: {why}"));
    })?;
    replica.find_incomplete(keys)?;
    shared.ends_with(revision, last);
    shared.was_read();
    tracing::info!(%revision, "everything was read from etcd");
    Ok(())
}

impl Store for EtcdStore {
    fn commit(&mut self, mut commit: Commit) -> Result<Revision, CommitError> {
        // What is only in memory could be lost.
        self.replica().check_saved().map_err(CommitError::Refused)?;
        let newest = self.replica().revision().map_err(CommitError::Refused)?;
        if newest != commit.base {
            return Err(CommitError::Conflict { newest });
        }
        self.fill_offsets(&mut commit.writes).map_err(CommitError::Refused)?;
        let content = encoding::writes(&commit.writes);
        let until = Instant::now() + WRITE_MAX;
        // What etcd ends with is known once it is followed.
        self.shared.head(WRITE_MAX).map_err(CommitError::Refused)?;
        let before = self.shared.last_commit(commit.base).map_err(CommitError::Refused)?;
        let link = Link { before, nonce: commit.id };
        let name = CommitName::new(link, commit.base, commit.revision(), &content);
        self.last = Some(name);
        let done = self.commit_in((name, &content), &commit.writes, until);
        match done {
            Ok(Committed::Conflict { was_staged: true, .. }) => {
                self.conflicts += 1;
                if self.conflicts >= BATCH_CONFLICTS_MAX && self.lock.is_none() {
                    let link = &self.shared.link;
                    // The batch is tried again anyway.
                    self.lock = link.runtime.block_on(CommitLock::take(link)).ok();
                }
            }
            // A small write between the attempts of a batch.
            Ok(Committed::Conflict { .. }) => (),
            _ => (self.conflicts, self.lock) = (0, None),
        }
        match done? {
            Committed::Conflict { newest, .. } => Err(CommitError::Conflict { newest }),
            Committed::Done => {
                self.shared.notes(Head::new(name.newest, name.id));
                commit.id = name.id;
                self.replica().take(&commit).map_err(|why| match why {
                    // The watch brings it, too, once the disk works.
                    CommitError::Refused(why) => CommitError::Unknown(why),
                    why => why,
                })?;
                self.shared.ends_with(name.newest, Some(name.id));
                Ok(name.newest)
            }
        }
    }

    fn outcome(&mut self, id: CommitId) -> Result<Option<Revision>, StoreError> {
        let failed = |why: &str| StoreError::Failed(why.to_owned());
        let Some(last) = self.last.filter(|last| last.link.nonce == id) else {
            return Err(failed("only the outcome of the last commit is known"));
        };
        match self.shared.link.wait(OUTCOME_MAX, commit::outcome(&self.shared, last)) {
            Some(Ok(Some(revision))) if self.replica().revision()? < revision => {
                Err(failed("it is in etcd, and not yet in the copy on this server"))
            }
            Some(found) => found.map_err(store_error),
            None => Err(StoreError::Unreachable(late())),
        }
    }

    fn watch(
        &mut self,
        from: Revision,
        waker: WatchWaker,
    ) -> Result<Option<Box<dyn Watch>>, StoreError> {
        Ok(Some(Box::new(self.follow(from, waker)?)))
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.replica().revision()
    }

    fn latest(&mut self) -> Result<Revision, StoreError> {
        self.shared.head(WRITE_MAX)?;
        let link = &self.shared.link;
        let head = link.runtime.block_on(commit::head(link)).map_err(store_error)?;
        Ok(head.revision)
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        self.replica().store.tidy()
    }

    fn restore(&mut self, from: &mut dyn Read, write: &RestoreInfo) -> Result<(), StoreError> {
        // An etcd that this server does not follow is left alone.
        self.shared.head(WRITE_MAX)?;
        self.locking_out_others(|store| {
            let head = store.shared.head(WRITE_MAX)?;
            if head.revision > store.replica().revision()? {
                let why = "another server has just written: try again".to_owned();
                return Err(StoreError::Unreachable(why));
            }
            store.replace_all(from, write.revision, head, false)
        })
    }

    /// etcd's content becomes a new write, above all revisions that this server knows. A server
    /// that does not write takes it as it is, if it is not older.
    fn adopt(&mut self) -> Result<bool, StoreError> {
        if !self.shared.link.may_write {
            let listing = self.list()?;
            let (known, newest) = (self.replica().revision()?, listing.head.revision);
            if newest < known {
                return Err(StoreError::Unreachable(format!(
                    "etcd has revision {newest}, and this server has revision {known} already: \
                     run `dunlin fleet adopt` on a server with the role `api` first"
                )));
            }
            return adopt(&self.shared, &mut self.replica(), listing).map(|()| true);
        }
        self.locking_out_others(Self::adopt_by_writing).map(|()| true)
    }

    fn form(&self) -> Form {
        self.shared.form()
    }

    fn upgrade(&mut self) -> Result<(), StoreError> {
        // An etcd that this server does not follow is left alone.
        self.shared.head(WRITE_MAX)?;
        upgrade::raise(&self.shared)
    }

    fn close(&mut self) {
        self.membership = None;
        self.replica().store.close();
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.open_replica(true)?;
        self.fill()
    }

    fn open_now(&mut self) -> Result<(), StoreError> {
        self.open_replica(false)?;
        self.fill()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.replica().reader()
    }
}
