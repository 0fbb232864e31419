//! What comes from etcd: how much, and when last.
use etcd_client::{GetResponse, WatchResponse};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Counts what comes over a connection.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes of keys and values.
    bytes: AtomicU64,
    /// When etcd answered last: milliseconds since 1970; 0: never.
    contact: AtomicU64,
}

impl Traffic {
    /// Bytes of the keys and values that came.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// When etcd answered last: milliseconds since 1970; `None`: never.
    pub fn contact(&self) -> Option<u64> {
        Some(self.contact.load(Relaxed)).filter(|when| *when != 0)
    }

    /// etcd answered.
    pub fn answered(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.contact.store(now.as_millis() as u64, Relaxed);
    }

    /// These keys came.
    pub fn got(&self, answer: &GetResponse) {
        let bytes = answer.kvs().iter().map(|kv| kv.key().len() + kv.value().len()).sum();
        self.came(bytes);
    }

    /// A message of a watch came.
    pub fn watched(&self, message: &WatchResponse) {
        let kvs = message.events().iter().filter_map(|event| event.kv());
        self.came(kvs.map(|kv| kv.key().len() + kv.value().len()).sum());
    }

    fn came(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.answered();
    }
}
