//! Response rate limiting: a rate for each class of replies to a network.
//!
//! All replies of a burst are composed first. Their table entries are prefetched before the first
//! is charged.
use crate::admission::Limiter;
use crate::reply::{ReplySection, ReplyWriter};
use crate::resolver;
use crate::solve::ChainStart;
use crate::{AnswerCounts, Disposition, Now};
use core::ptr;
use image::{HashKey, Zone};
use limit::{Acl, Charge, ClientAccount};
use packet::{BURST_MAX, DropReason, Packet, Transport, Verdict, prefetch};
use wire::{FastParse, Flags, HEADER_LEN, Rcode, Rtype};

/// A reply to a client that did not prove its address.
#[derive(Clone, Copy)]
pub(crate) struct RrlReply<'w> {
    pub(crate) kind: RrlClass<'w>,
    pub(crate) rcode: Rcode,
    /// The index of its counter, to correct the count of a dropped reply.
    pub(crate) type_index: u8,
    pub(crate) question_end: u16,
    /// Where OPT begins, or the reply ends.
    pub(crate) records_end: u16,
}

/// Replies of the same class share a rate.
#[derive(Clone, Copy)]
pub(crate) struct RrlClass<'w> {
    /// The zone of the answer.
    zone: Option<&'w dyn Zone>,
    number: u64,
}

impl<'w> RrlClass<'w> {
    /// The class of an answer from a zone; `name` is the hash of the name.
    #[inline(always)]
    pub(crate) fn of(zone: &'w dyn Zone, name: u64, rtype: Rtype, what: RrlContent) -> Self {
        let number = match what {
            RrlContent::Records => name.wrapping_add(rtype.0.into()),
            _ => what as u64,
        };
        Self { zone: Some(zone), number }
    }

    /// The class of an answer from a group of upstream servers; `name` is the hash of the name.
    pub(crate) fn of_forwarded(group: u16, name: u64, rtype: Rtype, what: RrlContent) -> Self {
        let number = match what {
            RrlContent::Records => name.wrapping_add(rtype.0.into()),
            _ => FORWARDED | u64::from(group) << 8 | what as u64,
        };
        Self { zone: None, number }
    }

    /// The class of a reply. `start` is where the question's name was looked up.
    pub(crate) fn of_reply(
        reply: &ReplyWriter<'_>,
        key: &HashKey,
        start: Option<ChainStart<'_, 'w>>,
    ) -> Self {
        let Some(start) = start.filter(|_| has_content(reply.rcode)) else {
            return Self::error(reply.rcode);
        };
        let is_empty = reply.counts[ReplySection::Answer as usize] == 0 && !reply.is_truncated();
        let content = match reply.rcode {
            Rcode::NoError if reply.is_synthesized => RrlContent::Synthesized,
            Rcode::NoError if !is_empty => RrlContent::Records,
            Rcode::NoError if reply.flags & Flags::AA != 0 => RrlContent::Empty,
            Rcode::NoError if matches!(start, ChainStart::Upstreams(_)) => RrlContent::Empty,
            Rcode::NoError => RrlContent::Referral,
            _ => RrlContent::Missing,
        };
        match start {
            ChainStart::Zone(node_lookup) => {
                Self::of(node_lookup.zone, node_lookup.hash, reply.query.rtype, content)
            }
            ChainStart::Hosts(host) => Self::of(host.zone, host.hash, reply.query.rtype, content),
            ChainStart::Upstreams(group) => {
                let view = reply.context.view;
                let name = resolver::key(key, view, &reply.query.name, reply.query).hash;
                Self::of_forwarded(group, name, reply.query.rtype, content)
            }
        }
    }

    pub(crate) fn error(rcode: Rcode) -> Self {
        Self { zone: None, number: rcode as u64 }
    }
}

/// The content of a reply. Only replies with records count by name: for the others, the client
/// could choose any number of names.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RrlContent {
    /// Records of the name and type, of which a limited number exists.
    Records,
    Missing,
    /// The name has no records of the type.
    Empty,
    Referral,
    /// A wildcard or a DNAME synthesized the answer.
    Synthesized,
}

/// Distinguishes forwarded answers from errors.
const FORWARDED: u64 = 1 << 32;

/// The response code in the header's flags.
const RCODE: u16 = 0xf;

/// The reply rate, for one burst.
pub(crate) struct Rrl<'k, 'p, 'w> {
    pub(crate) limiter: &'k Limiter<'p>,
    pub(crate) exempt: &'k Acl<'p>,
    pub(crate) key: &'k HashKey,
    /// The result of the second pass for each query.
    pub(crate) dispositions: &'k [Disposition<'w>; BURST_MAX],
    pub(crate) fast_parses: &'k [FastParse; BURST_MAX],
}

