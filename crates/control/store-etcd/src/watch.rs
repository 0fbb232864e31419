//! The commits that the writer of this server has to apply.
use crate::follow::Found;
use crate::limits::STORE_RETRY;
use crate::list::Listing;
use crate::replica::Replica;
use crate::shared::Shared;
use crate::store::adopt;
use records::limits::GROUP_EDITS_MAX;
use records::{Commit, CommitError, Revision, Watch, WatchLost, WatchWaker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zone_manager::hold::{Arrival, Evidence, Verdict, judge};

/// Applies each commit to the replica before it passes it on.
pub struct EtcdWatch {
    pub shared: Arc<Shared>,
    pub replica: Arc<Mutex<Replica>>,
    pub found: Receiver<Found>,
    /// The next of them, which was received already.
    pub next: Option<Found>,
    /// What the disk did not take yet, and when it is tried again.
    pub pending: Option<(Found, Instant)>,
    pub waker: WatchWaker,
    pub tasks: Vec<JoinHandle<()>>,
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl EtcdWatch {
    fn replica(&self) -> MutexGuard<'_, Replica> {
        self.replica.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Found>, WatchLost> {
        if let Some(found) = self.next.take() {
            return Ok(Some(found));
        }
        match self.found.try_recv() {
            Ok(found) => return Ok(Some(found)),
            Err(TryRecvError::Disconnected) => return Err(WatchLost),
            Err(TryRecvError::Empty) if patience.is_zero() => return Ok(None),
            Err(TryRecvError::Empty) => (),
        }
        let runtime = self.shared.link.runtime.clone();
        let received = async { timeout(patience, self.found.recv()).await };
        match runtime.block_on(received) {
            Ok(Some(found)) => Ok(Some(found)),
            Ok(None) => Err(WatchLost),
            Err(_) => Ok(None),
        }
    }

    /// Adds the commits that wait already: the disk takes them together much faster, and a server
    /// that was away has many.
    fn add_waiting(&mut self, commit: &mut Commit) {
        let edits = |commit: &Commit| -> usize {
            commit.writes.iter().map(|write| write.changes().len()).sum()
        };
        let mut count = edits(commit);
        while count < GROUP_EDITS_MAX {
            match self.found.try_recv() {
                Ok(Found::Commit(next)) if next.base == commit.revision() => {
                    count += edits(&next);
                    commit.id = next.id;
                    commit.writes.extend(next.writes);
                }
                Ok(found) => {
                    self.next = Some(found);
                    return;
                }
                // What comes later, and the end, is received later.
                Err(_) => return,
            }
        }
    }

    /// Whether etcd has lost most of what the replica has, and no operator has replaced it. Then it
    /// is not taken.
    fn is_held(&self, listing: &Listing) -> bool {
        let known = self.replica().revision().unwrap_or(Revision::NONE);
        let had = self.replica().reader().held().map_or(0, |size| size.sets);
        let is_replaced = listing.is_restored || listing.adopted > known;
        let arrival = if is_replaced { Arrival::Whole } else { Arrival::InPlace };
        let (had, has, is_cut) = (Some(had), listing.sets, false);
        if judge(&Evidence { arrival, is_cut, had, has }) != Verdict::Hold {
            return false;
        }
        let why = format!(
            "etcd has {has} record sets, and this server has {}: most were deleted, and not by \
             Dunlin. If etcd is right, run `dunlin fleet adopt`; if not, docs/etcd.md says how to \
             write those of this server again",
            had.unwrap_or_default()
        );
        self.shared.holds(listing.head.clone(), why);
        true
    }

    /// The disk refused it. The thread does other work meanwhile.
    fn try_later(&mut self, found: Found) {
        self.pending = Some((found, Instant::now() + STORE_RETRY));
        let waker = Arc::clone(&self.waker);
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(self.shared.link.runtime.spawn(async move {
            sleep(STORE_RETRY).await;
            waker();
        }));
    }

    /// Applies a commit to the replica. `Ok(None)`: the disk refuses it for now.
    fn apply(&mut self, commit: Commit) -> Result<Option<Commit>, WatchLost> {
        let applied = self.replica().apply(commit.clone());
        match applied {
            Ok(revision) => {
                self.shared.ends_with(revision, Some(commit.id));
                self.shared.stores(true, "");
                Ok(Some(commit))
            }
            Err(CommitError::Conflict { .. }) => Err(WatchLost),
            Err(CommitError::Refused(why) | CommitError::Unknown(why)) => {
                self.shared.stores(false, &format!("the copy of etcd cannot be written: {why}"));
                self.try_later(Found::Commit(commit));
                Ok(None)
            }
        }
    }
}

impl Watch for EtcdWatch {
    fn next(&mut self, patience: Duration) -> Result<Option<Commit>, WatchLost> {
        loop {
            let found = match self.pending.take_if(|(_, at)| *at <= Instant::now()) {
                Some((found, _)) => found,
                None if self.pending.is_some() => return Ok(None),
                None => match self.receive(patience)? {
                    Some(found) => found,
                    None => return Ok(None),
                },
            };
            let commit = match found {
                Found::Commit(commit) => commit,
                Found::Everything(listing) if self.is_held(&listing) => return Err(WatchLost),
                Found::Everything(listing) => {
                    let adopted =
                        adopt(&self.shared, &mut self.replica(), Listing::clone(&listing));
                    if adopted.is_ok() {
                        return Err(WatchLost);
                    }
                    self.try_later(Found::Everything(listing));
                    return Ok(None);
                }
            };
            let known = self.replica().revision().unwrap_or(Revision::NONE);
            // This server's own commits come back.
            if commit.revision() > known {
                let mut commit = commit;
                self.add_waiting(&mut commit);
                return self.apply(commit);
            }
        }
    }
}
