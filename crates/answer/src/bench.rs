//! The second pass: each question is answered in its place.
use crate::finish::{self, Room};
use crate::guard::{self, CookieMemo, Options};
use crate::ledger::Made;
use crate::limits::TAIL_MAX;
use crate::plain::{Desk, put_cookie};
use crate::reply::Reply;
use crate::scout::Scout;
use crate::solve::{self, Abroad, Missing, Start, Trip};
use crate::tally::{TYPE_OTHER, Tally, type_index};
use crate::trail::Trail;
use crate::{Dice, Now, Policy, Way, chaos, elsewhere};
use image::{HashKey, World};
use packet::{BURST_MAX, Drop, Packet, Verdict};
use wire::{Fault, Glance, QName, Query, Rcode, Rtype, Suffixes};

/// What the second pass works with.
pub(crate) struct Bench<'b, 'e, 'w> {
    pub(crate) world: &'w dyn World,
    pub(crate) key: &'w HashKey,
    pub(crate) policy: &'b Policy<'b>,
    pub(crate) now: Now,
    pub(crate) suffixes: &'b mut Suffixes,
    pub(crate) alias: &'b mut QName,
    pub(crate) trail: &'b mut Trail,
    pub(crate) cookies: &'b mut CookieMemo,
    pub(crate) tail: &'b mut [u8; TAIL_MAX],
    pub(crate) dice: Dice,
    pub(crate) abroad: Abroad<'e>,
}

