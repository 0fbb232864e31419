//! The short way of the most frequent reply: one address, to who asked for no more than that. It
//! writes what `reply` and `finish` would, in one go.
use crate::Policy;
use image::RecordSet;
use wire::{Flags, HEADER_LEN, Query, Rtype};

const OPT_LEN: usize = 11;

/// Writes the reply into the query's buffer and returns its length, or nothing where the long way
/// has to be taken: for other sets than one A record. The question is at most 271 octets long, so
/// that what is written here fits into what every client can receive.
#[inline(always)]
pub(crate) fn reply(
    policy: &Policy<'_>,
    query: &Query,
    set: &RecordSet<'_>,
    buf: &mut [u8],
) -> Option<usize> {
    let [t0, t1, l0, l1, l2, l3, ..] = *set.head();
    let [a0, a1, a2, a3] = *set.data() else { return None };
    if query.rtype != Rtype::A {
        return None;
    }
    let [s0, s1] = policy.udp_size_max.to_be_bytes();
    let (header, rest) = buf.split_first_chunk_mut::<HEADER_LEN>()?;
    let start = query.question_end - HEADER_LEN;
    let record = [0xc0, HEADER_LEN as u8, t0, t1, 0, 1, l0, l1, l2, l3, 0, 4, a0, a1, a2, a3];
    let opt = [0, 0, 41, s0, s1, 0, 0, 0, 0, 0, 0];
    let has_opt = query.edns.is_some();
    let (first, behind) = rest.get_mut(start..)?.split_first_chunk_mut()?;
    *first = record;
    if has_opt {
        *behind.first_chunk_mut()? = opt;
    }
    let flags = query.flags.reply().0 | Flags::AA;
    let words = u64::from(flags) << 48 | 1 << 32 | 1 << 16;
    let [w0, w1, w2, w3, w4, w5, w6, w7] = words.to_be_bytes();
    let [i0, i1, ..] = *header;
    *header = [i0, i1, w0, w1, w2, w3, w4, w5, w6, w7, 0, u8::from(has_opt)];
    Some(query.question_end + record.len() + if has_opt { OPT_LEN } else { 0 })
}
