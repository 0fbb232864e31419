//! The client's side: signs a request, and verifies the messages of its response.
use crate::signer::{put_record, time_field};
use crate::{Key, Signature, is_same, variables};
use ring::hmac::Context;
use std::fmt;
use std::sync::Arc;
use wire::{Name, Tsig, signature_at};

/// Seconds that the clocks may differ (RFC 8945 §10).
const FUDGE: u16 = 300;
/// Messages without a signature between two signed ones (RFC 8945 §5.3.1).
const UNSIGNED_MAX: usize = 99;

/// A signed request, whose response is awaited.
pub struct Exchange {
    key: Arc<Key>,
    /// Has the MAC before, and the messages since then.
    context: Context,
    is_first: bool,
    /// Messages since the last signature.
    unsigned: usize,
}

/// Omits the secret.
impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchange({:?}, {} unsigned)", self.key, self.unsigned)
    }
}

/// Why a message of a response is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unverified {
    /// It has no signature, where one must be.
    Missing,
    /// The signature is of another key, or malformed.
    Form,
    /// The server reports this error (RFC 8945 §3).
    Reported(u16),
    /// The MAC is not that of the message.
    Mac,
    /// The clocks differ by so many seconds.
    Time(u64),
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("a message of the response is not signed"),
            Self::Form => f.write_str("a message of the response is signed by another key"),
            Self::Reported(Tsig::BAD_SIG) => {
                f.write_str("the server has another secret for the key (BADSIG)")
            }
            Self::Reported(Tsig::BAD_KEY) => {
                f.write_str("the server has no such key, or with another algorithm (BADKEY)")
            }
            Self::Reported(Tsig::BAD_TIME) => {
                f.write_str("the clock of the server differs from this one (BADTIME)")
            }
            Self::Reported(code) => write!(f, "the server reports the TSIG error {code}"),
            Self::Mac => f.write_str("the MAC of the response is not that of the message"),
            Self::Time(seconds) => {
                write!(f, "the response was signed {seconds} s from the time of this clock")
            }
        }
    }
}

impl Exchange {
    /// Signs a request, at a time in seconds since 1970. It has a complete header.
    pub fn sign(key: Arc<Key>, message: &mut Vec<u8>, now: u64) -> Self {
        let time = time_field(now, FUDGE);
        let names = (key.name(), key.algorithm().name());
        let mac = key.mac(&[message, &variables(names, &time, 0, &[])]);
        put_record(message, names, &time, &mac, (0, &[]));
        let context = key.context_behind(&mac);
        Self { key, context, is_first: true, unsigned: 0 }
    }

    /// Verifies the next message of the response, which has a complete header. Returns it without
    /// its signature.
    ///
    /// # Errors
    /// [`Unverified`]. Nothing of this response may be used then.
    pub fn verify(&mut self, message: &[u8], now: u64) -> Result<Vec<u8>, Unverified> {
        if signature_at(message).is_none() {
            self.unsigned += 1;
            if self.is_first || self.unsigned > UNSIGNED_MAX {
                return Err(Unverified::Missing);
            }
            self.context.update(message);
            return Ok(message.to_vec());
        }
        let signature = Signature::read(message).ok_or(Unverified::Form)?;
        let Signature { name, algorithm, tsig, .. } = &signature;
        let own: (Name<'_>, Name<'_>) = (self.key.name(), self.key.algorithm().name());
        if (name.as_name(), algorithm.as_name()) != own {
            return Err(Unverified::Form);
        }
        if tsig.error != 0 && tsig.mac.is_empty() {
            return Err(Unverified::Reported(tsig.error));
        }
        let unsigned = signature.unsigned(message);
        self.context.update(&signature.digested(&unsigned));
        match self.is_first {
            true => self.context.update(&signature.variables()),
            // RFC 8945 §5.3.1: the second message and those behind it have only the time.
            false => self.context.update(tsig.time),
        }
        let next = self.key.context_behind(tsig.mac);
        let mac = std::mem::replace(&mut self.context, next).sign();
        if !is_same(mac.as_ref(), tsig.mac) {
            return Err(Unverified::Mac);
        }
        if tsig.error != 0 {
            return Err(Unverified::Reported(tsig.error));
        }
        let differ = signature.time().abs_diff(now);
        if differ > FUDGE.into() {
            return Err(Unverified::Time(differ));
        }
        (self.is_first, self.unsigned) = (false, 0);
        Ok(unsigned)
    }

    /// Whether the last message was signed, as that of a whole response must be.
    pub fn is_settled(&self) -> bool {
        !self.is_first && self.unsigned == 0
    }
}
