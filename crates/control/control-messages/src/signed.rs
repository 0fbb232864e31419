//! Signed messages (RFC 8945): they are verified, handled for the principal of the key, and their
//! responses are signed.
use crate::limits::REFUSED_SIGNATURES_INTERVAL;
use crate::{Decision, MessageHandler, ReceivedMessage, Signature};
use api::{CredentialError, Credentials, PrincipalKey};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use tsig::{Refusal, Verified, response_head, verify};
use wire::{Name, Rcode, signature_at};

/// Verifies messages, and signs the responses to them.
pub(crate) struct Verifier {
    credentials: Arc<Credentials>,
    log: RefusalLog,
}

impl Verifier {
    /// With the keys of these credentials.
    pub fn new(credentials: Arc<Credentials>) -> Self {
        Self { credentials, log: RefusalLog::default() }
    }

    /// Has a handler decide a message. One with a signature is verified first, and its response is
    /// signed.
    pub async fn decide(
        &self,
        handler: Arc<dyn MessageHandler>,
        message: ReceivedMessage,
    ) -> Decision {
        if signature_at(&message.bytes).is_none() {
            return handler.handle(message).await;
        }
        let (mut principal, mut unusable) = (None, None);
        let find = |name: Name<'_>| match self.credentials.of_key(name) {
            Ok(PrincipalKey { key, principal: found }) => {
                principal = Some(found);
                Some(key)
            }
            Err(why) => {
                unusable = Some(why);
                None
            }
        };
        let verified = verify(&message.bytes, now_seconds(), find);
        let (Verified { message: unsigned, mut signer, .. }, principal) =
            match (verified, principal) {
                (Ok(verified), Some(principal)) => (verified, principal),
                (Err(refusal), _) => {
                    self.log.write(&refusal, unusable.as_ref(), message.client);
                    return Decision::Message(refusal.into_response().into());
                }
                // There is no key without a principal.
                (Ok(_), None) => return Decision::Code(Rcode::ServFail),
            };
        let signature = Some(Signature { principal, response_len: signer.record_len() });
        let received = ReceivedMessage { bytes: unsigned.clone().into(), signature, ..message };
        let mut response = match handler.handle(received).await {
            Decision::Code(rcode) => response_head(&unsigned, rcode),
            Decision::Message(bytes) => bytes.into_vec(),
        };
        signer.sign(&mut response, now_seconds());
        Decision::Message(response.into())
    }
}

/// Logs refused signatures: of each fault one in [`REFUSED_SIGNATURES_INTERVAL`], with the number
/// of those between, so that a flood does not fill the log.
#[derive(Default)]
pub struct RefusalLog(Mutex<Vec<(&'static str, Instant, u64)>>);

impl RefusalLog {
    /// Writes why a signature of a client is refused.
    pub fn write(&self, refusal: &Refusal, why: Option<&CredentialError>, client: SocketAddr) {
        let (fault, now) = (refusal.fault.word(), Instant::now());
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
