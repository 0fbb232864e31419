//! Completes a reply: OPT, flags and counts.
use crate::Policy;
use crate::cookies::ReplyOptions;
use crate::ede::Ede;
use crate::reply::ReplyWriter;
use crate::reply_room::{OPT_LEN, OPTION_HEAD_LEN};
use crate::subnet_reply::Dependence;
use wire::{HEADER_LEN, OptionCode};

/// Writes OPT, flags and counts; returns the length of the reply.
#[inline(always)]
pub(crate) fn finish(policy: &Policy<'_>, options: &ReplyOptions, reply: ReplyWriter<'_>) -> usize {
    let ReplyWriter { query, flags, rcode, ede, counts, depends, .. } = reply;
    let (buf, mut len) = reply.out.into_parts();
    let mut additional = counts[2];
    if let Some(edns) = &query.edns
        && let Some(head) = buf.get_mut(len..).and_then(|rest| rest.first_chunk_mut::<OPT_LEN>())
    {
        let [s0, s1] = policy.udp_size_max.to_be_bytes();
        let dnssec_ok = u8::from(edns.dnssec_ok) << 7;
        *head = [0, 0, 41, s0, s1, (rcode as u16 >> 4) as u8, 0, dnssec_ok, 0, 0, 0];
        len += OPT_LEN;
        additional += 1;
        if query.wants_options() || ede.is_some() {
            len = put_options(buf, len, policy, options, (ede, depends));
        }
    }
    if let Some(header) = buf.first_chunk_mut::<HEADER_LEN>() {
        let flags = query.flags.reply().0 | policy.ra_flag() | flags | rcode as u16 & 0xf;
        let questions = u16::from(query.question_end > HEADER_LEN);
        let [f0, f1] = flags.to_be_bytes();
        let [q0, q1] = questions.to_be_bytes();
        let [a0, a1] = counts[0].to_be_bytes();
        let [n0, n1] = counts[1].to_be_bytes();
        let [r0, r1] = additional.to_be_bytes();
        let [i0, i1, ..] = *header;
        *header = [i0, i1, f0, f1, q0, q1, a0, a1, n0, n1, r0, r1];
    }
    len
}

/// An OPT record without extended code, flags or options, prepared once: its first eight bytes. The
/// others are 0.
#[derive(Clone, Copy)]
pub(crate) struct PlainOpt(u64);

impl PlainOpt {
    /// With the UDP payload size that this server accepts.
    pub(crate) fn new(size: u16) -> Self {
        let [s0, s1] = size.to_be_bytes();
        Self(u64::from_ne_bytes([0, 0, 41, s0, s1, 0, 0, 0]))
    }

    /// Bytes that are written: one more than the record has, to be two words.
    pub(crate) const ROOM_LEN: usize = OPT_LEN + 1;

    #[inline(always)]
    pub(crate) fn put(self, room: &mut [u8; Self::ROOM_LEN]) {
        let (first, last) = room.split_at_mut(size_of::<u64>());
        first.copy_from_slice(&self.0.to_ne_bytes());
        last.fill(0);
    }
}

/// Turns the header of a query into that of its reply. Flags in `saved` are copied, flags in `set`
/// (network order) are added.
#[inline(always)]
pub(crate) fn put_header(buf: &mut [u8], saved: u16, set: u16, counts: [u16; 3]) {
    if let Some([_, flags, words @ ..]) = buf.as_chunks_mut::<2>().0.first_chunk_mut::<6>() {
        *flags = (u16::from_ne_bytes(*flags) & saved.to_be() | set).to_ne_bytes();
        *words = [1, counts[0], counts[1], counts[2]].map(u16::to_be_bytes);
    }
}

/// Puts options behind an OPT head that ends at `len`; returns their end. An option that does not
/// fit is left out.
#[inline(never)]
fn put_options(
    buf: &mut [u8],
    len: usize,
    policy: &Policy<'_>,
    options: &ReplyOptions,
    (ede, depends): (Option<Ede>, Dependence),
) -> usize {
    let mut at = len;
    let mut put = |code: OptionCode, data: &[u8]| {
        let end = at + OPTION_HEAD_LEN + data.len();
        let Some(room) = buf.get_mut(at..end) else { return };
        room[..2].copy_from_slice(&code.0.to_be_bytes());
        room[2..4].copy_from_slice(&(data.len() as u16).to_be_bytes());
        room[4..].copy_from_slice(data);
        at = end;
    };
    if let Some(cookie) = &options.cookie {
        put(OptionCode::COOKIE, cookie);
    }
    if options.nsid {
        put(OptionCode::NSID, policy.nsid);
    }
    if let Some(timeout) = options.keepalive {
        put(OptionCode::TCP_KEEPALIVE, &timeout.to_be_bytes());
    }
    if let Some(subnet) = &options.subnet {
        let (data, len) = subnet.data(depends);
        put(OptionCode::CLIENT_SUBNET, &data[..len]);
    }
    if let Some(code) = ede.map(Ede::code) {
        put(OptionCode::EDE, &code.to_be_bytes());
    }
    buf[len - 2..len].copy_from_slice(&((at - len) as u16).to_be_bytes());
    at
}
