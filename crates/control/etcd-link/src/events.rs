//! The changes of keys, as etcd reports them.
use crate::connection::{Connection, RequestError, classify};
use crate::limits::{CONNECT_MAX, KEEPALIVE};
use crate::traffic::Traffic;
use etcd_client::{
    EventType, GetOptions, KeyValue, ResponseHeader, WatchOptions, WatchResponse, WatchStream,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The changes of all keys of some prefixes. Dropping it ends the watch.
pub struct Events {
    stream: WatchStream,
    /// The member that reports them.
    url: String,
    /// When a message must have come.
    due: Instant,
    traffic: Arc<Traffic>,
    /// The member was asked for its progress, and has not answered.
    is_asked: bool,
}

impl Events {
    /// Watches prefixes from a revision of etcd on.
    ///
    /// # Errors
    /// The member does not start the watch.
    pub async fn start(
        connection: &Connection,
        prefixes: &[String],
        from: i64,
    ) -> Result<Self, RequestError> {
        let (_, mut client) = connection.client().await?;
        let url = connection.endpoint();
        let [first, others @ ..] = prefixes else {
            return Err(RequestError::Refused("no key is watched".into()));
        };
        let options = || Some(WatchOptions::new().with_prefix().with_start_revision(from));
        let starting = async {
            let mut stream = client.watch(first.as_str(), options()).await?;
            for prefix in others {
                stream.watch(prefix.as_str(), options()).await?;
            }
            Ok(stream)
        };
        match timeout(CONNECT_MAX, starting).await {
            Ok(Ok(stream)) => {
                let (traffic, due) = (Arc::clone(&connection.traffic), Instant::now() + KEEPALIVE);
                Ok(Self { stream, url, due, traffic, is_asked: false })
            }
            Ok(Err(error)) => Err(classify(&url, error)),
            Err(_) => Err(silent(&url, CONNECT_MAX)),
        }
    }

    /// The next message. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The member is silent, has ended the watch, or has compacted what was asked for.
    pub async fn next(&mut self) -> Result<WatchResponse, RequestError> {
        loop {
            let Ok(message) = timeout_at(self.due, self.stream.message()).await else {
                if self.is_asked {
                    return Err(silent(&self.url, 2 * KEEPALIVE));
                }
                (self.is_asked, self.due) = (true, Instant::now() + KEEPALIVE);
                let asked = self.stream.request_progress().await;
                asked.map_err(|error| classify(&self.url, error))?;
                continue;
            };
            (self.is_asked, self.due) = (false, Instant::now() + KEEPALIVE);
            let ended = |why: &str| {
                RequestError::Unanswered(format!("etcd at {} ended the watch{why}", self.url))
            };
            let message = message.map_err(|error| classify(&self.url, error))?;
            return match message {
                None => Err(ended("")),
                // Compacted, or the leader is lost: the next watch finds out.
                Some(message) if message.canceled() => {
                    Err(ended(&format!(": {}", message.cancel_reason())))
                }
                Some(message) => {
                    self.traffic.watched(&message);
                    Ok(message)
                }
            };
        }
    }
}

/// The keys of a prefix, kept as etcd has them.
pub struct Mirror<T> {
    /// By key. Those that cannot be read are left out.
    pub values: BTreeMap<Vec<u8>, T>,
    events: Events,
    read: fn(&KeyValue) -> Option<T>,
}

impl<T> Mirror<T> {
    /// Reads the keys, and watches them from then on.
    ///
    /// # Errors
    /// As [`Events::start`].
    pub async fn start(
        connection: &Connection,
        prefix: String,
        read: fn(&KeyValue) -> Option<T>,
    ) -> Result<Self, RequestError> {
        let got = connection.get(prefix.as_str(), GetOptions::new().with_prefix()).await?;
        let at = got.header().map_or(0, ResponseHeader::revision);
        let each = |kv: &KeyValue| Some((kv.key().to_vec(), read(kv)?));
        let values = got.kvs().iter().filter_map(each).collect();
        let events = Events::start(connection, &[prefix], at + 1).await?;
        Ok(Self { values, events, read })
    }

    /// Returns after a change. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// As [`Events::next`].
    pub async fn change(&mut self) -> Result<(), RequestError> {
        for event in self.events.next().await?.events() {
            let Some(kv) = event.kv() else { continue };
            match (self.read)(kv).filter(|_| event.event_type() == EventType::Put) {
                Some(value) => self.values.insert(kv.key().to_vec(), value),
                None => self.values.remove(kv.key()),
            };
        }
        Ok(())
    }
}

fn silent(url: &str, after: Duration) -> RequestError {
    RequestError::Unanswered(format!("etcd at {url} is silent for {} s", after.as_secs()))
}
