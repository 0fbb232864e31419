//! Follows a map that another server writes.
use super::COMPLETE;
use crate::connection::RequestError;
use crate::keyspace::{Follower, Position};
use documents::MapEvent;
use etcd_client::KeyValue;
use tokio::sync::mpsc;

pub struct MapFollower {
    pub prefix: String,
    pub events: mpsc::Sender<MapEvent>,
    /// Whether all keys were written: before that, those that are there are not all.
    pub is_complete: bool,
    pub is_listing: bool,
}

impl MapFollower {
    /// Waits for room. If the receiver is gone, so will this task be.
    async fn send(&self, event: MapEvent) {
        let _ = self.events.send(event).await;
    }
}

impl Follower for MapFollower {
    const IS_AWAITED: bool = false;

    async fn begin(&mut self) {
        (self.is_listing, self.is_complete) = (true, false);
        self.send(MapEvent::ListBegins).await;
    }

    async fn take(&mut self, kv: &KeyValue, is_put: bool) -> Result<(), RequestError> {
        // A key that is not a text is none of the map.
        let key = str::from_utf8(kv.key()).ok().and_then(|key| key.strip_prefix(&self.prefix));
        match key.unwrap_or_default() {
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
        }
        Ok(())
    }

    async fn ended(&mut self, why: &str, is_new: bool) {
        if is_new {
            self.send(MapEvent::State(Err(why.to_owned()))).await;
        }
    }
}
