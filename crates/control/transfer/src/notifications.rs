//! Which servers are to be notified of which change (NOTIFY, RFC 1996), and when again: without
//! sockets and clocks.
use crate::limits::{NOTIFICATIONS_AT_ONCE_MAX, NOTIFICATIONS_MAX, NOTIFY_RETRY, NOTIFY_TRIES_MAX};
use crate::source::OwnedRecord;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tsig::{Exchange, Key};
use wire::{Flags, HEADER_LEN, Name, NameBuf, Rcode, Rtype};

/// Opcode and flags of a notification: it has authority (RFC 1996 §3.7).
const FLAGS: u16 = 4 << 11 | Flags::AA;

/// A server that is notified of changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotifyTarget {
    /// Its address.
    pub address: SocketAddr,
    /// The name of the key that signs; `None`: it is not signed.
    pub key: Option<Box<str>>,
}

/// What became of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyOutcome {
    /// A message was sent.
    Sent,
    /// The server has received it.
    Acknowledged,
    /// The server answered with an error.
    Rejected,
    /// The server did not answer, however often it was sent.
    GivenUp,
    /// There is no key of the name, or too many notifications wait.
    Failed,
}

/// The names of [`NotifyOutcome`], in their order.
pub const OUTCOMES: [&str; 5] = ["sent", "acknowledged", "rejected", "given_up", "failed"];

/// A zone, and the server that is notified.
type Notified = (Box<[u8]>, NotifyTarget);

/// How many notifications had each outcome.
pub type OutcomeCounts = Mutex<[u64; OUTCOMES.len()]>;

/// The notifications that are not answered yet.
#[derive(Default)]
pub struct Notifications {
    pending: BTreeMap<Notified, Pending>,
    by_id: HashMap<(SocketAddr, u16), Notified>,
    /// Servers whose last notification failed: each is logged once.
    failing: HashSet<SocketAddr>,
    /// How many of each outcome.
    pub outcomes: [u64; OUTCOMES.len()],
}

struct Pending {
    soa: OwnedRecord,
    tries: u32,
    due: Duration,
    id: Option<u16>,
    exchange: Option<Exchange>,
}

/// What a notification needs from outside.
pub trait Sender {
    /// The key of a name.
    fn key(&self, name: &str) -> Option<Arc<Key>>;
    /// The time in seconds since 1970.
    fn unix_seconds(&self) -> u64;
    /// An ID that cannot be guessed.
    fn id(&mut self) -> u16;
    /// Sends a message.
    fn send(&mut self, to: SocketAddr, message: &[u8]);
}

impl Notifications {
    /// A zone has a new SOA record: these servers are notified at the next [`poll`](Self::poll).
    pub fn record(
        &mut self,
        zone: Name<'_>,
        soa: &OwnedRecord,
        targets: &[NotifyTarget],
        now: Duration,
    ) {
        for target in targets {
            let key = (Box::from(zone.as_bytes()), target.clone());
            if !self.pending.contains_key(&key) && self.pending.len() >= NOTIFICATIONS_MAX {
                self.count(NotifyOutcome::Failed);
                continue;
            }
            let soa = soa.clone();
            let new = Pending { soa, tries: 0, due: now, id: None, exchange: None };
            if let Some(old) = self.pending.insert(key, new).and_then(|old| old.id) {
                self.by_id.remove(&(target.address, old));
            }
        }
    }

    /// Sends what is due.
    pub fn poll(&mut self, now: Duration, sender: &mut impl Sender) {
        let due = self.pending.iter().filter(|(_, pending)| pending.due <= now);
        let due = due.map(|(key, _)| key.clone()).take(NOTIFICATIONS_AT_ONCE_MAX);
        let due: Vec<_> = due.collect();
        for key in due {
            let Some(mut pending) = self.pending.remove(&key) else { continue };
            let (zone, target) = &key;
            if let Some(id) = pending.id.take() {
                self.by_id.remove(&(target.address, id));
            }
            if pending.tries == NOTIFY_TRIES_MAX {
                self.end(zone, target, NotifyOutcome::GivenUp, "it does not answer");
                continue;
            }
            let id = sender.id();
            let Some(mut message) = notification(zone, id, &pending.soa) else { continue };
            pending.exchange = None;
            if let Some(name) = &target.key {
                let Some(signing) = sender.key(name) else {
                    let what = "there is no key of this name: `dunlin token list` shows all";
                    self.end(zone, target, NotifyOutcome::Failed, what);
                    continue;
                };
                pending.exchange =
                    Some(Exchange::sign(signing, &mut message, sender.unix_seconds()));
            }
            sender.send(target.address, &message);
            self.count(NotifyOutcome::Sent);
            pending.due = now + NOTIFY_RETRY * 2_u32.pow(pending.tries);
            (pending.tries, pending.id) = (pending.tries + 1, Some(id));
            self.by_id.insert((target.address, id), key.clone());
            self.pending.insert(key, pending);
        }
    }

