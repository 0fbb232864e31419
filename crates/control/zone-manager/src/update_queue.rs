//! The queue of zone updates, keyed by what they change. The latest update wins, so many updates of
//! one thing need the room of one.
use crate::limits::{COLLECT_INTERVAL, UPDATES_MAX};
use compile::Zone;
use model::Change;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use wire::{Name, NameBuf, Rtype};

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateQueueFull;

impl fmt::Display for UpdateQueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{UPDATES_MAX} changes are already queued; try again later")
    }
}

impl std::error::Error for UpdateQueueFull {}

/// The position of an update in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(u64);

/// All updates of one zone.
pub(crate) enum ZoneUpdate {
    Zone(Box<Zone>),
    /// Remove the zone of this origin.
    Removed(Box<NameBuf>),
    /// At least one change of one zone.
    Changes(Vec<Change>),
    /// The zones of all hosts files.
    Hosts(Vec<Arc<Zone>>),
}

/// An update of a whole zone.
enum ZoneReplacement {
    Put(Box<Zone>),
    Removed(Box<NameBuf>),
    Hosts(Vec<Arc<Zone>>),
}

/// Queued updates of one zone. A replacement discards earlier changes; later changes apply to it.
#[derive(Default)]
struct QueuedZone {
    whole: Option<ZoneReplacement>,
    changes: HashMap<(Box<[u8]>, Rtype), Change>,
}

#[derive(Default)]
struct QueueState {
    slots: HashMap<Box<[u8]>, QueuedZone>,
    updates: usize,
    put: u64,
    taken: u64,
    /// The last sequence done, and its generation.
    done: (u64, u64),
    closed: bool,
    /// The publisher's thread has ended.
    ended: bool,
}

#[derive(Default)]
pub(crate) struct UpdateQueue {
    inner: Mutex<QueueState>,
    arrived: Condvar,
    applied: Condvar,
}

fn key(name: Name<'_>) -> Box<[u8]> {
    name.as_bytes().to_ascii_lowercase().into()
}

impl UpdateQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, change: Change) -> Result<Sequence, UpdateQueueFull> {
        let mut inner = self.lock();
        if inner.ended {
            return Ok(self.arrive(inner));
        }
        let full = inner.updates >= UPDATES_MAX;
        let slot = inner.slots.entry(key(change.zone.as_name())).or_default();
        let set = (key(change.name.as_name()), change.rtype);
        if full && !slot.changes.contains_key(&set) {
            return Err(UpdateQueueFull);
        }
        let is_new = slot.changes.insert(set, change).is_none();
        inner.updates += usize::from(is_new);
        Ok(self.arrive(inner))
    }

    pub(crate) fn put_zone(&self, zone: Zone) -> Result<Sequence, UpdateQueueFull> {
        let key = key(zone.origin());
        self.put_whole(key, ZoneReplacement::Put(Box::new(zone)))
    }

    pub(crate) fn remove_zone(&self, origin: Name<'_>) -> Result<Sequence, UpdateQueueFull> {
        self.put_whole(key(origin), ZoneReplacement::Removed(Box::new(origin.into())))
    }

    pub(crate) fn put_hosts(&self, hosts: Vec<Arc<Zone>>) -> Result<Sequence, UpdateQueueFull> {
        // Zone names have at least one byte, so no zone has this key.
        self.put_whole(Box::default(), ZoneReplacement::Hosts(hosts))
    }

    fn put_whole(
        &self,
        key: Box<[u8]>,
        whole: ZoneReplacement,
    ) -> Result<Sequence, UpdateQueueFull> {
        let mut inner = self.lock();
        if inner.ended {
            return Ok(self.arrive(inner));
        }
        if inner.updates >= UPDATES_MAX {
            return Err(UpdateQueueFull);
        }
        let slot = inner.slots.entry(key).or_default();
        let before = slot.changes.len() + usize::from(slot.whole.is_some());
        *slot = QueuedZone { whole: Some(whole), changes: HashMap::new() };
        inner.updates = inner.updates + 1 - before;
        Ok(self.arrive(inner))
    }

    fn arrive(&self, mut inner: MutexGuard<'_, QueueState>) -> Sequence {
        inner.put += 1;
        let sequence = Sequence(inner.put);
        drop(inner);
        self.arrived.notify_one();
        sequence
    }

    pub(crate) fn last(&self) -> Sequence {
        Sequence(self.lock().put)
    }

    /// Waits for updates and takes all; `None` once closed and empty. With `impatient` it returns
    /// an empty list after a while.
    pub(crate) fn take(&self, impatient: bool) -> Option<Vec<ZoneUpdate>> {
        let mut inner = self.lock();
        while inner.slots.is_empty() && !inner.closed {
            if !impatient {
                inner = self.arrived.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.arrived.wait_timeout(inner, COLLECT_INTERVAL);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            inner = guard;
            if timeout.timed_out() {
                break;
            }
        }
        if inner.slots.is_empty() && inner.closed {
            return None;
        }
        inner.updates = 0;
        inner.taken = inner.put;
        let slots = std::mem::take(&mut inner.slots);
        drop(inner);
        Some(slots.into_values().flat_map(updates).collect())
    }

    /// Marks the taken updates as published.
    pub(crate) fn done(&self, generation: u64) {
        let mut inner = self.lock();
        inner.done = (inner.taken, generation);
        drop(inner);
        self.applied.notify_all();
    }

    pub(crate) fn wait(&self, sequence: Sequence) -> Option<u64> {
        let mut inner = self.lock();
        while inner.done.0 < sequence.0 {
            if inner.ended {
                return None;
            }
            inner = self.applied.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        Some(inner.done.1)
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Whether the thread ended without being asked to.
    pub(crate) fn has_failed(&self) -> bool {
        let inner = self.lock();
        inner.ended && !inner.closed
    }

    /// The thread has ended, perhaps by a panic. Updates are lost, and waiters return.
    fn end(&self) {
        let mut inner = self.lock();
        (inner.ended, inner.updates) = (true, 0);
        inner.slots.clear();
        drop(inner);
        self.applied.notify_all();
    }
}

/// Held by the thread; dropping it ends the queue.
pub(crate) struct QueueReceiver<'m>(pub(crate) &'m UpdateQueue);

impl Drop for QueueReceiver<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn updates(slot: QueuedZone) -> impl Iterator<Item = ZoneUpdate> {
    let zone = slot.whole.map(|whole| match whole {
        ZoneReplacement::Put(zone) => ZoneUpdate::Zone(zone),
        ZoneReplacement::Removed(origin) => ZoneUpdate::Removed(origin),
        ZoneReplacement::Hosts(hosts) => ZoneUpdate::Hosts(hosts),
    });
    let changes: Vec<Change> = slot.changes.into_values().collect();
    let changes = (!changes.is_empty()).then_some(ZoneUpdate::Changes(changes));
    zone.into_iter().chain(changes)
}
