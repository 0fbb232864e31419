//! Records of a received message.
use crate::name::{Name, NameBuf};
use crate::{Class, HEADER_LEN, RdataField, Rtype, layout};

/// A record. Its data is that of the message, with names that may be compressed.
#[derive(Clone, Copy, Debug)]
pub struct Record<'m> {
    message: &'m [u8],
    owner_at: usize,
    data_at: usize,
    data_end: usize,
    /// Its type.
    pub rtype: Rtype,
    /// Its class, or the payload size of OPT.
    pub class: Class,
    /// Its TTL in seconds, or the flags of OPT.
    pub ttl: u32,
}

impl<'m> Record<'m> {
    /// The owner in lower case.
    ///
    /// # Errors
    /// [`Malformed`] if a label or pointer is invalid.
    pub fn owner(&self) -> Result<NameBuf, Malformed> {
        Ok(name_at(self.message, self.owner_at)?.0)
    }

    /// Whether the owner is this name, which is in lower case. Cheaper than [`Record::owner`]: it
    /// stops at the first difference.
    ///
    /// # Errors
    /// [`Malformed`] as for [`Record::owner`], in the part that is read.
    pub fn is_at(&self, name: Name<'_>) -> Result<bool, Malformed> {
        let (mut at, mut bound, mut rest) = (self.owner_at, self.owner_at, name.as_bytes());
        loop {
            let first = *self.message.get(at).ok_or(Malformed)?;
            match first {
                0..0x40 => {
                    let end = at + 1 + usize::from(first);
                    let label = self.message.get(at..end).ok_or(Malformed)?;
                    match rest.split_at_checked(label.len()) {
                        // The length byte of a label stays as it is.
                        Some((own, behind)) if label.eq_ignore_ascii_case(own) => rest = behind,
                        _ => return Ok(false),
                    }
                    if first == 0 {
                        return Ok(true);
                    }
                    at = end;
                }
                _ => at = prior(self.message, at, &mut bound)?,
            }
        }
    }

    /// The data as in the message.
    pub fn data(&self) -> &'m [u8] {
        &self.message[self.data_at..self.data_end]
    }

    /// The data with its names expanded into `buffer`, or unchanged if that is too small. Names of
    /// RFC 1035 types are compressed, and some servers compress others too (RFC 3597 §4).
    ///
    /// # Errors
    /// [`Malformed`] if a name is invalid, or the data ends too early.
    pub fn expand<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Malformed> {
        let (mut at, mut len) = (self.data_at, 0);
        let mut put = |bytes: &[u8]| -> Result<(), Malformed> {
            buffer.get_mut(len..len + bytes.len()).ok_or(Malformed)?.copy_from_slice(bytes);
            len += bytes.len();
            Ok(())
        };
        for field in expanded(self.rtype) {
            match field {
                RdataField::Bytes(count) => {
                    put(self.message[..self.data_end].get(at..at + count).ok_or(Malformed)?)?;
                    at += count;
                }
                RdataField::Name => {
                    let (name, end) = name_at(&self.message[..self.data_end], at)?;
                    put(name.as_name().as_bytes())?;
                    at = end;
                }
            }
        }
        put(self.message.get(at..self.data_end).ok_or(Malformed)?)?;
        Ok(&buffer[..len])
    }
}

/// The parts of `rtype`'s data up to its last name that may be compressed when received. SRV must
/// not be (RFC 2782), but some servers compressed it.
pub const fn expanded(rtype: Rtype) -> &'static [RdataField] {
    match rtype {
        Rtype::SRV => &[RdataField::Bytes(6), RdataField::Name],
        Rtype::RP => &[RdataField::Name, RdataField::Name],
        Rtype::AFSDB | Rtype::RT | Rtype::KX => &[RdataField::Bytes(2), RdataField::Name],
        Rtype::DNAME => &[RdataField::Name],
        _ => layout(rtype),
    }
}