impl<'w> Bench<'_, '_, 'w> {
    /// The second pass.
    #[inline(never)]
    pub(crate) fn answer_all(
        &mut self,
        scout: &mut Scout<'_, 'w>,
        glances: &[Glance; BURST_MAX],
        queries: &mut [Query; BURST_MAX],
        ways: &mut [Way<'w>; BURST_MAX],
        packets: &mut [Packet<'_>],
        tally: &mut Tally,
    ) {
        let mut desk = Desk::new(self.key, self.policy);
        for (((packet, glance), query), way) in
            packets.iter_mut().zip(glances).zip(queries).zip(ways)
        {
            if let Way::Plain(lead) = way
                && let Some((rcode, len)) = desk.answer(lead, glance, packet.buf)
            {
                (packet.len, packet.verdict) = (len, Verdict::Reply);
                tally.count(rcode, glance.rtype == Rtype::AAAA);
            } else {
                self.answer_rest(scout, query, way, packet, tally);
            }
        }
    }

    /// The second pass over a packet that did not take the short way here. A step of its own, so
    /// that who passes by here needs no stack frame: that saves the cache's hits 25 instructions.
    #[inline(never)]
    fn answer_rest(
        &mut self,
        scout: &mut Scout<'_, 'w>,
        query: &mut Query,
        way: &mut Way<'w>,
        packet: &mut Packet<'_>,
        tally: &mut Tally,
    ) {
        if !matches!(way, Way::Known(_)) {
            self.answer_closely(scout, query, way, packet, tally);
        }
    }

    /// The second pass over a packet that takes the long way, or could not go on the short one.
    #[inline(never)]
    fn answer_closely(
        &mut self,
        scout: &mut Scout<'_, 'w>,
        query: &mut Query,
        way: &mut Way<'w>,
        packet: &mut Packet<'_>,
        tally: &mut Tally,
    ) {
        if let Way::Plain(_) | Way::Unknown = way {
            *way = scout.look_closely(query, packet);
        }
        packet.verdict = match way {
            Way::Fault(Fault::Short) => Verdict::Drop(Drop::Short),
            Way::Fault(Fault::Response) => Verdict::Drop(Drop::Response),
            Way::Shut(reason) => Verdict::Drop(*reason),
            _ => {
                let made = match way {
                    Way::Renamed(rule) => self.answer_renamed(scout, *rule, query, packet, tally),
                    _ => self.answer(query, way, packet, tally),
                };
                let verdict = if made.is_some() { Verdict::Reply } else { Verdict::Later };
                *way = made.unwrap_or(Way::Later);
                verdict
            }
        };
    }

    /// Puts cookies behind short replies.
    #[inline(never)]
    pub(crate) fn seal_all(
        &mut self,
        glances: &[Glance; BURST_MAX],
        ways: &mut [Way<'w>; BURST_MAX],
        packets: &mut [Packet<'_>],
    ) {
        let Some(secret) = self.policy.cookie_secrets.first() else { return };
        for ((packet, glance), way) in packets.iter_mut().zip(glances).zip(ways) {
            if !matches!(way, Way::Plain(_)) || glance.cookie().is_empty() {
                continue;
            }
            let known = glance
                .whole_cookie()
                .filter(|cookie| self.cookies.knows(secret, self.now, packet.client.ip(), cookie));
            match known {
                Some(own) => {
                    packet.len = put_cookie(packet.buf, packet.len, own);
                    *way = Way::Proven;
                }
                None => self.seal_anew(glance, way, packet),
            }
        }
    }

    /// The same of one reply, where the cookie is new, or not known to be ours.
    #[inline(never)]
    fn seal_anew(&mut self, glance: &Glance, way: &mut Way<'w>, packet: &mut Packet<'_>) {
        let (secrets, client) = (self.policy.cookie_secrets, packet.client.ip());
        let seal = self.cookies.seal(secrets, self.now, client, glance.cookie());
        if seal.proven {
            *way = Way::Proven;
        } else if let Way::Plain(lead) = way {
            *way = Way::Made(lead.made(glance, packet.len));
        }
        packet.len = put_cookie(packet.buf, packet.len, &seal.data);
    }

    /// The second pass over a packet; what is to be charged for. Nothing: it is answered later.
    #[inline(always)]
    fn answer(
        &mut self,
        query: &Query,
        way: &Way<'w>,
        packet: &mut Packet<'_>,
        tally: &mut Tally,
    ) -> Option<Way<'w>> {
        let options = guard::options(self.policy, self.now, query, packet, self.cookies);
        if !self.policy.forwards.is_empty() {
            self.abroad.may_ask = self.policy.recursion.lists(packet.client.ip());
            // What could not be given back as it came is answered with what there is.
            self.abroad.settles = !self.keep_tail(query, packet);
        }
        loop {
            match self.make(query, way, packet, &options, tally) {
                Ok(made) => return Some(made),
                Err(missing) if self.ask(&missing, query, packet) => return None,
                Err(_) => self.abroad.settles = true,
            }
        }
    }

    /// Keeps what stands behind the question, which a reply that is begun overwrites; false where
    /// that is too much.
    #[inline(never)]
    pub(crate) fn keep_tail(&mut self, query: &Query, packet: &Packet<'_>) -> bool {
        let tail = &packet.message()[query.question_end.min(packet.len)..];
        let kept = self.tail.get_mut(..tail.len());
        kept.map(|kept| kept.copy_from_slice(tail)).is_some()
    }

    /// Has somebody asked about what is missing, for a packet that is as it came again.
    #[inline(never)]
    fn ask(&mut self, missing: &Missing, query: &Query, packet: &mut Packet<'_>) -> bool {
        let tail = &mut packet.buf[query.question_end..packet.len];
        tail.copy_from_slice(&self.tail[..tail.len()]);
        let name = if missing.first { &query.name } else { &*self.alias };
        let key = elsewhere::key(self.key, name, query);
        self.abroad.elsewhere.ask(&key, missing.group, packet)
    }

    /// Makes the reply, unless somebody has to be asked first; what is to be charged for.
    #[inline(always)]
    pub(crate) fn make(
        &mut self,
        query: &Query,
        way: &Way<'w>,
        packet: &mut Packet<'_>,
        options: &Options,
        tally: &mut Tally,
    ) -> Result<Way<'w>, Missing> {
        let room = Room::new(self.policy, query, packet.transport, packet.buf.len(), options);
        let buf = &mut packet.buf[..room.limit];
        let mut reply =
            Reply::new(buf, room, query, packet.transport, self.suffixes, &mut self.dice);
        let start = match way {
            Way::Zone(spot) => Some(Start::Ours(spot)),
            Way::Forward(group) => Some(Start::Theirs(*group)),
            Way::Hosts(host) => Some(Start::Hosts(*host)),
            _ => None,
        };
        match start {
            Some(start) => {
                let trip = Trip { alias: self.alias, trail: self.trail };
                solve::solve(self.world, self.key, start, trip, &mut self.abroad, &mut reply)?;
            }
            None => refuse(way, self.policy, &mut reply),
        }
        // A message that could not be read has no type.
        let index = if matches!(way, Way::Fault(_)) { TYPE_OTHER } else { type_index(query.rtype) };
        tally.count(reply.rcode, index);
        tally.truncated += u32::from(reply.is_truncated());
        let made = match options.proven || matches!(way, Way::Slip) {
            true => Way::Proven,
            false => Way::Made(Made {
                kind: reply.kind(self.key, start),
                rcode: reply.rcode,
                type_index: index as u8,
                question_end: query.question_end as u16,
                records_end: reply.out.len() as u16,
            }),
        };
        packet.len = finish::finish(self.policy, options, reply);
        Ok(made)
    }
}

/// Answers what needs no zone.
#[inline(never)]
fn refuse(way: &Way<'_>, policy: &Policy<'_>, reply: &mut Reply<'_>) {
    match way {
        Way::Chaos => chaos::answer(policy, reply),
        Way::Meta => refuse_meta(reply),
        Way::Fault(Fault::Opcode) => reply.fail(Rcode::NotImp, None),
        Way::Fault(Fault::Version) => reply.fail(Rcode::BadVers, None),
        Way::Fault(Fault::CookieOnly) => {}
        Way::Fault(_) => reply.fail(Rcode::FormErr, None),
        // As of a DNAME (RFC 6672 §2.2).
        Way::Overlong => reply.fail(Rcode::YxDomain, None),
        Way::Denied => reply.fail(Rcode::Refused, Some(finish::Ede::PROHIBITED)),
        // It may ask again in a moment, and no code says so (RFC 8914 §4).
        Way::Limited => reply.fail(Rcode::Refused, None),
        Way::Slip => reply.truncate(),
        _ => reply.fail(Rcode::Refused, Some(finish::Ede::NOT_AUTHORITATIVE)),
    }
}

/// Questions for what is no record: transfers are not offered, mailbox queries were never
/// (RFC 1035 §3.2.3). What nobody has given a meaning yet may ask for anything (RFC 6895 §3.1), so
/// that neither NODATA nor a format error would be true (RFC 8906 §3.1.2). The rest belongs into
/// other sections than the question, or into none (NXNAME, RFC 9824).
fn refuse_meta(reply: &mut Reply<'_>) {
    match reply.query.rtype {
        Rtype::AXFR | Rtype::IXFR => reply.fail(Rcode::Refused, Some(finish::Ede::NOT_SUPPORTED)),
        Rtype::MAILA | Rtype::MAILB | Rtype(129..=248) => reply.fail(Rcode::NotImp, None),
        _ => reply.fail(Rcode::FormErr, None),
    }
}
