//! The second pass: each query is answered in place.
use crate::classify::Classifier;
use crate::cname_chain::CnameChain;
use crate::control::{has_handler, is_transfer, pass_on};
use crate::cookies::{self, CookieMemo, ReplyOptions};
use crate::counters::{AnswerCounts, TYPE_OTHER, type_index};
use crate::ede::Ede;
use crate::fast_path::{ShortReplies, put_cookie};
use crate::finish;
use crate::limits::TAIL_MAX;
use crate::networks::answer_denied;
use crate::reply::ReplyWriter;
use crate::reply_room::{ReplyRoom, reply_len_max};
use crate::rrl::{RrlClass, RrlReply};
use crate::solve::{self, ChainScratch, ChainStart, ForwardConfig, MissingName};
use crate::subnet_reply::Dependence;
use crate::tsig::{BadKey, sort_handled};
use crate::{Disposition, Now, Policy, SmallRng, chaos, resolver};
use image::{HashKey, ZoneTable};
use packet::{BURST_MAX, DropReason, Packet, Verdict};
use wire::{
    Class, FastParse, HEADER_LEN, Name, QName, Query, QueryFault, Rcode, Rtype, Suffixes,
    inject_panic,
};

/// Bytes of the longest header and question.
const QUESTION_END_MAX: usize = HEADER_LEN + Name::LEN_MAX + 4;

/// Header and question as the client sent them; empty except while a rewritten query is answered.
#[derive(Debug)]
pub(crate) struct EchoedQuestion {
    bytes: [u8; QUESTION_END_MAX],
    pub(crate) len: usize,
}

impl EchoedQuestion {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; QUESTION_END_MAX], len: 0 }
    }

    pub(crate) fn set(&mut self, packet: &Packet<'_>, query: &Query) {
        self.len = query.question_end;
        self.bytes[..self.len].copy_from_slice(&packet.buf[..self.len]);
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// State of the second pass.
pub(crate) struct Responder<'b, 'e, 'w> {
    pub(crate) zones: &'w dyn ZoneTable,
    pub(crate) key: &'w HashKey,
    pub(crate) policy: &'b Policy<'b>,
    pub(crate) now: Now,
    pub(crate) suffixes: &'b mut Suffixes,
    pub(crate) alias: &'b mut QName,
    pub(crate) chain: &'b mut CnameChain,
    pub(crate) cookies: &'b mut CookieMemo,
    pub(crate) tail: &'b mut [u8; TAIL_MAX],
    pub(crate) asked: &'b mut EchoedQuestion,
    pub(crate) random: SmallRng,
    pub(crate) forwarding: ForwardConfig<'e>,
}

