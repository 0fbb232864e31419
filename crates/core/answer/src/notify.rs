//! NOTIFY (RFC 1996): a server reports that a zone has changed. A handler outside the data plane
//! decides the response code; the response is composed here.
use crate::classify::Classifier;
use crate::counters::{AnswerCounts, NOTIFY_ACCEPTED, type_index};
use crate::reply::ReplyWriter;
use crate::reply_room::ReplyRoom;
use crate::{Disposition, Now, Policy, Scratch, SmallRng, cookies, finish};
use packet::{DropReason, Packet, Verdict};
use wire::{Class, Query, QueryFault, Rcode, Rtype};

impl<'w> Classifier<'_, 'w> {
    /// Who may send it is decided first, so that others learn nothing about the zones.
    #[inline(never)]
    pub(crate) fn classify_notify(&self, query: &Query, packet: &Packet<'_>) -> Disposition<'w> {
        if !self.notify_from.lists(packet.context.client.ip()) {
            return Disposition::NotifyRefused;
        }
        // RFC 1996 §3.7 defines no other type.
        if query.rtype != Rtype::SOA {
            return Disposition::Fault(QueryFault::Format);
        }
        let routed = self.zones.route(packet.context.view, &query.name, false);
        let is_ours = query.class == Class::IN
            && routed.is_some_and(|routed| {
                let labels = usize::from(routed.facts.origin_labels);
                labels == query.name.labels() && !routed.facts.yields
            });
        if is_ours { Disposition::Control } else { Disposition::NotifyUnknown }
    }
}

impl AnswerCounts {
    /// Counts a NOTIFY by what became of it; other queries are not counted.
    #[inline(never)]
    pub(crate) fn count_notify(&mut self, disposition: &Disposition<'_>) {
        match disposition {
            Disposition::Control => self.notifies[NOTIFY_ACCEPTED] += 1,
            Disposition::NotifyRefused => self.notifies[1] += 1,
            Disposition::NotifyUnknown => self.notifies[2] += 1,
            _ => {}
        }
    }
}

/// Composes the response to a message that [`batch`](crate::batch()) passed on as
/// [`Verdict::Control`]: the packet is as it was then, and `rcode` is what the handler decided.
pub fn answer_control(
    policy: &Policy<'_>,
    now: Now,
    scratch: &mut Scratch,
    packet: &mut Packet<'_>,
    rcode: Rcode,
    answer_counts: &mut AnswerCounts,
) {
    let Scratch { queries: [query, ..], suffixes, cookies, .. } = scratch;
    if query.parse(packet.buf, packet.len).is_err() {
        // It could be parsed before.
        packet.verdict = Verdict::Drop(DropReason::Undecided);
        return;
    }
    let options = cookies::options(policy, now, query, packet, cookies);
    let transport = packet.context.transport;
    let room = ReplyRoom::new(policy, query, transport, packet.buf.len(), &options);
    let mut random = SmallRng(now.seed | 1);
    let buf = &mut packet.buf[..room.limit];
    let mut reply = ReplyWriter::new(buf, room, query, &packet.context, suffixes, &mut random);
    reply.set_authoritative(rcode == Rcode::NoError);
    reply.fail(rcode, None);
    answer_counts.count(rcode, type_index(query.rtype));
    packet.len = finish::finish(policy, &options, reply);
    packet.verdict = Verdict::Reply;
}
