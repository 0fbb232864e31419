//! Names that are looked up as other ones: the question is put as if for the other name, answered
//! in its place, and the names of the answer are then called what was asked for.
//!
//! No signature is right of a name that is called another, so the answer is looked up without.
use crate::bench::Bench;
use crate::finish::Room;
use crate::ledger::Made;
use crate::limits::RELAYED_DATA_MAX;
use crate::scout::Scout;
use crate::tally::Tally;
use crate::{Way, elsewhere, guard};
use core::mem;
use image::RewriteRule;
use packet::Packet;
use wire::{
    Composer, Field, Flags, Full, HEADER_LEN, Name, NameBuf, Query, Record, Records, Rtype,
    Suffixes, expanded,
};

/// Octets of the longest question behind a header.
const QUESTION_END_MAX: usize = HEADER_LEN + Name::LEN_MAX + 4;
/// Octets of data that may grow when names in it are called others.
const DATA_MAX: usize = RELAYED_DATA_MAX - 4 * Name::LEN_MAX;
/// Where a reply's counts of records stand.
const COUNTS_AT: usize = 6;
const AUTHORITY: usize = 1;
const ADDITIONAL: usize = 2;

/// Header and question as they came.
struct Asked {
    octets: [u8; QUESTION_END_MAX],
    len: usize,
}

impl Asked {
    fn new(packet: &Packet<'_>, query: &Query) -> Self {
        let mut asked = Self { octets: [0; QUESTION_END_MAX], len: query.question_end };
        asked.octets[..asked.len].copy_from_slice(&packet.buf[..asked.len]);
        asked
    }

    fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}

impl<'w> Bench<'_, '_, 'w> {
    /// The second pass over a packet whose name is looked up as another; what is to be charged for.
    /// Nothing: it is answered later.
    #[inline(never)]
    pub(crate) fn answer_renamed(
        &mut self,
        scout: &Scout<'_, 'w>,
        number: u16,
        query: &mut Query,
        packet: &mut Packet<'_>,
        tally: &mut Tally,
    ) -> Option<Way<'w>> {
        let options = guard::options(self.policy, self.now, query, packet, self.cookies);
        self.abroad.may_ask = self.policy.recursion.lists(packet.client.ip());
        let (asked, tail_len) = (Asked::new(packet, query), packet.len - query.question_end);
        self.abroad.settles = !self.keep_tail(query, packet);
        let rule = self.policy.rewrites.get(number.into())?;
        let dnssec_ok = query.dnssec_ok();
        if rename(rule, query, packet).is_none() {
            return self.make(query, &Way::Overlong, packet, &options, tally).ok();
        }
        let way = scout.look_renamed(query, packet);
        // What is known of the other name is no answer to who asks for that one, unless nobody
        // renames it: only who asks for it finds out.
        let map = mem::take(&mut self.abroad.map);
        let made = loop {
            let missing = match self.make(query, &way, packet, &options, tally) {
                Ok(made) => break Some(made),
                Err(missing) => missing,
            };
            packet.buf[..asked.len].copy_from_slice(asked.octets());
            let tail = packet.buf[asked.len..].iter_mut().zip(&self.tail[..]);
            tail.take(tail_len).for_each(|(into, octet)| *into = *octet);
            let name = if missing.first { &query.name } else { &*self.alias };
            let key = elsewhere::key(self.key, name, query);
            if self.abroad.elsewhere.ask(&key, missing.group, packet) {
                break None;
            }
            self.abroad.settles = true;
            put_question(query, packet);
        };
        self.abroad.map = map;
        let made = made?;
        let limit =
            Room::new(self.policy, query, packet.transport, packet.buf.len(), &options).limit;
        let revert = Revert { rule, suffixes: self.suffixes };
        let (records_end, was_cut) = revert.all(&asked, query.question_end, limit, packet);
        tally.truncated += u32::from(was_cut);
        if dnssec_ok {
            // RFC 3225 §3: the bit is copied. It stands in the OPT, with which the reply ends.
            packet.buf[records_end + 7] |= 0x80;
        }
        Some(match made {
            Way::Made(made) => {
                let (question_end, records_end) = (asked.len as u16, records_end as u16);
                Way::Made(Made { question_end, records_end, ..made })
            }
            other => other,
        })
    }
}

