//! Messages that a handler outside the data plane decides: NOTIFY (RFC 1996), by which a server
//! reports that a zone has changed, and those of each opcode that has a handler. Their responses
//! are composed or checked here.
use crate::classify::Classifier;
use crate::counters::{AnswerCounts, TYPE_OTHER, type_index};
use crate::reply::ReplyWriter;
use crate::reply_room::{ReplyRoom, reply_len_max};
use crate::{Disposition, Now, Policy, Scratch, SmallRng, cookies, finish};
use image::Location;
use packet::{DropReason, Packet, Transport, Verdict};
use wire::{Class, Flags, HEADER_LEN, Query, QueryFault, Rcode, Rtype};

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
            Disposition::Control => {
                self.notifies[0] += 1;
                self.passed_on += 1;
            }
            Disposition::NotifyRefused => self.notifies[1] += 1,
            Disposition::NotifyUnknown => self.notifies[2] += 1,
            _ => {}
        }
    }
}

/// Whether a handler outside the data plane decides messages with this opcode.
#[inline(never)]
pub(crate) fn has_handler(policy: &Policy<'_>, query: &Query) -> bool {
    policy.handled_opcodes >> query.flags.opcode() & 1 == 1
}

/// Whether a query is for a transfer (RFC 5936, RFC 1995) that a handler outside the data plane
/// serves.
#[inline(never)]
pub(crate) fn is_transfer(policy: &Policy<'_>, query: &Query) -> bool {
    let is_ours = query.flags.is_query() && query.class == Class::IN;
    let is_type = matches!(query.rtype, Rtype::AXFR | Rtype::IXFR);
    policy.handled_opcodes & 1 == 1 && is_ours && is_type
}

/// The verdict of a message that is passed on: with its connection if the response has many
/// messages.
#[inline(never)]
pub(crate) fn pass_on(
    policy: &Policy<'_>,
    query: &Query,
    packet: &Packet<'_>,
    answer_counts: &mut AnswerCounts,
) -> Verdict {
    answer_counts.passed_on += 1;
    let is_stream = packet.context.transport == Transport::Stream;
    if is_stream && is_transfer(policy, query) { Verdict::Stream } else { Verdict::Control }
}

/// What a handler has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAnswer<B> {
    /// The response has this code, and the question.
    Code(Rcode),
    /// The whole response, as it is sent. A client that cannot receive one so long gets it
    /// truncated, without records.
    Message(B),
}

impl ControlAnswer<&[u8]> {
    /// The code of a response to the message in `packet`. A message that is not a response to it,
    /// or has a code without a name, is a defect of the handler.
    fn rcode(&self, packet: &Packet<'_>) -> Option<Rcode> {
        match self {
            Self::Code(rcode) => Some(*rcode),
            Self::Message(bytes) => {
                let &[i0, i1, f0, f1, ..] = bytes.first_chunk::<HEADER_LEN>()?;
                let flags = Flags(u16::from_be_bytes([f0, f1]));
                let is_response = flags.has(Flags::QR) && packet.message().starts_with(&[i0, i1]);
                let mut codes = Rcode::ALL.into_iter();
                codes.find(|code| is_response && u16::from(*code as u8) == flags.0 & 0xf)
            }
        }
    }
}

/// Answers a message that [`batch`](crate::batch()) passed on as [`Verdict::Control`], as the
/// handler decided: the packet is as it was then, with room for the response.
pub fn answer_control(
    policy: &Policy<'_>,
    now: Now,
    scratch: &mut Scratch,
    packet: &mut Packet<'_>,
    answer: ControlAnswer<&[u8]>,
    answer_counts: &mut AnswerCounts,
) {
    let Scratch { queries: [query, ..], suffixes, cookies, .. } = scratch;
    let type_index = match query.parse(packet.buf, packet.len) {
        Ok(()) => type_index(query.rtype),
        Err(QueryFault::Opcode) => TYPE_OTHER,
        Err(_) => {
            // It could be parsed before.
            packet.verdict = Verdict::Drop(DropReason::Undecided);
            return;
        }
    };
    packet.verdict = Verdict::Reply;
    let transport = packet.context.transport;
    let len_max = reply_len_max(policy, query, transport, packet.buf.len());
    let rcode = answer.rcode(packet);
    answer_counts.count(rcode.unwrap_or(Rcode::ServFail), type_index);
    if let (ControlAnswer::Message(bytes), Some(_)) = (answer, rcode)
        && bytes.len() <= len_max
    {
        packet.buf[..bytes.len()].copy_from_slice(bytes);
        packet.len = bytes.len();
        return;
    }
    let options = cookies::options(policy, now, query, packet, cookies);
    let room = ReplyRoom::new(policy, query, transport, packet.buf.len(), &options);
    let mut random = SmallRng(now.seed | 1);
    let buf = &mut packet.buf[..room.limit];
    // No record set is put.
    let context = (&packet.context, Location::UNKNOWN);
    let mut reply = ReplyWriter::new(buf, room, query, context, suffixes, &mut random);
    match (answer, rcode) {
        (ControlAnswer::Message(_), Some(rcode)) => {
            reply.fail(rcode, None);
            reply.truncate();
            answer_counts.truncated += 1;
        }
        (_, rcode) => {
            reply.set_authoritative(rcode == Some(Rcode::NoError));
            reply.fail(rcode.unwrap_or(Rcode::ServFail), None);
        }
    }
    packet.len = finish::finish(policy, &options, reply);
}
