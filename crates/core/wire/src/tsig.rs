//! TSIG (RFC 8945): the record that authenticates a message.
use crate::{Class, HEADER_LEN, Name, Records, Rtype, skip_name};

/// Bytes of the signing time and the fudge.
const TIME_LEN: usize = 8;
/// Bytes of the longest data without a MAC and without more about an error.
const UNSIGNED_LEN_MAX: usize = Name::LEN_MAX + TIME_LEN + 8;

/// The data of a TSIG record (RFC 8945 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsig<'m> {
    /// The name of the algorithm.
    pub algorithm: Name<'m>,
    /// When the message was signed, and how many seconds the clocks may differ.
    pub time: &'m [u8; TIME_LEN],
    /// The message authentication code.
    pub mac: &'m [u8],
    /// The ID of the message when it was signed.
    pub original_id: [u8; 2],
    /// The error that a response reports; 0 in a request.
    pub error: u16,
    /// More about the error.
    pub other: &'m [u8],
}

impl<'m> Tsig<'m> {
    /// The MAC is not that of the message (RFC 8945 §5.2.2).
    pub const BAD_SIG: u16 = 16;
    /// The key is not known to the server (RFC 8945 §5.2.1).
    pub const BAD_KEY: u16 = 17;
    /// The clocks differ by more than the fudge (RFC 8945 §5.2.3).
    pub const BAD_TIME: u16 = 18;
    /// The MAC is shorter than the server accepts (RFC 8945 §5.2.4).
    pub const BAD_TRUNC: u16 = 22;
    /// Bytes of the longest data without a MAC and without more about an error.
    pub const UNSIGNED_LEN_MAX: usize = UNSIGNED_LEN_MAX;

    /// Reads a record's data; `None` if it is malformed, or the class is not ANY.
    pub fn parse(class: Class, data: &'m [u8]) -> Option<Self> {
        let end = name_end(data)?;
        let algorithm = Name::parse(data.get(..end)?).ok()?;
        let (time, rest) = data.get(end..)?.split_first_chunk::<TIME_LEN>()?;
        let (mac, rest) = split_counted(rest)?;
        let (original_id, rest) = rest.split_first_chunk::<2>()?;
        let (error, rest) = rest.split_first_chunk::<2>()?;
        let (other, rest) = split_counted(rest)?;
        let (original_id, error) = (*original_id, u16::from_be_bytes(*error));
        (class == Class::ANY && rest.is_empty()).then_some(Self {
            algorithm,
            time,
            mac,
            original_id,
            error,
            other,
        })
    }

    /// Writes the data of the response that reports an error without signing it (RFC 8945 §5.3.2):
    /// the same, with this error, an empty MAC and the ID of the response. Returns its length.
    pub fn put_unsigned(
        &self,
        error: u16,
        id: [u8; 2],
        room: &mut [u8; UNSIGNED_LEN_MAX],
    ) -> usize {
        let [e0, e1] = error.to_be_bytes();
        let [i0, i1] = id;
        let mut len = 0;
        for part in [self.algorithm.as_bytes(), self.time, &[0, 0, i0, i1, e0, e1, 0, 0]] {
            room[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        len
    }
}

/// The offset of the TSIG record of a message of any opcode: the last record of its additional
/// section. `None`: there is none, or the message is malformed before it.
pub fn signature_at(message: &[u8]) -> Option<usize> {
    let [_, _, _, _, counts @ ..] = *message.first_chunk::<HEADER_LEN>()?;
    let [q0, q1, a0, a1, u0, u1, x0, x1] = counts;
    let [questions, answers, authority, additional] = [[q0, q1], [a0, a1], [u0, u1], [x0, x1]]
        .map(|count| usize::from(u16::from_be_bytes(count)));
    if additional == 0 {
        return None;
    }
    let mut at = HEADER_LEN;
    for _ in 0..questions {
        at = skip_name(message, at).ok()? + 4;
    }
    let mut records = Records::new(message, at, answers + authority + additional);
    for _ in 1..answers + authority + additional {
        records.next()?.ok()?;
    }
    let last_at = records.at();
    let last = records.next()?.ok()?;
    (last.rtype == Rtype::TSIG && records.at() == message.len()).then_some(last_at)
}

/// The bytes behind a length of 16 bits, and the rest.
fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*len).into())
}

