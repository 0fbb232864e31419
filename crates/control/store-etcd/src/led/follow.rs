//! Follows a map that another server writes.
use crate::EtcdLink;
use crate::connection::RequestError;
use crate::events::Events;
use crate::history::History;
use crate::led::COMPLETE;
use crate::limits::RECONNECT_MAX;
use crate::list;
use crate::shared::{LoggedCauses, Retry};
use documents::MapEvent;
use etcd_client::{EventType, KeyValue};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub struct Follower {
    pub link: Arc<EtcdLink>,
    pub name: &'static str,
    pub events: mpsc::Sender<MapEvent>,
    pub folder: PathBuf,
}

impl Follower {
    pub async fn run(self) {
        let mut history = History::new(self.folder.clone());
        let mut retry = Retry::new(RECONNECT_MAX);
        let mut logged = LoggedCauses::default();
        loop {
            let began = Instant::now();
            let Err(ended) = self.follow(&mut history, &mut logged).await;
            let why = ended.why();
            if retry.is_lasting(began) && logged.is_new(why) {
                // The source logs it.
                self.send(MapEvent::State(Err(why.to_owned()))).await;
            }
            retry.pause(began).await;
        }
    }

    /// Waits for room. If the receiver is gone, so will this task be.
    async fn send(&self, event: MapEvent) {
        let _ = self.events.send(event).await;
    }

    async fn follow(
        &self,
        history: &mut History,
        logged: &mut LoggedCauses,
    ) -> Result<Infallible, RequestError> {
        let connection = &self.link.connection;
        let (endpoint, _) = connection.client().await?;
        let at = history.check(&self.link).await?;
        let prefix = self.link.keys.documents(self.name);
        let mut listed = Vec::new();
        let mut is_complete = false;
        list::pages(connection, &prefix, at, |kv| match key(&prefix, kv) {
            COMPLETE => is_complete = true,
            key => listed.push((key.to_owned(), kv.value().to_vec())),
        })
        .await?;
        let mut events = Events::start(connection, prefix.clone(), at + 1).await?;
        logged.clear();
        self.send(MapEvent::State(Ok(()))).await;
        self.send(MapEvent::ListBegins).await;
        for (key, value) in listed {
            self.send(MapEvent::Put(key, Some(value))).await;
        }
        // What is not complete says nothing about what there is.
        if is_complete {
            self.send(MapEvent::ListEnds).await;
        }
        let ended = loop {
            let message = match events.next().await {
                Ok(message) => message,
                Err(ended) => break ended,
            };
            history.reached(&message);
            for event in message.events() {
                let Some(kv) = event.kv() else { continue };
                let is_put = event.event_type() == EventType::Put;
                match key(&prefix, kv) {
                    COMPLETE if is_put && !is_complete => {
                        is_complete = true;
                        self.send(MapEvent::ListEnds).await;
                    }
                    COMPLETE => {}
                    key => {
                        let value = is_put.then(|| kv.value().to_vec());
                        self.send(MapEvent::Put(key.to_owned(), value)).await;
                    }
                }
            }
        };
        connection.leave(endpoint);
        Err(ended)
    }
}

/// The key in the map. One that is no text is none of the map.
fn key<'a>(prefix: &str, kv: &'a KeyValue) -> &'a str {
    str::from_utf8(kv.key()).ok().and_then(|key| key.strip_prefix(prefix)).unwrap_or_default()
}
