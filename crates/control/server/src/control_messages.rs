//! Messages that the data plane leaves to the control plane. NOTIFY (RFC 1996): a zone of which
//! another server tells that it has changed looks at its file, at most once in
//! [`NOTIFY_PAUSE`].
use crate::limits::NOTIFY_PAUSE;
use crate::server::Server;
use handler::ControlReceiver;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until};
use wire::{Name, NameBuf, Query, Rcode};

/// The messages of all threads.
pub struct ControlMessages {
    /// Threads write to it when they have passed a message on.
    waker: Arc<OwnedFd>,
    wakes: UnixStream,
    receivers: Vec<ControlReceiver>,
    looks: LookSchedule,
}

impl ControlMessages {
    /// Without threads yet. Within a runtime.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // The system call filter of the systemd unit refuses pipes.
        let (waker, wakes) = UnixStream::pair()?;
        let waker = Arc::new(OwnedFd::from(waker.into_std()?));
        Ok(Self { waker, wakes, receivers: Vec::new(), looks: LookSchedule::default() })
    }

    /// What the threads wake it by.
    pub fn waker(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.waker)
    }

    /// Receives from these threads.
    pub fn receive_from(&mut self, receivers: Vec<ControlReceiver>) {
        self.receivers.extend(receivers);
    }

    /// Handles messages until the runtime ends.
    ///
    /// # Errors
    /// The runtime cannot watch a descriptor.
    pub async fn run(mut self, server: Arc<Server>) -> io::Result<()> {
        loop {
            let next = self.looks.next();
            tokio::select! {
                ready = self.wakes.readable() => {
                    ready?;
                    // Before the rings are read. What is left makes it readable again.
                    let _ = self.wakes.try_read(&mut [0; 512]);
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            for zone in self.handle(Instant::now()) {
                tracing::info!(%zone, "NOTIFY: its file is read again");
                server.zones.load(zone);
            }
        }
    }

    /// Answers what has arrived; returns the zones that look at their files now.
    fn handle(&mut self, now: Instant) -> Vec<NameBuf> {
        let (mut query, mut zones) = (Query::new(), self.looks.take_due(now));
        for receiver in &mut self.receivers {
            let mut answers = Vec::new();
            receiver.drain(|id, message| {
                let is_notify =
                    query.parse(message, message.len()).is_ok() && query.flags.is_notify();
                answers.push((id, if is_notify { Rcode::NoError } else { Rcode::NotImp }));
                if is_notify && self.looks.note(query.name.as_name(), now) {
                    zones.push(query.name.as_name().into());
                }
            });
            for (id, rcode) in answers {
                receiver.answer(id, rcode);
            }
        }
        zones
    }
}

/// When zones look at their files. It knows zones whose last look is younger than the pause.
#[derive(Default)]
struct LookSchedule(HashMap<Box<[u8]>, ZoneLook>);

/// The last look, and whether another is due when its pause ends.
struct ZoneLook {
    last: Instant,
    is_due: bool,
}

impl LookSchedule {
    /// Notes that a zone has changed; returns whether it looks now. If not, it looks later, so that
    /// the last change is never missed.
    fn note(&mut self, zone: Name<'_>, now: Instant) -> bool {
        match self.0.get_mut(zone.as_bytes()) {
            Some(look) => look.is_due = true,
            None => {
                let look = ZoneLook { last: now, is_due: false };
                self.0.insert(zone.as_bytes().into(), look);
                return true;
            }
        }
        false
    }

    /// The zones whose pause has ended and that are to look again.
    fn take_due(&mut self, now: Instant) -> Vec<NameBuf> {
        let mut due = Vec::new();
        self.0.retain(|zone, look| {
            if now < look.last + NOTIFY_PAUSE {
                return true;
            }
            let is_due = std::mem::take(&mut look.is_due);
            if is_due {
                look.last = now;
                due.extend(Name::parse(zone).map(NameBuf::from));
            }
            is_due
        });
        due
    }

    /// When a pause ends next.
    fn next(&self) -> Option<Instant> {
        self.0.values().map(|look| look.last + NOTIFY_PAUSE).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn zone_looks_at_once_then_once_a_pause_and_never_misses_the_last_change() {
        let mut looks = LookSchedule::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        let (one, other) = (name("one.test."), name("other.test."));
        assert_eq!(looks.next(), None);
        assert!(looks.note(one.as_name(), at(0)));
        assert!(looks.note(other.as_name(), at(400)), "each zone has its own pause");
        for millis in 1..1_000 {
            assert!(!looks.note(one.as_name(), at(millis)), "{millis} ms");
            assert_eq!(looks.take_due(at(millis)), []);
        }
        assert_eq!(looks.next(), Some(at(1_000)));
        assert_eq!(looks.take_due(at(1_000)), [one]);
        // The other one had nothing more to tell, and is forgotten.
        assert_eq!(looks.take_due(at(1_400)), []);
        assert_eq!(looks.next(), Some(at(2_000)));
        assert_eq!(looks.take_due(at(2_000)), []);
        assert_eq!(looks.next(), None);
    }
}