impl<'p> Rrl<'_, 'p, '_> {
    /// Charges for the replies of a burst.
    pub(crate) fn settle(
        &self,
        now: Now,
        packets: &mut [Packet<'_>],
        answer_counts: &mut AnswerCounts,
    ) {
        let mut accounts = [ClientAccount::default(); BURST_MAX];
        self.look_up(&mut accounts, packets);
        self.charge(&accounts, now, packets, answer_counts);
    }

    #[inline(never)]
    fn look_up(&self, accounts: &mut [ClientAccount<'p>; BURST_MAX], packets: &[Packet<'_>]) {
        let Limiter { table, networks, .. } = self.limiter;
        let mut origins = OriginHash { key: self.key, last: None };
        for (((account, packet), disposition), fast_parse) in
            accounts.iter_mut().zip(packets).zip(self.dispositions).zip(self.fast_parses)
        {
            if packet.context.transport == Transport::Datagram
                && let Some(RrlReply { kind, .. }) = disposition.answered(fast_parse, packet)
            {
                let origin = kind.zone.map_or(0, |zone| origins.hash(zone));
                let view = u64::from(packet.context.view.0) << 48;
                let what = origin.rotate_left(32) ^ kind.number ^ view;
                *account = table.account(networks.of(packet.context.client.ip()), what);
                prefetch(account.memory());
            }
        }
    }

    #[inline(never)]
    fn charge(
        &self,
        accounts: &[ClientAccount<'_>; BURST_MAX],
        now: Now,
        packets: &mut [Packet<'_>],
        answer_counts: &mut AnswerCounts,
    ) {
        let rate = self.limiter.rate;
        let accounts = accounts.get(..packets.len()).unwrap_or(accounts);
        for (at, account) in accounts.iter().enumerate() {
            let charge = account.charge(now.monotonic_micros, &rate);
            if charge != Charge::Within {
                self.withhold(at, charge, packets, answer_counts);
            }
        }
    }

    /// Drops or truncates a reply above the rate, unless its client is exempt.
    #[inline(never)]
    fn withhold(
        &self,
        at: usize,
        charge: Charge,
        packets: &mut [Packet<'_>],
        answer_counts: &mut AnswerCounts,
    ) {
        let packet = &mut packets[at];
        if !self.exempt.lists(packet.context.client.ip())
            && let Some(answered) = self.dispositions[at].answered(&self.fast_parses[at], packet)
        {
            answered.withhold(charge, packet, answer_counts);
        }
    }
}

/// The hash of the origin of the zone that answered last.
struct OriginHash<'k, 'w> {
    key: &'k HashKey,
    last: Option<(&'w dyn Zone, u64)>,
}

impl<'w> OriginHash<'_, 'w> {
    #[inline(always)]
    fn hash(&mut self, zone: &'w dyn Zone) -> u64 {
        match self.last {
            Some((known, hash)) if ptr::addr_eq(known, zone) => hash,
            _ => {
                let hash = self.key.hash_of(zone.origin().as_bytes());
                self.last = Some((zone, hash));
                hash
            }
        }
    }
}

impl<'w> Disposition<'w> {
    /// The reply of a query, if it is charged for.
    #[inline(always)]
    fn answered(&self, fast_parse: &FastParse, packet: &Packet<'_>) -> Option<RrlReply<'w>> {
        match self {
            Disposition::Fast(fast_path) => Some(fast_path.answered(fast_parse, packet.len)),
            Disposition::Cached(candidate) => Some(candidate.answered(fast_parse, packet)),
            Disposition::Answered(answered) => Some(*answered),
            _ => None,
        }
    }
}

impl RrlReply<'_> {
    /// Drops a reply, or truncates it. An error that slips through is sent unchanged.
    fn withhold(&self, charge: Charge, packet: &mut Packet<'_>, answer_counts: &mut AnswerCounts) {
        let slips = charge == Charge::Slip;
        if slips && !has_content(self.rcode) {
            return;
        }
        let Some(header) = packet.buf.first_chunk_mut::<HEADER_LEN>() else { return };
        let flags = Flags(u16::from_be_bytes([header[2], header[3]]));
        answer_counts.rcodes[self.rcode.index()] -= 1;
        answer_counts.truncated -= u32::from(flags.has(Flags::TC));
        if !slips {
            answer_counts.types[usize::from(self.type_index)] -= 1;
            packet.verdict = Verdict::Drop(DropReason::ResponseLimited);
            return;
        }
        answer_counts.rcodes[Rcode::NoError.index()] += 1;
        answer_counts.truncated += 1;
        let (question_end, records_end) = (self.question_end.into(), self.records_end.into());
        let opts = u8::from(packet.len > records_end);
        let [f0, f1] = (flags.0 & !(Flags::AA | RCODE) | Flags::TC).to_be_bytes();
        header[2..4].copy_from_slice(&[f0, f1]);
        header[6..].copy_from_slice(&[0, 0, 0, 0, 0, opts]);
        packet.buf.copy_within(records_end..packet.len, question_end);
        packet.len -= records_end - question_end;
    }
}

/// Whether a reply with this code has content that the client can request over a stream.
pub(crate) fn has_content(rcode: Rcode) -> bool {
    matches!(rcode, Rcode::NoError | Rcode::NxDomain | Rcode::YxDomain)
}
