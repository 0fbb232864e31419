//! A reply, taken apart with `domain` and put into a form that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::base::iana::{Class, OptionCode, Rtype};
use domain::base::message::Message;
use domain::base::name::ToName;
use domain::base::opt::{Opt as OptData, UnknownOptData};
use domain::base::rdata::ComposeRecordData;
use domain::base::rdata::ParseAnyRecordData;
use domain::base::{ParsedRecord, Ttl};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;

use crate::names::{Name, lower};

/// One record, names in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Its owner, in lower case.
    pub owner: Name,
    /// Its type.
    pub rtype: Rtype,
    /// Its class.
    pub class: Class,
    /// Its TTL.
    pub ttl: Ttl,
    /// Its data without compression, names of well-known types in lower case.
    pub data: Vec<u8>,
}

/// The records of a section, in no order.
pub type Section = BTreeSet<Record>;

/// The OPT record of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The payload size the server declares, in bytes.
    pub size: u16,
    /// The version the server speaks.
    pub version: u8,
    /// DO.
    pub dnssec_ok: bool,
    /// The reserved flags, which must be 0 (RFC 6891 §6.1.4).
    pub reserved: u16,
    /// The codes of the options, in order, without Extended DNS Errors, which a server may add to
    /// anything (RFC 8914 §2).
    pub options: Vec<u16>,
    /// What NSID says.
    pub nsid: Vec<u8>,
}

/// A reply in comparable form.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The header's flags and opcode, without AA, TC and the RCODE.
    pub flags: u16,
    /// AA.
    pub aa: bool,
    /// TC.
    pub tc: bool,
    /// The RCODE with its extension from the OPT record.
    pub rcode: u16,
    /// The question section as it was sent back.
    pub question: Vec<u8>,
    /// The answer section.
    pub answer: Section,
    /// The authority section.
    pub authority: Section,
    /// The additional section without OPT.
    pub additional: Section,
    /// EDNS.
    pub opt: Option<Opt>,
    /// Bytes of the whole message.
    pub length: usize,
    /// What no reply may have: bytes that cannot be read, the same record twice, two OPT records.
    pub faults: Vec<String>,
}

const AA: u16 = 0x0400;
const TC: u16 = 0x0200;

impl Reply {
    /// Takes `bytes` apart; what cannot be read is in `faults`.
    pub fn read(bytes: &[u8]) -> Self {
        let mut reply = Self { length: bytes.len(), ..Self::default() };
        if let Err(error) = reply.fill(bytes) {
            reply.faults.push(error);
        }
        reply
    }

    fn fill(&mut self, bytes: &[u8]) -> Result<(), String> {
        let message = Message::from_slice(bytes).map_err(|e| e.to_string())?;
        let flags = u16::from_be_bytes([bytes[2], bytes[3]]);
        (self.aa, self.tc) = (flags & AA != 0, flags & TC != 0);
        (self.flags, self.rcode) = (flags & !(AA | TC | 0xf), flags & 0xf);
        let mut questions = message.question();
        for question in questions.by_ref() {
            question.map_err(|e| format!("question: {e}"))?;
        }
        let answer = questions.answer().map_err(|e| e.to_string())?;
        self.question = bytes[12..answer.pos()].to_vec();
        let mut section = answer;
        for which in ["answer", "authority", "additional"] {
            for record in section.by_ref() {
                let record = record.map_err(|e| format!("{which}: {e}"))?;
                self.insert(which, record)?;
            }
            let end = section.pos();
            match section.next_section().map_err(|e| e.to_string())? {
                Some(next) => section = next,
                None if end != bytes.len() => {
                    return Err(format!("{} bytes after the end", bytes.len() - end));
                }
                None => break,
            }
        }
        Ok(())
    }

    fn insert(&mut self, which: &str, record: ParsedRecord<'_, [u8]>) -> Result<(), String> {
        if record.rtype() == Rtype::OPT {
            return self.insert_opt(&record);
        }
        let parsed = record
            .to_any_record::<AllRecordData<_, _>>()
            .map_err(|e| format!("{which}: {e} in {} {}", record.owner(), record.rtype()))?;
        let mut data = Vec::new();
        parsed.data().compose_canonical_rdata(&mut data).expect("a vector has room");
        let record = Record {
            owner: lower(&record.owner().to_name()),
            rtype: record.rtype(),
            class: record.class(),
            ttl: record.ttl(),
            data,
        };
        let section = match which {
            "answer" => &mut self.answer,
            "authority" => &mut self.authority,
            _ => &mut self.additional,
        };
        if let Some(record) = section.replace(record) {
            self.faults.push(format!("twice in {which}: {record}"));
        }
        Ok(())
    }

