//! Follows the keys of a set: lists them, then watches; and saves the copy.
use super::{CopyOrigin, FORMAT, LinkState, SharedSet, lock};
use crate::connection::RequestError;
use crate::events::Events;
use crate::keys::{Keys, check_format};
use crate::limits::{RECONNECT_MAX, STORE_RETRY};
use crate::list;
use crate::replica;
use crate::shared::Retry;
use documents::{Content, Document, UnusableDocument, Value};
use etcd_client::{EventType, GetOptions, KeyValue, WatchResponse};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// Why a round ended.
enum Ended {
    Request(RequestError),
    /// What is in etcd cannot be followed without an operator.
    Refused(String),
}

impl From<RequestError> for Ended {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// Follows etcd until it is aborted.
pub async fn run(set: Arc<SharedSet>) {
    let mut retry = Retry::new(RECONNECT_MAX);
    loop {
        let began = Instant::now();
        let ended = set.follow().await;
        let has_followed = *set.state.borrow() == LinkState::Following;
        match ended {
            // The next member may serve: writes wait for it.
            Err(Ended::Request(_)) if has_followed => {
                set.state.send_replace(LinkState::Connecting);
            }
            Err(Ended::Request(error)) => set.breaks(error.why()),
            Err(Ended::Refused(why)) => set.breaks(&why),
            Ok(()) => {}
        }
        retry.pause(began).await;
    }
}

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

impl SharedSet {
    fn breaks(&self, why: &str) {
        let broken = LinkState::Broken(why.to_owned());
        if lock(&self.logged).is_new(why) {
            let name = self.kind.name;
            tracing::error!(
                "{name} in etcd are not followed; those of the copy of this server hold, and \
                 changes are refused: {why}"
            );
        }
        self.state.send_replace(broken);
        if self.content.borrow().fault.is_some() {
            let name = self.kind.name;
            let unknown = Content::unknown(format!("{name} were not read from etcd yet: {why}"));
            self.content.send_replace(Arc::new(unknown));
        }
    }

    async fn follow(&self) -> Result<(), Ended> {
        let connection = &self.link.connection;
        let (endpoint, _) = connection.client().await?;
        let at = self.list().await?;
        let before = self.state.send_replace(LinkState::Following);
        lock(&self.logged).clear();
        if let LinkState::Broken(_) = before {
            let (name, endpoint) = (self.kind.name, connection.endpoint());
            tracing::info!(endpoint, "{name} in etcd are followed again");
        }
        let ended = self.watch(at + 1).await;
        connection.leave(endpoint);
        ended
    }

    /// Takes in all documents. Returns the revision of etcd.
    async fn list(&self) -> Result<i64, Ended> {
        let (connection, keys) = (&self.link.connection, &self.link.keys);
        let format = connection.get(keys.format(), GetOptions::new()).await?;
        let header = format.header().ok_or_else(|| RequestError::Refused("no header".into()))?;
        let (cluster, at) = (format!("{:x}", header.cluster_id()), header.revision());
        check_format(format.kvs().first().map(KeyValue::value)).map_err(Ended::Refused)?;
        let options = GetOptions::new().with_revision(at);
        let adopted = connection.get(keys.adopted(), options).await?;
        let adopted = Keys::read_adopted(&adopted);
        let origin = CopyOrigin { cluster, prefix: self.prefix.clone(), adopted };
        let mut content = Content { revision: at, ..Content::default() };
        list::pages(connection, &self.prefix, at, |kv| self.take(&mut content, kv)).await?;
        self.check_history(&origin, &content)?;
        *lock(&self.origin) = Some(origin);
        self.publish(content);
        Ok(at)
    }

    /// Refuses another cluster, and what is older than this server's documents: a revoked token
    /// must not come back by a restored backup.
    fn check_history(&self, found: &CopyOrigin, content: &Content) -> Result<(), Ended> {
        let known = lock(&self.origin).clone();
        let Some(known) = known else { return Ok(()) };
        let name = self.kind.name;
        if found.cluster != known.cluster {
            // An operator has accepted it for the records.
            if replica::cluster_of(&self.folder).as_ref() == Some(&found.cluster) {
                return Ok(());
            }
            return Err(Ended::Refused(format!(
                "etcd is another cluster ({}) than the one that this server has a copy of ({}): \
                 correct `[etcd] endpoints`, or accept it by `dunlin fleet adopt`",
                found.cluster, known.cluster
            )));
        }
        let before = Arc::clone(&self.content.borrow());
        let is_known = |name: &String, revision: i64| {
            revision > before.revision || before.revision_of(name) == revision
        };
        let documents = content.documents.iter();
        let documents = documents.map(|(name, document)| (name, document.revision));
        let unusable = content.unusable.iter().map(|(name, unusable)| (name, unusable.revision));
        let is_continued = content.revision >= before.revision
            && documents.chain(unusable).all(|(name, revision)| is_known(name, revision));
        if found.adopted > known.adopted || (found.adopted == known.adopted && is_continued) {
            return Ok(());
        }
        Err(Ended::Refused(format!(
            "{name} in etcd are older than those of this server: etcd was set back. Accept that by \
             `dunlin fleet adopt`"
        )))
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

    /// Takes in each change after a revision of etcd.
    async fn watch(&self, from: i64) -> Result<(), Ended> {
        let prefix = self.prefix.clone();
        let mut events = Events::start(&self.link.connection, prefix, from).await?;
        loop {
            tokio::select! {
                message = events.next() => self.apply(&message?),
                () = self.relist.notified() => drop(self.list().await?),
            }
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
