//! What the zone manager and the prober tell each other: the targets that sets name, and the
//! health of each.
use crate::limits::HEALTH_TARGETS_MAX;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// An address that a check probes. The check has the port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HealthTarget {
    /// The name of the check.
    pub check: Arc<str>,
    /// The address.
    pub address: IpAddr,
}

/// `192.0.2.1 by web`.
impl fmt::Display for HealthTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.address, self.check)
    }
}

/// Classes of members, the one that is answered first is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberClass {
    /// It passes its check.
    Up,
    /// Nothing is known of it.
    Unknown,
    /// It fails its check, and passed once.
    DownOnceUp,
    /// It fails its check, and never passed.
    Down,
    /// An operator has taken it out.
    Drained,
}

/// The checked targets of all published zones.
#[derive(Default)]
pub(crate) struct Targets {
    /// How many sets name each.
    sets: HashMap<HealthTarget, usize>,
    /// Those that came or went since the prober looked.
    changed: HashSet<HealthTarget>,
}

/// The targets that sets name, for the prober.
pub struct HealthTable {
    targets: Mutex<Targets>,
    notify: Notify,
    ttl_max: AtomicU32,
    /// Sets that answer members that are down.
    open: AtomicUsize,
    /// Targets above the limit.
    refused: AtomicUsize,
    checks: watch::Sender<CheckNames>,
}

/// The names of all checks.
pub type CheckNames = Arc<BTreeSet<String>>;

impl Default for HealthTable {
    fn default() -> Self {
        Self {
            targets: Mutex::default(),
            notify: Notify::new(),
            ttl_max: AtomicU32::new(30),
            open: AtomicUsize::default(),
            refused: AtomicUsize::default(),
            checks: watch::Sender::default(),
        }
    }
}

impl HealthTable {
    pub(crate) fn targets(&self) -> MutexGuard<'_, Targets> {
        // The lock is never held across code that can panic midway.
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until targets come or go.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }

    /// The targets that came or went since the last call; true: sets name it now.
    pub fn take_changed(&self) -> Vec<(HealthTarget, bool)> {
        let mut targets = self.targets();
        let changed = std::mem::take(&mut targets.changed);
        let is_named = |target: &HealthTarget| targets.sets.contains_key(target);
        changed.into_iter().map(|target| (is_named(&target), target)).map(|(a, b)| (b, a)).collect()
    }

    /// How many sets name a target.
    pub fn sets(&self, target: &HealthTarget) -> usize {
        self.targets().sets.get(target).copied().unwrap_or_default()
    }

    /// The names of all checks, and their changes: for sources whose objects name checks.
    pub fn checks(&self) -> watch::Receiver<CheckNames> {
        self.checks.subscribe()
    }

    /// Sets the names of all checks.
    pub fn set_checks(&self, names: BTreeSet<String>) {
        self.checks.send_replace(Arc::new(names));
    }

    /// The longest TTL of a set with a check, in seconds.
    pub fn ttl_max(&self) -> u32 {
        self.ttl_max.load(Relaxed)
    }

    /// Sets the longest TTL of sets with a check. Sets that are published already keep theirs.
    pub fn set_ttl_max(&self, seconds: u32) {
        self.ttl_max.store(seconds, Relaxed);
    }

    /// How many sets answer members that are down, because they have too few others (fail-open).
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(crate) fn set_open(&self, open: usize) {
        self.open.store(open, Relaxed);
    }

    /// How many targets were not taken because there were too many.
    pub fn refused(&self) -> usize {
        self.refused.load(Relaxed)
    }

    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    pub(crate) fn name(&self, targets: &mut Targets, target: &HealthTarget) {
        if let Some(sets) = targets.sets.get_mut(target) {
            *sets += 1;
            return;
        }
        if targets.sets.len() >= HEALTH_TARGETS_MAX {
            if self.refused.fetch_add(1, Relaxed) == 0 {
                tracing::error!(%target, max = HEALTH_TARGETS_MAX,
                    "too many targets of checks: this one and further ones are not probed, and \
                     their state stays unknown");
            }
            return;
        }
        targets.sets.insert(target.clone(), 1);
        targets.changed.insert(target.clone());
    }
}

impl Targets {
    pub(crate) fn unname(&mut self, target: &HealthTarget) {
        let Some(sets) = self.sets.get_mut(target) else { return };
        *sets -= 1;
        if *sets == 0 {
            self.sets.remove(target);
            self.changed.insert(target.clone());
        }
    }
}