impl<'w> Responder<'_, '_, 'w> {
    #[inline(never)]
    pub(crate) fn answer_all(
        &mut self,
        classifier: &mut Classifier<'_, 'w>,
        fast_parses: &[FastParse; BURST_MAX],
        queries: &mut [Query; BURST_MAX],
        dispositions: &mut [Disposition<'w>; BURST_MAX],
        packets: &mut [Packet<'_>],
        answer_counts: &mut AnswerCounts,
    ) {
        let mut short_replies = ShortReplies::new(self.key, self.policy);
        for (((packet, fast_parse), query), disposition) in
            packets.iter_mut().zip(fast_parses).zip(queries).zip(dispositions)
        {
            let set = match disposition {
                Disposition::Fast(fast_path) => {
                    match short_replies.answer(fast_path, fast_parse, packet.buf) {
                        Ok((rcode, len)) => {
                            (packet.len, packet.verdict) = (len, Verdict::Reply);
                            answer_counts.count(rcode, fast_parse.rtype == Rtype::AAAA);
                            continue;
                        }
                        Err(set) => set.map(|set| (set, &*fast_path)),
                    }
                }
                Disposition::Cached(_) => continue,
                _ => None,
            };
            if let Some((set, fast_path)) = set
                && let parsed = (fast_path, fast_parse)
                && let Some(len) = short_replies.answer_set(&set, parsed, packet, &mut self.random)
            {
                (packet.len, packet.verdict) = (len, Verdict::Reply);
                answer_counts.count(Rcode::NoError, fast_parse.rtype == Rtype::AAAA);
            } else {
                self.answer_fully(classifier, query, disposition, packet, answer_counts);
            }
        }
    }

    /// Answers a packet on the full path.
    #[inline(never)]
    fn answer_fully(
        &mut self,
        classifier: &mut Classifier<'_, 'w>,
        query: &mut Query,
        disposition: &mut Disposition<'w>,
        packet: &mut Packet<'_>,
        answer_counts: &mut AnswerCounts,
    ) {
        // Stays if this panics: the packet is then no longer the query.
        packet.verdict = Verdict::Drop(DropReason::Panicked);
        if let Disposition::Fast(_) | Disposition::NotCached = disposition {
            *disposition = classifier.classify_fully(query, packet);
        }
        if let Disposition::Fault(QueryFault::Opcode) = disposition
            && has_handler(self.policy, query)
        {
            *disposition = sort_handled(self.policy, query, packet);
        }
        packet.verdict = match disposition {
            Disposition::Fault(QueryFault::Short) => Verdict::Drop(DropReason::Short),
            Disposition::Fault(QueryFault::Response) => Verdict::Drop(DropReason::Response),
            Disposition::Dropped(reason) => Verdict::Drop(*reason),
            Disposition::Control => {
                answer_counts.count_notify(disposition);
                Verdict::Control
            }
            Disposition::PassedOn => pass_on(self.policy, query, packet, answer_counts),
            Disposition::Meta if is_transfer(self.policy, query) => {
                pass_on(self.policy, query, packet, answer_counts)
            }
            _ => {
                let answered = match disposition {
                    Disposition::Renamed(rule) => {
                        self.answer_renamed(classifier, *rule, query, packet, answer_counts)
                    }
                    Disposition::Signed => {
                        self.answer_signed(query, disposition, packet, answer_counts)
                    }
                    _ => self.answer(query, disposition, packet, answer_counts),
                };
                let verdict = if answered.is_some() { Verdict::Reply } else { Verdict::Deferred };
                *disposition = answered.unwrap_or(Disposition::Deferred);
                verdict
            }
        };
    }

    /// Answers a query that is signed with an unknown key.
    #[inline(never)]
    fn answer_signed(
        &mut self,
        query: &Query,
        disposition: &Disposition<'w>,
        packet: &mut Packet<'_>,
        answer_counts: &mut AnswerCounts,
    ) -> Option<Disposition<'w>> {
        let bad_key = BadKey::new(query, packet);
        let answered = self.answer(query, disposition, packet, answer_counts);
        let len_max = reply_len_max(self.policy, query, packet.context.transport, packet.buf.len());
        if let Some(bad_key) = bad_key {
            bad_key.append(len_max, packet);
        }
        answered
    }

    /// Adds cookies to fast replies.
    #[inline(never)]
    pub(crate) fn add_cookies(
        &mut self,
        fast_parses: &[FastParse; BURST_MAX],
        dispositions: &mut [Disposition<'w>; BURST_MAX],
        packets: &mut [Packet<'_>],
    ) {
        let Some(secret) = self.policy.cookie_secrets.first() else { return };
        for ((packet, fast_parse), disposition) in
            packets.iter_mut().zip(fast_parses).zip(dispositions)
        {
            if !matches!(disposition, Disposition::Fast(_)) || fast_parse.cookie().is_empty() {
                continue;
            }
            let known = fast_parse.complete_cookie().filter(|cookie| {
                self.cookies.has(secret, self.now, packet.context.client.ip(), cookie)
            });
            match known {
                Some(own) => {
                    packet.len = put_cookie(packet.buf, packet.len, own);
                    *disposition = Disposition::Proven;
                }
                None => self.add_new_cookie(fast_parse, disposition, packet),
            }
        }
    }

    /// Adds a cookie that is new or not verified yet.
    #[inline(never)]
    fn add_new_cookie(
        &mut self,
        fast_parse: &FastParse,
        disposition: &mut Disposition<'w>,
        packet: &mut Packet<'_>,
    ) {
        let (secrets, client) = (self.policy.cookie_secrets, packet.context.client.ip());
        let reply_cookie =
            self.cookies.reply_cookie(secrets, self.now, client, fast_parse.cookie());
        if reply_cookie.proven {
            *disposition = Disposition::Proven;
        } else if let Disposition::Fast(fast_path) = disposition {
            *disposition = Disposition::Answered(fast_path.answered(fast_parse, packet.len));
        }
        packet.len = put_cookie(packet.buf, packet.len, &reply_cookie.data);
    }

    /// Answers a packet; returns what is charged for, or `None` if it is deferred.
    #[inline(always)]
    fn answer(
        &mut self,
        query: &Query,
        disposition: &Disposition<'w>,
        packet: &mut Packet<'_>,
        answer_counts: &mut AnswerCounts,
    ) -> Option<Disposition<'w>> {
        let options = cookies::options(self.policy, self.now, query, packet, self.cookies);
        if !self.policy.forwards.is_empty() {
            self.forwarding.may_forward = self.may_forward(query, packet);
            // A query that cannot be restored is answered from the cache.
            self.forwarding.is_final = !self.save_tail(query, packet);
        }
        loop {
            match self.compose(query, disposition, packet, &options, answer_counts) {
                Ok(answered) => return Some(answered),
                Err(missing) if self.request(&missing, query, packet) => return None,
                Err(_) => self.forwarding.is_final = true,
            }
        }
    }

    /// Whether queries are forwarded for this client; only class IN is.
    pub(crate) fn may_forward(&self, query: &Query, packet: &Packet<'_>) -> bool {
        query.class == Class::IN && self.policy.recursion.lists(packet.context.client.ip())
    }

    /// Saves the bytes behind the question, which the reply overwrites; false if they are too many.
    #[inline(never)]
    pub(crate) fn save_tail(&mut self, query: &Query, packet: &Packet<'_>) -> bool {
        let tail = &packet.message()[query.question_end.min(packet.len)..];
        let saved = self.tail.get_mut(..tail.len());
        saved.map(|saved| saved.copy_from_slice(tail)).is_some()
    }

    /// Restores the packet and sends a query for the missing name; false if no server can be
    /// queried.
    #[inline(never)]
    fn request(&mut self, missing: &MissingName, query: &Query, packet: &mut Packet<'_>) -> bool {
        let tail = &mut packet.buf[query.question_end..packet.len];
        tail.copy_from_slice(&self.tail[..tail.len()]);
        let name = if missing.first { &query.name } else { &*self.alias };
        let key = resolver::key(self.key, packet.context.view, name, query);
        self.forwarding.resolver.request(&key, missing.group, packet)
    }

    /// Composes the reply; returns what is charged for.
    ///
    /// # Errors
    /// [`MissingName`] if an upstream server must be queried first.
    #[inline(always)]
    pub(crate) fn compose(
        &mut self,
        query: &Query,
        disposition: &Disposition<'w>,
        packet: &mut Packet<'_>,
        options: &ReplyOptions,
        answer_counts: &mut AnswerCounts,
    ) -> Result<Disposition<'w>, MissingName> {
        let room =
            ReplyRoom::new(self.policy, query, packet.context.transport, packet.buf.len(), options);
        let buf = &mut packet.buf[..room.limit];
        let context = (&packet.context, self.policy.location(packet.context.location));
        let mut reply =
            ReplyWriter::new(buf, room, query, context, self.suffixes, &mut self.random);
        reply.subnet = options.subnet.as_ref();
        let start = match disposition {
            Disposition::Zone(node_lookup) => Some(ChainStart::Zone(node_lookup)),
            Disposition::Forward(group) => Some(ChainStart::Upstreams(*group)),
            Disposition::Hosts(host) => Some(ChainStart::Hosts(*host)),
            _ => None,
        };
        match start {
            Some(start) => {
                let scratch = ChainScratch { alias: self.alias, chain: self.chain };
                solve::solve(
                    self.zones,
                    self.key,
                    start,
                    scratch,
                    &mut self.forwarding,
                    &mut reply,
                )?;
            }
            None => refuse(disposition, self.policy, &mut reply),
        }
        if options.subnet.is_some() && depends_on_network(self.policy, start) {
            reply.depends = reply.depends.max(Dependence::Network);
        }
        inject_panic("solve", || query.name.as_bytes());
        if query.flags.is_notify() {
            answer_counts.count_notify(disposition);
        }
        // A message that cannot be parsed has no type.
        let index = if matches!(disposition, Disposition::Fault(_)) {
            TYPE_OTHER
        } else {
            type_index(query.rtype)
        };
        answer_counts.count(reply.rcode, index);
        answer_counts.truncated += u32::from(reply.is_truncated());
        let answered = match options.proven || matches!(disposition, Disposition::Slip) {
            true => Disposition::Proven,
            false => Disposition::Answered(RrlReply {
                kind: RrlClass::of_reply(&reply, self.key, start),
                rcode: reply.rcode,
                type_index: index as u8,
                question_end: query.question_end as u16,
                records_end: reply.out.len() as u16,
            }),
        };
        packet.len = finish::finish(self.policy, options, reply);
        Ok(answered)
    }
}

/// Whether clients of other networks may get another answer for a name that is looked up here.
#[inline(never)]
fn depends_on_network(policy: &Policy<'_>, start: Option<ChainStart<'_, '_>>) -> bool {
    let denies = policy.networks().is_some_and(|networks| networks.denies);
    match start {
        Some(ChainStart::Zone(node_lookup)) => {
            denies || node_lookup.zone.facts().has_views || !policy.locations.is_empty()
        }
        Some(_) => denies,
        None => false,
    }
}

/// Answers a query that needs no zone.
#[inline(never)]
fn refuse(disposition: &Disposition<'_>, policy: &Policy<'_>, reply: &mut ReplyWriter<'_>) {
    match disposition {
        Disposition::Chaos => chaos::answer(policy, reply),
        Disposition::Meta => refuse_meta(reply),
        Disposition::NameDenied(network) => answer_denied(policy, *network, reply),
        Disposition::Signed | Disposition::NotifyUnknown => reply.fail(Rcode::NotAuth, None),
        Disposition::NotifyRefused | Disposition::Unsigned => {
            reply.fail(Rcode::Refused, Some(Ede::PROHIBITED))
        }
        Disposition::Fault(QueryFault::Opcode) => reply.fail(Rcode::NotImp, None),
        Disposition::Fault(QueryFault::Version) => reply.fail(Rcode::BadVers, None),
        Disposition::Fault(QueryFault::CookieOnly) => {}
        Disposition::Fault(_) => reply.fail(Rcode::FormErr, None),
        // As for a DNAME (RFC 6672 §2.2).
        Disposition::NameTooLong => reply.fail(Rcode::YxDomain, None),
        Disposition::Denied => reply.fail(Rcode::Refused, Some(Ede::PROHIBITED)),
        // No extended error fits: the client may retry in a moment (RFC 8914 §4).
        Disposition::Limited => reply.fail(Rcode::Refused, None),
        Disposition::Slip => reply.truncate(),
        _ => reply.fail(Rcode::Refused, Some(Ede::NOT_AUTHORITATIVE)),
    }
}

/// Answers types that no record has. Transfers are not offered, and mailbox queries never were (RFC
/// 1035 §3.2.3). Unassigned types may have any meaning (RFC 6895 §3.1), so that neither NODATA nor
/// FORMERR would be true (RFC 8906 §3.1.2). The others belong into other sections than the
/// question, or into none (NXNAME, RFC 9824).
fn refuse_meta(reply: &mut ReplyWriter<'_>) {
    match reply.query.rtype {
        Rtype::AXFR | Rtype::IXFR => reply.fail(Rcode::Refused, Some(Ede::NOT_SUPPORTED)),
        Rtype::MAILA | Rtype::MAILB | Rtype(129..=248) => reply.fail(Rcode::NotImp, None),
        _ => reply.fail(Rcode::FormErr, None),
    }
}
