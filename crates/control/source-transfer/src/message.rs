//! Queries to primaries, and what makes a message their response.
use model::RecordSet;
use store::serial::is_newer;
use wire::{Class, Flags, HEADER_LEN, Name, NameBuf, Rcode, Record, Records, Rtype, skip_name};

/// Bytes of the largest record data.
pub const DATA_LEN_MAX: usize = u16::MAX as usize;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Query {
    /// The ID.
    pub id: u16,
    /// The zone, in lower case.
    pub zone: NameBuf,
    /// SOA, AXFR or IXFR.
    pub rtype: Rtype,
}

/// The numbers of an SOA record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soa {
    pub serial: u32,
    pub refresh: u32,
    pub retry: u32,
    pub expire: u32,
}

impl Soa {
    /// Reads the data of a record.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let numbers = data.last_chunk::<20>()?;
        let (numbers, _) = numbers.as_chunks::<4>();
        let number = |at: usize| u32::from_be_bytes(numbers[at]);
        Some(Self { serial: number(0), refresh: number(1), retry: number(2), expire: number(3) })
    }
}

/// How the serial of a primary compares with the one that is known (RFC 1982).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    Same,
    Newer,
    Older,
}

/// Compares a serial with a known one. What is neither newer nor the same counts as older.
pub fn age(serial: u32, known: u32) -> Age {
    match serial == known {
        true => Age::Same,
        false if is_newer(serial, known) => Age::Newer,
        false => Age::Older,
    }
}

impl Query {
    /// A query with a random ID. `zone` is in lower case.
    ///
    /// # Errors
    /// The kernel returns no random bytes.
    pub fn new(zone: Name<'_>, rtype: Rtype) -> Result<Self, String> {
        let id = getrandom::u32().map_err(|why| format!("no random number: {why}"))? as u16;
        Ok(Self { id, zone: zone.into(), rtype })
    }

    /// Its message; that of IXFR has the SOA that is known (RFC 1995 §3).
    pub fn message(&self, known_soa: Option<&[u8]>) -> Vec<u8> {
        let mut message = self.id.to_be_bytes().to_vec();
        let authority = known_soa.is_some().into();
        message.extend([0, 0, 0, 1, 0, 0, 0, authority, 0, 0]);
        let (rtype, class) = (self.rtype.0.to_be_bytes(), Class::IN.0.to_be_bytes());
        message.extend([self.zone.as_name().as_bytes(), &rtype, &class].concat());
        if let Some(data) = known_soa {
            let (soa, len) = (Rtype::SOA.0.to_be_bytes(), (data.len() as u16).to_be_bytes());
            let owner_at = [0xc0, HEADER_LEN as u8];
            message.extend([&owner_at[..], &soa, &class, &[0; 4], &len, data].concat());
        }
        message
    }

    /// Whether a message may be a response to this query: another one is ignored.
    pub fn is_answered_by(&self, message: &[u8]) -> bool {
        message.starts_with(&self.id.to_be_bytes()) && message.len() >= HEADER_LEN
    }

    /// The response in a message. `is_first`: the later ones of a transfer need not repeat the
    /// query (RFC 5936 §2.2.2).
    ///
    /// # Errors
    /// Why it is none.
    pub fn response<'m>(&self, message: &'m [u8], is_first: bool) -> Result<Response<'m>, String> {
        let head: &[u8; HEADER_LEN] = message.first_chunk().ok_or("it is cut off")?;
        let [i0, i1, f0, f1, counts @ ..] = *head;
        if u16::from_be_bytes([i0, i1]) != self.id {
            return Err("it has another ID than the query".into());
        }
        let flags = Flags(u16::from_be_bytes([f0, f1]));
        if !flags.has(Flags::QR) || flags.opcode() != 0 {
            return Err("it is no response to a query".into());
        }
        refuse_code(f1 & 0xf)?;
        let count = |at: usize| usize::from(u16::from_be_bytes([counts[at], counts[at + 1]]));
        let (questions, answers) = (count(0), count(2));
        let mut at = HEADER_LEN;
        match questions {
            1 => at = self.skip_own(message)?,
            0 if !is_first => {}
            _ => return Err("it has not the one question of the query".into()),
        }
        let all = answers + count(4) + count(6);
        let mut records = Records::new(message, at, all);
        if records.by_ref().any(|record| record.is_err()) || records.at() != message.len() {
            return Err("it is malformed".into());
        }
        let (answers, authority) = (Records::new(message, at, answers), count(4));
        Ok(Response { flags, answers, authority })
    }

    /// The end of the question section, which is that of the query.
    fn skip_own(&self, message: &[u8]) -> Result<usize, String> {
        let own = || -> Option<usize> {
            let end = skip_name(message, HEADER_LEN).ok()?;
            let name = message.get(HEADER_LEN..end)?;
            let rest = message.get(end..end + 4)?;
            let [t0, t1, c0, c1] = *rest.first_chunk::<4>()?;
            let is_own = name.eq_ignore_ascii_case(self.zone.as_name().as_bytes())
                && Rtype(u16::from_be_bytes([t0, t1])) == self.rtype
                && Class(u16::from_be_bytes([c0, c1])) == Class::IN;
            is_own.then_some(end + 4)
        };
        own().ok_or_else(|| "it answers another query".into())
    }
}

