//! Follows a map that another server writes.
use super::COMPLETE;
use crate::EtcdLink;
use crate::connection::RequestError;
use crate::keyspace::{Follower, Position, pages};
use documents::MapEvent;
use etcd_client::{EventType, KeyValue, WatchResponse};
use std::sync::Arc;
use tokio::sync::mpsc;

pub struct MapFollower {
    pub link: Arc<EtcdLink>,
    pub prefix: String,
    pub events: mpsc::Sender<MapEvent>,
    /// Whether all keys were written: before that, those that are there are not all.
    pub is_complete: bool,
}

impl MapFollower {
    /// Waits for room. If the receiver is gone, so will this task be.
    async fn send(&self, event: MapEvent) {
        let _ = self.events.send(event).await;
    }
}

impl Follower for MapFollower {
    const IS_AWAITED: bool = false;

    async fn list(&mut self, at: &Position, _: bool) -> Result<(), RequestError> {
        let (mut listed, mut is_complete) = (Vec::new(), false);
        let each = |kv: &KeyValue| match key(&self.prefix, kv) {
            COMPLETE => is_complete = true,
            key => listed.push((key.to_owned(), kv.value().to_vec())),
        };
        pages(&self.link.connection, &self.prefix, at.revision, each).await?;
        self.is_complete = is_complete;
        self.send(MapEvent::State(Ok(()))).await;
        self.send(MapEvent::ListBegins).await;
        for (key, value) in listed {
            self.send(MapEvent::Put(key, Some(value))).await;
        }
        // What is not complete says nothing about what there is.
        if is_complete {
            self.send(MapEvent::ListEnds).await;
        }
        Ok(())
    }

    async fn apply(&mut self, message: &WatchResponse) -> Result<(), RequestError> {
        for event in message.events() {
            let Some(kv) = event.kv() else { continue };
            let is_put = event.event_type() == EventType::Put;
            match key(&self.prefix, kv) {
                COMPLETE if is_put && !self.is_complete => {
                    self.is_complete = true;
                    self.send(MapEvent::ListEnds).await;
                }
                COMPLETE => {}
                key => {
                    let value = is_put.then(|| kv.value().to_vec());
                    self.send(MapEvent::Put(key.to_owned(), value)).await;
                }
            }
        }
        Ok(())
    }

    async fn ended(&mut self, why: &str, is_new: bool) {
        if is_new {
            self.send(MapEvent::State(Err(why.to_owned()))).await;
        }
    }
}

/// The key in the map. One that is no text is none of the map.
fn key<'a>(prefix: &str, kv: &'a KeyValue) -> &'a str {
    str::from_utf8(kv.key()).ok().and_then(|key| key.strip_prefix(prefix)).unwrap_or_default()
}
