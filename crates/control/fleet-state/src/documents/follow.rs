//! Follows the keys of a set: lists them, then watches; and saves the copy.
use super::{CopyOrigin, FORMAT, SharedSet, lock};
use documents::{Content, Document, UnusableDocument, Value};
use etcd_client::KeyValue;
use etcd_link::RequestError;
use keyspace::limits::STORE_RETRY;
use keyspace::{Follower, Position, set_back};
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
    /// What etcd has, as far as it was taken.
    pub content: Content,
    /// The revision of etcd of the last list; 0: it is not complete yet.
    pub listed_at: i64,
    /// Everything is to be listed again.
    pub is_listed_anew: bool,
}

impl Follower for SetFollower {
    const IS_AWAITED: bool = true;

    async fn begin(&mut self) {
        (self.content, self.listed_at) = (Content::default(), 0);
    }

    async fn take(&mut self, kv: &KeyValue, is_put: bool) -> Result<(), RequestError> {
        // A watch brings what a list beside it has brought already.
        if kv.mod_revision() > self.listed_at {
            self.set.take(&mut self.content, kv, is_put);
        }
        Ok(())
    }

    /// Refuses also documents that are older than this server's: a revoked token must not come
    /// back by a restored backup.
    async fn listed(&mut self, at: &Position, is_replaced: bool) -> Result<(), RequestError> {
        let set = &self.set;
        (self.content.revision, self.listed_at) = (at.revision, at.revision);
        if !is_replaced && !set.is_continued(&self.content) {
            let what = format!("{} in etcd are older than those of this server", set.kind.name);
            return Err(set_back(&what));
        }
        let Position { cluster, adopted, .. } = at.clone();
        let origin = CopyOrigin { cluster, prefix: set.prefix.clone(), adopted: adopted.0 };
        *lock(&set.origin) = Some(origin);
        set.publish(self.content.clone());
        Ok(())
    }

    fn changed(&mut self) {
        if self.content.revision > self.set.content.borrow().revision {
            self.set.publish(self.content.clone());
        }
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

    /// Takes a key into content.
    fn take(&self, content: &mut Content, kv: &KeyValue, is_put: bool) {
        let key = String::from_utf8_lossy(kv.key());
        let name = key.strip_prefix(&self.prefix).unwrap_or(&key).to_owned();
        let revision = kv.mod_revision();
        content.revision = content.revision.max(revision);
        content.documents.remove(&name);
        content.unusable.remove(&name);
        if !is_put {
            return;
        }
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
