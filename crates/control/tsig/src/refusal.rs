//! Why a signature is refused, and the response that says so.
use crate::Signature;
use crate::signer::{ReportedError, Signer, put_record};
use std::fmt;
use wire::{Flags, HEADER_LEN, NameBuf, Rcode, Tsig, skip_name};

/// What is wrong with a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server has no such key.
    Key,
    /// The key has another algorithm.
    Algorithm,
    /// The MAC is not that of the message: the secrets differ, or it was changed on its way.
    Mac,
    /// The MAC is correct, and shortened.
    Truncated,
    /// The clocks differ by more than the fudge.
    Time {
        /// The time of this server, in seconds since 1970.
        now: u64,
    },
    /// The record is malformed, or not where it belongs.
    Form,
}

impl Fault {
    /// A word for the log.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Algorithm => "algorithm",
            Self::Mac => "MAC",
            Self::Truncated => "truncated MAC",
            Self::Time { .. } => "time",
            Self::Form => "form",
        }
    }

    /// The error in the TSIG record of the response (RFC 8945 §3).
    const fn code(self) -> u16 {
        match self {
            Self::Key | Self::Algorithm | Self::Form => Tsig::BAD_KEY,
            Self::Mac => Tsig::BAD_SIG,
            Self::Truncated => Tsig::BAD_TRUNC,
            Self::Time { .. } => Tsig::BAD_TIME,
        }
    }
}

/// A signature that is refused.
#[derive(Debug)]
pub struct Refusal {
    /// Which part of it.
    pub fault: Fault,
    /// The name of the key that the message names.
    pub key: NameBuf,
    /// The name of the algorithm that it names.
    pub algorithm: NameBuf,
    /// When it was signed, in seconds since 1970, and the fudge in seconds.
    pub signed: (u64, u16),
    response: Vec<u8>,
}

impl Refusal {
    /// FORMERR, without a signature.
    pub(crate) fn malformed(message: &[u8]) -> Self {
        let (key, algorithm) = (NameBuf::root(), NameBuf::root());
        let response = response_head(message, Rcode::FormErr);
        Self { fault: Fault::Form, key, algorithm, signed: (0, 0), response }
    }

    /// NOTAUTH with an unsigned record (RFC 8945 §5.3.2).
    pub(crate) fn new(message: &[u8], signature: &Signature<'_>, fault: Fault) -> Self {
        let mut response = response_head(message, Rcode::NotAuth);
        let names = (signature.name.as_name(), signature.algorithm.as_name());
        put_record(&mut response, names, signature.tsig.time, &[], (fault.code(), &[]));
        Self {
            fault,
            key: signature.name.clone(),
            algorithm: signature.algorithm.clone(),
            signed: (signature.time(), signature.fudge()),
            response,
        }
    }

    /// The same with a signed record, because the client has the key.
    pub(crate) fn signed(mut self: Box<Self>, mut signer: Signer) -> Box<Self> {
        let time = match self.fault {
            Fault::Time { now } => Some(now.to_be_bytes()),
            _ => None,
        };
        // RFC 8945 §5.2.3: the time of this server.
        let other = time.as_ref().map_or(&[][..], |time| &time[2..]);
        let Self { fault, response, signed, .. } = &mut *self;
        let message = &response[..];
        let end = first_section_end(message).unwrap_or(HEADER_LEN);
        response.truncate(end);
        response[10..HEADER_LEN].fill(0);
        let error = ReportedError { time: signed.0, code: fault.code(), other };
        signer.sign_error(response, &error);
        self
    }

    /// The response.
    pub fn into_response(self) -> Vec<u8> {
        self.response
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, algorithm, signed: (time, fudge), .. } = self;
        let md5 = algorithm.as_name().labels().next() == Some(b"hmac-md5");
        match self.fault {
            Fault::Key => write!(
                f,
                "there is no key {key}: `dunlin token list` shows all, `dunlin token create NAME \
                 --tsig` makes one"
            ),
            Fault::Algorithm if md5 => write!(
                f,
                "{algorithm} is not accepted, because MD5 is broken: have the client use the \
                 algorithm of the key {key}, which `dunlin token list` shows"
            ),
            Fault::Algorithm => write!(
                f,
                "the key {key} has another algorithm than {algorithm}: `dunlin token list` shows it"
            ),
            Fault::Mac => write!(
                f,
                "the MAC by the key {key} is not that of the message: the client has another \
                 secret of this name, or something on the way has changed the message"
            ),
            Fault::Truncated => {
                write!(f, "the MAC by the key {key} is shortened: send all of it")
            }
            Fault::Time { now } => write!(
                f,
                "signed by the key {key} at {time}, and it is {now} here: the clocks differ by \
                 {} s, more than the {fudge} s that the client allows",
                now.abs_diff(*time)
            ),
            Fault::Form => f.write_str("its TSIG record is malformed or not the last record"),
        }
    }
}

/// The end of the question of a message that has one.
fn first_section_end(message: &[u8]) -> Option<usize> {
    let has_one = message.get(4..6)? == [0, 1];
    let end = skip_name(message, HEADER_LEN).ok()? + 4;
    (has_one && end <= message.len()).then_some(end)
}

/// Header and question of the response to a message, which has a complete header.
pub fn response_head(message: &[u8], rcode: Rcode) -> Vec<u8> {
    let flags = Flags(u16::from_be_bytes([message[2], message[3]])).reply();
    let end = first_section_end(message);
    let mut response = message[..end.unwrap_or(HEADER_LEN)].to_vec();
    response[2..4].copy_from_slice(&(flags.0 | rcode as u16).to_be_bytes());
    response[4..HEADER_LEN].fill(0);
    response[5] = end.is_some().into();
    response
}
