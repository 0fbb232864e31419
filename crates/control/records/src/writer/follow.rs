//! Applies what other writers of the store have committed.
use super::Writer;
use crate::limits::CATCH_UP_MAX;
use crate::zones::key;
use crate::{Commit, Revision, StoreError, WatchLost, prepare};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Writer {
    /// Watches the store from the known revision on.
    pub(super) fn watch_store(&mut self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let waker = Arc::new(move || shared.queue.wake());
        self.watch = self.store.watch(self.revision, waker)?;
        Ok(())
    }

    /// Applies and publishes the commits that have arrived. The group must be empty.
    pub(super) fn follow(&mut self) {
        if self.watch.is_none() || self.is_unsure {
            return;
        }
        let before = self.revision;
        if self.apply_commits(|_| Some(Duration::ZERO)).is_err() {
            self.read_everything();
        } else if self.revision != before {
            self.published();
        }
    }

    /// Applies commits of other writers up to a revision, or reads the whole store. Then takes
    /// those that arrive in this time.
    pub(super) fn catch_up(&mut self, newest: Revision, wait: Duration) {
        let began = Instant::now();
        let left = |revision| {
            let until = began + if revision < newest { CATCH_UP_MAX } else { wait };
            Some(until.saturating_duration_since(Instant::now()))
        };
        if self.apply_commits(left).is_err() || self.revision < newest {
            self.read_everything();
        } else {
            self.published();
        }
    }

    /// Reads the whole store, because commits of others are missing.
    fn read_everything(&mut self) {
        self.is_unsure = true;
        // `try_again` logs a failure; requests are refused with it.
        let _ = self.make_sure();
    }

    /// Applies commits while `patience` says how long to wait for the next one.
    fn apply_commits(
        &mut self,
        patience: impl Fn(Revision) -> Option<Duration>,
    ) -> Result<(), WatchLost> {
        let Some(mut watch) = self.watch.take() else { return Ok(()) };
        while let Some(patience) = patience(self.revision) {
            let next = watch.next(patience);
            self.is_replaced |= next.as_ref().is_err_and(|lost| *lost == WatchLost::Replaced);
            let Some(commit) = next? else { break };
            self.apply_commit(commit)?;
        }
        self.watch = Some(watch);
        Ok(())
    }

    fn apply_commit(&mut self, commit: Commit) -> Result<(), WatchLost> {
        if commit.revision() <= self.revision {
            return Ok(());
        }
        if commit.base != self.revision {
            return Err(WatchLost::Ended);
        }
        for write in commit.writes {
            let (at, revision) = (key(write.zone.as_name()), write.revision);
            if let Some(mirror) = &self.shared.mirror {
                mirror.delay.record(write.when);
            }
            if !self.shared.serves(write.zone.as_name()) {
                self.revision = revision;
                continue;
            }
            let head = self.heads.remove(&at);
            let was_there = head.is_some();
            match prepare::follow(head, write, &self.key, &self.shared.views) {
                Ok(head) => self.heads.extend(head.map(|head| (at.clone(), head))),
                Err(why) => {
                    tracing::error!("a write of another server is not valid here: {why}");
                    return Err(WatchLost::Ended);
                }
            }
            self.revision = revision;
            self.publish_changed(&at, was_there);
            self.note_digests(std::iter::once(&*at));
        }
        Ok(())
    }
}
