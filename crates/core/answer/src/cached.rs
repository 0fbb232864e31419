//! Reads cached messages, for commands that show or flush the cache.
use crate::forwarded_response::CacheFacts;
use wire::{Name, Rcode, Records, Rtype};

/// A summary of a cached message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedSummary {
    /// The response code; SERVFAIL: no server answered.
    pub rcode: Rcode,
    /// Records in the answer section.
    pub answers: u16,
    /// Whether the answer ends with an alias whose target must be queried next.
    pub is_unfinished: bool,
}

impl CachedSummary {
    /// Whether the name does not exist, for any type.
    pub fn is_name_error(&self) -> bool {
        self.rcode == Rcode::NxDomain && self.answers == 0
    }
}

/// Summarizes a message of [`relay`](crate::relay()) whose name has `name_len` bytes; `None` if it
/// is malformed.
pub fn summary(message: &[u8], name_len: usize) -> Option<CachedSummary> {
    let (note, _) = CacheFacts::read(message, name_len)?;
    let CacheFacts { rcode, answers, unfinished: is_unfinished, .. } = note;
    Some(CachedSummary { rcode, answers, is_unfinished })
}

/// Whether a cached message may be served after its lifetime. A failure may not, and no record that
/// may not be cached (RFC 8767 §6), such as an alias that was kept while its target was queried.
pub fn may_be_stale(message: &[u8], name_len: usize) -> bool {
    let Some((note, records_at)) = CacheFacts::read(message, name_len) else { return false };
    let mut answers = Records::new(message, records_at, note.answers.into());
    note.rcode != Rcode::ServFail && answers.all(|record| record.is_ok_and(|record| record.ttl > 0))
}

/// Whether the owner of some answer matches, the names of aliases included.
pub fn mentions_name(
    message: &[u8],
    name_len: usize,
    mut is_it: impl FnMut(Name<'_>) -> bool,
) -> bool {
    let Some((note, records_at)) = CacheFacts::read(message, name_len) else { return false };
    let mut answers = Records::new(message, records_at, note.answers.into());
    answers.any(|record| {
        record.and_then(|record| record.owner()).is_ok_and(|owner| is_it(owner.as_name()))
    })
}

/// Whether the target of some alias matches.
pub fn leads_to_name(
    message: &[u8],
    name_len: usize,
    mut is_it: impl FnMut(Name<'_>) -> bool,
) -> bool {
    let Some((note, records_at)) = CacheFacts::read(message, name_len) else { return false };
    let answers = Records::new(message, records_at, note.answers.into());
    let mut aliases = answers.flatten().filter(|record| record.rtype == Rtype::CNAME);
    aliases.any(|record| {
        let mut data = [0; Name::LEN_MAX];
        record.expand(&mut data).is_ok_and(|data| Name::parse(data).is_ok_and(&mut is_it))
    })
}
