//! Class CH: version and identity of the server, if the operator configured them (RFC 4892).
use crate::Policy;
use crate::ede::Ede;
use crate::reply::ReplyWriter;
use wire::{Rcode, Rtype};

pub(crate) fn answer(policy: &Policy<'_>, reply: &mut ReplyWriter<'_>) {
    let text = match reply.query.name.as_bytes() {
        b"\x07version\x04bind\0" | b"\x07version\x06server\0" => policy.version,
        b"\x02id\x06server\0" | b"\x08hostname\x04bind\0" => policy.id,
        _ => &[],
    };
    if text.is_empty() || !matches!(reply.query.rtype, Rtype::TXT | Rtype::ANY) {
        return reply.fail(Rcode::Refused, Some(Ede::NOT_AUTHORITATIVE));
    }
    reply.set_authoritative(true);
    reply.put_chaos_text(text);
}
