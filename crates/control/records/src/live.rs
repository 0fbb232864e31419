//! Reports when a revision is live: no worker can answer from an older image.
use crate::limits::LIVE_WAITERS_MAX;
use crate::pending::{Pending, Promise, pending};
use crate::shared::SharedService;
use crate::{Refused, Revision};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zone_manager::Sequence;

#[derive(Default)]
struct LiveState {
    /// The newest revision known to be live.
    live: Revision,
    /// The newest revision passed to the zone manager.
    given: Option<(Revision, Sequence)>,
    /// The zone manager was asked to report this revision.
    asked: Option<Revision>,
    waiters: BTreeMap<Revision, Vec<Promise<()>>>,
    count: usize,
    has_ended: bool,
}

#[derive(Default)]
pub struct LiveRevisions(Mutex<LiveState>);

impl LiveRevisions {
    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers once a revision is live.
    pub fn wait(shared: &Arc<SharedService>, revision: Revision) -> Pending<()> {
        let mut state = shared.live.lock();
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
        Self::ask(shared);
        pending
    }

    /// Everything up to a revision was passed to the zone manager.
    pub fn give(shared: &Arc<SharedService>, revision: Revision, sequence: Sequence) {
        shared.live.lock().given = Some((revision, sequence));
        Self::ask(shared);
    }

    /// Asks the zone manager to report the newest revision, if someone waits for it or an earlier
    /// one and it was not asked yet. A fleet always waits.
    fn ask(shared: &Arc<SharedService>) {
        let mut state = shared.live.lock();
        let Some((revision, sequence)) = state.given else { return };
        if state.asked.is_some_and(|asked| revision <= asked) {
            return;
        }
        let from = state.asked.map_or(Revision::NONE, Revision::next);
        let is_readable = || shared.health.read_refusal().is_none();
        let fleet = shared.fleet.clone().filter(|_| is_readable());
        if fleet.is_none() && state.waiters.range(from..=revision).next().is_none() {
            return;
        }
        state.asked = Some(revision);
        drop(state);
        let live = Arc::clone(shared);
        shared.publisher.when_live(sequence, move |is_live| {
            if !is_live {
                return live.live.end();
            }
            live.live.reached(revision);
            if let Some(fleet) = fleet {
                fleet.serves(revision);
            }
        });
    }

    /// Answers all waiters with an error.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        drop(waiters);
    }

    fn reached(&self, revision: Revision) {
        let mut state = self.lock();
        state.live = state.live.max(revision);
        let later = state.waiters.split_off(&revision.next());
        let reached = std::mem::replace(&mut state.waiters, later);
        state.count -= reached.values().map(Vec::len).sum::<usize>();
        drop(state);
        for promise in reached.into_values().flatten() {
            promise.answer(Ok(()));
        }
    }
}
