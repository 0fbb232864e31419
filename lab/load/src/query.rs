//! Queries as they are sent, and the identity of a question, by which answers are matched.

use crate::limits::{OPTION_MAX, QUERY_MAX};
use std::str::FromStr;
use wire::{Name, Rtype};

/// Bytes of the header.
pub const HEADER: usize = wire::HEADER_LEN;
/// Bytes of type and class after the name.
const TYPE_AND_CLASS: usize = 4;
/// Bytes of an OPT record without options.
const OPT: usize = 11;
/// The EDNS payload size that is announced (DNS flag day 2020).
const PAYLOAD: u16 = 1_232;

/// An EDNS option (RFC 6891 §6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdnsOption {
    code: u16,
    value: [u8; OPTION_MAX],
    len: u8,
}

impl EdnsOption {
    /// Bytes of its code and its length.
    const HEAD: usize = 4;

    fn value(&self) -> &[u8] {
        &self.value[..usize::from(self.len)]
    }
}

impl FromStr for EdnsOption {
    type Err = String;

    /// `8:0001180a0000`: a code, and its value in hexadecimal, which may be none.
    fn from_str(text: &str) -> Result<Self, String> {
        let told = || format!("`{text}` is not an option such as 8:0001180a0000 (a code, bytes)");
        let (code, digits) = text.split_once(':').ok_or_else(told)?;
        let code = code.parse().map_err(|_| told())?;
        if digits.len() > 2 * OPTION_MAX {
            return Err(format!("an option's value has {OPTION_MAX} bytes at most"));
        }
        let mut option = Self { code, value: [0; OPTION_MAX], len: (digits.len() / 2) as u8 };
        let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return Err(told()) };
        for (byte, pair) in option.value.iter_mut().zip(pairs) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(told);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(option)
    }
}

/// The parts of a query besides its question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryFormat {
    /// RD is set.
    pub recursion: bool,
    /// There is an OPT record (RFC 6891).
    pub edns: bool,
    /// DO is set in it (RFC 3225); implies `edns`.
    pub dnssec: bool,
    /// An EDNS option; implies `edns`.
    pub option: Option<EdnsOption>,
}

impl QueryFormat {
    /// Bytes after the question.
    pub fn tail(self) -> usize {
        let option = self.option.map_or(0, |option| EdnsOption::HEAD + option.value().len());
        if self.edns || self.dnssec || self.option.is_some() { OPT + option } else { 0 }
    }

    /// Writes a query with ID 0; returns its length, at most [`QUERY_MAX`].
    pub fn compose(self, name: &[u8], rtype: Rtype, room: &mut [u8; QUERY_MAX]) -> usize {
        let additional = u8::from(self.tail() > 0);
        let header = [0, 0, u8::from(self.recursion), 0, 0, 1, 0, 0, 0, 0, 0, additional];
        room[..HEADER].copy_from_slice(&header);
        let mut at = HEADER + name.len();
        room[HEADER..at].copy_from_slice(name);
        room[at..at + 2].copy_from_slice(&rtype.0.to_be_bytes());
        room[at + 2..at + 4].copy_from_slice(&[0, 1]);
        at += TYPE_AND_CLASS;
        if additional == 1 {
            let [high, low] = PAYLOAD.to_be_bytes();
            let dnssec = u8::from(self.dnssec) << 7;
            let [more, bytes] = ((self.tail() - OPT) as u16).to_be_bytes();
            let opt = [0, 0, 41, high, low, 0, 0, dnssec, 0, more, bytes];
            room[at..at + OPT].copy_from_slice(&opt);
            at += OPT;
        }
        if let Some(option) = &self.option {
            let (value, head) = (option.value(), at + EdnsOption::HEAD);
            room[at..at + 2].copy_from_slice(&option.code.to_be_bytes());
            room[at + 2..head].copy_from_slice(&(value.len() as u16).to_be_bytes());
            at = head + value.len();
            room[head..at].copy_from_slice(value);
        }
        at
    }
}

