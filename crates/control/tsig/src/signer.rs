//! Signs the messages of a response.
use crate::{ADDITIONAL_AT, Key, variables};
use std::sync::Arc;
use wire::{Class, HEADER_LEN, Name, Rtype};

/// Bytes of a record beside its owner, its algorithm, its MAC and its other data: type, class, TTL,
/// length; time, fudge, and five numbers of two bytes.
const FIXED_LEN: usize = 10 + 8 + 8;

/// Signs the messages of one response, in their order.
#[derive(Debug)]
pub struct Signer {
    key: Arc<Key>,
    fudge: u16,
    /// That of the message before: of the request at first.
    mac: Vec<u8>,
    is_first: bool,
}

/// An error that a TSIG record reports, and more about it.
pub(crate) struct ReportedError<'o> {
    /// When the response is signed: the time of the request for BADTIME.
    pub time: u64,
    pub code: u16,
    pub other: &'o [u8],
}

impl Signer {
    /// For the response to a request with this MAC.
    pub(crate) fn new(key: Arc<Key>, mac: &[u8], fudge: u16) -> Self {
        Self { key, fudge, mac: mac.to_vec(), is_first: true }
    }

    /// Bytes of the record that it adds to each message.
    pub fn record_len(&self) -> usize {
        let algorithm = self.key.algorithm();
        let names = self.key.name().len() + algorithm.name().len();
        names + FIXED_LEN + algorithm.mac_len()
    }

    /// Signs the next message of the response, at a time in seconds since 1970. The message has a
    /// complete header.
    pub fn sign(&mut self, message: &mut Vec<u8>, now: u64) {
        self.sign_error(message, &ReportedError { time: now, code: 0, other: &[] });
    }

    pub(crate) fn sign_error(&mut self, message: &mut Vec<u8>, error: &ReportedError<'_>) {
        let time = time_field(error.time, self.fudge);
        let names = (self.key.name(), self.key.algorithm().name());
        // RFC 8945 §5.3.1: the second message and those behind it have only the time.
        let variables = match self.is_first {
            true => variables(names, &time, error.code, error.other),
            false => time.to_vec(),
        };
        let before_len = (self.mac.len() as u16).to_be_bytes();
        self.mac = self.key.mac(&[&before_len, &self.mac, message, &variables]);
        self.is_first = false;
        put_record(message, names, &time, &self.mac, (error.code, error.other));
    }
}

/// The time and the fudge as a record has them.
pub(crate) fn time_field(time: u64, fudge: u16) -> [u8; 8] {
    (time << 16 | u64::from(fudge)).to_be_bytes()
}

/// Appends a TSIG record to a response.
pub(crate) fn put_record(
    message: &mut Vec<u8>,
    (name, algorithm): (Name<'_>, Name<'_>),
    time: &[u8; 8],
    mac: &[u8],
    (error, other): (u16, &[u8]),
) {
    let id = [message[0], message[1]];
    let len = |bytes: &[u8]| (bytes.len() as u16).to_be_bytes();
    let data: [&[u8]; 8] =
        [algorithm.as_bytes(), time, &len(mac), mac, &id, &error.to_be_bytes(), &len(other), other];
    let data = data.concat();
    let (rtype, class) = (Rtype::TSIG.0.to_be_bytes(), Class::ANY.0.to_be_bytes());
    let parts: [&[u8]; 6] = [name.as_bytes(), &rtype, &class, &[0; 4], &len(&data), &data];
    message.extend(parts.concat());
    let count = u16::from_be_bytes([message[ADDITIONAL_AT], message[ADDITIONAL_AT + 1]]);
    let count = count.wrapping_add(1).to_be_bytes();
    message[ADDITIONAL_AT..HEADER_LEN].copy_from_slice(&count);
}
