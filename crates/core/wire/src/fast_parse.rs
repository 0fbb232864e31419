//! A fast check whether a message is a plain query, without a look at its labels.
use crate::header::{Flags, HEADER_LEN};
use crate::limits::PADDED_LEN;
use crate::query::lower;
use crate::{Class, Cookie, Name, OptionCode, Rtype};

/// Bytes of a question behind its name.
const TYPE_AND_CLASS_LEN: usize = 4;
/// Bytes of an OPT record without options.
const OPT_LEN: usize = 11;
/// Bytes that are read, also behind the message.
const WINDOW_LEN: usize = HEADER_LEN + PADDED_LEN;

/// Bytes of an option before its data.
const OPTION_HEAD_LEN: usize = 4;
/// Bytes of a cookie with a server part by RFC 9018.
const COOKIE_LEN: usize = 24;

/// The relevant part of the OPT record's first eight bytes: owner, type, version and DO.
const OPT_MASK: u64 = u64::from_be_bytes([255, 255, 255, 0, 0, 0, 255, 0x80]);
const OPT_PLAIN: u64 = (Rtype::OPT.0 as u64) << 40;

/// A plain query: class IN, and nothing behind the question but an OPT of version 0 without options
/// and DO. The length of the message then determines the end of the name. Whether the bytes are a
/// valid name is not checked: a lookup that finds them proves it.
#[derive(Clone, Debug)]
pub struct FastParse {
    lower: [u8; PADDED_LEN],
    /// The query type.
    pub rtype: Rtype,
    /// Whether the message has an OPT record.
    pub has_opt: bool,
    cookie: [u8; COOKIE_LEN],
    cookie_len: u8,
}

impl FastParse {
    /// An empty value, to be read into.
    pub const fn new() -> Self {
        let (lower, cookie) = ([0; PADDED_LEN], [0; COOKIE_LEN]);
        Self { lower, rtype: Rtype(0), has_opt: false, cookie, cookie_len: 0 }
    }

    /// Reads the message in the first `len` bytes of `window` and returns the length that its name
    /// must have, 1 to 255. `None` if the query is not plain, or the room behind it is too short to
    /// read whole blocks.
    #[inline(always)]
    pub fn read(&mut self, window: &[u8], len: usize) -> Option<usize> {
        let window: &[u8; WINDOW_LEN] = window.first_chunk()?;
        let (header, names) = window.split_first_chunk::<HEADER_LEN>()?;
        let [_, _, f0, f1, counts @ ..] = *header;
        // One question, and one additional record or none.
        let additional = u64::from_be_bytes(counts).wrapping_sub(1 << 48);
        if !Flags(u16::from_be_bytes([f0, f1])).is_query() || additional > 1 {
            return None;
        }
        self.has_opt = additional == 1;
        let around = HEADER_LEN + TYPE_AND_CLASS_LEN + if self.has_opt { OPT_LEN } else { 0 };
        let name_len = len.wrapping_sub(around);
        if !(1..=Name::LEN_MAX).contains(&name_len) {
            return None;
        }
        let (head, behind) = names.get(name_len..)?.split_first_chunk()?;
        let [t0, t1, c0, c1] = *head;
        if u16::from_be_bytes([c0, c1]) != Class::IN.0
            || self.has_opt && !is_plain(behind.first_chunk()?)
        {
            return None;
        }
        lower(&mut self.lower, names.first_chunk()?, name_len);
        self.rtype = Rtype(u16::from_be_bytes([t0, t1]));
        self.cookie_len = 0;
        Some(name_len)
    }