/// Identifies a question: a hash of its name regardless of case (RFC 4343), its type and its class.
/// Two questions have the same hash by chance once in 2⁶⁴ pairs.
#[inline]
pub fn identity(question: &[u8]) -> u64 {
    let (name, rest) = question.split_at(question.len().saturating_sub(TYPE_AND_CLASS));
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ question.len() as u64;
    let mut chunks = name.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("it has 8 bytes"));
        // This folds case. A few other characters collide, which is harmless in a hash.
        hash = fold(hash ^ (word | 0x2020_2020_2020_2020));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    hash = fold(hash ^ (u64::from_le_bytes(last) | 0x2020_2020_2020_2020));
    let mut exact = [0; 8];
    exact[..rest.len()].copy_from_slice(rest);
    fold(hash ^ u64::from_le_bytes(exact))
}

#[inline]
fn fold(word: u64) -> u64 {
    let product = u128::from(word) * 0xa076_1d64_78bd_642f;
    (product >> 64) as u64 ^ product as u64
}

/// The parts of a response that a generator reads.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'m> {
    /// The whole message.
    pub message: &'m [u8],
    /// Its ID.
    pub id: u16,
    /// The RCODE of the header.
    pub rcode: u8,
    /// Whether it holds its question.
    pub has_question: bool,
    /// Records in the answer section.
    pub answers: u16,
}

impl<'m> Answer<'m> {
    /// Reads the header. Nothing: it is not a response.
    #[inline]
    pub fn read(message: &'m [u8]) -> Option<Self> {
        let header: &[u8; HEADER] = message.first_chunk()?;
        if header[2] & 0x80 == 0 {
            return None;
        }
        Some(Self {
            message,
            id: u16::from_be_bytes([header[0], header[1]]),
            rcode: header[3] & 0x0f,
            has_question: header[4] != 0 || header[5] != 0,
            answers: u16::from_be_bytes([header[6], header[7]]),
        })
    }

    /// Whether this may be the answer to a question of this length and identity. A server that
    /// could not read the query may send a header alone (RFC 1035 §4.1.1: FORMERR, NOTIMP).
    #[inline]
    pub fn is_of(&self, len: usize, wanted: u64) -> bool {
        match self.message.get(HEADER..HEADER + len) {
            Some(question) if self.has_question => identity(question) == wanted,
            _ => !self.has_question && matches!(self.rcode, 1 | 4),
        }
    }

    /// Whether it was cut to fit (RFC 2181 §9).
    pub fn is_truncated(&self) -> bool {
        self.message[2] & 0x02 != 0
    }

    /// The whole RCODE where OPT is the only record, as in errors of EDNS (RFC 6891 §6.1.3);
    /// elsewhere that of the header.
    #[inline]
    pub fn full_rcode(&self, question_len: usize) -> u16 {
        let at = HEADER + question_len;
        let alone = self.message[6..10] == [0; 4];
        match self.message.get(at..at + OPT) {
            Some(opt) if alone && opt[..3] == [0, 0, 41] => {
                u16::from(opt[5]) << 4 | u16::from(self.rcode)
            }
            _ => self.rcode.into(),
        }
    }
}

/// The name of a question, in wire form.
pub fn name_of(query: &[u8], tail: usize) -> &[u8] {
    &query[HEADER..query.len() - tail - TYPE_AND_CLASS]
}