/// The bytes are not a record of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Iterator over consecutive records.
#[derive(Clone, Copy, Debug)]
pub struct Records<'m> {
    message: &'m [u8],
    at: usize,
    left: usize,
}

impl<'m> Records<'m> {
    /// `count` records from an offset on.
    pub const fn new(message: &'m [u8], at: usize, count: usize) -> Self {
        Self { message, at, left: count }
    }

    /// The offset of the next record.
    pub const fn at(&self) -> usize {
        self.at
    }

    fn read(&mut self) -> Result<Record<'m>, Malformed> {
        let owner_at = self.at;
        let head_at = skip_name(self.message, owner_at)?;
        let head: &[u8; 10] =
            self.message.get(head_at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed)?;
        let [t0, t1, c0, c1, l0, l1, l2, l3, n0, n1] = *head;
        let data_at = head_at + head.len();
        let data_end = data_at + usize::from(u16::from_be_bytes([n0, n1]));
        if data_end > self.message.len() {
            return Err(Malformed);
        }
        self.at = data_end;
        Ok(Record {
            message: self.message,
            owner_at,
            data_at,
            data_end,
            rtype: Rtype(u16::from_be_bytes([t0, t1])),
            class: Class(u16::from_be_bytes([c0, c1])),
            ttl: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }
}

impl<'m> Iterator for Records<'m> {
    type Item = Result<Record<'m>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = self.read();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

/// The end of the name at an offset.
///
/// # Errors
/// [`Malformed`] if it does not end within the message.
pub fn skip_name(message: &[u8], mut at: usize) -> Result<usize, Malformed> {
    let start = at;
    while at - start < Name::LEN_MAX {
        match *message.get(at).ok_or(Malformed)? {
            0 => return Ok(at + 1),
            len if usize::from(len) <= Name::LABEL_MAX => at += 1 + usize::from(len),
            0xc0.. => return message.get(at + 1).map(|_| at + 2).ok_or(Malformed),
            _ => return Err(Malformed),
        }
    }
    Err(Malformed)
}

/// Replaces the TTL of each record by `age` of it, up to the first bytes that are not a record.
#[inline]
pub fn age_records(records: &mut [u8], age: impl Fn(u32) -> u32) {
    let mut at = 0;
    while let Ok(head_at) = skip_owner(records, at)
        && let Some(head) = records.get_mut(head_at..).and_then(|head| head.first_chunk_mut())
    {
        let [_, _, _, _, t0, t1, t2, t3, n0, n1]: &mut [u8; 10] = head;
        let aged = age(u32::from_be_bytes([*t0, *t1, *t2, *t3]));
        [*t0, *t1, *t2, *t3] = aged.to_be_bytes();
        at = head_at + 10 + usize::from(u16::from_be_bytes([*n0, *n1]));
    }
}

/// As [`skip_name`], for an owner, which is usually a pointer.
#[inline(always)]
fn skip_owner(records: &[u8], at: usize) -> Result<usize, Malformed> {
    match records.get(at) {
        Some(0xc0..) => Ok(at + 2),
        _ => skip_name(records, at),
    }
}

/// The name at an offset in lower case, and its end. Every pointer must point before the previous
/// one (RFC 1035 §4.1.4: to a prior occurrence), so that loops are impossible.
fn name_at(message: &[u8], start: usize) -> Result<(NameBuf, usize), Malformed> {
    let mut bytes = [0; Name::LEN_MAX];
    let (mut at, mut len, mut end, mut bound) = (start, 0, None, start);
    loop {
        let first = *message.get(at).ok_or(Malformed)?;
        match first {
            0..0x40 => {
                let label = message.get(at..=at + usize::from(first)).ok_or(Malformed)?;
                bytes.get_mut(len..len + label.len()).ok_or(Malformed)?.copy_from_slice(label);
                len += label.len();
                at += label.len();
                if first == 0 {
                    break;
                }
            }
            _ => {
                end = end.or(Some(at + 2));
                at = prior(message, at, &mut bound)?;
            }
        }
    }
    bytes[..len].make_ascii_lowercase();
    let name = Name::parse(&bytes[..len]).map_err(|_| Malformed)?;
    Ok((name.into(), end.unwrap_or(at)))
}

/// The target of the pointer at an offset. It must lie before the bound, which is set to it.
fn prior(message: &[u8], at: usize, bound: &mut usize) -> Result<usize, Malformed> {
    let pointer = message.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed)?;
    let to = usize::from(u16::from_be_bytes(*pointer) & 0x3fff);
    if pointer[0] < 0xc0 || to < HEADER_LEN || to >= *bound {
        return Err(Malformed);
    }
    *bound = to;
    Ok(to)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const QUESTION: &[u8] =
        b"\x00\x01\x81\x80\x00\x01\x00\x02\x00\x00\x00\x00\x03wWw\x02eX\x00\x00\x01\x00\x01";

