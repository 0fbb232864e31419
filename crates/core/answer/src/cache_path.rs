//! Fast path for plain queries about forwarded names: the cached records are copied behind the
//! question.
//!
//! The path does not look up the owner of the name. A cache entry stores the number of the name map
//! by which the name was forwarded. While the zone table has the same number, the entry is still
//! valid. All other queries take the full path, which [confirms](Resolver::confirm) the entry by
//! the current map.
use crate::counters::{AnswerCounts, type_index};
use crate::finish::{PlainOpt, put_header};
use crate::forwarded_response::CacheFacts;
use crate::reply_room::OPT_LEN;
use crate::resolver::{CacheLookup, Resolver, is_due};
use crate::rrl::{RrlClass, RrlContent, RrlReply};
use crate::{Disposition, Policy};
use cache::CacheKey;
use image::HashKey;
use packet::{BURST_MAX, Packet, Verdict};
use wire::limits::UDP_LEN_MIN;
use wire::{Class, FastParse, Flags, HEADER_LEN, Rcode, age_records, inject_panic};

/// A name that the cache may have.
#[derive(Clone, Copy)]
pub(crate) struct CacheCandidate {
    hash: u64,
    name_len: u8,
}

impl CacheCandidate {
    /// Accepts a plain query that desires recursion.
    #[inline(always)]
    pub(crate) fn new(
        key: &HashKey,
        fast_parse: &mut FastParse,
        packet: &Packet<'_>,
    ) -> Option<Self> {
        let name_len = fast_parse.read(packet.buf, packet.len)?;
        let hash = key.hash(fast_parse.padded(), 0, name_len - 1);
        // Types from 128 on are not data types (RFC 6895 §3.1). The full path refuses them.
        let is_plain = flags(packet.buf).has(Flags::RD) && fast_parse.rtype.0 < 128;
        is_plain.then_some(Self { hash, name_len: name_len as u8 })
    }

    /// The cache key of the query.
    #[inline(always)]
    pub(crate) fn key<'g>(&self, fast_parse: &'g FastParse, packet: &Packet<'_>) -> CacheKey<'g> {
        let name = &fast_parse.padded()[..usize::from(self.name_len)];
        let checks_itself = flags(packet.buf).has(Flags::CD);
        let kind = cache::QueryKind::new(fast_parse.rtype.0, Class::IN.0, false, checks_itself);
        CacheKey { hash: self.hash, kind: kind.in_view(packet.context.view.0.into()), name }
    }

    /// The reply that [`CachePath::answer`] wrote.
    #[inline(always)]
    pub(crate) fn answered<'w>(&self, fast_parse: &FastParse, packet: &Packet<'_>) -> RrlReply<'w> {
        let opt_len = if fast_parse.has_opt { OPT_LEN } else { 0 };
        RrlReply {
            kind: RrlClass::of_forwarded(0, self.hash, fast_parse.rtype, RrlContent::Records),
            rcode: Rcode::NoError,
            type_index: type_index(fast_parse.rtype) as u8,
            question_end: self.question_end() as u16,
            records_end: (packet.len - opt_len) as u16,
        }
    }

    fn question_end(&self) -> usize {
        HEADER_LEN + usize::from(self.name_len) + 4
    }
}

/// What all replies of a burst from the cache have in common.
pub(crate) struct CachePath {
    /// The number of the zone table's name map.
    map: u32,
    /// QR and RA, in network order.
    flags: u16,
    opt: PlainOpt,
    /// Whether replies are rate limited. Replies without records are charged by the owner of the
    /// name, which only the full path knows.
    limits_replies: bool,
}

impl CachePath {
    pub(crate) fn new(map: u32, policy: &Policy<'_>) -> Self {
        let limits_replies = policy.limits.as_ref().is_some_and(|limits| limits.replies.is_some());
        let flags = (Flags::QR | policy.ra_flag()).to_be();
        Self { map, flags, opt: PlainOpt::new(policy.udp_size_max), limits_replies }
    }

    /// Answers the queries of a burst that have a cache candidate, and marks those that need the
    /// full path.
    #[inline(never)]
    pub(crate) fn answer_all(
        &self,
        resolver: &mut dyn Resolver,
        fast_parses: &[FastParse; BURST_MAX],
        dispositions: &mut [Disposition<'_>; BURST_MAX],
        packets: &mut [Packet<'_>],
        answer_counts: &mut AnswerCounts,
    ) {
        for ((packet, fast_parse), disposition) in
            packets.iter().zip(fast_parses).zip(&*dispositions)
        {
            if let Disposition::Cached(candidate) = disposition {
                resolver.prefetch(&candidate.key(fast_parse, packet));
            }
        }
        for ((packet, fast_parse), disposition) in
            packets.iter_mut().zip(fast_parses).zip(dispositions)
        {
            let Disposition::Cached(candidate) = disposition else { continue };
            match self.answer(*candidate, fast_parse, resolver, packet) {
                Some(rcode) => {
                    packet.verdict = Verdict::Reply;
                    answer_counts.count(rcode, type_index(fast_parse.rtype));
                }
                None => *disposition = Disposition::NotCached,
            }
        }
    }

    /// Answers in the query's buffer. Returns `None` if the full path is needed; the message is
    /// then unchanged.
    #[inline(always)]
    pub(crate) fn answer(
        &self,
        candidate: CacheCandidate,
        fast_parse: &FastParse,
        resolver: &mut dyn Resolver,
        packet: &mut Packet<'_>,
    ) -> Option<Rcode> {
        inject_panic("cache", || fast_parse.padded());
        let found = resolver.find(&candidate.key(fast_parse, packet))?;
        let (note, records_at) = CacheFacts::read(found.message, candidate.name_len.into())?;
        let records = found.message.get(records_at..)?;
        let question_end = candidate.question_end();
        let records_end = question_end + records.len();
        // The size that every client can receive.
        let buf = packet.buf.get_mut(..UDP_LEN_MIN)?;
        let is_as_new = found.map == self.map && found.is_fresh() && !is_due(&found);
        let is_whole = !note.unfinished && note.rcode != Rcode::ServFail;
        if !is_as_new
            || !is_whole
            || self.limits_replies && note.answers == 0
            || records_end + PlainOpt::ROOM_LEN > buf.len()
        {
            return None;
        }
        let age = found.age;
        let (head, behind) = buf.split_at_mut(question_end);
        let (room, behind) = behind.split_at_mut(records.len());
        room.copy_from_slice(records);
        age_records(room, |ttl| ttl.saturating_sub(age));
        self.opt.put(behind.first_chunk_mut()?);
        // RFC 6840 §5.8: AD only if the client sets it. RFC 4035 §3.2.2: CD is copied.
        let saved = Flags::RD | Flags::CD | if note.authentic { Flags::AD } else { 0 };
        let set = self.flags | (note.rcode as u16).to_be();
        put_header(head, saved, set, [note.answers, note.authorities, fast_parse.has_opt.into()]);
        packet.len = records_end + if fast_parse.has_opt { OPT_LEN } else { 0 };
        resolver.count(CacheLookup::Hit);
        Some(note.rcode)
    }
}

#[inline(always)]
fn flags(buf: &[u8]) -> Flags {
    Flags(buf.get(2..4).and_then(<[u8]>::first_chunk).map_or(0, |f| u16::from_be_bytes(*f)))
}