    /// A message has arrived.
    pub fn receive(&mut self, from: SocketAddr, message: &[u8], unix_seconds: u64) {
        let Some([i0, i1, f0, f1, ..]) = message.first_chunk::<HEADER_LEN>() else { return };
        let (id, flags) = (u16::from_be_bytes([*i0, *i1]), u16::from_be_bytes([*f0, *f1]));
        let is_response = flags & Flags::QR != 0 && Flags(flags).opcode() == 4;
        let Some(key) = self.by_id.get(&(from, id)).filter(|_| is_response).cloned() else {
            return;
        };
        let Some(pending) = self.pending.get_mut(&key) else { return };
        let code = flags & 0xf;
        if let Some(mut exchange) = pending.exchange.take()
            && let Err(why) = exchange.verify(message, unix_seconds)
            && code == Rcode::NoError as u16
        {
            // Anybody may have sent it; the next try has another signature.
            tracing::debug!(%from, "the response to a NOTIFY is not used: {why}");
            return;
        }
        self.by_id.remove(&(from, id));
        self.pending.remove(&key);
        let (zone, target) = &key;
        if code == Rcode::NoError as u16 {
            self.count(NotifyOutcome::Acknowledged);
            if self.failing.remove(&target.address) {
                tracing::info!(target = %target.address, "NOTIFY is answered again");
            }
            return;
        }
        let name = Rcode::ALL.into_iter().find(|known| *known as u16 == code).map(Rcode::name);
        let what = format!("it answers {}", name.unwrap_or("an unknown code"));
        self.end(zone, target, NotifyOutcome::Rejected, &what);
    }

    /// A notification has failed.
    fn end(&mut self, zone: &[u8], target: &NotifyTarget, outcome: NotifyOutcome, what: &str) {
        self.count(outcome);
        if self.failing.insert(target.address) {
            let zone = Name::parse(zone).unwrap_or(Name::ROOT);
            let address = target.address;
            tracing::warn!(target = %address, %zone, "NOTIFY of a change has failed: {what}");
        }
    }

    fn count(&mut self, outcome: NotifyOutcome) {
        self.outcomes[outcome as usize] += 1;
    }
}

