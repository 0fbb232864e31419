//! Reports when a revision is live: no worker can answer from an older image.
use crate::limits::{LIVE_INTERVAL, LIVE_WAITERS_MAX};
use crate::pending::{Pending, Promise, pending};
use crate::{Refused, Revision};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use zone_manager::{Sequence, ZonePublisher};

#[derive(Default)]
struct LiveState {
    /// The newest revision known to be live.
    live: Revision,
    /// The newest revision passed to the zone manager.
    given: Option<(Revision, Sequence)>,
    waiters: BTreeMap<Revision, Vec<Promise<()>>>,
    count: usize,
    has_ended: bool,
}

#[derive(Default)]
pub struct LiveRevisions {
    state: Mutex<LiveState>,
    changed: Condvar,
}

impl LiveRevisions {
    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers once a revision is live.
    pub fn wait(&self, revision: Revision) -> Pending<()> {
        let mut state = self.lock();
        if revision <= state.live {
            return Pending::answered(Ok(()));
        }
        if state.has_ended {
            return Pending::answered(Err(Refused::Stopping));
        }
        if state.count >= LIVE_WAITERS_MAX {
            return Pending::answered(Err(Refused::Busy));
        }
        let (promise, pending) = pending();
        state.count += 1;
        state.waiters.entry(revision).or_default().push(promise);
        drop(state);
        self.changed.notify_all();
        pending
    }

    /// Everything up to a revision was passed to the zone manager.
    pub fn give(&self, revision: Revision, sequence: Sequence) {
        self.lock().given = Some((revision, sequence));
        self.changed.notify_all();
    }

    /// Answers all waiters with an error.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        drop(waiters);
        self.changed.notify_all();
    }

    /// Answers waiters until it is ended. Polls only while there are any.
    pub fn run(&self, publisher: &ZonePublisher) {
        while let Some((revision, sequence)) = self.next() {
            let Some(generation) = publisher.wait(sequence) else { return self.end() };
            while !publisher.is_live(generation) {
                if self.lock().has_ended {
                    return;
                }
                thread::sleep(LIVE_INTERVAL);
            }
            self.reached(revision);
        }
    }

    /// Waits for a revision that is needed and was passed to the zone manager.
    fn next(&self) -> Option<(Revision, Sequence)> {
        let mut state = self.lock();
        loop {
            if state.has_ended {
                return None;
            }
            let first = state.waiters.keys().next().copied();
            if let (Some(wanted), Some(given)) = (first, state.given)
                && wanted <= given.0
            {
                return Some(given);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn reached(&self, revision: Revision) {
        let mut state = self.lock();
        state.live = revision;
        let later = state.waiters.split_off(&revision.next());
        let reached = std::mem::replace(&mut state.waiters, later);
        state.count -= reached.values().map(Vec::len).sum::<usize>();
        drop(state);
        for promise in reached.into_values().flatten() {
            promise.answer(Ok(()));
        }
    }
}
