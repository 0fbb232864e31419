//! The end of every reply: OPT, flags and counts.
use crate::Policy;
use crate::guard::{COOKIE_LEN, Options};
use packet::{Packet, Transport};
use wire::limits::{MESSAGE_LEN_MAX, UDP_LEN_MIN};
use wire::{Flags, HEADER_LEN, OptionCode, Query, Rcode};

/// An extended DNS error (RFC 8914).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ede(u16);

impl Ede {
    /// The zone is ours, but was never loaded.
    pub(crate) const NOT_READY: Self = Self(14);
    /// The name is nobody's here.
    pub(crate) const NOT_AUTHORITATIVE: Self = Self(20);
    /// The question is not answered by decision.
    pub(crate) const NOT_SUPPORTED: Self = Self(21);
}

/// What the composed reply turned out to be.
pub(crate) struct Done {
    pub(crate) len: usize,
    /// Records in answer, authority and additional section.
    pub(crate) counts: [u16; 3],
    pub(crate) authoritative: bool,
    pub(crate) truncated: bool,
    pub(crate) rcode: Rcode,
    pub(crate) ede: Option<Ede>,
}

/// What is counted of a reply.
pub(crate) struct Outcome {
    pub(crate) rcode: Rcode,
    pub(crate) truncated: bool,
}

const OPT_LEN: usize = 11;
const OPTION_HEAD_LEN: usize = 4;

/// Octets of OPT with its options, an error's not counted: that only goes where records do not.
#[inline]
fn opt_len(policy: &Policy<'_>, query: &Query, options: &Options) -> usize {
    if query.edns.is_none() {
        return 0;
    }
    let cookie = if options.cookie.is_some() { OPTION_HEAD_LEN + COOKIE_LEN } else { 0 };
    let nsid = if options.nsid { OPTION_HEAD_LEN + policy.nsid.len() } else { 0 };
    OPT_LEN + cookie + nsid
}

/// Octets of the packet's buffer that records may fill.
#[inline]
pub(crate) fn room(
    policy: &Policy<'_>,
    query: &Query,
    packet: &Packet<'_>,
    options: &Options,
) -> usize {
    let limit = limit(policy, query, packet);
    limit.saturating_sub(opt_len(policy, query, options)).max(query.question_end)
}

/// Octets of the longest reply this client can be sent. A question of more octets than that has
/// found room itself.
#[inline]
fn limit(policy: &Policy<'_>, query: &Query, packet: &Packet<'_>) -> usize {
    let limit = match (packet.transport, &query.edns) {
        (Transport::Stream, _) => MESSAGE_LEN_MAX,
        (Transport::Datagram, None) => UDP_LEN_MIN,
        (Transport::Datagram, Some(edns)) => {
            usize::from(edns.size.min(policy.udp_size_max)).max(UDP_LEN_MIN)
        }
    };
    limit.min(packet.buf.len())
}

/// Writes OPT, flags and counts; returns the length of the reply.
#[inline]
pub(crate) fn finish(
    policy: &Policy<'_>,
    query: &Query,
    packet: &mut Packet<'_>,
    options: &Options,
    done: &Done,
) -> usize {
    let mut len = done.len;
    let mut additional = done.counts[2];
    if query.edns.is_some() {
        let limit = limit(policy, query, packet);
        let mut opt = Opt { buf: &mut packet.buf[..limit], len };
        if opt.write(policy, query, options, done).is_some() {
            len = opt.len;
            additional += 1;
        }
    }
    let mut flags = query.flags.reply().0 | done.rcode as u16 & 0xf;
    if done.authoritative {
        flags |= Flags::AA;
    }
    if done.truncated {
        flags |= Flags::TC;
    }
    let questions = u16::from(query.question_end > HEADER_LEN);
    let words = [flags, questions, done.counts[0], done.counts[1], additional];
    if let Some(header) = packet.buf.first_chunk_mut::<HEADER_LEN>() {
        for (into, word) in header[2..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *into = word.to_be_bytes();
        }
    }
    len
}

/// An OPT record being written.
struct Opt<'b> {
    buf: &'b mut [u8],
    len: usize,
}

impl Opt<'_> {
    /// Nothing when it does not fit, which only a question too long for any reply brings about.
    #[inline]
    fn write(
        &mut self,
        policy: &Policy<'_>,
        query: &Query,
        options: &Options,
        done: &Done,
    ) -> Option<()> {
        let head: &mut [u8; OPT_LEN] = self.buf.get_mut(self.len..)?.first_chunk_mut()?;
        let size = policy.udp_size_max.to_be_bytes();
        let dnssec_ok = if query.dnssec_ok() { 0x80 } else { 0 };
        let rcode = (done.rcode as u16 >> 4) as u8;
        *head = [0, 0, 41, size[0], size[1], rcode, 0, dnssec_ok, 0, 0, 0];
        let length_at = self.len + OPT_LEN - 2;
        self.len += OPT_LEN;
        if options.cookie.is_none() && !options.nsid && done.ede.is_none() {
            return Some(());
        }
        if let Some(cookie) = &options.cookie {
            self.option(OptionCode::COOKIE, cookie);
        }
        if options.nsid {
            self.option(OptionCode::NSID, policy.nsid);
        }
        if let Some(Ede(code)) = done.ede {
            self.option(OptionCode::EDE, &code.to_be_bytes());
        }
        let len = (self.len - length_at - 2) as u16;
        self.buf[length_at..length_at + 2].copy_from_slice(&len.to_be_bytes());
        Some(())
    }

    /// An option that does not fit is left out.
    fn option(&mut self, code: OptionCode, data: &[u8]) {
        let end = self.len + OPTION_HEAD_LEN + data.len();
        let Some(room) = self.buf.get_mut(self.len..end) else { return };
        room[..2].copy_from_slice(&code.0.to_be_bytes());
        room[2..4].copy_from_slice(&(data.len() as u16).to_be_bytes());
        room[4..].copy_from_slice(data);
        self.len = end;
    }
}
