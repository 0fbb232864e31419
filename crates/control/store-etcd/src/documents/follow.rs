//! Follows the keys of a set: lists them, then watches; and saves the copy.
use super::{CopyOrigin, FORMAT, SharedSet, lock};
use crate::connection::RequestError;
use crate::keyspace::{Follower, Position, pages, set_back};
use crate::limits::STORE_RETRY;
use documents::{Content, Document, UnusableDocument, Value};
use etcd_client::{EventType, KeyValue, WatchResponse};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Saves the copy after each change until it is aborted.
pub async fn save(set: Arc<SharedSet>) {
    let mut changes = set.content.subscribe();
    let mut saved = None;
    let mut is_logged = false;
    while changes.changed().await.is_ok() {
        loop {
            let content = Arc::clone(&changes.borrow_and_update());
            let Some(origin) = lock(&set.origin).clone() else { break };
            let newest = (origin, content.documents.clone(), content.unusable.clone());
            let revision = content.revision;
            if saved.as_ref() == Some(&newest) {
                set.saved.send_replace(revision);
                break;
            }
            let (copy, origin) = (set.copy.clone(), newest.0.clone());
            let saving = spawn_blocking(move || copy.save(&origin, &content)).await;
            match saving.map_err(|error| error.to_string()).flatten() {
                Ok(()) => {
                    (saved, is_logged) = (Some(newest), false);
                    set.saved.send_replace(revision);
                    break;
                }
                Err(why) if !is_logged => {
                    is_logged = true;
                    tracing::error!(
                        "the copy of {} from etcd is not saved, and retried: {why}",
                        set.kind.name
                    );
                }
                Err(_) => {}
            }
            sleep(STORE_RETRY).await;
        }
    }
}

/// Follows the keys of a set.
pub struct SetFollower {
    pub set: Arc<SharedSet>,
    /// Everything is to be listed anew.
    pub is_listed_anew: bool,
}

impl Follower for SetFollower {
    const IS_AWAITED: bool = true;

    /// Refuses also documents that are older than this server's: a revoked token must not come
    /// back by a restored backup.
    async fn list(&mut self, at: &Position, is_replaced: bool) -> Result<(), RequestError> {
        let set = &self.set;
        let mut content = Content { revision: at.revision, ..Content::default() };
        let each = |kv: &KeyValue| set.take(&mut content, kv);
        pages(&set.link.connection, &set.prefix, at.revision, each).await?;
        if !is_replaced && !set.is_continued(&content) {
            let what = format!("{} in etcd are older than those of this server", set.kind.name);
            return Err(set_back(&what));
        }
        let Position { cluster, adopted, .. } = at.clone();
        let origin = CopyOrigin { cluster, prefix: set.prefix.clone(), adopted };
        *lock(&set.origin) = Some(origin);
        set.publish(content);
        Ok(())
    }

    async fn apply(&mut self, message: &WatchResponse) -> Result<(), RequestError> {
        self.set.apply(message);
        Ok(())
    }

    async fn due(&mut self) {
        self.set.relist.notified().await;
        self.is_listed_anew = true;
    }

    async fn work(&mut self) -> Result<bool, RequestError> {
        Ok(std::mem::take(&mut self.is_listed_anew))
    }

    async fn ended(&mut self, why: &str, _: bool) {
        if self.set.report.fault().is_some() && self.set.content.borrow().fault.is_some() {
            let name = self.set.kind.name;
            let unknown = Content::unknown(format!("{name} were not read from etcd yet: {why}"));
            self.set.content.send_replace(Arc::new(unknown));
        }
    }
}

impl SharedSet {
    /// Whether each document is newer than what this server has, or the same.
    fn is_continued(&self, content: &Content) -> bool {
        let before = Arc::clone(&self.content.borrow());
        let is_known = |(name, revision): (&String, i64)| {
            revision > before.revision || before.revision_of(name) == revision
        };
        let documents = content.documents.iter().map(|(name, found)| (name, found.revision));
        let unusable = content.unusable.iter().map(|(name, found)| (name, found.revision));
        content.revision >= before.revision && documents.chain(unusable).all(is_known)
    }

    /// Adds a key to content.
    fn take(&self, content: &mut Content, kv: &KeyValue) {
        let key = String::from_utf8_lossy(kv.key());
        let name = key.strip_prefix(&self.prefix).unwrap_or(&key).to_owned();
        let revision = kv.mod_revision();
        match read(kv.value()).and_then(|value| {
            (self.kind.check)(&name, &value)?;
            Ok(value)
        }) {
            Ok(value) => drop(content.documents.insert(name, Document { value, revision })),
            Err(why) => {
                drop(content.unusable.insert(name, UnusableDocument { why, revision }));
            }
        }
    }

    fn publish(&self, content: Content) {
        let content = Arc::new(content);
        let before = self.content.send_replace(Arc::clone(&content));
        let is_new = |(name, found): &(&String, &UnusableDocument)| {
            before.unusable.get(*name) != Some(*found)
        };
        for (name, found) in content.unusable.iter().filter(is_new) {
            let (prefix, why) = (&self.prefix, &found.why);
            tracing::error!("the key {prefix}{name} in etcd is ignored: {why}");
        }
    }

    fn apply(&self, message: &WatchResponse) {
        let mut content = Content::clone(&self.content.borrow());
        let known = content.revision;
        for event in message.events() {
            // A list may have brought it already.
            let Some(kv) = event.kv().filter(|kv| kv.mod_revision() > known) else { continue };
            let key = String::from_utf8_lossy(kv.key());
            let name = key.strip_prefix(&self.prefix).unwrap_or(&key);
            content.documents.remove(name);
            content.unusable.remove(name);
            if event.event_type() == EventType::Put {
                self.take(&mut content, kv);
            }
            content.revision = content.revision.max(kv.mod_revision());
        }
        if content.revision > known {
            self.publish(content);
        }
    }
}

/// Parses the value of a key.
fn read(bytes: &[u8]) -> Result<Value, String> {
    let mut value: Value = serde_json::from_slice(bytes)
        .map_err(|why| format!("its value is not an object in JSON: {why}"))?;
    match value.remove("format").and_then(|format| format.as_u64()) {
        Some(FORMAT) => Ok(value),
        Some(newer @ FORMAT..) => Err(format!(
            "it has the format {newer}, which a newer version wrote: upgrade this server"
        )),
        _ => Err("its value has no `\"format\": 1`".into()),
    }
}
