//! Tells when a revision is live: when every worker serves it, or must before it reads anything.
use crate::limits::{LIVE_INTERVAL, LIVE_WAITERS_MAX};
use crate::pending::{Pending, Promise, pending};
use crate::{Refused, Revision};
use control::{Control, Ticket};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

#[derive(Default)]
struct State {
    /// What every worker serves, as far as it was asked.
    live: Revision,
    /// What was given to control last.
    given: Option<(Revision, Ticket)>,
    waiters: BTreeMap<Revision, Vec<Promise<()>>>,
    count: usize,
    has_ended: bool,
}

#[derive(Default)]
pub struct Live {
    state: Mutex<State>,
    changed: Condvar,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, State> {
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

    /// What was written up to a revision was given to control.
    pub fn give(&self, revision: Revision, ticket: Ticket) {
        self.lock().given = Some((revision, ticket));
        self.changed.notify_all();
    }

    /// Nobody is answered any more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        drop(waiters);
        self.changed.notify_all();
    }

    /// Answers who waits until it is ended. It looks only while somebody does.
    pub fn run(&self, control: &Control) {
        while let Some((revision, ticket)) = self.next() {
            let Some(generation) = control.wait(ticket) else { return self.end() };
            while !control.is_live(generation) {
                if self.lock().has_ended {
                    return;
                }
                thread::sleep(LIVE_INTERVAL);
            }
            self.reached(revision);
        }
    }

    /// What somebody waits for and control was given.
    fn next(&self) -> Option<(Revision, Ticket)> {
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
