//! What servers say.
use super::{CaseManner, Manner};

/// Lengths, types and numbers of questions here are not letters.
pub(super) fn has_upper_case(question: &[u8]) -> bool {
    question[12..].iter().any(u8::is_ascii_uppercase)
}

pub(super) fn reply_of(manner: &Manner, question: &[u8], by_stream: bool) -> Vec<u8> {
    let mut reply = question.to_vec();
    reply[2] |= 0x80 | if manner.truncates && !by_stream { 2 } else { 0 };
    let code = match manner {
        Manner { opt_rcode: 1.., .. } if question[11] > 0 => manner.opt_rcode,
        Manner { case: CaseManner::Denies, .. } if has_upper_case(question) => 3,
        _ => manner.rcode,
    };
    reply[3] = 0x80 | code;
    if manner.case == CaseManner::Lowers {
        reply[12..].make_ascii_lowercase();
    }
    if manner.bare_errors && ![0, 3].contains(&code) {
        reply.truncate(12);
    }
    reply
}

/// What is like a reply, and is none.
pub(super) fn lies(reply: &[u8]) -> Vec<Vec<u8>> {
    let changed = |at: usize| {
        let mut lie = reply.to_vec();
        lie[at] ^= 0x20;
        lie
    };
    vec![
        changed(0),
        changed(1),
        changed(14),
        changed(reply.len() - 11 - 3),
        reply[..20].to_vec(),
        vec![],
        vec![0xff; 600],
    ]
}
