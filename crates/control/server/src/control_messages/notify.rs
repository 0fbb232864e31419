//! NOTIFY (RFC 1996): the file of a zone that has changed on another server is read again, at most
//! once in [`NOTIFY_PAUSE`]. The data plane has checked the client and the zone.
use super::{Deciding, Decision, MessageHandler, ReceivedMessage};
use crate::limits::NOTIFY_PAUSE;
use crate::server::{Server, lock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::time::sleep;
use wire::{NameBuf, Query, Rcode};

/// The opcode.
pub const OPCODE: u8 = 4;

/// The handler of messages that the data plane has admitted.
pub fn create(server: &Arc<Server>) -> Arc<dyn MessageHandler> {
    let server = Arc::clone(server);
    Arc::new(NotifyHandler::new(move |zone| {
        tracing::info!(%zone, "NOTIFY: its file is read again");
        server.sources.zones.load(zone);
    }))
}

/// Makes zones look at their files.
struct NotifyHandler<L> {
    look: L,
    /// Zones whose last look is younger than the pause: whether another is due when it ends.
    paused: Mutex<HashMap<Box<[u8]>, bool>>,
}

impl<L: Fn(NameBuf) + Send + Sync + 'static> NotifyHandler<L> {
    fn new(look: L) -> Self {
        Self { look, paused: Mutex::default() }
    }

    /// A zone has changed. If it does not look now, it looks later, so that the last change is
    /// never missed.
    fn note(self: &Arc<Self>, zone: NameBuf) {
        let key = zone.as_name().as_bytes().into();
        if lock(&self.paused).insert(key, true).is_none() {
            let handler = Arc::clone(self);
            tokio::spawn(async move {
                while handler.begins_pause(&zone) {
                    (handler.look)(zone.clone());
                    sleep(NOTIFY_PAUSE).await;
                }
            });
        }
    }

    /// Whether the zone is to look now, and a pause begins; if not, the zone is forgotten.
    fn begins_pause(&self, zone: &NameBuf) -> bool {
        let (mut paused, key) = (lock(&self.paused), zone.as_name().as_bytes());
        let is_due = paused.get_mut(key).is_some_and(std::mem::take);
        if !is_due {
            paused.remove(key);
        }
        is_due
    }
}

impl<L: Fn(NameBuf) + Send + Sync + 'static> MessageHandler for NotifyHandler<L> {
    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding {
        Box::pin(async move {
            let mut query = Query::new();
            if query.parse(&message.bytes, message.bytes.len()).is_err() {
                // The data plane could parse it.
                return Decision::Code(Rcode::ServFail);
            }
            self.note(query.name.as_name().into());
            Decision::Code(Rcode::NoError)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Duration, Instant};
    use wire::Name;

    #[tokio::test(start_paused = true)]
    async fn zone_looks_at_once_then_once_a_pause_and_never_misses_the_last_change() {
        let (looks, begin) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let seen = Arc::clone(&looks);
        let handler = Arc::new(NotifyHandler::new(move |zone: NameBuf| {
            lock(&seen).push((zone.to_string(), begin.elapsed().as_millis()));
        }));
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        for millis in 0..1_000 {
            handler.note(name("one.test."));
            if millis == 400 {
                handler.note(name("other.test."));
            }
            sleep(Duration::from_millis(1)).await;
        }
        sleep(10 * NOTIFY_PAUSE).await;
        let look = |zone: &str, millis| (zone.to_owned(), millis);
        let all = [look("one.test.", 0), look("other.test.", 400), look("one.test.", 1_000)];
        assert_eq!(*lock(&looks), all, "each zone has its own pause, and one look after it");
        assert!(lock(&handler.paused).is_empty(), "those without news are forgotten");
        handler.note(name("one.test."));
        sleep(Duration::from_millis(1)).await;
        assert_eq!(lock(&looks).len(), 4);
    }
}
