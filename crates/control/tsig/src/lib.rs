//! Verifies signed messages and signs their responses (TSIG, RFC 8945).
//!
//! A signature proves who sent a message and that nothing of it has changed. [`verify`] takes a
//! message as it came; a [`Signer`] signs all messages of the response. An [`Exchange`] is the
//! client's side: it signs a request, and verifies the messages of the response.
#![forbid(unsafe_code)]

mod exchange;
mod key;
mod key_file;
mod refusal;
mod signer;

pub use exchange::{Exchange, Unverified};
pub use key::{Algorithm, Key};
pub use refusal::{Fault, Refusal, response_head};
pub use signer::Signer;

use std::sync::Arc;
use wire::{HEADER_LEN, Name, NameBuf, Record, Records, Tsig, signature_at};

/// Offset of the count of additional records in a header.
const ADDITIONAL_AT: usize = 10;

/// A message whose signature is correct.
#[derive(Debug)]
pub struct Verified {
    /// The message without its TSIG record.
    pub message: Vec<u8>,
    /// The key that signed it.
    pub key: Arc<Key>,
    /// Signs the response.
    pub signer: Signer,
}

/// Verifies the signature of a message, at a time in seconds since 1970. `find` knows the keys by
/// their names, in lower case.
///
/// # Errors
/// The message is not signed, or not with a key that it may be signed with.
pub fn verify(
    message: &[u8],
    now: u64,
    find: impl FnOnce(Name<'_>) -> Option<Arc<Key>>,
) -> Result<Verified, Box<Refusal>> {
    let signature =
        Signature::read(message).ok_or_else(|| Box::new(Refusal::malformed(message)))?;
    let Signature { name, algorithm, tsig, .. } = &signature;
    let refuse = |fault| Box::new(Refusal::new(message, &signature, fault));
    let Some(key) = find(name.as_name()) else { return Err(refuse(Fault::Key)) };
    // RFC 8945 §5.2.1: a key with another algorithm is another key.
    if algorithm.as_name() != key.algorithm().name() {
        return Err(refuse(Fault::Algorithm));
    }
    let native_len = key.algorithm().mac_len();
    if tsig.mac.len() > native_len || tsig.mac.len() < (native_len / 2).max(10) {
        return Err(Box::new(Refusal::malformed(message)));
    }
    let unsigned = signature.unsigned(message);
    let mac = key.mac(&[&signature.digested(&unsigned), &signature.variables()]);
    if !is_same(&mac[..tsig.mac.len()], tsig.mac) {
        return Err(refuse(Fault::Mac));
    }
    let signer = Signer::new(Arc::clone(&key), tsig.mac, signature.fudge());
    if tsig.mac.len() < native_len {
        return Err(refuse(Fault::Truncated).signed(signer));
    }
    if signature.time().abs_diff(now) > signature.fudge().into() {
        return Err(refuse(Fault::Time { now }).signed(signer));
    }
    Ok(Verified { message: unsigned, key, signer })
}

/// The TSIG record of a message.
struct Signature<'m> {
    at: usize,
    name: NameBuf,
    algorithm: NameBuf,
    tsig: Tsig<'m>,
}

impl<'m> Signature<'m> {
    fn read(message: &'m [u8]) -> Option<Self> {
        let at = signature_at(message)?;
        let record: Record<'m> = Records::new(message, at, 1).next()?.ok()?;
        let tsig = Tsig::parse(record.class, record.data()).filter(|_| record.ttl == 0)?;
        let mut algorithm = NameBuf::from(tsig.algorithm);
        algorithm.make_lowercase();
        Some(Self { at, name: record.owner().ok()?, algorithm, tsig })
    }

    fn time(&self) -> u64 {
        let [t0, t1, t2, t3, t4, t5, ..] = *self.tsig.time;
        u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5])
    }

    fn fudge(&self) -> u16 {
        let [.., f0, f1] = *self.tsig.time;
        u16::from_be_bytes([f0, f1])
    }

    /// The message without the record.
    fn unsigned(&self, message: &[u8]) -> Vec<u8> {
        let mut message = message[..self.at].to_vec();
        let count = u16::from_be_bytes([message[ADDITIONAL_AT], message[ADDITIONAL_AT + 1]]);
        let count = count.wrapping_sub(1).to_be_bytes();
        message[ADDITIONAL_AT..HEADER_LEN].copy_from_slice(&count);
        message
    }

    /// What of the message is signed (RFC 8945 §4.3.2): a forwarder may have changed its ID.
    fn digested(&self, unsigned: &[u8]) -> Vec<u8> {
        let mut digested = unsigned.to_vec();
        digested[..2].copy_from_slice(&self.tsig.original_id);
        digested
    }

    /// What of the record is signed (RFC 8945 §4.3.3).
    fn variables(&self) -> Vec<u8> {
        let Self { name, algorithm, tsig, .. } = self;
        let names = (name.as_name(), algorithm.as_name());
        variables(names, tsig.time, tsig.error, tsig.other)
    }
}

/// What of a record is signed (RFC 8945 §4.3.3): its key and algorithm, its time, and its error.
fn variables(
    (name, algorithm): (Name<'_>, Name<'_>),
    time: &[u8; 8],
    error: u16,
    other: &[u8],
) -> Vec<u8> {
    let (error, other_len) = (error.to_be_bytes(), (other.len() as u16).to_be_bytes());
    let class_and_ttl = [0, 255, 0, 0, 0, 0];
    let parts: [&[u8]; 7] =
        [name.as_bytes(), &class_and_ttl, algorithm.as_bytes(), time, &error, &other_len, other];
    parts.concat()
}

/// Compares without an early end, so that its duration says nothing.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

#[cfg(test)]
extern crate self as tsig;
#[cfg(test)]
mod tests;