/// The message that tells of a zone's new SOA record (RFC 1996 §3.7).
fn notification(zone: &[u8], id: u16, soa: &OwnedRecord) -> Option<Vec<u8>> {
    let zone: NameBuf = Name::parse(zone).ok()?.into();
    let (data_len, soa_type) = (u16::try_from(soa.data.len()).ok()?, Rtype::SOA.0.to_be_bytes());
    let parts: [&[u8]; 10] = [
        &id.to_be_bytes(),
        &FLAGS.to_be_bytes(),
        &[0, 1, 0, 1, 0, 0, 0, 0],
        zone.as_name().as_bytes(),
        &soa_type,
        &[0, 1, 0xc0, HEADER_LEN as u8],
        &soa_type,
        &[&[0, 1][..], &soa.ttl.to_be_bytes()].concat(),
        &data_len.to_be_bytes(),
        &soa.data,
    ];
    Some(parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsig::{Algorithm, verify};

    struct Outside {
        sent: Vec<(SocketAddr, Vec<u8>)>,
        ids: u16,
    }

    impl Sender for Outside {
        fn key(&self, name: &str) -> Option<Arc<Key>> {
            (name == "known").then(key)
        }

        fn unix_seconds(&self) -> u64 {
            1_000
        }

        fn id(&mut self) -> u16 {
            self.ids += 1;
            self.ids
        }

        fn send(&mut self, to: SocketAddr, message: &[u8]) {
            self.sent.push((to, message.to_vec()));
        }
    }

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
    }

    fn key() -> Arc<Key> {
        Arc::new(Key::new(name("known."), Algorithm::Sha256, b"secret"))
    }

    fn target(port: u16, key: Option<&str>) -> NotifyTarget {
        let address = ([192, 0, 2, 1], port).into();
        NotifyTarget { address, key: key.map(Into::into) }
    }

    fn soa() -> OwnedRecord {
        let data = [&[0, 0][..], &[7; 20]].concat().into();
        OwnedRecord { name: Box::default(), rtype: Rtype::SOA, ttl: 60, data }
    }

    fn scene() -> (Notifications, Outside) {
        (Notifications::default(), Outside { sent: Vec::new(), ids: 0 })
    }

    /// The response of a server, unsigned.
    fn response(message: &[u8], rcode: Rcode) -> Vec<u8> {
        tsig::response_head(message, rcode)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn notification_is_sent_again_and_again_until_it_is_given_up() {
        let (mut all, mut out) = scene();
        let zone = name("zone.test.");
        all.record(zone.as_name(), &soa(), &[target(53, None)], Duration::ZERO);
        let mut times = Vec::new();
        for second in 0..300 {
            let before = out.sent.len();
            all.poll(SECOND * second, &mut out);
            if out.sent.len() > before {
                times.push(second);
            }
        }
        assert_eq!(times, [0, 2, 6, 14, 30, 62]);
        assert_eq!(all.outcomes, [6, 0, 0, 1, 0]);
        assert!(all.pending.is_empty() && all.by_id.is_empty());
        let mut query = wire::Query::new();
        let (_, message) = &out.sent[0];
        query.parse(message, message.len()).expect("a message");
        assert!(query.flags.is_notify() && query.name.as_name() == zone.as_name());
    }

    #[test]
    fn answer_ends_it_and_only_that_of_the_notified_server() {
        let (mut all, mut out) = scene();
        let zone = name("zone.test.");
        let targets = [target(53, None), target(54, None)];
        all.record(zone.as_name(), &soa(), &targets, Duration::ZERO);
        all.poll(Duration::ZERO, &mut out);
        let [(first, message), (second, other)] = &out.sent[..] else { panic!("two") };
        all.receive(*second, &response(message, Rcode::NoError), 1_000);
        all.receive(*first, message, 1_000);
        assert_eq!(all.outcomes[1], 0, "another server, and no response");
        all.receive(*first, &response(message, Rcode::NoError), 1_000);
        all.receive(*first, &response(message, Rcode::NoError), 1_000);
        all.receive(*second, &response(other, Rcode::Refused), 1_000);
        assert_eq!(all.outcomes, [2, 1, 1, 0, 0]);
        assert!(all.pending.is_empty() && all.by_id.is_empty());
    }

    #[test]
    fn newer_change_takes_the_place_of_one_that_is_not_answered() {
        let (mut all, mut out) = scene();
        let zone = name("zone.test.");
        for second in 0..3 {
            all.record(zone.as_name(), &soa(), &[target(53, None)], SECOND * second);
            all.poll(SECOND * second, &mut out);
        }
        assert_eq!((out.sent.len(), all.pending.len(), all.by_id.len()), (3, 1, 1));
        let (from, old) = &out.sent[0];
        all.receive(*from, &response(old, Rcode::NoError), 1_000);
        assert_eq!(all.pending.len(), 1, "that was of an older change");
    }

    #[test]
    fn key_signs_and_the_answer_must_be_signed_by_it() {
        let (mut all, mut out) = scene();
        let zone = name("zone.test.");
        let targets = [target(53, Some("known")), target(54, Some("other"))];
        all.record(zone.as_name(), &soa(), &targets, Duration::ZERO);
        all.poll(Duration::ZERO, &mut out);
        assert_eq!((out.sent.len(), all.outcomes[4]), (1, 1), "there is no key `other`");
        let (from, message) = &out.sent[0];
        let verified = verify(message, 1_000, |_| Some(key())).expect("signed");
        let mut answer = response(&verified.message, Rcode::NoError);
        let mut signer = verified.signer;
        signer.sign(&mut answer, 1_000);
        all.receive(*from, &answer, 1_000);
        assert_eq!(all.outcomes[1], 1);
        all.record(zone.as_name(), &soa(), &targets[..1], Duration::ZERO);
        all.poll(Duration::ZERO, &mut out);
        let (from, message) = &out.sent[1];
        all.receive(*from, &response(message, Rcode::NoError), 1_000);
        assert_eq!((all.outcomes[1], all.pending.len()), (1, 1), "it is not signed");
    }
}
