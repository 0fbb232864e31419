//! Class CH: who and what this server is, as far as the operator wants it known (RFC 4892).
use crate::Policy;
use crate::finish::Ede;
use crate::reply::Reply;
use wire::{Rcode, Rtype};

/// Answers a question of class CH.
pub(crate) fn answer(policy: &Policy<'_>, reply: &mut Reply<'_>) {
    let text = match reply.query.name.octets() {
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
