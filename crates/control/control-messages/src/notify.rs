//! NOTIFY (RFC 1996): a zone that has changed on another server is read again, at most once in
//! [`NOTIFY_PAUSE`].
use crate::limits::NOTIFY_PAUSE;
use crate::query::{Composed, compose};
use crate::{Deciding, Decision, MessageHandler, ReceivedMessage, ServerContext};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::sleep;
use wire::{NameBuf, Query, Rcode};

/// The opcode.
pub(crate) const OPCODE: u8 = 4;

/// Has the sources of zones read them again.
pub(crate) struct NotifyHandler {
    server: Arc<dyn ServerContext>,
    /// Zones that were read again within the pause: whether they are due again when it ends.
    paused: Mutex<HashMap<Box<[u8]>, bool>>,
}

impl NotifyHandler {
    pub fn new(server: Arc<dyn ServerContext>) -> Self {
        Self { server, paused: Mutex::default() }
    }

    /// A zone has changed. If it is not read now, it is read later, so that the last change is
    /// never missed.
    fn refresh(self: &Arc<Self>, zone: NameBuf) {
        let key = zone.as_name().as_bytes().into();
        if self.paused().insert(key, true).is_none() {
            let handler = Arc::clone(self);
            tokio::spawn(async move {
                while handler.begins_pause(&zone) {
                    handler.server.refresh_zone(zone.clone());
                    sleep(NOTIFY_PAUSE).await;
                }
            });
        }
    }

    fn paused(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, bool>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the zone is to be read now, and a pause begins; if not, the zone is forgotten.
    fn begins_pause(&self, zone: &NameBuf) -> bool {
        let (mut paused, key) = (self.paused(), zone.as_name().as_bytes());
        let is_due = paused.get_mut(key).is_some_and(std::mem::take);
        if !is_due {
            paused.remove(key);
        }
        is_due
    }

    /// The code of the response to a message that was admitted.
    fn decide(self: &Arc<Self>, message: &ReceivedMessage) -> Rcode {
        let mut query = Query::new();
        if query.parse(&message.bytes, message.bytes.len()).is_err() {
            // The data plane could parse it.
            return Rcode::ServFail;
        }
        self.refresh(query.name.as_name().into());
        Rcode::NoError
    }
}

impl MessageHandler for NotifyHandler {
    fn takes(&self, message: &ReceivedMessage) -> bool {
        message.opcode() == OPCODE
    }

    /// The data plane has checked the client and the zone of a message without a signature.
    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding {
        Box::pin(async move {
            if message.signature.is_none() {
                return Decision::Code(self.decide(&message));
            }
            let composed = match compose(&*self.server, &message, None) {
                Composed::Control => {
                    let rcode = self.decide(&message);
                    compose(&*self.server, &message, Some(rcode))
                }
                composed => composed,
            };
            match composed {
                Composed::Response(bytes) => Decision::Message(bytes),
                Composed::Control | Composed::Dropped => Decision::Code(Rcode::FormErr),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Credentials;
    use compile::Image;
    use handler::Settings;
    use records::RecordService;
    use tokio::time::{Duration, Instant};
    use transfer::Transfers;
    use wire::Name;

    /// When each zone was read again, in milliseconds.
    struct RefreshLog {
        began: Instant,
        zones: Mutex<Vec<(String, u128)>>,
    }

    impl ServerContext for RefreshLog {
        fn credentials(&self) -> &Arc<Credentials> {
            unreachable!("nothing is signed")
        }

        fn records(&self) -> Option<RecordService> {
            None
        }

        fn image(&self) -> Image {
            unreachable!("nothing is signed")
        }

        fn with_settings(&self, _: &mut dyn FnMut(&Settings)) {}

        fn transfers(&self) -> Option<&Arc<Transfers>> {
            None
        }

        fn refresh_zone(&self, zone: NameBuf) {
            let mut zones = self.zones.lock().expect("no panic");
            zones.push((zone.to_string(), self.began.elapsed().as_millis()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn zone_is_read_at_once_then_once_a_pause_and_never_misses_the_last_change() {
        let log = Arc::new(RefreshLog { began: Instant::now(), zones: Mutex::default() });
        let handler = Arc::new(NotifyHandler::new(Arc::<RefreshLog>::clone(&log)));
        let zones = || log.zones.lock().expect("no panic").clone();
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        for millis in 0..1_000 {
            handler.refresh(name("one.test."));
            if millis == 400 {
                handler.refresh(name("other.test."));
            }
            sleep(Duration::from_millis(1)).await;
        }
        sleep(10 * NOTIFY_PAUSE).await;
        let read = |zone: &str, millis| (zone.to_owned(), millis);
        let all = [read("one.test.", 0), read("other.test.", 400), read("one.test.", 1_000)];
        assert_eq!(zones(), all, "each zone has its own pause, and is read once after it");
        assert!(handler.paused().is_empty(), "those without changes are forgotten");
        handler.refresh(name("one.test."));
        sleep(Duration::from_millis(1)).await;
        assert_eq!(zones().len(), 4);
    }
}
