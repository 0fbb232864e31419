//! The end of every reply: OPT, flags and counts.
use crate::Policy;
use crate::guard::{COOKIE_LEN, Options};
use crate::reply::Reply;
use packet::Transport;
use wire::limits::{MESSAGE_LEN_MAX, UDP_LEN_MIN};
use wire::{HEADER_LEN, OptionCode, Query};

/// An extended DNS error (RFC 8914).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ede(u16);

impl Ede {
    /// The answer is too old, and nobody could be asked.
    pub(crate) const STALE: Self = Self(3);
    /// That no one could be asked was found out not long ago.
    pub(crate) const CACHED_ERROR: Self = Self(13);
    /// The zone is ours, but was never loaded.
    pub(crate) const NOT_READY: Self = Self(14);
    /// The client may not ask, or not that much.
    pub(crate) const PROHIBITED: Self = Self(18);
    /// The answer that there is no such name is too old, and nobody could be asked.
    pub(crate) const STALE_NXDOMAIN: Self = Self(19);
    /// The name is nobody's here.
    pub(crate) const NOT_AUTHORITATIVE: Self = Self(20);
    /// The question is not answered by decision.
    pub(crate) const NOT_SUPPORTED: Self = Self(21);
    /// Nobody who could answer did.
    pub(crate) const NO_REACHABLE_AUTHORITY: Self = Self(22);
}

/// Octets of an OPT record without options.
pub(crate) const OPT_LEN: usize = 11;
const OPTION_HEAD_LEN: usize = 4;

/// How much of a packet's buffer a reply may fill.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Octets of the longest reply this client can be sent.
    pub(crate) limit: usize,
    /// Octets that records may fill: what OPT and its options need stays free.
    pub(crate) records: usize,
}

impl Room {
    #[inline(always)]
    pub(crate) fn new(
        policy: &Policy<'_>,
        query: &Query,
        transport: Transport,
        buf_len: usize,
        options: &Options,
    ) -> Self {
        let (size, opt) = match &query.edns {
            None => (UDP_LEN_MIN, 0),
            Some(edns) => {
                (usize::from(edns.size.min(policy.udp_size_max)).max(UDP_LEN_MIN), OPT_LEN)
            }
        };
        let size = if transport == Transport::Stream { MESSAGE_LEN_MAX } else { size };
        // A question longer than the client's size has found room itself.
        let limit = size.max(query.question_end).min(buf_len);
        let opt = opt + if query.wants_options() { options.len(policy) } else { 0 };
        Self { limit, records: limit.saturating_sub(opt) }
    }
}

impl Options {
    /// Octets in OPT, an error's not counted: that only goes where records do not.
    fn len(&self, policy: &Policy<'_>) -> usize {
        let cookie = if self.cookie.is_some() { OPTION_HEAD_LEN + COOKIE_LEN } else { 0 };
        let nsid = if self.nsid { OPTION_HEAD_LEN + policy.nsid.len() } else { 0 };
        let keepalive = if self.keepalive.is_some() { OPTION_HEAD_LEN + 2 } else { 0 };
        cookie + nsid + keepalive
    }
}

/// Writes OPT, flags and counts; returns the length of the reply.
#[inline(always)]
pub(crate) fn finish(policy: &Policy<'_>, options: &Options, reply: Reply<'_>) -> usize {
    let Reply { query, flags, rcode, ede, counts, .. } = reply;
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
            len = put_options(buf, len, policy, options, ede);
        }
    }
    if let Some(header) = buf.first_chunk_mut::<HEADER_LEN>() {
        let flags = query.flags.reply().0 | policy.offers() | flags | rcode as u16 & 0xf;
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

/// The OPT record of a reply without extended code, flags or options: its first eight octets; the
/// others are 0. Made once, since most replies have it.
#[derive(Clone, Copy)]
pub(crate) struct PlainOpt(u64);

impl PlainOpt {
    /// One that tells how large a UDP payload may be.
    pub(crate) fn new(size: u16) -> Self {
        let [s0, s1] = size.to_be_bytes();
        Self(u64::from_ne_bytes([0, 0, 41, s0, s1, 0, 0, 0]))
    }

    #[inline(always)]
    pub(crate) fn put(self, room: &mut [u8; OPT_LEN]) {
        let (first, last) = room.split_at_mut(size_of::<u64>());
        first.copy_from_slice(&self.0.to_ne_bytes());
        last.fill(0);
    }
}

/// Makes the header of a question that of its reply: of its flags it keeps those in `kept`, gets
/// those in `set`, which is in network order, and so many records in each section.
#[inline(always)]
pub(crate) fn put_header(buf: &mut [u8], kept: u16, set: u16, counts: [u16; 3]) {
    if let Some([_, flags, words @ ..]) = buf.as_chunks_mut::<2>().0.first_chunk_mut::<6>() {
        *flags = (u16::from_ne_bytes(*flags) & kept.to_be() | set).to_ne_bytes();
        *words = [1, counts[0], counts[1], counts[2]].map(u16::to_be_bytes);
    }
}

/// Puts options behind an OPT's head that ends at `len`; returns where they end. One that does not
/// fit is left out.
#[inline(never)]
fn put_options(
    buf: &mut [u8],
    len: usize,
    policy: &Policy<'_>,
    options: &Options,
    ede: Option<Ede>,
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
    if let Some(Ede(code)) = ede {
        put(OptionCode::EDE, &code.to_be_bytes());
    }
    buf[len - 2..len].copy_from_slice(&((at - len) as u16).to_be_bytes());
    at
}
