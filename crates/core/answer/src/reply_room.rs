//! The maximum length of a reply.
use crate::Policy;
use crate::cookies::{COOKIE_LEN, ReplyOptions};
use crate::subnet_reply::SubnetReply;
use packet::Transport;
use wire::Query;
use wire::limits::{MESSAGE_LEN_MAX, UDP_LEN_MIN};

/// Bytes of an OPT record without options.
pub(crate) const OPT_LEN: usize = 11;
/// Bytes of an option before its data.
pub(crate) const OPTION_HEAD_LEN: usize = 4;

/// How much of the buffer a reply may fill.
#[derive(Clone, Copy)]
pub(crate) struct ReplyRoom {
    /// The longest reply that this client can receive, in bytes.
    pub(crate) limit: usize,
    /// Bytes for records; the rest is reserved for OPT and its options.
    pub(crate) records: usize,
}

impl ReplyRoom {
    #[inline(always)]
    pub(crate) fn new(
        policy: &Policy<'_>,
        query: &Query,
        transport: Transport,
        buf_len: usize,
        options: &ReplyOptions,
    ) -> Self {
        let limit = reply_len_max(policy, query, transport, buf_len);
        let opt = if query.edns.is_some() { OPT_LEN } else { 0 };
        let opt = opt + if query.wants_options() { options.len(policy) } else { 0 };
        Self { limit, records: limit.saturating_sub(opt) }
    }
}

/// The longest reply that this client can receive, in bytes.
#[inline(always)]
pub(crate) fn reply_len_max(
    policy: &Policy<'_>,
    query: &Query,
    transport: Transport,
    buf_len: usize,
) -> usize {
    let size = match &query.edns {
        None => UDP_LEN_MIN,
        Some(edns) => usize::from(edns.size.min(policy.udp_size_max)).max(UDP_LEN_MIN),
    };
    let size = if transport == Transport::Stream { MESSAGE_LEN_MAX } else { size };
    // A longer question has shown that the buffer has room for it.
    size.max(query.question_end).min(buf_len)
}

impl ReplyOptions {
    /// Bytes of the options. The extended error is not counted: it has room whenever records are
    /// missing.
    fn len(&self, policy: &Policy<'_>) -> usize {
        let cookie = if self.cookie.is_some() { OPTION_HEAD_LEN + COOKIE_LEN } else { 0 };
        let nsid = if self.nsid { OPTION_HEAD_LEN + policy.nsid.len() } else { 0 };
        let keepalive = if self.keepalive.is_some() { OPTION_HEAD_LEN + 2 } else { 0 };
        let subnet = if self.subnet.is_some() { OPTION_HEAD_LEN + SubnetReply::LEN_MAX } else { 0 };
        cookie + nsid + keepalive + subnet
    }
}
