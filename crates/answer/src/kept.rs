//! What a kept message is about, for who looks at what is kept.
use crate::relay::Note;
use wire::{Name, Rcode, Records, Rtype};

/// A kept message in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What it says; SERVFAIL: nobody could answer.
    pub rcode: Rcode,
    /// Records in the answer section.
    pub answers: u16,
    /// Whether its last answer is an alias that leads to somebody else's names.
    pub is_unfinished: bool,
}

impl Summary {
    /// Whether it says that there is no such name, of whatever type.
    pub fn is_name_error(&self) -> bool {
        self.rcode == Rcode::NxDomain && self.answers == 0
    }
}

/// A message of [`relay`](crate::relay()) in short, for a name of so many octets. Nothing: it is
/// none.
pub fn summary(message: &[u8], name_len: usize) -> Option<Summary> {
    let (note, _) = Note::read(message, name_len)?;
    let Note { rcode, answers, unfinished: is_unfinished, .. } = note;
    Some(Summary { rcode, answers, is_unfinished })
}

/// Whether one of its answers is at a name that `is_it` chooses: the names of its aliases are among
/// them.
pub fn tells_of(message: &[u8], name_len: usize, mut is_it: impl FnMut(Name<'_>) -> bool) -> bool {
    let Some((note, records_at)) = Note::read(message, name_len) else { return false };
    let mut answers = Records::new(message, records_at, note.answers.into());
    answers.any(|record| {
        record.and_then(|record| record.owner()).is_ok_and(|owner| is_it(owner.as_name()))
    })
}

/// Whether one of its aliases leads to a name that `is_it` chooses.
pub fn leads_to(message: &[u8], name_len: usize, mut is_it: impl FnMut(Name<'_>) -> bool) -> bool {
    let Some((note, records_at)) = Note::read(message, name_len) else { return false };
    let answers = Records::new(message, records_at, note.answers.into());
    let mut aliases = answers.flatten().filter(|record| record.rtype == Rtype::CNAME);
    aliases.any(|record| {
        let mut data = [0; Name::LEN_MAX];
        record.expand(&mut data).is_ok_and(|data| Name::parse(data).is_ok_and(&mut is_it))
    })
}