    fn insert_opt(&mut self, record: &ParsedRecord<'_, [u8]>) -> Result<(), String> {
        let ttl = record.ttl().as_secs();
        let parsed = record.to_record::<OptData<_>>().map_err(|e| e.to_string())?;
        let (mut options, mut nsid) = (Vec::new(), Vec::new());
        if let Some(parsed) = parsed {
            for option in parsed.data().iter::<UnknownOptData<_>>() {
                let option = option.map_err(|e| e.to_string())?;
                options.push(option.code().to_int());
                if option.code() == OptionCode::NSID {
                    nsid = option.as_slice().to_vec();
                }
            }
            options.retain(|code| *code != OptionCode::EXTENDED_ERROR.to_int());
            options.sort_unstable();
        }
        self.rcode |= ((ttl >> 24) as u16) << 4;
        let opt = Opt {
            size: record.class().to_int(),
            version: (ttl >> 16) as u8,
            dnssec_ok: ttl & 0x8000 != 0,
            reserved: ttl as u16 & 0x7fff,
            options,
            nsid,
        };
        if self.opt.replace(opt).is_some() {
            self.faults.push("two OPT records".into());
        }
        Ok(())
    }

    /// Whether it tells whom to ask instead of what was asked (RFC 2308 §2.2), at the end of
    /// aliases if the answer has any.
    pub fn is_referral(&self, qtype: Rtype) -> bool {
        let has = |section: &Section, rtype| section.iter().any(|record| record.rtype == rtype);
        let leads_on = |record: &Record| match record.rtype {
            Rtype::CNAME => qtype != Rtype::CNAME,
            rtype => matches!(rtype, Rtype::DNAME | Rtype::RRSIG),
        };
        self.rcode == 0
            && self.answer.iter().all(leads_on)
            && has(&self.authority, Rtype::NS)
            && !has(&self.authority, Rtype::SOA)
    }

    /// Where the answer's aliases lead, from `name` on: each target once.
    pub fn chain(&self, name: &Name) -> Vec<Name> {
        let aliases: BTreeMap<&Name, &Record> = self
            .answer
            .iter()
            .filter(|record| record.rtype == Rtype::CNAME)
            .map(|record| (&record.owner, record))
            .collect();
        let mut chain = vec![lower(name)];
        while let Some(alias) = aliases.get(chain.last().expect("it starts with one")) {
            match Name::from_octets(alias.data.clone()) {
                Ok(target) if !chain.contains(&target) => chain.push(target),
                _ => break,
            }
        }
        chain
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, ttl) = (self.owner.fmt_with_dot(), self.ttl.as_secs());
        write!(f, "{owner} {ttl} {} {} ", self.class, self.rtype)?;
        let mut parser = Parser::from_ref(&self.data[..]);
        match AllRecordData::parse_any_rdata(self.rtype, &mut parser) {
            Ok(data) => write!(f, "{data}"),
            Err(_) => write!(f, "{:02x?}", self.data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::name;
    use crate::queries::{Edns, QR, Query};

    /// A reply to A of `x.example` with these answers, each with an owner that is a pointer.
    fn reply(answers: &[(u16, &[u8])], more: &[u8]) -> Vec<u8> {
        let mut bytes = Query::new(name("x.example"), Rtype::A).to_wire();
        bytes[2] |= (QR >> 8) as u8;
        bytes[7] = answers.len() as u8;
        for (rtype, data) in answers {
            bytes.extend([0xc0, 12]);
            bytes.extend(rtype.to_be_bytes());
            bytes.extend([0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            bytes.extend(*data);
        }
        bytes.extend(more);
        bytes
    }

    #[test]
    fn names_within_data_are_compared_without_case_and_compression() {
        let short = Reply::read(&reply(&[(5, &[1, b'A', 0xc0, 14])], &[]));
        let long = Reply::read(&reply(&[(5, b"\x01a\x07eXample\x00")], &[]));
        assert!(short.faults.is_empty() && !short.answer.is_empty());
        assert_eq!(short.answer, long.answer);
        assert_eq!(short.chain(&name("X.example")), [name("x.example"), name("a.example")]);
        let text = short.answer.first().expect("one").to_string();
        assert_eq!(text, "x.example. 60 IN CNAME a.example.");
    }

    #[test]
    fn faults_are_detected() {
        let address: (u16, &[u8]) = (1, &[192, 0, 2, 1]);
        let fault = |bytes: &[u8]| Reply::read(bytes).faults.join("; ");
        assert_eq!(fault(&reply(&[address], &[])), "");
        assert!(fault(&reply(&[address, address], &[])).contains("twice in answer"));
        assert!(fault(&reply(&[address], &[0])).contains("after the end"));
        assert!(!fault(&reply(&[(1, &[192, 0, 2])], &[])).is_empty());
        assert!(!fault(&reply(&[address], &[])[..40]).is_empty());
    }

    #[test]
    fn edns_is_read_with_its_part_of_the_rcode() {
        let mut bytes = reply(&[], &[]);
        bytes[11] = 1;
        let options = vec![(20, vec![]), (15, vec![0, 1]), (3, b"me".to_vec())];
        Edns { flags: 0x8000, options, ..Edns::new(1232) }.append_to(&mut bytes);
        let extended = bytes.len() - 22;
        bytes[extended] = 1;
        let reply = Reply::read(&bytes);
        assert_eq!(reply.faults, Vec::<String>::new());
        assert_eq!(reply.rcode, 16);
        assert_eq!(
            reply.opt,
            Some(Opt {
                size: 1232,
                version: 0,
                dnssec_ok: true,
                reserved: 0,
                options: vec![3, 20],
                nsid: b"me".to_vec()
            })
        );
    }
}
