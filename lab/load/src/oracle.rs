//! Expected answers: the records of a zone file.

use crate::limits::TRUTH_MAX;
use crate::query::{Answer, HEADER};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use wire::{Malformed, Name, Records, Rtype};

/// Bytes of the longest data of a record, its names written out; longer is not compared.
const ROOM: usize = 1 << 16;

/// The data of a record set, in order.
type Data = Vec<Box<[u8]>>;

/// Records by name and type. A name that is not among them is not judged: it may be answered by a
/// wildcard, or be another zone's.
#[derive(Debug, Default)]
pub struct Oracle {
    sets: HashMap<(Box<[u8]>, u16), Data>,
    names: HashSet<Box<[u8]>>,
}

/// The comparison of an answer with the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCheck {
    Right,
    Wrong,
    /// It is cut, an alias, or of a name that is not known.
    Unknown,
}

impl Oracle {
    /// Reads a zone file.
    ///
    /// # Errors
    /// The error in the file, with its position.
    pub fn read(path: &Path, origin: Name<'_>) -> Result<Self, String> {
        let mut oracle = Self::default();
        zonefile::read(path, origin, &mut |record| {
            if oracle.sets.len() == TRUTH_MAX {
                return Err(format!("more than {TRUTH_MAX} record sets to compare answers with"));
            }
            oracle.push(record.owner, record.rtype, record.rdata);
            Ok(())
        })
        .map_err(|failure| failure.to_string())?;
        oracle.sets.values_mut().for_each(|set| set.sort_unstable());
        Ok(oracle)
    }

    fn push(&mut self, owner: Name<'_>, rtype: Rtype, rdata: &[u8]) {
        let owner: Box<[u8]> = owner.as_bytes().to_ascii_lowercase().into();
        let set = self.sets.entry((owner.clone(), rtype.0)).or_default();
        set.push(comparable(rtype, rdata));
        self.names.insert(owner);
    }

    /// Judges an answer whose question has this length.
    pub(crate) fn judge(&self, answer: &Answer<'_>, question_len: usize) -> ContentCheck {
        let message = answer.message;
        let Some(question) = message.get(HEADER..HEADER + question_len) else {
            return ContentCheck::Unknown;
        };
        let (name, rest) = question.split_at(question_len - 4);
        let (name, rtype) = (name.to_ascii_lowercase(), u16::from_be_bytes([rest[0], rest[1]]));
        if answer.is_truncated() || !self.names.contains(&name[..]) {
            return ContentCheck::Unknown;
        }
        let known = self.sets.get(&(name.into_boxed_slice(), rtype)).map_or(&[][..], |set| set);
        match found(answer, HEADER + question_len, Rtype(rtype)) {
            Ok(Some(found)) if answer.rcode == 0 && found == known => ContentCheck::Right,
            Ok(None) => ContentCheck::Unknown,
            _ => ContentCheck::Wrong,
        }
    }
}

/// The data of all records of a type in the answer section, in order. Nothing: there is an alias.
fn found(answer: &Answer<'_>, at: usize, rtype: Rtype) -> Result<Option<Data>, Malformed> {
    let (mut found, mut room) = (Vec::new(), [0; ROOM]);
    for record in Records::new(answer.message, at, answer.answers.into()) {
        let record = record?;
        if record.rtype == Rtype::CNAME && rtype != Rtype::CNAME {
            return Ok(None);
        }
        if record.rtype == rtype {
            found.push(comparable(rtype, record.expand(&mut room)?));
        }
    }
    found.sort_unstable();
    Ok(Some(found))
}

/// Data whose names have lost their case (RFC 4343), which a server may take from the question.
fn comparable(rtype: Rtype, rdata: &[u8]) -> Box<[u8]> {
    match wire::expanded(rtype) {
        [] => rdata.into(),
        _ => rdata.to_ascii_lowercase().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;

    /// Reads this text as a zone.
    fn read(text: &str, origin: Name<'_>) -> Result<Oracle, String> {
        let folder = test_support::folder::Folder::new("oracle");
        let path = folder.join("zone");
        std::fs::write(&path, text).unwrap();
        Oracle::read(&path, origin)
    }

    fn oracle() -> Oracle {
        let text = "$TTL 60\n@ SOA ns h 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n\
                    two A 192.0.2.3\ntwo A 192.0.2.2\nmail MX 5 Two\n";
        let origin = NameBuf::from_text(b"example", Name::ROOT).unwrap();
        read(text, origin.as_name()).unwrap()
    }

    /// Judges an answer to `name` with these records, each a type and its data.
    fn judge(
        oracle: &Oracle,
        name: &str,
        rtype: Rtype,
        rcode: u8,
        records: &[(u16, &[u8])],
    ) -> ContentCheck {
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).unwrap();
        let mut message = vec![0, 0, 0x80, rcode, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        message.extend(name.as_name().as_bytes());
        message.extend(rtype.0.to_be_bytes());
        message.extend([0, 1]);
        let question_len = message.len() - HEADER;
        for (rtype, rdata) in records {
            message.extend([0xc0, 12]);
            message.extend(rtype.to_be_bytes());
            message.extend([0, 1, 0, 0, 0, 60, 0, rdata.len() as u8]);
            message.extend(*rdata);
        }
        oracle.judge(&Answer::read(&message).unwrap(), question_len)
    }

    #[test]
    fn answers_are_compared_with_the_zone() {
        let oracle = oracle();
        let (two, three, four) =
            ([192, 0, 2, 2].as_slice(), [192, 0, 2, 3].as_slice(), [192, 0, 2, 4].as_slice());
        let a = |records: &[(u16, &[u8])]| judge(&oracle, "TWO.example", Rtype::A, 0, records);
        assert_eq!(a(&[(1, two), (1, three)]), ContentCheck::Right);
        assert_eq!(a(&[(1, three), (1, two)]), ContentCheck::Right);
        assert_eq!(a(&[(1, two)]), ContentCheck::Wrong);
        assert_eq!(a(&[(1, two), (1, four)]), ContentCheck::Wrong);
        assert_eq!(a(&[]), ContentCheck::Wrong);
        assert_eq!(a(&[(5, &[0])]), ContentCheck::Unknown);
        let none = |rcode| judge(&oracle, "two.example", Rtype::AAAA, rcode, &[]);
        assert_eq!([none(0), none(3)], [ContentCheck::Right, ContentCheck::Wrong]);
        assert_eq!(judge(&oracle, "other.example", Rtype::A, 3, &[]), ContentCheck::Unknown);
        // MX 5 two.example, the name as in the zone and with a pointer to "example".
        let mail = |rdata: &[u8]| judge(&oracle, "mail.example", Rtype::MX, 0, &[(15, rdata)]);
        assert_eq!(mail(b"\x00\x05\x03two\x07EXAMPLE\x00"), ContentCheck::Right);
        assert_eq!(mail(&[0, 5, 3, b't', b'w', b'o', 0xc0, 17]), ContentCheck::Right);
        assert_eq!(mail(&[0, 6, 3, b't', b'w', b'o', 0xc0, 17]), ContentCheck::Wrong);
    }

    #[test]
    fn a_wrong_zone_is_refused_with_its_position() {
        let error = read("$TTL 60\na A no-address\n", Name::ROOT).unwrap_err();
        assert!(error.contains(":2"), "{error}");
    }
}
