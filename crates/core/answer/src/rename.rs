//! Rewrites: a query is answered as a query for another name, and the names of the reply are then
//! translated back.
//!
//! Signatures do not survive a translation, so the rewritten query does not request DNSSEC.
use crate::classify::Classifier;
use crate::counters::AnswerCounts;
use crate::limits::RELAYED_DATA_MAX;
use crate::reply_room::ReplyRoom;
use crate::respond::{EchoedQuestion, Responder};
use crate::rrl::RrlReply;
use crate::{Disposition, cookies, resolver};
use core::mem;
use image::RewriteRule;
use packet::Packet;
use wire::{
    Composer, Flags, HEADER_LEN, Name, NameBuf, NoSpace, Query, RdataField, Record, Records, Rtype,
    Suffixes, expanded, inject_panic,
};

/// Bytes of data that may grow when its names are translated.
const DATA_MAX: usize = RELAYED_DATA_MAX - 4 * Name::LEN_MAX;
/// Offset of the record counts in a header.
const COUNTS_AT: usize = 6;
const ANSWER: usize = 0;
const AUTHORITY: usize = 1;
const ADDITIONAL: usize = 2;

impl<'w> Responder<'_, '_, 'w> {
    /// Answers a query by a rewrite rule, as [`answer`](Self::answer) does; `None`: deferred.
    #[inline(never)]
    pub(crate) fn answer_renamed(
        &mut self,
        classifier: &Classifier<'_, 'w>,
        number: u16,
        query: &mut Query,
        packet: &mut Packet<'_>,
        answer_counts: &mut AnswerCounts,
    ) -> Option<Disposition<'w>> {
        self.asked.set(packet, query);
        let answered = self.answer_by_rule(classifier, number, query, packet, answer_counts);
        self.asked.len = 0;
        answered
    }

    fn answer_by_rule(
        &mut self,
        classifier: &Classifier<'_, 'w>,
        number: u16,
        query: &mut Query,
        packet: &mut Packet<'_>,
        answer_counts: &mut AnswerCounts,
    ) -> Option<Disposition<'w>> {
        let options = cookies::options(self.policy, self.now, query, packet, self.cookies);
        self.forwarding.may_forward = self.may_forward(query, packet);
        let tail_len = packet.len - query.question_end;
        self.forwarding.is_final = !self.save_tail(query, packet);
        let rule = self.policy.rewrites.get(number.into())?;
        let dnssec_ok = query.dnssec_ok();
        if rename(rule, query, packet).is_none() {
            return self
                .compose(query, &Disposition::NameTooLong, packet, &options, answer_counts)
                .ok();
        }
        inject_panic("rename", || &self.asked.as_bytes()[HEADER_LEN..]);
        let disposition = classifier.classify_renamed(query, packet);
        // A cached answer for the other name is not confirmed: it is found only through the
        // rewrite.
        let map = mem::take(&mut self.forwarding.map);
        let answered = loop {
            let missing = match self.compose(query, &disposition, packet, &options, answer_counts) {
                Ok(answered) => break Some(answered),
                Err(missing) => missing,
            };
            packet.buf[..self.asked.len].copy_from_slice(self.asked.as_bytes());
            let tail = packet.buf[self.asked.len..].iter_mut().zip(&self.tail[..]);
            tail.take(tail_len).for_each(|(into, byte)| *into = *byte);
            let name = if missing.first { &query.name } else { &*self.alias };
            let key = resolver::key(self.key, packet.context.view, name, query);
            if self.forwarding.resolver.request(&key, missing.group, packet) {
                break None;
            }
            self.forwarding.is_final = true;
            put_question(query, packet);
        };
        self.forwarding.map = map;
        let answered = answered?;
        let limit = ReplyRoom::new(
            self.policy,
            query,
            packet.context.transport,
            packet.buf.len(),
            &options,
        )
        .limit;
        let revert = NameRestorer { rule, suffixes: self.suffixes };
        let (records_end, was_cut) = revert.all(self.asked, query.question_end, limit, packet);
        answer_counts.truncated += u32::from(was_cut);
        // RFC 3225 §3: the DO bit is copied. The OPT record, if there is one, ends the reply.
        if dnssec_ok && let Some(flags) = packet.buf[..packet.len].get_mut(records_end + 7) {
            *flags |= 0x80;
        }
        Some(match answered {
            Disposition::Answered(answered) => {
                let (question_end, records_end) = (self.asked.len as u16, records_end as u16);
                Disposition::Answered(RrlReply { question_end, records_end, ..answered })
            }
            other => other,
        })
    }
}

