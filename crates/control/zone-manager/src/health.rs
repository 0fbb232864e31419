//! Exchange of the zone manager and the prober: the targets that sets name, and the health of each.
use crate::limits::HEALTH_TARGETS_MAX;
use crate::shares::FairShares;
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

impl HealthTarget {
    /// A text that [`from_cursor`](Self::from_cursor) reads: `web,192.0.2.1`.
    pub fn cursor(&self) -> String {
        format!("{},{}", self.check, self.address)
    }

    /// The target of a cursor.
    pub fn from_cursor(text: &str) -> Option<Self> {
        let (check, address) = text.split_once(',')?;
        Some(Self { check: check.into(), address: address.parse().ok()? })
    }
}

/// The key of a zone: its origin in lower case.
pub type ZoneKey = Arc<[u8]>;

/// Which zones have sets that name a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetUse {
    /// These zones.
    Zones(Vec<ZoneKey>),
    /// None, or there are too many targets.
    Unused,
    /// None: the last zone that had such a set is deleted.
    ZoneDeleted,
}

/// The checked targets of all published zones.
pub(crate) struct Targets {
    /// For each target, the zones that name it, and how many of their sets do.
    sets: HashMap<HealthTarget, Vec<(ZoneKey, usize)>>,
    /// The targets that are admitted to the prober.
    shares: FairShares<ZoneKey, HealthTarget>,
    /// The targets whose use has changed since the prober took the changes.
    changed: HashSet<HealthTarget>,
    /// The changed targets whose last zone was deleted.
    deleted: HashSet<HealthTarget>,
}

impl Default for Targets {
    fn default() -> Self {
        let shares = FairShares::new(HEALTH_TARGETS_MAX as u64);
        let (sets, changed, deleted) = (HashMap::new(), HashSet::new(), HashSet::new());
        Self { sets, shares, changed, deleted }
    }
}

/// The targets that sets name, for the prober.
pub struct HealthTable {
    targets: Mutex<Targets>,
    notify: Notify,
    ttl_max: AtomicU32,
    /// The number of sets that answer with members that are down.
    open: AtomicUsize,
    /// The number of targets above the limit at the last report.
    reported: AtomicUsize,
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
            reported: AtomicUsize::default(),
            checks: watch::Sender::default(),
        }
    }
}

impl HealthTable {
    pub(crate) fn targets(&self) -> MutexGuard<'_, Targets> {
        // The lock is never held across code that can panic midway.
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the use of a target changes.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }

    /// The targets whose use has changed since the last call.
    pub fn take_changed(&self) -> Vec<(HealthTarget, TargetUse)> {
        let mut targets = self.targets();
        let changed = std::mem::take(&mut targets.changed);
        let deleted = std::mem::take(&mut targets.deleted);
        let with_use = |target: HealthTarget| {
            let by = match targets.shares.is_admitted(&target) {
                true => TargetUse::Zones(targets.shares.owners(&target).to_vec()),
                false if deleted.contains(&target) => TargetUse::ZoneDeleted,
                false => TargetUse::Unused,
            };
            (target, by)
        };
        changed.into_iter().map(with_use).collect()
    }

    /// How many sets name a target.
    pub fn sets(&self, target: &HealthTarget) -> usize {
        let targets = self.targets();
        let of_zones = targets.sets.get(target).into_iter().flatten();
        of_zones.map(|(_, sets)| sets).sum()
    }

    /// Whether a set names an address as the target of any check.
    pub fn names(&self, address: IpAddr) -> bool {
        self.targets().sets.keys().any(|target| target.address == address)
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

    /// The number of sets that answer with members that are down, because too few others are left
    /// (fail-open).
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(crate) fn set_open(&self, open: usize) {
        self.open.store(open, Relaxed);
    }

    /// The number of targets that are not probed, because there are too many.
    pub fn waiting(&self) -> usize {
        self.targets().shares.waiting()
    }

    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Logs that there are too many targets, once until there are few enough again.
    pub(crate) fn report_waiting(&self, targets: &Targets) {
        let waiting = targets.shares.waiting();
        let before = self.reported.swap(waiting, Relaxed);
        if before == 0 && waiting > 0 {
            tracing::error!(
                waiting,
                max = HEALTH_TARGETS_MAX,
                "too many targets of checks: those of the zones with most of them wait, are not \
                 probed, and their state is unknown"
            );
        }
    }
}

impl Targets {
    /// Adds a set of a zone that names a target.
    pub(crate) fn add_use(&mut self, target: &HealthTarget, zone: &ZoneKey) {
        let zones = self.sets.entry(target.clone()).or_default();
        match zones.iter_mut().find(|(other, _)| other == zone) {
            Some((_, sets)) => return *sets += 1,
            None => zones.push((Arc::clone(zone), 1)),
        }
        self.zones_changed(target);
    }

    /// Removes a set of a zone that named a target. `is_deleted`: the zone is deleted, too.
    pub(crate) fn remove_use(&mut self, target: &HealthTarget, zone: &ZoneKey, is_deleted: bool) {
        let Some(zones) = self.sets.get_mut(target) else { return };
        let Some(at) = zones.iter().position(|(other, _)| other == zone) else { return };
        zones[at].1 -= 1;
        if zones[at].1 > 0 {
            return;
        }
        zones.swap_remove(at);
        if zones.is_empty() {
            self.sets.remove(target);
            if is_deleted {
                self.deleted.insert(target.clone());
            }
        }
        self.zones_changed(target);
    }

    fn zones_changed(&mut self, target: &HealthTarget) {
        match self.sets.get(target) {
            Some(zones) => {
                let zones = zones.iter().map(|(zone, _)| Arc::clone(zone)).collect();
                self.shares.put(target, 1, zones);
            }
            None => self.shares.remove(target),
        }
        self.changed.insert(target.clone());
        let moved = self.shares.take_changes();
        self.changed.extend(moved.into_iter().map(|(target, _)| target));
    }
}