    fn message(records: &[u8]) -> Vec<u8> {
        [QUESTION, records].concat()
    }

    #[test]
    fn records_are_read_with_their_names_written_out() {
        let message = message(
            b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01a\xc0\x10\
              \xc0\x24\x00\x0f\x00\x01\x00\x00\x00\x05\x00\x06\x00\x0a\x01b\xc0\x24",
        );
        let all: Result<Vec<_>, _> = Records::new(&message, QUESTION.len(), 2).collect();
        let [alias, mail] = all.unwrap()[..] else { panic!("two records") };
        let mut buffer = [0; 512];
        assert_eq!((alias.rtype, alias.class, alias.ttl), (Rtype::CNAME, Class::IN, 60));
        assert_eq!(alias.owner().unwrap().as_name().as_bytes(), b"\x03www\x02ex\x00");
        assert_eq!(alias.expand(&mut buffer), Ok(&b"\x01a\x02ex\x00"[..]));
        assert_eq!(mail.owner().unwrap().as_name().as_bytes(), b"\x01a\x02ex\x00");
        let is_at = |bytes: &[u8]| mail.is_at(Name::parse(bytes).unwrap()).unwrap();
        assert!(
            is_at(b"\x01a\x02ex\x00") && alias.is_at(alias.owner().unwrap().as_name()).unwrap()
        );
        for other in [&b"\x01b\x02ex\x00"[..], b"\x01a\x00", b"\x02ex\x00", b"\x00"] {
            assert!(!is_at(other));
        }
        assert!(!is_at(b"\x01a\x02ex\x03net\x00"));
        assert_eq!(mail.expand(&mut buffer), Ok(&b"\x00\x0a\x01b\x01a\x02ex\x00"[..]));
        assert_eq!(mail.expand(&mut buffer[..9]), Err(Malformed), "too small");
    }

    #[test]
    fn no_pointer_leads_in_a_circle_forwards_or_out() {
        let end = QUESTION.len();
        for at in [end, end + 2, 11, 0, 0x3fff] {
            let [p0, p1] = (0xc000 | at as u16).to_be_bytes();
            let message = message(&[p0, p1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0]);
            let record = Records::new(&message, end, 1).next().unwrap().unwrap();
            assert!(record.owner().is_err(), "{at}");
            assert!(record.is_at(Name::ROOT).is_err(), "{at}");
        }
        // Two pointers to each other.
        let message = message(b"\x01x\xc0\x1b\xc0\x17\x00\x01\x00\x01\x00\x00\x00\x01\x00\x00");
        assert!(name_at(&message, end).is_err());
        assert!(name_at(&message, end + 4).is_err());
    }

    #[test]
    fn truncated_bytes_are_not_a_record() {
        let whole = message(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01");
        for len in QUESTION.len()..whole.len() {
            let mut records = Records::new(&whole[..len], QUESTION.len(), 1);
            assert!(records.next().unwrap().is_err(), "{len}");
            assert!(records.next().is_none());
        }
    }
}
