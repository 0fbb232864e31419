//! A map of a fleet that one server at a time writes, and others follow.
//!
//! The writer marks keys whose values change. The task that writes requests the values when it can
//! write them, so that nothing grows while it cannot.
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
    /// The map has ended: an operator has said that there are no values any more. A list ends
    /// after it, without any key.
    Retired,
    /// Changes arrive, or they do not and why.
    State(Result<(), String>),
}

/// A key, and its value as it is now; `None`: there is none.
pub type MapValue = (String, Option<Vec<u8>>);

/// What the task that writes sends to the side that knows the values.
#[derive(Debug)]
pub enum MapRequest {
    /// This server was elected and has to mark all keys. With the keys and values in etcd; `None`:
    /// these are not all.
    Elected(Option<Vec<(String, Vec<u8>)>>),
    /// A request for the values of keys.
    Values {
        /// The keys.
        keys: Vec<String>,
        /// Receives the values. If it is dropped, they are requested later.
        answer: oneshot::Sender<Vec<MapValue>>,
    },
}

/// The server that writes.
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
    /// As `is_refused`, because the map has ended.
    pub is_retired: bool,
    /// Since when this server knows that.
    pub since: Option<SystemTime>,
}

/// The keys that are not written yet, and the elected writer.
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
    /// Requests to the side that knows the values.
    pub requests: mpsc::Sender<MapRequest>,
    /// Receives what others write, while this server is refused.
    pub events: mpsc::Sender<MapEvent>,
}

impl ReplicatedMap {
    /// Creates the two sides of a map. At most `events_max` events wait.
    pub fn channel(events_max: usize) -> (MapTask, MapWriter) {
        let (leader, leader_receiver) = watch::channel(Leader::default());
        let map = Arc::new(Self {
            changed: Mutex::default(),
            touched: Notify::new(),
            ready: watch::Sender::new(false),
            origin: watch::Sender::new(None),
            leader,
            written: Mutex::default(),
        });
        let (request_sender, requests) = mpsc::channel(1);
        let (event_sender, events) = mpsc::channel(events_max);
        let task =
            MapTask { map: Arc::clone(&map), requests: request_sender, events: event_sender };
        (task, MapWriter { map, requests, leader: leader_receiver, events })
    }

    /// Sets the origin of the values, such as the ID of a cluster; `None`: it is not known now, and
    /// nothing is written.
    pub fn set_origin(&self, origin: Option<String>) {
        self.origin.send_if_modified(|before| {
            let is_new = *before != origin;
            *before = origin;
            is_new
        });
    }

    /// The origin and its changes.
    pub fn origin(&self) -> watch::Receiver<Option<String>> {
        self.origin.subscribe()
    }

    fn changed(&self) -> MutexGuard<'_, HashSet<String>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether this server has all values, so that it may write.
    pub fn set_ready(&self, is_ready: bool) {
        self.ready.send_if_modified(|before| std::mem::replace(before, is_ready) != is_ready);
    }

    /// Whether this server has all values, and changes of that.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Marks keys whose values may have changed.
    pub fn touch(&self, keys: impl IntoIterator<Item = String>) {
        let mut changed = self.changed();
        changed.extend(keys);
        if !changed.is_empty() {
            self.touched.notify_one();
        }
    }

    /// Waits until a marked key is there to be taken.
    pub async fn touched(&self) {
        loop {
            if !self.changed().is_empty() {
                return;
            }
            self.touched.notified().await;
        }
    }

    /// Takes up to `count` marked keys.
    pub fn take(&self, count: usize) -> Vec<String> {
        let mut changed = self.changed();
        let some: Vec<String> = changed.iter().take(count).cloned().collect();
        for key in &some {
            changed.remove(key);
        }
        some
    }

    /// Whether no marked key is left.
    pub fn is_clean(&self) -> bool {
        self.changed().is_empty()
    }

    /// Unmarks all keys, because another server writes.
    pub fn clear(&self) {
        self.changed().clear();
    }

    /// Sets the elected writer: since now, if it is another one.
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

    /// Records that this server has written now.
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