/// Replaces the question by that for the other name; `None` if the name is too long.
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

fn put_question(query: &Query, packet: &mut Packet<'_>) {
    let (name, tail) = packet.buf[HEADER_LEN..query.question_end]
        .split_at_mut(query.question_end - HEADER_LEN - 4);
    name.copy_from_slice(query.name.as_bytes());
    let ([t0, t1], [c0, c1]) = (query.rtype.0.to_be_bytes(), query.class.0.to_be_bytes());
    tail.copy_from_slice(&[t0, t1, c0, c1]);
}

/// Translates the names of a reply back.
struct NameRestorer<'r> {
    rule: &'r RewriteRule,
    suffixes: &'r mut Suffixes,
}

impl NameRestorer<'_> {
    /// Turns the reply to the rewritten question, which ends at `question_end`, into one to the
    /// client's question. The reply moves to the end of its buffer and is rewritten before it;
    /// `limit` is its largest length. What does not fit is left out and the reply truncated, also
    /// where the buffer has too little room for both; so is an OPT that does not fit. Returns the
    /// end of the records, and whether the reply was truncated here.
    fn all(
        self,
        asked: &EchoedQuestion,
        question_end: usize,
        limit: usize,
        packet: &mut Packet<'_>,
    ) -> (usize, bool) {
        let counts = counts(packet.buf);
        let opt_len = opt_len(packet.message(), question_end, counts);
        let front_len = packet.buf.len() - packet.len;
        packet.buf.copy_within(..packet.len, front_len);
        inject_panic("revert", || &asked.as_bytes()[HEADER_LEN..]);
        let (front, message) = packet.buf.split_at_mut(front_len);
        let header: [u8; HEADER_LEN] = *message.first_chunk().unwrap_or(&[0; HEADER_LEN]);
        let written =
            front.get_mut(..asked.len).map(|front| front.copy_from_slice(asked.as_bytes()));
        let written = written.ok_or(NoSpace).and_then(|()| {
            let limit = limit.saturating_sub(opt_len).min(front_len);
            let mut out = Composer::new(front, asked.len, limit, self.suffixes);
            let records = Records::new(message, question_end, counts.map(usize::from).iter().sum());
            let (counts, is_whole) = put_all(self.rule, records, counts, &mut out)?;
            Ok((counts, out.len(), is_whole))
        });
        let (counts, at, is_whole) = written.unwrap_or(([0; 3], asked.len, false));
        let opt_len = if at + opt_len <= packet.buf.len() { opt_len } else { 0 };
        packet.buf.copy_within(packet.buf.len() - opt_len.., at);
        packet.buf[HEADER_LEN..asked.len].copy_from_slice(&asked.as_bytes()[HEADER_LEN..]);
        packet.len = at + opt_len;
        let mut flags = u16::from_be_bytes([header[2], header[3]]) & !Flags::AD;
        let was_cut = !is_whole && flags & Flags::TC == 0;
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

fn counts(message: &[u8]) -> [u16; 3] {
    [0, 1, 2].map(|index| {
        let at = COUNTS_AT + 2 * index;
        message.get(at..at + 2).map_or(0, |count| u16::from_be_bytes([count[0], count[1]]))
    })
}

/// Bytes of the OPT record, which ends a reply. Only the additional section has one (RFC 6891
/// §6.1.1).
fn opt_len(message: &[u8], question_end: usize, counts: [u16; 3]) -> usize {
    let [answers, authorities, additional] = counts.map(usize::from);
    let mut records = Records::new(message, question_end, answers + authorities + additional);
    let mut before = records.by_ref().take(answers + authorities);
    if before.any(|record| record.is_err()) {
        return 0;
    }
    loop {
        let at = records.at();
        match records.next() {
            Some(Ok(record)) if record.rtype != Rtype::OPT => {}
            Some(Ok(_)) => return message.len() - at,
            _ => return 0,
        }
    }
}

/// Puts the records; returns the count of each section, without OPT, and whether all needed ones
/// fit. Of the answer section, as many records are put as fit, of others all or none.
fn put_all(
    rule: &RewriteRule,
    mut records: Records<'_>,
    counts: [u16; 3],
    out: &mut Composer<'_>,
) -> Result<([u16; 3], bool), NoSpace> {
    let mut put = [0; 3];
    for (section, count) in counts.into_iter().enumerate() {
        let mut mark = out.mark();
        for record in records.by_ref().take(count.into()) {
            let record = record.map_err(|_| NoSpace)?;
            match put_record(rule, &record, section, out) {
                Ok(is_put) => put[section] += u16::from(is_put),
                Err(NoSpace) => {
                    out.rewind(mark);
                    put[section] = if section == ANSWER { put[section] } else { 0 };
                    // Additional records are optional.
                    return Ok((put, section == ADDITIONAL));
                }
            }
            if section == ANSWER {
                mark = out.mark();
            }
        }
    }
    Ok((put, true))
}

/// Puts a record, unless it proves something about a translated name.
fn put_record(
    rule: &RewriteRule,
    record: &Record<'_>,
    section: usize,
    out: &mut Composer<'_>,
) -> Result<bool, NoSpace> {
    if matches!(record.rtype, Rtype::OPT | Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3) {
        return Ok(false);
    }
    let owner = record.owner().map_err(|_| NoSpace)?;
    // A negative answer needs an SOA whose zone contains the client's name.
    let is_zone = section == AUTHORITY && rule.to.as_name().is_within(owner.as_name());
    let called = if is_zone { Some(rule.from.clone()) } else { rule.revert(owner.as_name()) };
    out.put_name(called.unwrap_or(owner).as_name())?;
    let ([t0, t1], [c0, c1]) = (record.rtype.0.to_be_bytes(), record.class.0.to_be_bytes());
    let [l0, l1, l2, l3] = record.ttl.to_be_bytes();
    out.put_array([t0, t1, c0, c1, l0, l1, l2, l3])?;
    if record.data().len() > DATA_MAX {
        // No type has both names and data of this length.
        return out.put_rdata(record.rtype, record.data()).map(|()| true);
    }
    let (mut buffer, mut data) = ([0; RELAYED_DATA_MAX], [0; RELAYED_DATA_MAX]);
    let written_out = record.expand(&mut buffer).map_err(|_| NoSpace)?;
    let len = revert_data(rule, record.rtype, written_out, &mut data).ok_or(NoSpace)?;
    out.put_rdata(record.rtype, &data[..len]).map(|()| true)
}

/// Where a type's data has names that are translated.
fn names(rtype: Rtype) -> &'static [RdataField] {
    match rtype {
        // RFC 9460 §2.2.
        Rtype::SVCB | Rtype::HTTPS => &[RdataField::Bytes(2), RdataField::Name],
        _ => expanded(rtype),
    }
}

/// Copies data and translates its names; returns its length.
fn revert_data(
    rule: &RewriteRule,
    rtype: Rtype,
    mut rest: &[u8],
    into: &mut [u8],
) -> Option<usize> {
    let mut len = 0;
    let mut put = |bytes: &[u8]| -> Option<()> {
        into.get_mut(len..len + bytes.len())?.copy_from_slice(bytes);
        len += bytes.len();
        Some(())
    };
    for field in names(rtype) {
        match field {
            RdataField::Bytes(count) => {
                let (bytes, behind) = rest.split_at_checked(*count)?;
                put(bytes)?;
                rest = behind;
            }
            RdataField::Name => {
                let name = Name::parse(rest).ok()?;
                // The root stands for no name (RFC 2782, RFC 9460 §2.5, RFC 7505 §3).
                let called = rule.revert(name).filter(|_| !name.is_root());
                put(called.as_ref().map_or(name, NameBuf::as_name).as_bytes())?;
                rest = &rest[name.len()..];
            }
        }
    }
    put(rest)?;
    Some(len)
}
