//! What becomes of a packet after [`batch`](crate::batch()) has panicked: a defect must not cost
//! more than the query that met it.
use crate::counters::{AnswerCounts, TYPE_OTHER};
use crate::{Policy, Scratch};
use packet::{DropReason, Packet, Transport, Verdict};
use wire::{Flags, HEADER_LEN, Name, Rcode};

/// Flags that a reply copies: opcode and RD.
const COPIED: u16 = 0x7800 | Flags::RD;

/// Answers a packet whose handling panicked with SERVFAIL: `scratch` is as the panic has left it.
/// The reply has the client's question if it can still be read, and nothing else. A message that
/// needs no reply is dropped.
#[cold]
pub fn answer_panicked(
    scratch: &Scratch,
    packet: &mut Packet<'_>,
    answer_counts: &mut AnswerCounts,
) {
    // A rewritten query has another question meanwhile.
    let asked = scratch.asked.as_bytes();
    if let Some(front) = packet.buf.get_mut(..asked.len()) {
        front.copy_from_slice(asked);
    }
    let is_touched = packet.verdict == Verdict::Drop(DropReason::Panicked);
    packet.verdict = Verdict::Drop(DropReason::Panicked);
    let question_end = question_end(packet.buf, packet.len);
    let Some(header) = packet.buf.first_chunk_mut::<HEADER_LEN>() else { return };
    let flags = u16::from_be_bytes([header[2], header[3]]);
    // Only a query is touched, and its reply may already have been begun.
    if packet.len < HEADER_LEN || flags & Flags::QR != 0 && !is_touched {
        return;
    }
    let [f0, f1] = (flags & COPIED | Flags::QR | Rcode::ServFail as u16).to_be_bytes();
    let [i0, i1, ..] = *header;
    let questions = u8::from(question_end > HEADER_LEN);
    *header = [i0, i1, f0, f1, 0, questions, 0, 0, 0, 0, 0, 0];
    (packet.len, packet.verdict) = (question_end, Verdict::Reply);
    answer_counts.count(Rcode::ServFail, TYPE_OTHER);
}

/// Truncates a reply over UDP that was composed before its burst panicked, where replies have a
/// rate: nothing was charged for it, so that it must not be longer than its query.
#[cold]
pub fn cut_unsettled(policy: &Policy<'_>, packet: &mut Packet<'_>) {
    let has_rate = policy.limits.as_ref().is_some_and(|limits| limits.replies.is_some());
    if !has_rate || packet.context.transport != Transport::Datagram {
        return;
    }
    let question_end = question_end(packet.buf, packet.len);
    if let Some(header) = packet.buf.first_chunk_mut::<HEADER_LEN>() {
        header[2] |= (Flags::TC >> 8) as u8;
        header[6..].fill(0);
        packet.len = question_end;
    }
}

/// The end of the only question in the first `len` bytes; that of the header if there is none.
fn question_end(buf: &[u8], len: usize) -> usize {
    let message = buf.get(..len).unwrap_or(buf);
    let mut at = HEADER_LEN;
    if message.get(4..6) != Some(&[0, 1]) {
        return HEADER_LEN;
    }
    loop {
        match message.get(at) {
            Some(0) if at - HEADER_LEN < Name::LEN_MAX && at + 5 <= message.len() => return at + 5,
            Some(len) if (1..=Name::LABEL_MAX).contains(&usize::from(*len)) => {
                at += 1 + usize::from(*len);
            }
            _ => return HEADER_LEN,
        }
    }
}
