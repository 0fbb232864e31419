//! Follows a map that another server writes.
use super::COMPLETE;
use documents::MapEvent;
use etcd_client::KeyValue;
use etcd_link::RequestError;
use keyspace::{
    EtcdLink, FollowedKeys, Follower, History, Keys, LinkReport, Position, Task, words_of_site,
};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;

pub struct MapFollower {
    prefix: String,
    /// Only keys with this text are passed on, and nothing says whether all were written.
    only: Option<&'static str>,
    /// The site that the map is of; `None`: this one.
    site: Option<String>,
    /// The key that says that the map has ended; empty: it does not end.
    retired: String,
    events: mpsc::Sender<MapEvent>,
    /// Whether all keys were written: before that, those that are there are not all.
    is_complete: bool,
    is_retired: bool,
    is_listing: bool,
}

impl MapFollower {
    /// Follows the map of this name.
    pub fn new(keys: &Keys, name: &str, events: mpsc::Sender<MapEvent>) -> Self {
        let (prefix, retired) = (keys.documents(name), keys.retired(name));
        let (is_complete, is_retired, is_listing) = (false, false, false);
        let (only, site) = (None, None);
        Self { prefix, only, site, retired, events, is_complete, is_retired, is_listing }
    }

    /// Follows the keys of all clusters that contain this text.
    pub fn of_clusters(keys: &Keys, only: &'static str, events: mpsc::Sender<MapEvent>) -> Self {
        let (prefix, retired, only) = (keys.clusters(), String::new(), Some(only));
        let (is_complete, is_retired, is_listing, site) = (true, false, false, None);
        Self { prefix, only, site, retired, events, is_complete, is_retired, is_listing }
    }

    /// The same at another site, which its errors name; `None`: this one.
    pub fn at_site(self, site: Option<String>) -> Self {
        Self { site, ..self }
    }

    /// Follows the keys. The folder is that of the copies.
    pub fn spawn(self, link: &Arc<EtcdLink>, folder: &Path) -> Task {
        let retired = Some(&self.retired).filter(|key| !key.is_empty());
        let prefixes = std::iter::once(&self.prefix).chain(retired).cloned().collect();
        // The source logs a fault.
        let report = LinkReport::new(None, String::new());
        let followed = FollowedKeys::new(link, prefixes, History::new(folder, None), &report);
        link.spawn(followed.follow(self))
    }

    /// The map has ended: nothing is all there is, until there are other keys.
    async fn retire(&mut self) {
        self.send(MapEvent::Retired).await;
        if !std::mem::replace(&mut self.is_complete, true) {
            self.send(MapEvent::ListEnds).await;
        }
    }

    /// Waits for room. If the receiver is gone, so will this task be.
    async fn send(&self, event: MapEvent) {
        let _ = self.events.send(event).await;
    }
}

impl Follower for MapFollower {
    const IS_AWAITED: bool = false;

    async fn begin(&mut self) {
        (self.is_listing, self.is_retired) = (true, false);
        self.is_complete = self.only.is_some();
        self.send(MapEvent::ListBegins).await;
    }

    async fn take(&mut self, kv: &KeyValue, is_put: bool) -> Result<(), RequestError> {
        if kv.key() == self.retired.as_bytes() {
            self.is_retired = is_put;
            if is_put && !self.is_listing {
                self.retire().await;
            }
            return Ok(());
        }
        // A key that is not a text is none of the map.
        let key = str::from_utf8(kv.key()).ok().and_then(|key| key.strip_prefix(&self.prefix));
        match key.unwrap_or_default() {
            key if self.only.is_some_and(|only| !key.contains(only)) => {}
            COMPLETE if is_put && !self.is_complete => {
                self.is_complete = true;
                if !self.is_listing {
                    self.send(MapEvent::ListEnds).await;
                }
            }
            COMPLETE => {}
            key => {
                let value = is_put.then(|| kv.value().to_vec());
                self.send(MapEvent::Put(key.to_owned(), value)).await;
            }
        }
        Ok(())
    }

    async fn listed(&mut self, _: &Position, _: bool) -> Result<(), RequestError> {
        self.is_listing = false;
        self.send(MapEvent::State(Ok(()))).await;
        // What is not complete says nothing about what there is.
        if self.is_complete {
            self.send(MapEvent::ListEnds).await;
        } else if self.is_retired {
            self.retire().await;
        }
        Ok(())
    }

    async fn ended(&mut self, why: &str, is_new: bool) {
        if is_new {
            let why = match &self.site {
                Some(site) => words_of_site(why, site),
                None => why.to_owned(),
            };
            self.send(MapEvent::State(Err(why))).await;
        }
    }
}
