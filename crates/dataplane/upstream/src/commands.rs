//! Commands, and their format in a ring.
use cache::WalkedEntry;
use wire::{Name, NameBuf, Rtype};

/// A cached answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedAnswer {
    /// The query type.
    pub rtype: Rtype,
    /// Whether DNSSEC records were requested.
    pub dnssec_ok: bool,
    /// Whether the client checks signatures itself.
    pub checking_disabled: bool,
    /// The response code; SERVFAIL: no server answered.
    pub rcode: u8,
    /// Records in the answer section.
    pub answers: u16,
    /// Whether the last answer is an alias to a name outside the server's suffix.
    pub is_unfinished: bool,
    /// Seconds since it was cached.
    pub age_seconds: u32,
    /// Its lifetime in seconds.
    pub ttl_seconds: u32,
    /// Its size in bytes, without overhead.
    pub bytes: u64,
    /// Recent uses, at most 3.
    pub uses: u8,
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandReport {
    /// Answers that were removed or found.
    pub count: u64,
    /// Queries under way whose answers will not be cached.
    pub queries: u64,
    /// Cached answers, at most `SHOWN_MAX`.
    pub cached: Vec<CachedAnswer>,
}

/// A command for a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolverCommand {
    /// Removes cached answers for these names, and does not cache those of queries under way.
    Flush(NameScope),
    /// Shows cached answers for a name, of one type or all.
    Show(NameBuf, Option<Rtype>),
    /// Drains or restores the server with this number in the plan.
    Drain(u16, bool),
    /// Report once the thread follows the plan with this serial, in its last 16 bits.
    Follow(u16),
}

/// A set of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameScope {
    /// One name.
    Name(NameBuf),
    /// A name and all names below it.
    Subtree(NameBuf),
    /// All names.
    All,
}

impl NameScope {
    /// Whether it contains a name.
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
const FOLLOW: u8 = 7;
/// The last part of a report.
const DONE: u8 = 0;
/// A cached answer.
const KEPT: u8 = 1;

impl ResolverCommand {
    /// Writes the command: its serial, its kind and its name.
    pub(crate) fn write(&self, serial: u64, ring: &mut sync::EventWriter) -> bool {
        let (what, number, name) = match self {
            Self::Flush(NameScope::Name(name)) => (FLUSH_NAME, 0, name.as_name()),
            Self::Flush(NameScope::Subtree(name)) => (FLUSH_SUBTREE, 0, name.as_name()),
            Self::Flush(NameScope::All) => (FLUSH_ALL, 0, Name::ROOT),
            Self::Show(name, Some(rtype)) => (SHOW_TYPE, rtype.0, name.as_name()),
            Self::Show(name, None) => (SHOW_ALL, 0, name.as_name()),
            Self::Drain(server, true) => (DRAIN, *server, Name::ROOT),
            Self::Drain(server, false) => (RESTORE, *server, Name::ROOT),
            Self::Follow(serial) => (FOLLOW, *serial, Name::ROOT),
        };
        let [n0, n1] = number.to_be_bytes();
        let head = [what, n0, n1, 0, 0, 0, 0, 0];
        ring.write([&serial.to_be_bytes()[..], &head, name.as_bytes()])
    }

    /// Reads a command; `None` if it is malformed.
    pub(crate) fn read(bytes: &[u8]) -> Option<(u64, Self)> {
        let (serial, rest) = bytes.split_first_chunk()?;
        let ([what, n0, n1, ..], rest) = rest.split_first_chunk::<8>()?;
        let name = NameBuf::from(Name::parse(rest).ok()?);
        let number = u16::from_be_bytes([*n0, *n1]);
        let command = match *what {
            FLUSH_NAME => Self::Flush(NameScope::Name(name)),
            FLUSH_SUBTREE => Self::Flush(NameScope::Subtree(name)),
            FLUSH_ALL => Self::Flush(NameScope::All),
            SHOW_TYPE => Self::Show(name, Some(Rtype(number))),
            SHOW_ALL => Self::Show(name, None),
            DRAIN => Self::Drain(number, true),
            RESTORE => Self::Drain(number, false),
            FOLLOW => Self::Follow(number),
            _ => return None,
        };
        Some((u64::from_be_bytes(*serial), command))
    }
}

/// Writes the end of a report: entries found, queries cut off.
pub(crate) fn write_done(serial: u64, count: u64, queries: u64, ring: &mut sync::EventWriter) {
    let numbers = [serial, DONE.into(), count, queries].map(u64::to_be_bytes);
    ring.write([numbers.as_flattened()]);
}

/// Writes a cached answer.
pub(crate) fn write_cached(serial: u64, met: &WalkedEntry<'_>, ring: &mut sync::EventWriter) {
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

/// Reads a part of the report on the command with this serial; returns whether it was the last.
pub(crate) fn read_report(bytes: &[u8], serial: u64, report: &mut CommandReport) -> bool {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_be_bytes(*word));
    // Reports on earlier commands are dropped.
    if word(0) != serial {
        return false;
    }
    if word(1) == u64::from(DONE) {
        (report.count, report.queries) = (word(2), word(3));
        return true;
    }
    let [t0, t1, a0, a1, rcode, uses, flags, unfinished] = word(4).to_be_bytes();
    report.cached.push(CachedAnswer {
        rtype: Rtype(u16::from_be_bytes([t0, t1])),
        dnssec_ok: flags & 1 != 0,
        checking_disabled: flags & 2 != 0,
        rcode,
        answers: u16::from_be_bytes([a0, a1]),
        is_unfinished: unfinished != 0,
        age_seconds: (word(2) >> 32) as u32,
        ttl_seconds: word(2) as u32,
        bytes: word(3),
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
            ResolverCommand::Flush(NameScope::Name(name("www.example."))),
            ResolverCommand::Flush(NameScope::Subtree(name(&long))),
            ResolverCommand::Flush(NameScope::All),
            ResolverCommand::Show(name("."), Some(Rtype::HTTPS)),
            ResolverCommand::Show(name("a.b.c.d.e.f."), None),
            ResolverCommand::Drain(255, true),
            ResolverCommand::Drain(0, false),
            ResolverCommand::Follow(300),
        ];
        let (mut writer, mut reader) = sync::events(1 << 12);
        for (serial, command) in (7..).zip(&commands) {
            assert!(command.write(serial, &mut writer));
        }
        let mut read = Vec::new();
        reader.drain(|bytes| read.push(ResolverCommand::read(bytes)));
        let expected: Vec<_> = (7..).zip(commands).map(Some).collect();
        assert_eq!(read, expected);
        for garbage in [&[][..], &[0; 9], &[0xff; 24], &[0; 16]] {
            assert_eq!(ResolverCommand::read(garbage), None);
        }
    }

    #[test]
    fn scopes_end_at_labels() {
        let holds = |scope: &NameScope, text: &str| scope.holds(name(text).as_name());
        let one = NameScope::Name(name("a.example."));
        assert!(holds(&one, "A.example.") && !holds(&one, "b.a.example."));
        let below = NameScope::Subtree(name("a.example."));
        assert!(holds(&below, "b.A.example.") && holds(&below, "a.example."));
        assert!(!holds(&below, "ba.example.") && !holds(&below, "example."));
        assert!(holds(&NameScope::All, ".") && holds(&NameScope::Subtree(NameBuf::root()), "x."));
    }
}
