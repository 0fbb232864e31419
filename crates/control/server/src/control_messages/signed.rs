//! Signed messages (RFC 8945): they are verified, handled for the principal of the key, and their
//! responses are signed.
use super::{Deciding, Decision, MessageHandler, ReceivedMessage};
use crate::limits::REFUSED_SIGNATURES_INTERVAL;
use crate::server::{Server, lock};
use api::{CredentialError, Credentials, Principal, PrincipalKey};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};
use tsig::{Refusal, Verified, response_head, verify};
use wire::{Rcode, signature_at};

/// A message of a principal.
pub struct SignedMessage {
    /// The message without its signature.
    pub received: ReceivedMessage,
    /// The principal of its key.
    pub principal: Arc<Principal>,
    /// Bytes of the signature of its response.
    pub signature_len: usize,
}

/// Decides signed messages. The response is signed afterwards.
pub trait SignedHandler: Send + Sync {
    /// As [`MessageHandler::handle`].
    fn handle(self: Arc<Self>, message: SignedMessage) -> Deciding;
}

/// Verifies the messages of one opcode.
pub struct Verifier {
    credentials: Arc<Credentials>,
    signed: Arc<dyn SignedHandler>,
    /// Decides messages without a signature; `None`: they are refused.
    unsigned: Option<Arc<dyn MessageHandler>>,
    log: RefusalLog,
}

impl Verifier {
    /// A handler of an opcode.
    pub fn handler(
        server: &Server,
        signed: Arc<dyn SignedHandler>,
        unsigned: Option<Arc<dyn MessageHandler>>,
    ) -> Arc<dyn MessageHandler> {
        let credentials = Arc::clone(&server.documents.credentials);
        Arc::new(Self { credentials, signed, unsigned, log: RefusalLog::default() })
    }

    async fn decide(&self, message: ReceivedMessage) -> Decision {
        let ReceivedMessage { client, transport, bytes } = message;
        let (mut principal, mut unusable) = (None, None);
        let verified = verify(&bytes, now_seconds(), |name| match self.credentials.of_key(name) {
            Ok(PrincipalKey { key, principal: found }) => {
                principal = Some(found);
                Some(key)
            }
            Err(why) => {
                unusable = Some(why);
                None
            }
        });
        let (Verified { message, mut signer, .. }, principal) = match (verified, principal) {
            (Ok(verified), Some(principal)) => (verified, principal),
            (Err(refusal), _) => {
                self.log.write(&refusal, unusable.as_ref(), client);
                return Decision::Message(refusal.into_response().into());
            }
            // There is no key without a principal.
            (Ok(_), None) => return Decision::Code(Rcode::ServFail),
        };
        let received = ReceivedMessage { client, transport, bytes: message.clone().into() };
        let signature_len = signer.record_len();
        let handling = Arc::clone(&self.signed);
        let handling = handling.handle(SignedMessage { received, principal, signature_len });
        let mut response = match handling.await {
            Decision::Code(rcode) => response_head(&message, rcode),
            Decision::Message(bytes) => bytes.into_vec(),
        };
        signer.sign(&mut response, now_seconds());
        Decision::Message(response.into())
    }
}

impl MessageHandler for Verifier {
    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding {
        match (signature_at(&message.bytes), &self.unsigned) {
            (None, Some(unsigned)) => Arc::clone(unsigned).handle(message),
            (None, None) => Box::pin(async { Decision::Code(Rcode::Refused) }),
            (Some(_), _) => Box::pin(async move { self.decide(message).await }),
        }
    }
}

/// Logs refused signatures: of each fault one in [`REFUSED_SIGNATURES_INTERVAL`], with the number
/// of those between, so that a flood does not fill the log.
#[derive(Default)]
struct RefusalLog(Mutex<Vec<(&'static str, Instant, u64)>>);

impl RefusalLog {
    fn write(&self, refusal: &Refusal, why: Option<&CredentialError>, client: SocketAddr) {
        let (fault, now) = (refusal.fault.word(), Instant::now());
        let mut noted = lock(&self.0);
        let known = noted.iter_mut().find(|(known, ..)| *known == fault);
        let more = match known {
            Some((_, last, more)) if now.duration_since(*last) < REFUSED_SIGNATURES_INTERVAL => {
                *more += 1;
                return;
            }
            Some((_, last, more)) => {
                *last = now;
                std::mem::take(more)
            }
            None => {
                noted.push((fault, now, 0));
                0
            }
        };
        drop(noted);
        let key = &refusal.key;
        let what = match (refusal.fault, why) {
            (_, Some(CredentialError::Expired { principal, .. })) => {
                format!("the key has expired: `dunlin token rotate {principal}` makes a new one")
            }
            _ => refusal.to_string(),
        };
        tracing::warn!(%client, %key, fault, more, "a signature is refused: {what}");
    }
}

/// The seconds since 1970.
pub fn now_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}