/// Puts the question for another name in the place of the one that came; nothing where that name
/// would be too long.
fn rename(rule: &RewriteRule, query: &mut Query, packet: &mut Packet<'_>) -> Option<()> {
    let name = rule.apply(&query.name).ok()?;
    let question_end = HEADER_LEN + name.as_name().len() + 4;
    packet.buf.get(..question_end)?;
    query.name.set(name.as_name());
    query.question_end = question_end;
    if let Some(edns) = &mut query.edns {
        edns.dnssec_ok = false;
    }
    put_question(query, packet);
    Some(())
}

/// Writes a question that there is room for.
fn put_question(query: &Query, packet: &mut Packet<'_>) {
    let (name, tail) = packet.buf[HEADER_LEN..query.question_end]
        .split_at_mut(query.question_end - HEADER_LEN - 4);
    name.copy_from_slice(query.name.octets());
    let ([t0, t1], [c0, c1]) = (query.rtype.0.to_be_bytes(), query.class.0.to_be_bytes());
    tail.copy_from_slice(&[t0, t1, c0, c1]);
}

/// Calls the names of a reply what was asked for.
struct Revert<'r> {
    rule: &'r RewriteRule,
    suffixes: &'r mut Suffixes,
}

impl Revert<'_> {
    /// Makes the reply to a question, whose end this is, one to the question that was asked. It is
    /// moved to the end of its buffer, and written anew in front of that, where `limit` is the
    /// longest it may become. What does not fit is left out, all of it, and the reply truncated; so
    /// it is where there is too little room beside it. Returns where the records end, and whether
    /// it was truncated by this.
    fn all(
        self,
        asked: &Asked,
        question_end: usize,
        limit: usize,
        packet: &mut Packet<'_>,
    ) -> (usize, bool) {
        let counts = counts(packet.buf);
        let opt_len = packet.len - opt_at(packet.message(), question_end, counts);
        let front_len = packet.buf.len() - packet.len;
        packet.buf.copy_within(..packet.len, front_len);
        let (front, message) = packet.buf.split_at_mut(front_len);
        let header: [u8; HEADER_LEN] = *message.first_chunk().unwrap_or(&[0; HEADER_LEN]);
        let written = front.get_mut(..asked.len).map(|front| front.copy_from_slice(asked.octets()));
        let written = written.ok_or(Full).and_then(|()| {
            let limit = limit.saturating_sub(opt_len).min(front_len);
            let mut out = Composer::new(front, asked.len, limit, self.suffixes);
            let records = Records::new(message, question_end, counts.map(usize::from).iter().sum());
            let counts = put_all(self.rule, records, counts, &mut out)?;
            Ok((counts, out.len()))
        });
        let (counts, at) = written.unwrap_or(([0; 3], asked.len));
        packet.buf[HEADER_LEN..asked.len].copy_from_slice(&asked.octets()[HEADER_LEN..]);
        packet.buf.copy_within(packet.buf.len() - opt_len.., at);
        packet.len = at + opt_len;
        let mut flags = u16::from_be_bytes([header[2], header[3]]) & !Flags::AD;
        let was_cut = written.is_err() && flags & Flags::TC == 0;
        flags |= if was_cut { Flags::TC } else { 0 };
        packet.buf[..HEADER_LEN].copy_from_slice(&header);
        packet.buf[2..4].copy_from_slice(&flags.to_be_bytes());
        let additional = counts[ADDITIONAL] + u16::from(opt_len > 0);
        for (index, count) in [counts[0], counts[1], additional].into_iter().enumerate() {
            let at = COUNTS_AT + 2 * index;
            packet.buf[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        (at, was_cut)
    }
}

/// How many records are in each section.
fn counts(message: &[u8]) -> [u16; 3] {
    [0, 1, 2].map(|index| {
        let at = COUNTS_AT + 2 * index;
        message.get(at..at + 2).map_or(0, |count| u16::from_be_bytes([count[0], count[1]]))
    })
}

/// Where the OPT begins, with which a reply ends that has one.
fn opt_at(message: &[u8], question_end: usize, counts: [u16; 3]) -> usize {
    let mut records = Records::new(message, question_end, counts.map(usize::from).iter().sum());
    loop {
        let at = records.at();
        match records.next() {
            Some(Ok(record)) if record.rtype != Rtype::OPT => {}
            Some(Ok(_)) => return at,
            _ => return message.len(),
        }
    }
}

/// Puts records, each section's as many as `counts` says; how many there are of each then, OPT not
/// counted.
fn put_all(
    rule: &RewriteRule,
    mut records: Records<'_>,
    counts: [u16; 3],
    out: &mut Composer<'_>,
) -> Result<[u16; 3], Full> {
    let mut put = [0; 3];
    for (section, count) in counts.into_iter().enumerate() {
        let mark = out.mark();
        for record in records.by_ref().take(count.into()) {
            let record = record.map_err(|_| Full)?;
            match put_record(rule, &record, section, out) {
                Ok(is_put) => put[section] += u16::from(is_put),
                // What only helps may be missing.
                Err(Full) if section == ADDITIONAL => {
                    out.rewind(mark);
                    put[section] = 0;
                    return Ok(put);
                }
                Err(Full) => return Err(Full),
            }
        }
    }
    Ok(put)
}

/// Puts a record, unless it proves something of a name that is now called another.
fn put_record(
    rule: &RewriteRule,
    record: &Record<'_>,
    section: usize,
    out: &mut Composer<'_>,
) -> Result<bool, Full> {
    if matches!(record.rtype, Rtype::OPT | Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3) {
        return Ok(false);
    }
    let owner = record.owner().map_err(|_| Full)?;
    // Who is told that there is nothing wants to hear it of a zone that the name lies in.
    let is_zone = section == AUTHORITY && rule.to.as_name().is_within(owner.as_name());
    let called = if is_zone { Some(rule.from.clone()) } else { rule.revert(owner.as_name()) };
    out.put_name(called.unwrap_or(owner).as_name())?;
    let ([t0, t1], [c0, c1]) = (record.rtype.0.to_be_bytes(), record.class.0.to_be_bytes());
    let [l0, l1, l2, l3] = record.ttl.to_be_bytes();
    out.put_array([t0, t1, c0, c1, l0, l1, l2, l3])?;
    if record.data().len() > DATA_MAX {
        // No type has both names and that much beside them.
        return out.put_rdata(record.rtype, record.data()).map(|()| true);
    }
    let (mut buffer, mut data) = ([0; RELAYED_DATA_MAX], [0; RELAYED_DATA_MAX]);
    let written_out = record.expand(&mut buffer).map_err(|_| Full)?;
    let len = revert_data(rule, record.rtype, written_out, &mut data).ok_or(Full)?;
    out.put_rdata(record.rtype, &data[..len]).map(|()| true)
}

/// Where names stand in data that may be called others.
fn names(rtype: Rtype) -> &'static [Field] {
    match rtype {
        // RFC 9460 §2.2.
        Rtype::SVCB | Rtype::HTTPS => &[Field::Octets(2), Field::Name],
        _ => expanded(rtype),
    }
}

/// Copies data with its names called what was asked for; how many octets it has then.
fn revert_data(
    rule: &RewriteRule,
    rtype: Rtype,
    mut rest: &[u8],
    into: &mut [u8],
) -> Option<usize> {
    let mut len = 0;
    let mut put = |octets: &[u8]| -> Option<()> {
        into.get_mut(len..len + octets.len())?.copy_from_slice(octets);
        len += octets.len();
        Some(())
    };
    for field in names(rtype) {
        match field {
            Field::Octets(count) => {
                let (octets, behind) = rest.split_at_checked(*count)?;
                put(octets)?;
                rest = behind;
            }
            Field::Name => {
                let name = Name::parse(rest).ok()?;
                // The root stands for no name at all (RFC 2782, RFC 9460 §2.5, RFC 7505 §3).
                let called = rule.revert(name).filter(|_| !name.is_root());
                put(called.as_ref().map_or(name, NameBuf::as_name).octets())?;
                rest = &rest[name.len()..];
            }
        }
    }
    put(rest)?;
    Some(len)
}
