//! What a thread can be told, and how it stands in a ring.
use crate::commander::{Kept, Report};
use cache::Met;
use wire::{Name, NameBuf, Rtype};

/// What a thread can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To forget what is kept of these names, and not to keep what is said of them just now.
    Flush(Scope),
    /// To show what is kept of a name, of one type or of all.
    Show(NameBuf, Option<Rtype>),
    /// To ask a server no more, or again: the one of this number in the plan.
    Drain(u16, bool),
}

/// Which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This one.
    Name(NameBuf),
    /// This one and all below it.
    Subtree(NameBuf),
    /// All.
    All,
}

impl Scope {
    /// Whether a name is one of them.
    pub fn holds(&self, name: Name<'_>) -> bool {
        match self {
            Self::Name(own) => own.as_name() == name,
            Self::Subtree(top) => name.is_within(top.as_name()),
            Self::All => true,
        }
    }
}

const FLUSH_NAME: u8 = 0;
const FLUSH_SUBTREE: u8 = 1;
const FLUSH_ALL: u8 = 2;
const SHOW_TYPE: u8 = 3;
const SHOW_ALL: u8 = 4;
const DRAIN: u8 = 5;
const RESTORE: u8 = 6;
/// A report's last part.
const DONE: u8 = 0;
/// An answer that is kept.
const KEPT: u8 = 1;

impl Command {
    /// As it stands in a ring: its number, what it is, and a name that tells its own length.
    pub(crate) fn write(&self, serial: u64, ring: &mut door::EventWriter) -> bool {
        let (what, number, name) = match self {
            Self::Flush(Scope::Name(name)) => (FLUSH_NAME, 0, name.as_name()),
            Self::Flush(Scope::Subtree(name)) => (FLUSH_SUBTREE, 0, name.as_name()),
            Self::Flush(Scope::All) => (FLUSH_ALL, 0, Name::ROOT),
            Self::Show(name, Some(rtype)) => (SHOW_TYPE, rtype.0, name.as_name()),
            Self::Show(name, None) => (SHOW_ALL, 0, name.as_name()),
            Self::Drain(server, true) => (DRAIN, *server, Name::ROOT),
            Self::Drain(server, false) => (RESTORE, *server, Name::ROOT),
        };
        let [n0, n1] = number.to_be_bytes();
        let head = [what, n0, n1, 0, 0, 0, 0, 0];
        ring.write([&serial.to_be_bytes()[..], &head, name.octets()])
    }

    /// What was written; nothing where that is none.
    pub(crate) fn read(octets: &[u8]) -> Option<(u64, Self)> {
        let (serial, rest) = octets.split_first_chunk()?;
        let ([what, n0, n1, ..], rest) = rest.split_first_chunk::<8>()?;
        let name = NameBuf::from(Name::parse(rest).ok()?);
        let number = u16::from_be_bytes([*n0, *n1]);
        let command = match *what {
            FLUSH_NAME => Self::Flush(Scope::Name(name)),
            FLUSH_SUBTREE => Self::Flush(Scope::Subtree(name)),
            FLUSH_ALL => Self::Flush(Scope::All),
            SHOW_TYPE => Self::Show(name, Some(Rtype(number))),
            SHOW_ALL => Self::Show(name, None),
            DRAIN => Self::Drain(number, true),
            RESTORE => Self::Drain(number, false),
            _ => return None,
        };
        Some((u64::from_be_bytes(*serial), command))
    }
}

/// Writes that a command is done: so many answers were met, and so many questions cut off.
pub(crate) fn write_done(serial: u64, count: u64, asks: u64, ring: &mut door::EventWriter) {
    let numbers = [serial, DONE.into(), count, asks].map(u64::to_be_bytes);
    ring.write([numbers.as_flattened()]);
}

/// Writes an answer that is kept.
pub(crate) fn write_kept(serial: u64, met: &Met<'_>, ring: &mut door::EventWriter) {
    let summary = answer::summary(met.message, met.name.len());
    let rcode = summary.map_or(0xff, |summary| summary.rcode as u8);
    let answers = summary.map_or(0, |summary| summary.answers);
    let unfinished = summary.is_some_and(|summary| summary.is_unfinished);
    let flags = [met.kind.dnssec_ok(), met.kind.checking_disabled(), unfinished];
    let [t0, t1] = met.kind.rtype().to_be_bytes();
    let [a0, a1] = answers.to_be_bytes();
    let [dnssec_ok, checking_disabled, unfinished] = flags.map(u8::from);
    let ages = u64::from(met.age) << 32 | u64::from(met.ttl);
    let what = u64::from(KEPT);
    let [one, two, three, four] =
        [serial, what, ages, met.message.len() as u64].map(u64::to_be_bytes);
    let five = [t0, t1, a0, a1, rcode, met.uses, dnssec_ok | checking_disabled << 1, unfinished];
    ring.write([[one, two, three, four, five].as_flattened()]);
}

/// Takes a part of a report on the command of this number; whether it was the last.
pub(crate) fn read_report(octets: &[u8], serial: u64, report: &mut Report) -> bool {
    let (words, _) = octets.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_be_bytes(*word));
    // What is reported on an earlier one is for nobody any more.
    if word(0) != serial {
        return false;
    }
    if word(1) == u64::from(DONE) {
        (report.count, report.asks) = (word(2), word(3));
        return true;
    }
    let [t0, t1, a0, a1, rcode, uses, flags, unfinished] = word(4).to_be_bytes();
    report.kept.push(Kept {
        rtype: Rtype(u16::from_be_bytes([t0, t1])),
        dnssec_ok: flags & 1 != 0,
        checking_disabled: flags & 2 != 0,
        rcode,
        answers: u16::from_be_bytes([a0, a1]),
        is_unfinished: unfinished != 0,
        age_seconds: (word(2) >> 32) as u32,
        ttl_seconds: word(2) as u32,
        octets: word(3),
        uses,
    });
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
    }

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let long = [["a"; 31].join(""), ["b"; 63].join("")].join(".") + ".";
        let commands = [
            Command::Flush(Scope::Name(name("www.example."))),
            Command::Flush(Scope::Subtree(name(&long))),
            Command::Flush(Scope::All),
            Command::Show(name("."), Some(Rtype::HTTPS)),
            Command::Show(name("a.b.c.d.e.f."), None),
            Command::Drain(255, true),
            Command::Drain(0, false),
        ];
        let (mut writer, mut reader) = door::events(1 << 12);
        for (serial, command) in (7..).zip(&commands) {
            assert!(command.write(serial, &mut writer));
        }
        let mut read = Vec::new();
        reader.drain(|octets| read.push(Command::read(octets)));
        let expected: Vec<_> = (7..).zip(commands).map(Some).collect();
        assert_eq!(read, expected);
        for garbage in [&[][..], &[0; 9], &[0xff; 24], &[0; 16]] {
            assert_eq!(Command::read(garbage), None);
        }
    }

    #[test]
    fn scopes_end_at_labels() {
        let holds = |scope: &Scope, text: &str| scope.holds(name(text).as_name());
        let one = Scope::Name(name("a.example."));
        assert!(holds(&one, "A.example.") && !holds(&one, "b.a.example."));
        let below = Scope::Subtree(name("a.example."));
        assert!(holds(&below, "b.A.example.") && holds(&below, "a.example."));
        assert!(!holds(&below, "ba.example.") && !holds(&below, "example."));
        assert!(holds(&Scope::All, ".") && holds(&Scope::Subtree(NameBuf::root()), "x."));
    }
}
