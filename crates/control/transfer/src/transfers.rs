//! Decides queries for transfers: who may have a zone, and which records answer.
use crate::counters::{Counters, RefusedFor, Served};
use crate::history::History;
use crate::limits::MESSAGE_LEN_MAX;
use crate::message::{MessageWriter, TooLong, refusal};
use crate::notifications::{NotifyTarget, OUTCOMES, OutcomeCounts};
use crate::permits::{Permit, Permits};
use crate::request::{Message, Request, Wanted};
use crate::source::{Listed, OwnedRecord, RecordSource, ZoneRecords};
use compile::Zone;
use server_status::TransferStatus;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};
use store::serial::is_newer;
use tsig::{Key, Refusal, Signer, Verified, verify};
use wire::{HEADER_LEN, Name, Rcode, Rtype, signature_at};

/// What transfers need of the server.
pub trait Access: Send + Sync {
    /// The newest version of a zone; `None`: it is not served.
    fn zone(&self, origin: Name<'_>) -> Option<Arc<Zone>>;

    /// The key of a name.
    fn key(&self, name: Name<'_>) -> Option<KnownKey>;

    /// The owner of a certificate that is for these names.
    fn certificate_owner(&self, names: &[String]) -> Option<Arc<dyn KeyOwner>>;

    /// Whether a client may have zones without a key.
    fn allows(&self, client: IpAddr) -> bool;

    /// A signature was refused.
    fn record_refusal(&self, refusal: &Refusal, client: SocketAddr);

    /// The time in seconds since 1970.
    fn now(&self) -> u64;

    /// Differs from the last time if any zone has changed.
    fn generation(&self) -> u64;

    /// The zones that other servers may have.
    fn zones(&self) -> Vec<Arc<Zone>>;

    /// The servers that are notified of changes of every zone.
    fn notify_targets(&self) -> Vec<NotifyTarget>;
}

/// A key with its owner.
pub struct KnownKey {
    /// The key.
    pub key: Arc<Key>,
    /// Whose it is.
    pub owner: Arc<dyn KeyOwner>,
}

/// The owner of a key.
pub trait KeyOwner: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Whether it may have a whole zone.
    fn may_transfer(&self, zone: Name<'_>) -> bool;
}

/// The other side of a connection.
#[derive(Clone)]
pub struct Peer {
    /// The address of the client.
    pub client: SocketAddr,
    /// Whether the connection is one for transfers only, over TLS.
    pub is_private: bool,
    /// The owner of its certificate, which is verified.
    pub owner: Option<Arc<dyn KeyOwner>>,
}

impl From<SocketAddr> for Peer {
    fn from(client: SocketAddr) -> Self {
        Self { client, is_private: false, owner: None }
    }
}

/// Serves transfers of all zones.
pub struct Transfers {
    pub(crate) access: Arc<dyn Access>,
    permits: Arc<Permits>,
    pub(crate) counters: Counters,
    history: History,
    /// What became of notifications.
    pub(crate) notified: OutcomeCounts,
}

/// A query that may have its zone.
struct Allowed {
    request: Request,
    zone: Arc<Zone>,
    signer: Option<Signer>,
    /// The owner of the key, or the address.
    by: String,
}

/// A response.
pub enum Response {
    /// One message.
    One(Vec<u8>),
    /// Many messages.
    Many(Box<ResponseStream>),
    /// The message is none for this crate.
    NotOurs,
}

/// A response of many messages, of one version of the zone.
pub struct ResponseStream {
    writer: MessageWriter,
    source: Box<dyn RecordSource>,
    signer: Option<Signer>,
    access: Arc<dyn Access>,
    is_over: bool,
    /// How it answers.
    pub(crate) how: Served,
    /// For the log.
    pub(crate) summary: Summary,
    _permit: Permit,
}

/// What of a transfer is in the log.
pub(crate) struct Summary {
    pub zone: String,
    pub serial: u32,
    pub by: String,
}

impl ResponseStream {
    /// The next message; `None`: it is over.
    ///
    /// # Errors
    /// As [`MessageWriter::next_message`].
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, Box<TooLong>> {
        if self.is_over {
            return Ok(None);
        }
        let (mut message, is_left) = self.writer.next_message(&mut *self.source)?;
        self.is_over = !is_left;
        if let Some(signer) = &mut self.signer {
            signer.sign(&mut message, self.access.now());
        }
        Ok(Some(message))
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.writer.records()
    }
}

impl Transfers {
    /// Serves at most `streams_max` transfers at once.
    pub fn new(access: Arc<dyn Access>, streams_max: usize) -> Self {
        let permits = Arc::new(Permits::new(streams_max));
        Self {
            access,
            permits,
            counters: Counters::default(),
            history: History::default(),
            notified: OutcomeCounts::default(),
        }
    }

    /// What has become of all queries.
    pub fn status(&self) -> TransferStatus {
        let (active, history_bytes) = (self.permits.held() as u64, self.history.bytes() as u64);
        let notified = *self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        let notifications = OUTCOMES.map(str::to_owned).into_iter().zip(notified).collect();
        TransferStatus { active, history_bytes, notifications, ..self.counters.status() }
    }

    /// Notes a version of a zone, so that differences begin or end with it.
    pub fn record(&self, zone: &Arc<Zone>) {
        self.history.record(zone);
    }

    /// Forgets zones that are not served any more.
    pub fn retain(&self, is_served: impl Fn(&[u8]) -> bool) {
        self.history.retain(is_served);
    }

    /// Answers a message of a stream.
    pub fn answer_stream(&self, message: &[u8], peer: impl Into<Peer>) -> Response {
        let peer = peer.into();
        let allowed = match self.admit(message, &peer) {
            Ok(Some(allowed)) => allowed,
            Ok(None) => return Response::NotOurs,
            Err(refusal) => return Response::One(refusal),
        };
        if allowed.request.wanted == Wanted::Soa {
            return Response::One(self.soa(allowed));
        }
        let Some(permit) = self.permits.take(peer.client.ip()) else {
            let Allowed { request, signer, .. } = allowed;
            return Response::One(self.refuse(&request, signer, RefusedFor::Full));
        };
        let Allowed { request, zone, signer, by } = allowed;
        let (how, source) = self.source(&request, &zone);
        let Some(source) = source else {
            return Response::One(self.refuse(&request, signer, RefusedFor::Unloaded));
        };
        let serial = zone.serial().unwrap_or_default();
        let summary = Summary { zone: request.zone.to_string(), serial, by };
        let signature_len = signer.as_ref().map_or(0, Signer::record_len);
        let writer = MessageWriter::new(&request, signature_len, MESSAGE_LEN_MAX, expire(&zone));
        let access = Arc::clone(&self.access);
        let is_over = false;
        Response::Many(Box::new(ResponseStream {
            writer,
            source,
            signer,
            access,
            is_over,
            how,
            summary,
            _permit: permit,
        }))
    }

    /// The response with the SOA record, which is no transfer.
    fn soa(&self, Allowed { request, zone, signer, .. }: Allowed) -> Vec<u8> {
        let signature_len = signer.as_ref().map_or(0, Signer::record_len);
        let mut writer =
            MessageWriter::new(&request, signature_len, MESSAGE_LEN_MAX, expire(&zone));
        let (_, source) = self.source(&request, &zone);
        let written = source.and_then(|mut source| writer.next_message(&mut *source).ok());
        let Some((mut message, _)) = written else {
            return self.refuse(&request, signer, RefusedFor::Unloaded);
        };
        if let Some(mut signer) = signer {
            signer.sign(&mut message, self.access.now());
        }
        message
    }

    /// Answers a message in a datagram, which is verified, by one of at most `len_max` bytes, which
    /// is not signed yet. `owner`: that of its key. `None`: it is none for this crate.
    pub fn answer_datagram(
        &self,
        message: &[u8],
        owner: Option<&dyn KeyOwner>,
        client: SocketAddr,
        len_max: usize,
    ) -> Option<Vec<u8>> {
        let request = Message::read(message, false);
        let Allowed { request, zone, .. } = match self.allow(request, message, owner, client, None)
        {
            Ok(allowed) => allowed?,
            Err(refusal) => return Some(refusal),
        };
        if request.wanted == Wanted::Whole {
            // RFC 5936 §4.2: AXFR over UDP is not defined.
            return Some(self.refuse(&request, None, RefusedFor::Malformed));
        }
        let write = |source: &mut dyn RecordSource| {
            let mut writer = MessageWriter::new(&request, 0, len_max, expire(&zone));
            let written = writer.next_message(source);
            let (message, is_left) = written.ok()?;
            (!is_left).then_some((message, writer.records()))
        };
        let (how, source) = self.source(&request, &zone);
        let fits = match how {
            Served::Incremental => source.and_then(|mut source| write(&mut *source)),
            _ => None,
        };
        // RFC 1995 §2: with the SOA record alone the client asks again over TCP.
        let current = || Some((Served::Current, write(&mut newest(&zone)?)?));
        let found = fits.map(|fits| (Served::Incremental, fits)).or_else(current);
        let Some((how, (response, records))) = found else {
            return Some(self.refuse(&request, None, RefusedFor::Unloaded));
        };
        self.counters.served(how, records, response.len() as u64);
        Some(response)
    }

    /// Verifies a message, and decides whether its client may have the zone. `None`: the message
    /// is none for this crate.
    ///
    /// # Errors
    /// The response that refuses.
    fn admit(&self, message: &[u8], peer: &Peer) -> Result<Option<Allowed>, Vec<u8>> {
        let client = peer.client;
        if matches!(Message::read(message, peer.is_private), Message::Other) {
            return Ok(None);
        }
        // A key decides, if there is one.
        let (mut owner, mut signer, mut plain) = (peer.owner.clone(), None, None);
        if signature_at(message).is_some() {
            let verified = verify(message, self.access.now(), |name| {
                let known = self.access.key(name)?;
                owner = Some(known.owner);
                Some(known.key)
            });
            let Verified { message, signer: its, .. } = verified.map_err(|refused| {
                self.counters.refused(RefusedFor::Signature);
                self.access.record_refusal(&refused, client);
                refused.into_response()
            })?;
            (signer, plain) = (Some(its), Some(message));
        }
        let message = plain.as_deref().unwrap_or(message);
        let request = Message::read(message, peer.is_private);
        self.allow(request, message, owner.as_deref(), client, signer)
    }

    /// Decides whether a client may have the zone that a message without its signature asks for.
    /// `owner`: that of its key or certificate.
    ///
    /// # Errors
    /// The response that refuses.
    fn allow(
        &self,
        request: Message,
        message: &[u8],
        owner: Option<&dyn KeyOwner>,
        client: SocketAddr,
        mut signer: Option<Signer>,
    ) -> Result<Option<Allowed>, Vec<u8>> {
        let request = match request {
            Message::Transfer(request) => *request,
            Message::Other => return Ok(None),
            Message::Malformed => {
                self.counters.refused(RefusedFor::Malformed);
                let head = &message[..HEADER_LEN];
                let mut response = refusal(head, false, Rcode::FormErr);
                if let Some(signer) = &mut signer {
                    signer.sign(&mut response, self.access.now());
                }
                return Err(response);
            }
        };
        let origin = request.zone.as_name();
        // Who may have it is decided first, so that others learn nothing about the zones.
        let (is_allowed, by) = match owner {
            Some(owner) => (owner.may_transfer(origin), owner.name().to_owned()),
            None => (self.access.allows(client.ip()), client.ip().to_string()),
        };
        let zone = match (is_allowed, self.access.zone(origin)) {
            (false, _) => Err(RefusedFor::NotAllowed),
            (true, None) => Err(RefusedFor::NoZone),
            (true, Some(zone)) if zone.serial().is_none() => Err(RefusedFor::Unloaded),
            (true, Some(zone)) => Ok(zone),
        };
        match zone {
            Ok(zone) => Ok(Some(Allowed { request, zone, signer, by })),
            Err(why) => {
                let what = why.what();
                tracing::debug!(%client, by, zone = %origin, "a transfer is refused: {what}");
                Err(self.refuse(&request, signer, why))
            }
        }
    }

    /// The records that answer; `None`: the zone was never loaded.
    fn source(
        &self,
        request: &Request,
        zone: &Arc<Zone>,
    ) -> (Served, Option<Box<dyn RecordSource>>) {
        let whole = || Some(Box::new(ZoneRecords::new(Arc::clone(zone))?) as Box<dyn RecordSource>);
        let newest = || newest(zone).map(|newest| Box::new(newest) as Box<dyn RecordSource>);
        let serial = match request.wanted {
            Wanted::Whole => return (Served::Whole, whole()),
            Wanted::Soa => return (Served::Current, newest()),
            Wanted::Since(serial) => serial,
        };
        self.history.record(zone);
        let ours = zone.serial().unwrap_or_default();
        if serial == ours || is_newer(serial, ours) {
            return (Served::Current, newest());
        }
        match self.history.since(zone, serial) {
            Some(differences) => (Served::Incremental, Some(Box::new(differences))),
            // RFC 1995 §4: the whole zone in the same response.
            None => (Served::WholeInstead, whole()),
        }
    }

    /// The response that refuses a request.
    fn refuse(&self, request: &Request, signer: Option<Signer>, why: RefusedFor) -> Vec<u8> {
        self.counters.refused(why);
        let rcode = match why {
            RefusedFor::NotAllowed | RefusedFor::Full | RefusedFor::Signature => Rcode::Refused,
            // RFC 5936 §2.2.1
            RefusedFor::NoZone => Rcode::NotAuth,
            RefusedFor::Unloaded => Rcode::ServFail,
            RefusedFor::Malformed => Rcode::FormErr,
        };
        let mut response = refusal(&request.head, request.has_edns, rcode);
        if let Some(mut signer) = signer {
            signer.sign(&mut response, self.access.now());
        }
        response
    }
}

/// The SOA record of a zone.
fn newest(zone: &Zone) -> Option<Listed> {
    Some(Listed::new(vec![OwnedRecord::soa(zone)?]))
}

/// The seconds until a zone expires at a secondary that has it now (RFC 7314): those of the SOA
/// record.
fn expire(zone: &Zone) -> u32 {
    let soa = zone.set(zone.origin(), Rtype::SOA);
    let data = soa.and_then(|soa| soa.records().next());
    let numbers = data.and_then(|data| data.last_chunk::<8>());
    numbers.and_then(|numbers| numbers.first_chunk().copied()).map_or(0, u32::from_be_bytes)
}