/// Bytes of the question for a name.
pub fn question_len(name: Name<'_>) -> usize {
    name.len() + TYPE_AND_CLASS
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{NameBuf, Query};

    const PLAIN: QueryFormat =
        QueryFormat { recursion: true, edns: false, dnssec: false, option: None };

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
    }

    fn question(text: &str, rtype: Rtype) -> Vec<u8> {
        let mut room = [0; QUERY_MAX];
        let len = PLAIN.compose(name(text).as_name().as_bytes(), rtype, &mut room);
        room[HEADER..len].to_vec()
    }

    #[test]
    fn an_independent_parser_reads_composed_queries() {
        let dnssec = QueryFormat { edns: true, dnssec: true, ..QueryFormat::default() };
        let option = Some("10:0102030405060708".parse().unwrap());
        for form in
            [PLAIN, dnssec, QueryFormat { option, ..PLAIN }, QueryFormat { option, ..dnssec }]
        {
            let mut room = [0; QUERY_MAX];
            let len = form.compose(name("a.example").as_name().as_bytes(), Rtype::AAAA, &mut room);
            let mut query = Query::default();
            query.parse(&room, len).unwrap();
            assert_eq!(query.dnssec_ok(), form.dnssec);
            let cookie = query.cookie.map(|cookie| *cookie.client());
            assert_eq!(cookie, form.option.map(|_| [1, 2, 3, 4, 5, 6, 7, 8]));
            assert_eq!(name_of(&room[..len], form.tail()), name("a.example").as_name().as_bytes());
        }
    }

    #[test]
    fn options_are_read_as_dnsperf_reads_them() {
        let read = |text: &str| text.parse::<EdnsOption>();
        assert_eq!(read("65001:").unwrap().value(), [0; 0]);
        assert_eq!(read("8:00Ff").unwrap().value(), [0, 255]);
        assert_eq!(read(&format!("8:{}", "ab".repeat(OPTION_MAX))).unwrap().value().len(), 64);
        let long = format!("8:{}", "ab".repeat(OPTION_MAX + 1));
        for wrong in ["", "8", "x:00", "65536:00", "8:0", "8:0g", "8:+1", "8:é", &long] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn query_identity_ignores_case() {
        let asked = identity(&question("svc-1.ns-1.svc.cluster.local", Rtype::A));
        assert_eq!(asked, identity(&question("SVC-1.ns-1.svc.Cluster.local", Rtype::A)));
        for (other, rtype) in [
            ("svc-1.ns-1.svc.cluster.local", Rtype::AAAA),
            // A and SRV differ in one bit, the one that folding case clears.
            ("svc-1.ns-1.svc.cluster.local", Rtype::SRV),
            ("svc-2.ns-1.svc.cluster.local", Rtype::A),
            ("svc-1.ns-1.svc.cluster.loca", Rtype::A),
        ] {
            assert_ne!(asked, identity(&question(other, rtype)), "{other} {rtype}");
        }
    }

    #[test]
    fn only_answers_are_parsed_as_answers() {
        let asked = question("a.example", Rtype::A);
        let mut message = vec![0x12, 0x34, 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(&asked);
        let (len, wanted) = (asked.len(), identity(&asked));
        let answer = Answer::read(&message).unwrap();
        assert_eq!((answer.id, answer.rcode), (0x1234, 3));
        assert!(answer.is_of(len, wanted) && !answer.is_of(len - 1, wanted));
        assert!(!answer.is_of(len, wanted + 1));
        assert!(!Answer::read(&message[..len]).unwrap().is_of(len, wanted), "it is cut");
        assert!(Answer::read(&message[..11]).is_none());
        let mut query = message.clone();
        query[2] &= 0x7f;
        assert!(Answer::read(&query).is_none());
        let alone = |rcode| [0, 0, 0x80, rcode, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(Answer::read(&alone(1)).unwrap().is_of(len, wanted));
        assert!(!Answer::read(&alone(0)).unwrap().is_of(len, wanted));
    }

    #[test]
    fn bad_version_is_read_from_opt() {
        let asked = question("a.example", Rtype::A);
        let mut message = vec![0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        message.extend(&asked);
        message.extend([0, 0, 41, 4, 208, 1, 0, 0, 0, 0, 0]);
        assert_eq!(Answer::read(&message).unwrap().full_rcode(asked.len()), 16);
        message[9] = 1; // a record of authority stands before it
        assert_eq!(Answer::read(&message).unwrap().full_rcode(asked.len()), 0);
    }
}