/// The end of the name at the start of some bytes, which is not compressed (RFC 8945 §4.2).
fn name_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match usize::from(*bytes.get(at)?) {
            0 => return Some(at + 1),
            len if len <= Name::LABEL_MAX => at += 1 + len,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const DATA: &[u8] = b"\x0bhmac-sha256\0\0\0\x65\0\0\0\x01\x2c\0\x04\x01\x02\x03\x04\
                          \xab\xcd\0\0\0\x02\x05\x06";

    /// An UPDATE with a question, an answer and these additional records.
    fn update(additional: &[&[u8]]) -> Vec<u8> {
        let head = [0, 1, 0x28, 0, 0, 1, 0, 1, 0, 0, 0, additional.len() as u8];
        let zone = b"\x01z\x00\x00\x06\x00\x01\xc0\x0c\x00\xff\x00\xff\x00\x00\x00\x00\x00\x00";
        [&head[..], zone, &additional.concat()].concat()
    }

    #[test]
    fn signature_is_the_last_additional_record_of_any_opcode() {
        let signed =
            [b"\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00", &[DATA.len() as u8][..], DATA].concat();
        let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
        let last = update(&[opt, &signed]);
        assert_eq!(signature_at(&last), Some(last.len() - signed.len()));
        for other in [update(&[]), update(&[opt]), update(&[&signed, opt])] {
            assert_eq!(signature_at(&other), None);
        }
        for len in 0..last.len() {
            assert_eq!(signature_at(&last[..len]), None, "{len}");
        }
        assert_eq!(signature_at(&[&last[..], &[0]].concat()), None, "bytes behind it");
    }

    #[test]
    fn every_field_of_the_data_is_read() {
        let tsig = Tsig::parse(Class::ANY, DATA).expect("well formed");
        assert_eq!(tsig.algorithm.as_bytes(), &DATA[..13]);
        assert_eq!((tsig.mac, tsig.other), (&[1, 2, 3, 4][..], &[5, 6][..]));
        assert_eq!((tsig.original_id, tsig.error), ([0xab, 0xcd], 0));
    }

    #[test]
    fn data_that_is_cut_or_too_long_or_of_another_class_is_refused() {
        for len in 0..DATA.len() {
            assert_eq!(Tsig::parse(Class::ANY, &DATA[..len]), None, "{len}");
        }
        let longer = [DATA, &[0]].concat();
        assert_eq!(Tsig::parse(Class::ANY, &longer), None);
        assert_eq!(Tsig::parse(Class::IN, DATA), None);
        let mut compressed: Vec<u8> = DATA.into();
        compressed[0] = 0xc0;
        assert_eq!(Tsig::parse(Class::ANY, &compressed), None);
    }

    #[test]
    fn unsigned_error_has_the_longest_algorithm_and_no_mac() {
        let mut data = Vec::new();
        for len in [63, 63, 63, 61] {
            data.push(len);
            data.extend(std::iter::repeat_n(b'a', len.into()));
        }
        data.extend([0]);
        assert_eq!(data.len(), Name::LEN_MAX);
        data.extend(&DATA[13..]);
        let tsig = Tsig::parse(Class::ANY, &data).expect("well formed");
        let mut room = [0xee; Tsig::UNSIGNED_LEN_MAX];
        let len = tsig.put_unsigned(Tsig::BAD_KEY, [1, 2], &mut room);
        assert_eq!(len, room.len());
        let error = Tsig::parse(Class::ANY, &room[..len]).expect("well formed");
        assert_eq!(error, Tsig { mac: &[], other: &[], error: 17, original_id: [1, 2], ..tsig });
    }
}