fn refuse_code(code: u8) -> Result<(), String> {
    if code == Rcode::NoError as u8 {
        return Ok(());
    }
    let known = Rcode::ALL.into_iter().find(|known| *known as u8 == code);
    Err(match known {
        Some(known @ (Rcode::Refused | Rcode::NotAuth)) => format!(
            "it answers {}: let this server transfer the zone there, by its address or its key",
            known.name()
        ),
        Some(known) => format!("it answers {}", known.name()),
        None => format!("it answers with the code {code}"),
    })
}

/// A response whose records are all well-formed.
#[derive(Clone, Copy, Debug)]
pub struct Response<'m> {
    /// Its flags.
    pub flags: Flags,
    /// Its answers.
    pub answers: Records<'m>,
    /// The number of records in its authority section.
    pub authority: usize,
}

impl Response<'_> {
    /// The data of the SOA record that answers an SOA query.
    ///
    /// # Errors
    /// It does not answer it with authority.
    pub fn soa(&self, zone: Name<'_>) -> Result<Vec<u8>, String> {
        if !self.flags.has(Flags::AA) {
            return Err("it has no authority over the zone".into());
        }
        let (mut room, mut found) = (vec![0; DATA_LEN_MAX], None);
        for record in self.answers {
            let record = record.map_err(|_| "it is malformed")?;
            let (owner, data) = check(&record, zone, &mut room)?;
            if record.rtype == Rtype::RRSIG {
                continue;
            }
            if record.rtype != Rtype::SOA || owner.as_name() != zone || found.is_some() {
                return Err("its answer is not the one SOA record of the zone".into());
            }
            found = Some(data.to_vec());
        }
        found.ok_or_else(|| "it has no SOA record of the zone".into())
    }
}

/// The owner and the expanded data of a record that a zone may have.
///
/// # Errors
/// Why the zone may not have it.
pub fn check<'r>(
    record: &Record<'_>,
    zone: Name<'_>,
    room: &'r mut [u8],
) -> Result<(NameBuf, &'r [u8]), String> {
    let rtype = record.rtype;
    let owner = record.owner().map_err(|_| format!("a record of type {rtype} has a bad owner"))?;
    if record.class != Class::IN {
        return Err(format!("{owner} {rtype} is of class {}", record.class));
    }
    if !owner.as_name().is_within(zone) {
        return Err(format!("{owner} is outside of the zone"));
    }
    let wrong = || format!("{owner} {rtype} has invalid data");
    let data = record.expand(room).map_err(|_| wrong())?;
    RecordSet::new(rtype, 0, [data.into()]).map_err(|why| format!("{owner} {rtype}: {why}"))?;
    Ok((owner, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_compared_around_the_end_of_their_range() {
        for (serial, known, expected) in [
            (5, 5, Age::Same),
            (6, 5, Age::Newer),
            (4, 5, Age::Older),
            (0, u32::MAX, Age::Newer),
            (u32::MAX, 0, Age::Older),
            (1 << 31, 0, Age::Older),
        ] {
            assert_eq!(age(serial, known), expected, "{serial} after {known}");
        }
    }
}