    /// As [`FastParse::read`], for a plain query whose OPT record has one option: a COOKIE with the
    /// client's part alone, or with a server part of 16 bytes.
    #[inline(always)]
    pub fn read_with_cookie(&mut self, window: &[u8], len: usize) -> Option<usize> {
        let window: &[u8; WINDOW_LEN] = window.first_chunk()?;
        let (header, names) = window.split_first_chunk::<HEADER_LEN>()?;
        let [_, _, f0, f1, counts @ ..] = *header;
        if !Flags(u16::from_be_bytes([f0, f1])).is_query()
            || u64::from_be_bytes(counts) != 1 << 48 | 1
        {
            return None;
        }
        let names = names.first_chunk()?;
        let whole = self.read_tail::<COOKIE_LEN>(names, len);
        let name_len = whole.or_else(|| self.read_tail::<{ Cookie::CLIENT_LEN }>(names, len))?;
        self.has_opt = true;
        lower(&mut self.lower, names, name_len);
        Some(name_len)
    }

    /// Reads what follows the name if the message ends with a cookie of N bytes; returns the length
    /// that the name must have.
    #[inline(always)]
    fn read_tail<const N: usize>(&mut self, names: &[u8; PADDED_LEN], len: usize) -> Option<usize> {
        let around = HEADER_LEN + TYPE_AND_CLASS_LEN + OPT_LEN + OPTION_HEAD_LEN + N;
        let name_len = len.wrapping_sub(around);
        if !(1..=Name::LEN_MAX).contains(&name_len) {
            return None;
        }
        let (head, behind) = names.get(name_len..)?.split_first_chunk::<TYPE_AND_CLASS_LEN>()?;
        let (opt, behind) = behind.split_first_chunk()?;
        if !is_cookie(opt, N as u8) || head[2..] != Class::IN.0.to_be_bytes() {
            return None;
        }
        *self.cookie.first_chunk_mut::<N>()? = *behind.first_chunk()?;
        self.cookie_len = N as u8;
        self.rtype = Rtype(u16::from_be_bytes([head[0], head[1]]));
        Some(name_len)
    }

    /// The cookie; empty if the query was last read without one.
    #[inline]
    pub fn cookie(&self) -> &[u8] {
        &self.cookie[..usize::from(self.cookie_len)]
    }

    /// The cookie, if it has a server part.
    #[inline]
    pub fn complete_cookie(&self) -> Option<&[u8; COOKIE_LEN]> {
        (usize::from(self.cookie_len) == COOKIE_LEN).then_some(&self.cookie)
    }

    /// The name in lower case; bytes behind it have no meaning.
    #[inline]
    pub fn padded(&self) -> &[u8; PADDED_LEN] {
        &self.lower
    }
}

impl Default for FastParse {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether an OPT record requests nothing.
#[inline(always)]
fn is_plain(opt: &[u8; OPT_LEN]) -> bool {
    let (first, last) = (opt.first_chunk::<8>(), opt.last_chunk::<2>());
    let is_fixed = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes) & OPT_MASK == OPT_PLAIN;
    first.is_some_and(is_fixed) && last == Some(&[0; 2])
}

