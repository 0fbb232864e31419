//! The commits that the writer of this server has to apply.
use crate::follow::Found;
use crate::list::Listing;
use crate::replica::{Replica, edits, join};
use crate::shared::Shared;
use crate::store::adopt;
use keyspace::Task;
use keyspace::limits::STORE_RETRY;
use records::limits::GROUP_EDITS_MAX;
use records::{Commit, CommitError, Revision, StoreError, Watch, WatchLost, WatchWaker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::sleep;
use zone_manager::hold::{Arrival, Evidence, Verdict, judge};

/// Takes each commit into the replica before it passes it on.
pub struct EtcdWatch {
    /// The tasks that follow etcd and sweep. They end first, since they can wake the writer.
    #[expect(dead_code, reason = "dropping them ends them")]
    pub tasks: Vec<Task>,
    /// Wakes the writer when the disk is to be tried again.
    pub retry: Option<Task>,
    pub shared: Arc<Shared>,
    pub replica: Arc<Mutex<Replica>>,
    pub found: Receiver<Found>,
    /// The next of them, which was received already.
    pub next: Option<Found>,
    /// What neither the disk nor the memory took.
    pub pending: Option<Found>,
    /// When the disk is tried again.
    pub retry_at: Option<Instant>,
    pub waker: WatchWaker,
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
            Err(TryRecvError::Disconnected) => return Err(WatchLost::Ended),
            // A timer would cost a millisecond.
            Err(TryRecvError::Empty) if patience.is_zero() => return Ok(None),
            Err(TryRecvError::Empty) => (),
        }
        match self.shared.link.wait(patience, self.found.recv()) {
            Some(None) => Err(WatchLost::Ended),
            found => Ok(found.flatten()),
        }
    }

    /// Adds the commits that wait already: the disk takes them together much faster, and a server
    /// that was away has many.
    fn add_waiting(&mut self, commit: &mut Commit) {
        let mut count = edits(commit);
        while count < GROUP_EDITS_MAX {
            match self.found.try_recv() {
                Ok(Found::Commit(next)) if next.base == commit.revision() => {
                    count += edits(&next);
                    join(commit, next);
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

    /// Whether etcd contradicts itself, or has lost most of what the replica has, and no operator
    /// has replaced it. Then it is not taken until it is another one.
    fn is_held(&self, listing: &Listing) -> bool {
        let why = listing.fault().or_else(|| self.loss(listing));
        let is_held = why.is_some();
        why.into_iter().for_each(|why| self.shared.holds(listing.head.clone(), why));
        is_held
    }

    fn loss(&self, listing: &Listing) -> Option<String> {
        let known = self.replica().revision().unwrap_or(Revision::NONE);
        let had = self.replica().reader().held().map_or(0, |size| size.sets);
        let is_replaced = listing.is_restored || listing.adopted > known;
        let arrival = if is_replaced { Arrival::Whole } else { Arrival::InPlace };
        let (had, has, is_cut) = (Some(had), listing.sets, false);
        if judge(&Evidence { arrival, is_cut, had, has }) != Verdict::Hold {
            return None;
        }
        Some(format!(
            "etcd has {has} record sets, and this server has {}: most were deleted, and not by \
             Dunlin. If etcd is right, run `dunlin fleet adopt`; if not, docs/etcd.md says how to \
             write those of this server again",
            had.unwrap_or_default()
        ))
    }

    /// Saves what was not, when that is due.
    fn save(&mut self) {
        let saved = match self.retry_at {
            Some(at) if at > Instant::now() => return,
            Some(_) => self.replica().save_kept(),
            None => self.replica().check_saved(),
        };
        let was_refused = self.retry_at.take().is_some();
        match saved {
            Err(why) => self.try_later(&why),
            Ok(()) if was_refused && self.pending.is_none() => self.shared.stores(None),
            Ok(()) => (),
        }
    }

    /// The disk has refused something. The thread does other work meanwhile.
    fn try_later(&mut self, why: &StoreError) {
        self.retry_at = Some(Instant::now() + STORE_RETRY);
        let served = match &self.pending {
            None => "what is newer is served from memory, and lost if this server stops",
            Some(_) => "this server serves records as they were",
        };
        self.shared.stores(Some(format!(
            "the copy of etcd on this server cannot be written, and {served}: {why}"
        )));
        let waker = Arc::clone(&self.waker);
        self.retry = Some(self.shared.link.spawn(async move {
            sleep(STORE_RETRY).await;
            waker();
        }));
    }

    /// Takes in a commit, or everything. `Ok(None)`: there is no room for it now.
    fn take(&mut self, found: Found) -> Result<Option<Commit>, WatchLost> {
        let taken = match &found {
            Found::Commit(commit) => self.replica().take(commit),
            Found::Everything(listing) => {
                let listing = Listing::clone(listing);
                adopt(&self.shared, &mut self.replica(), listing).map_err(CommitError::Refused)
            }
        };
        match (taken, found) {
            (Ok(()), Found::Commit(commit)) => {
                self.shared.ends_with(commit.revision(), Some(commit.id));
                Ok(Some(commit))
            }
            // It is read again.
            (Ok(()), Found::Everything(_)) => {
                self.shared.stores(None);
                Err(WatchLost::Replaced)
            }
            (Err(CommitError::Conflict { .. }), _) => Err(WatchLost::Ended),
            (Err(CommitError::Refused(why) | CommitError::Unknown(why)), found) => {
                self.pending = Some(found);
                self.try_later(&why);
                Ok(None)
            }
        }
    }
}

impl Watch for EtcdWatch {
    fn next(&mut self, patience: Duration) -> Result<Option<Commit>, WatchLost> {
        loop {
            self.save();
            let found = match self.pending.take_if(|_| self.retry_at.is_none()) {
                None if self.pending.is_some() => return Ok(None),
                None => self.receive(patience)?,
                pending => pending,
            };
            let found = match found {
                None => return Ok(None),
                Some(Found::Everything(listing)) if self.is_held(&listing) => {
                    return Err(WatchLost::Ended);
                }
                Some(Found::Commit(mut commit)) => {
                    let known = self.replica().revision().unwrap_or(Revision::NONE);
                    // This server's own commits come back.
                    if commit.revision() <= known {
                        continue;
                    }
                    self.add_waiting(&mut commit);
                    Found::Commit(commit)
                }
                Some(found) => found,
            };
            return self.take(found);
        }
    }
}
