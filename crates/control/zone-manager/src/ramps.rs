//! Sets whose weights change over time, by the time of their next step.
//!
//! A weight follows from the set and the time alone (`model::WeightRamp`), so a server that was
//! restarted and the others of its fleet publish the same weights at the same time.
use crate::aliases::NameId;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use wire::Rtype;

/// Tells the time since 1970.
pub type WallClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A set: its name and type.
pub(crate) type SetId = (NameId, Rtype);

/// The sets, and the clock.
pub(crate) struct Ramps {
    clock: WallClock,
    /// Each set with the second of its next step; `None`: its weights have become what they are. It
    /// stays, because a clock may go back.
    sets: HashMap<SetId, Option<u64>>,
    steps: BTreeSet<(u64, SetId)>,
    /// The second for which steps were made last.
    made: u64,
}

impl Ramps {
    pub fn new(clock: WallClock) -> Self {
        Self { clock, sets: HashMap::new(), steps: BTreeSet::new(), made: 0 }
    }

    /// The second since 1970.
    pub fn now(&self) -> u64 {
        (self.clock)().as_secs()
    }

    /// Notes a set with weights that change, and its next step.
    pub fn put(&mut self, id: SetId, next: Option<u64>) {
        self.remove(&id);
        if let Some(next) = next {
            self.steps.insert((next, id.clone()));
        }
        self.sets.insert(id, next);
    }

    pub fn remove(&mut self, id: &SetId) {
        if let Some(Some(next)) = self.sets.remove(id) {
            self.steps.remove(&(next, id.clone()));
        }
    }

    /// How long until steps may be due: until the next second begins, so that all servers make a
    /// step together, and a clock that was set is noticed. `None`: no weight changes.
    pub fn pause(&self) -> Option<Duration> {
        let within = Duration::from_nanos((self.clock)().subsec_nanos().into());
        (!self.sets.is_empty()).then(|| Duration::from_secs(1) - within)
    }

    /// The sets whose weights may be others now: with a step since the last call, or all, if the
    /// clock was set back.
    pub fn take_due(&mut self) -> Vec<SetId> {
        if self.sets.is_empty() {
            return Vec::new();
        }
        let now = self.now();
        if now < std::mem::replace(&mut self.made, now) {
            return self.sets.keys().cloned().collect();
        }
        let mut due = Vec::new();
        while self.steps.first().is_some_and(|(next, _)| *next <= now)
            && let Some((_, id)) = self.steps.pop_first()
        {
            self.sets.insert(id.clone(), None);
            due.push(id);
        }
        due
    }
}