/// Whether an OPT record requests nothing but a cookie of this length.
#[inline(always)]
fn is_cookie(opt: &[u8; OPT_LEN + OPTION_HEAD_LEN], cookie_len: u8) -> bool {
    let [code0, code1] = OptionCode::COOKIE.0.to_be_bytes();
    let len = OPTION_HEAD_LEN as u8 + cookie_len;
    let is_fixed = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes) & OPT_MASK == OPT_PLAIN;
    opt.first_chunk().is_some_and(is_fixed)
        && opt.last_chunk() == Some(&[0, len, code0, code1, 0, cookie_len])
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Edns, Query};
    use std::vec::Vec;

    const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x03WwW\x07Example\0\0\x01\0\x01";
    const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";

    /// With room behind it for whole blocks.
    fn with_space(message: &[u8]) -> Vec<u8> {
        let mut window = message.to_vec();
        window.resize(WINDOW_LEN.max(message.len()), 0xee);
        window
    }

    /// The fast parse must return what the whole parse returns, and accept every plain query that
    /// it accepts.
    fn compare(message: &[u8]) -> bool {
        let window = with_space(message);
        // An earlier query must leave no trace.
        let (mut fast_parse, mut query) = (FastParse::new(), Query::new());
        fast_parse.cookie_len = 8;
        let parsed = query.parse(&window, message.len());
        let is_plain_query = query.plain && query.flags.is_query();
        let plain = parsed.is_ok() && is_plain_query && query.class == Class::IN;
        let without = fast_parse.read(&window, message.len());
        let fast = without.or_else(|| fast_parse.read_with_cookie(&window, message.len()));
        let Some(len) = fast else {
            assert!(!plain, "{message:x?}");
            return false;
        };
        if !Name::parse(&message[HEADER_LEN..]).is_ok_and(|name| name.len() == len) {
            assert!(!plain, "{message:x?}");
            return true;
        }
        assert_eq!(plain, without.is_some(), "{message:x?}");
        assert_eq!(parsed, Ok(()), "{message:x?}");
        assert_eq!(fast_parse.padded()[..len], *query.name.as_bytes());
        assert_eq!((fast_parse.rtype, Class::IN), (query.rtype, query.class));
        assert_eq!(fast_parse.has_opt, query.edns.is_some());
        assert_eq!(fast_parse.cookie(), query.cookie.as_ref().map_or(&[][..], Cookie::as_bytes));
        let whole = Some(fast_parse.cookie()).filter(|cookie| cookie.len() == COOKIE_LEN);
        assert_eq!(fast_parse.complete_cookie().map(|cookie| &cookie[..]), whole);
        let edns = query.edns.unwrap_or(Edns::parse([0; 2], [0; 4]));
        assert!(!edns.dnssec_ok && !edns.nsid && !edns.keepalive && edns.version == 0);
        true
    }

    #[test]
    fn fast_parse_equals_the_full_parse() {
        let with_opt = [QUESTION, OPT].concat();
        let mut without = QUESTION.to_vec();
        without[11] = 0;
        assert!(compare(&with_opt) && compare(&without));
        let mut taken = 0;
        for message in [with_opt, without] {
            for at in 0..message.len() {
                for value in 0..=255 {
                    let mut changed = message.clone();
                    changed[at] = value;
                    taken += usize::from(compare(&changed));
                }
                compare(&message[..at]);
            }
            compare(&[&message[..], b"\0"].concat());
        }
        assert!(taken > 1000, "most bytes do not matter");
    }

    #[test]
    fn fast_parse_finds_the_cookie_of_the_full_parse() {
        let data: [u8; 24] = core::array::from_fn(|at| at as u8 + 1);
        let mut taken = 0;
        for (len, others) in [(8, 0), (24, 0), (16, 0), (40, 0), (8, 12)] {
            let option = [&[0, 10, 0, len as u8], &data.repeat(2)[..len]].concat();
            let other = [&[0xfd, 0xe9, 0, 8][..], &[7; 8]].concat();
            let mut opt = OPT.to_vec();
            opt[10] = (option.len() + others) as u8;
            let message = [QUESTION, &opt, &option, &other[..others]].concat();
            for at in 0..message.len() {
                for value in 0..=255 {
                    let mut changed = message.clone();
                    changed[at] = value;
                    taken += usize::from(compare(&changed));
                }
                compare(&message[..at]);
            }
            assert_eq!(compare(&message), matches!((len, others), (8 | 24, 0)));
        }
        assert!(taken > 10_000, "most bytes do not matter");
    }

    #[test]
    fn names_of_every_length_are_read() {
        for len in 1..=260 {
            let mut name: Vec<u8> = Vec::new();
            while name.len() + 1 < len {
                let label = (len - name.len() - 2).min(Name::LABEL_MAX);
                name.push(label as u8);
                name.extend(std::iter::repeat_n(b'X', label));
            }
            name.push(0);
            let message = [&QUESTION[..HEADER_LEN], &name, b"\0\x1c\0\x01", OPT].concat();
            assert_eq!(compare(&message), name.len() <= Name::LEN_MAX, "{}", name.len());
        }
    }

    #[test]
    fn without_room_behind_the_message_nothing_is_read() {
        let mut window = with_space(&[QUESTION, OPT].concat());
        window.pop();
        assert_eq!(FastParse::new().read(&window, QUESTION.len() + OPT.len()), None);
    }
}
