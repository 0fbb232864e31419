//! A map of a fleet that one server at a time writes, and others follow.
//!
//! The writer does not hand over values when they change, but says which keys did: the task that
//! writes asks for their values when it can write them. So nothing grows while it cannot.
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// Changes of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapEvent {
    /// All keys follow: those that are not among them are gone.
    ListBegins,
    /// The value of a key; `None`: it is gone.
    Put(String, Option<Vec<u8>>),
    /// All keys were named.
    ListEnds,
    /// Changes arrive, or they do not and why.
    State(Result<(), String>),
}

/// A key, and its value as it is now; `None`: there is none.
pub type MapValue = (String, Option<Vec<u8>>);

/// What the task that writes sends to the side that knows the values.
#[derive(Debug)]
pub enum MapRequest {
    /// This server was elected: all keys have to be touched. With what was written before; `None`:
    /// that is not all.
    Elected(Option<Vec<(String, Vec<u8>)>>),
    /// A question for the values of keys.
    Values {
        /// The keys.
        keys: Vec<String>,
        /// For the values. If it is dropped, the keys are asked for later.
        answer: oneshot::Sender<Vec<MapValue>>,
    },
}

/// Which server writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leader {
    /// Its name; `None`: there is none.
    pub name: Option<String>,
    /// Whether it is this server.
    pub is_own: bool,
    /// Why this server cannot take part; `None`: it can.
    pub fault: Option<String>,
    /// The map is that of another origin: this server does not write, and follows the map.
    pub is_refused: bool,
    /// Since when this server knows that.
    pub since: Option<SystemTime>,
}

/// The keys that changed and were not written, and who writes.
#[derive(Debug)]
pub struct ReplicatedMap {
    changed: Mutex<HashSet<String>>,
    touched: Notify,
    ready: watch::Sender<bool>,
    origin: watch::Sender<Option<String>>,
    leader: watch::Sender<Leader>,
    written: Mutex<Option<SystemTime>>,
}

/// The side of the server that knows the values.
#[derive(Debug)]
pub struct MapWriter {
    /// The map.
    pub map: Arc<ReplicatedMap>,
    /// After an election, and when values can be written.
    pub requests: mpsc::Receiver<MapRequest>,
    /// The elected writer.
    pub leader: watch::Receiver<Leader>,
    /// What others write, while this server is refused.
    pub events: mpsc::Receiver<MapEvent>,
}

/// The side of the task that writes.
#[derive(Debug)]
pub struct MapTask {
    /// The map.
    pub map: Arc<ReplicatedMap>,
    /// Where it asks.
    pub ask: mpsc::Sender<MapRequest>,
    /// Where what others write goes, while this server is refused.
    pub events: mpsc::Sender<MapEvent>,
}

impl ReplicatedMap {
    /// The two sides of a map; so many events wait.
    pub fn channel(events_max: usize) -> (MapTask, MapWriter) {
        let (leader, leads) = watch::channel(Leader::default());
        let map = Arc::new(Self {
            changed: Mutex::default(),
            touched: Notify::new(),
            ready: watch::Sender::new(false),
            origin: watch::Sender::new(None),
            leader,
            written: Mutex::default(),
        });
        let (ask, requests) = mpsc::channel(1);
        let (send, events) = mpsc::channel(events_max);
        let task = MapTask { map: Arc::clone(&map), ask, events: send };
        (task, MapWriter { map, requests, leader: leads, events })
    }

    /// What the values come from, such as the ID of a cluster; `None`: that is not known now, and
    /// nothing is written.
    pub fn set_origin(&self, origin: Option<String>) {
        self.origin.send_if_modified(|before| {
            let is_new = *before != origin;
            *before = origin;
            is_new
        });
    }

    /// When that changes.
    pub fn origin(&self) -> watch::Receiver<Option<String>> {
        self.origin.subscribe()
    }

    fn changed(&self) -> MutexGuard<'_, HashSet<String>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this server knows all values, so that it may write.
    pub fn set_ready(&self, is_ready: bool) {
        self.ready.send_if_modified(|before| std::mem::replace(before, is_ready) != is_ready);
    }

    /// When that changes.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// The values of these keys may have changed.
    pub fn touch(&self, keys: impl IntoIterator<Item = String>) {
        let mut changed = self.changed();
        changed.extend(keys);
        if !changed.is_empty() {
            self.touched.notify_one();
        }
    }

    /// Returns once a key changed that was not taken.
    pub async fn touched(&self) {
        loop {
            if !self.changed().is_empty() {
                return;
            }
            self.touched.notified().await;
        }
    }

    /// Up to `count` keys that changed.
    pub fn take(&self, count: usize) -> Vec<String> {
        let mut changed = self.changed();
        let some: Vec<String> = changed.iter().take(count).cloned().collect();
        for key in &some {
            changed.remove(key);
        }
        some
    }

    /// Whether no key changed that was not taken.
    pub fn is_clean(&self) -> bool {
        self.changed().is_empty()
    }

    /// Forgets what changed: another server writes.
    pub fn clear(&self) {
        self.changed().clear();
    }

    /// Says who writes: since now, if that is new.
    pub fn set_leader(&self, mut leader: Leader) {
        self.leader.send_if_modified(|before| {
            let is_same = before.since.is_some()
                && (&before.name, before.is_own) == (&leader.name, leader.is_own);
            leader.since = if is_same { before.since } else { Some(SystemTime::now()) };
            let is_new = *before != leader;
            *before = leader;
            is_new
        });
    }

    /// This server has written something.
    pub fn note_write(&self) {
        *self.written() = Some(SystemTime::now());
    }

    /// When this server wrote last; `None`: it has not.
    pub fn last_write(&self) -> Option<SystemTime> {
        *self.written()
    }

    fn written(&self) -> MutexGuard<'_, Option<SystemTime>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The elected writer.
    pub fn leader(&self) -> Leader {
        self.leader.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_once_until_they_change_again() {
        let (MapTask { map, .. }, _writer) = ReplicatedMap::channel(1);
        map.touch(["a".into(), "b".into(), "a".into()]);
        let mut taken = map.take(10);
        taken.sort();
        assert_eq!(taken, ["a", "b"]);
        assert!(map.take(10).is_empty());
        map.touch(["a".into()]);
        map.touch(["c".into(), "d".into()]);
        assert_eq!(map.take(2).len(), 2);
        assert_eq!(map.take(2).len(), 1);
        map.touch(["a".into()]);
        map.clear();
        assert!(map.take(2).is_empty());
    }

    #[test]
    fn writer_learns_who_leads_and_since_when() {
        let (MapTask { map, .. }, mut writer) = ReplicatedMap::channel(1);
        let own = Leader { name: Some("a".into()), is_own: true, ..Leader::default() };
        map.set_leader(own.clone());
        assert!(writer.leader.has_changed().unwrap());
        let told = writer.leader.borrow_and_update().clone();
        assert!(told.is_own && told.since.is_some());
        map.set_leader(own);
        assert!(!writer.leader.has_changed().unwrap());
        assert_eq!(map.leader().since, told.since);
        map.set_leader(Leader { name: Some("b".into()), ..Leader::default() });
        let other = writer.leader.borrow_and_update().clone();
        assert!(!other.is_own && other.since > told.since);
    }
}
