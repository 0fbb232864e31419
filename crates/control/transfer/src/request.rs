//! A query for a transfer.
use wire::{Class, HEADER_LEN, NameBuf, Query, Record, Records, Rtype};

/// The option by which a secondary asks when the zone expires (RFC 7314).
const EXPIRE: u16 = 9;
/// Bytes of an SOA record's last numbers, of which the serial is the first (RFC 1035 §3.3.13).
const NUMBERS_LEN: usize = 20;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The whole zone (AXFR, RFC 5936).
    Whole,
    /// What has changed since a serial (IXFR, RFC 1995).
    Since(u32),
    /// The SOA record, by which a secondary sees whether it has the newest version.
    Soa,
}

/// A query for a transfer, without its signature.
#[derive(Clone, Debug)]
pub struct Request {
    /// The zone, in lower case.
    pub zone: NameBuf,
    /// What of it.
    pub wanted: Wanted,
    /// Header and question, as the client sent them.
    pub head: Box<[u8]>,
    /// Whether it has EDNS.
    pub has_edns: bool,
    /// Whether it asks when the zone expires.
    pub wants_expire: bool,
}

/// What a message is.
#[derive(Clone, Debug)]
pub enum Message {
    /// A query for a transfer.
    Transfer(Box<Request>),
    /// A query for a transfer that is malformed.
    Malformed,
    /// Another message.
    Other,
}

impl Message {
    /// Reads a message, which may be signed. `is_private`: its connection is one for transfers, so
    /// that a query for an SOA record is part of one (RFC 9103 §6.1).
    pub fn read(message: &[u8], is_private: bool) -> Self {
        let mut query = Query::new();
        if query.parse(message, message.len()).is_err() || !query.flags.is_query() {
            return Self::Other;
        }
        let wanted = match query.rtype {
            Rtype::AXFR => Some(Wanted::Whole),
            Rtype::IXFR => serial(message, query.question_end).map(Wanted::Since),
            Rtype::SOA if is_private => Some(Wanted::Soa),
            _ => return Self::Other,
        };
        match wanted {
            Some(wanted) if query.class == Class::IN => Self::Transfer(Box::new(Request {
                zone: query.name.as_name().into(),
                wanted,
                head: message[..query.question_end].into(),
                has_edns: query.edns.is_some(),
                wants_expire: query.edns.is_some() && wants_expire(message, query.question_end),
            })),
            _ => Self::Malformed,
        }
    }
}

/// The serial of the SOA record in the authority section (RFC 1995 §3).
fn serial(message: &[u8], at: usize) -> Option<u32> {
    let [answers, authority] = [6, 8].map(|at| count(message, at));
    let mut records = Records::new(message, at, answers + authority).flatten().skip(answers);
    let soa = records.find(|record| record.rtype == Rtype::SOA)?;
    let numbers = soa.data().last_chunk::<NUMBERS_LEN>()?;
    numbers.first_chunk().copied().map(u32::from_be_bytes)
}

fn wants_expire(message: &[u8], at: usize) -> bool {
    let total = [6, 8, 10].into_iter().map(|at| count(message, at)).sum();
    let mut records = Records::new(message, at, total).flatten();
    let opt = records.find(|record: &Record<'_>| record.rtype == Rtype::OPT);
    let mut options = opt.map_or(&[][..], |opt| opt.data());
    while let Some(([c0, c1, l0, l1], rest)) = options.split_first_chunk() {
        if u16::from_be_bytes([*c0, *c1]) == EXPIRE {
            return true;
        }
        options = rest.get(usize::from(u16::from_be_bytes([*l0, *l1]))..).unwrap_or_default();
    }
    false
}

/// A count in the header of a message that was parsed.
fn count(message: &[u8], at: usize) -> usize {
    let header = message.first_chunk::<HEADER_LEN>();
    header.map_or(0, |header| usize::from(u16::from_be_bytes([header[at], header[at + 1]])))
}
