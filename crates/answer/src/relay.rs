//! What another server said, made fit to be kept and to be sent on.
//!
//! Kept is a message of its own kind: header and question are those of the question that was asked,
//! so that pointers into its name stay right in every reply to it. In the place of type and class
//! stands what there is to know.
use crate::limits::{ALIASES_MAX, RELAYED_DATA_MAX};
use cache::Key;
use wire::{
    Composer, Flags, Full, HEADER_LEN, Malformed, Name, NameBuf, Rcode, Record, Records, Rtype,
    Suffixes, age_records, skip_name,
};

/// Octets between name and records: code and marks, records in the authority section, and two of
/// records in the answer.
pub(crate) const NOTE_LEN: usize = 4;
/// Octets of the longest failure.
pub const FAILURE_LEN_MAX: usize = HEADER_LEN + Name::LEN_MAX + NOTE_LEN;
/// Marks of a note's first octet, whose lower half is the code.
const AUTHENTIC: u8 = 0x80;
const UNFINISHED: u8 = 0x40;

/// The codes that a note's first octet may have; no other is ever written.
const CODES: [Rcode; 16] = {
    let mut codes = [Rcode::NoError; 16];
    codes[Rcode::ServFail as usize] = Rcode::ServFail;
    codes[Rcode::NxDomain as usize] = Rcode::NxDomain;
    codes[Rcode::YxDomain as usize] = Rcode::YxDomain;
    codes
};

/// How long answers are kept, seconds.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// The shortest life of an answer that may be kept at all.
    pub ttl_min: u32,
    /// The longest life of an answer.
    pub ttl_max: u32,
    /// The longest life of an answer that says what there is not (RFC 2308 §5).
    pub negative_ttl_max: u32,
}

/// What was taken of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// Octets written.
    pub len: usize,
    /// Where a cache's value begins: behind header and name.
    pub value_at: usize,
    /// Seconds it may be kept; 0: it answers who has asked, and nobody else.
    pub ttl: u32,
    /// Whether it says that there is no such name, of whatever type.
    pub is_name_error: bool,
    /// Whether it ends with an alias that leads to names of somebody else's.
    pub is_unfinished: bool,
}

/// What there is to know of a kept message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) rcode: Rcode,
    /// Whether the server said that it checked all signatures.
    pub(crate) authentic: bool,
    /// Whether its last record is an alias that leads to names of somebody else's.
    pub(crate) unfinished: bool,
    pub(crate) answers: u16,
    pub(crate) authorities: u16,
}

impl Note {
    /// Reads it, behind a name of so many octets; and where the records begin.
    #[inline]
    pub(crate) fn read(message: &[u8], name_len: usize) -> Option<(Self, usize)> {
        let at = HEADER_LEN + name_len;
        let [marks, authorities, a0, a1] = *message.get(at..)?.first_chunk::<NOTE_LEN>()?;
        let note = Self {
            rcode: CODES[usize::from(marks & 0xf)],
            authentic: marks & AUTHENTIC != 0,
            unfinished: marks & UNFINISHED != 0,
            answers: u16::from_be_bytes([a0, a1]),
            authorities: authorities.into(),
        };
        Some((note, at + NOTE_LEN))
    }

    fn write(&self, buf: &mut [u8], at: usize) {
        let authentic = if self.authentic { AUTHENTIC } else { 0 };
        let unfinished = if self.unfinished { UNFINISHED } else { 0 };
        let [a0, a1] = self.answers.to_be_bytes();
        let marks = self.rcode as u8 | authentic | unfinished;
        buf[at..at + NOTE_LEN].copy_from_slice(&[marks, self.authorities as u8, a0, a1]);
    }
}

/// Takes from a message, which is known to be a reply to this question, what answers it: the chain
/// of aliases from the name asked for, as far as it stays at or below `suffix`, what stands at its
/// end, and proofs. All else is left out: nobody asked for it, and nobody vouches for it.
///
/// `buf` must have room for the message and as much again.
///
/// # Errors
/// [`Malformed`] when it is no message, or one that answers nothing but tells of others to ask.
pub fn relay(
    key: &Key<'_>,
    suffix: Name<'_>,
    message: &[u8],
    lifetimes: &Lifetimes,
    suffixes: &mut Suffixes,
    buf: &mut [u8],
) -> Result<Relayed, Malformed> {
    let header: &[u8; HEADER_LEN] = message.first_chunk().ok_or(Malformed)?;
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let flags = Flags(u16::from_be_bytes([header[2], header[3]]));
    let answers_at = skip_name(message, HEADER_LEN)? + 4;
    let answers = Records::new(message, answers_at, count(6));
    let mut authorities = answers;
    authorities.by_ref().try_for_each(|record| record.map(|_| ()))?;
    let authorities = Records::new(message, authorities.at(), count(8));
    let value_at = HEADER_LEN + key.name.len();
    let records_at = value_at + NOTE_LEN;
    let limit = buf.len();
    let front = buf.get_mut(..records_at).ok_or(Malformed)?;
    front.fill(0);
    front[HEADER_LEN..value_at].copy_from_slice(key.name);
    let note = Note {
        rcode: match header[3] & 0xf {
            3 => Rcode::NxDomain,
            6 => Rcode::YxDomain,
            _ => Rcode::NoError,
        },
        authentic: flags.has(Flags::AD),
        unfinished: false,
        answers: 0,
        authorities: 0,
    };
    let out = Composer::new(buf, records_at, limit, suffixes);
    let mut taking = Taking { key, suffix, note, ttl: u32::MAX, out };
    let is_negative = taking.follow(answers)?;
    if is_negative && !taking.note.unfinished {
        taking.ttl = taking.take_denial(authorities)?.min(lifetimes.negative_ttl_max);
    } else if key.kind.dnssec_ok() {
        taking.take_proofs(authorities, &[])?;
    }
    let Taking { note, ttl, out, .. } = taking;
    let is_empty = note.answers == 0 && note.authorities == 0;
    let ttl = match ttl {
        // Nothing says how long that is so.
        _ if is_empty => 0,
        0 => 0,
        ttl => ttl.clamp(lifetimes.ttl_min, lifetimes.ttl_max),
    };
    let (buf, len) = out.into_parts();
    // Nobody is told to keep it longer: what there is not, than its SOA says (RFC 2308 §5); all
    // else, than the longest life (RFC 8767 §4, which takes the highest bit for one as any other).
    let longest = if is_negative { ttl } else { lifetimes.ttl_max };
    age_records(&mut buf[records_at..len], |own| own.min(longest));
    note.write(buf, value_at);
    let is_name_error = note.rcode == Rcode::NxDomain && note.answers == 0;
    let is_unfinished = note.unfinished;
    Ok(Relayed { len, value_at, ttl, is_name_error, is_unfinished })
}

/// Writes what is kept where nobody could answer (RFC 9520 §3.2).
pub fn failure(key: &Key<'_>, buf: &mut [u8; FAILURE_LEN_MAX]) -> Relayed {
    let value_at = HEADER_LEN + key.name.len();
    buf[HEADER_LEN..value_at].copy_from_slice(key.name);
    let (rcode, authentic, unfinished) = (Rcode::ServFail, false, false);
    Note { rcode, authentic, unfinished, answers: 0, authorities: 0 }.write(buf, value_at);
    let (len, is_name_error, is_unfinished) = (value_at + NOTE_LEN, false, false);
    Relayed { len, value_at, ttl: 0, is_name_error, is_unfinished }
}

/// Whether what is kept says that nobody could answer.
pub fn is_failure(message: &[u8], name_len: usize) -> bool {
    Note::read(message, name_len).is_some_and(|(note, _)| note.rcode == Rcode::ServFail)
}

/// What is taken so far.
struct Taking<'t, 'b> {
    key: &'t Key<'t>,
    suffix: Name<'t>,
    note: Note,
    ttl: u32,
    out: Composer<'b>,
}

impl Taking<'_, '_> {
    /// Takes the chain of aliases and what stands at its end; whether nothing does.
    fn follow(&mut self, answers: Records<'_>) -> Result<bool, Malformed> {
        let first = Name::parse(self.key.name).map_err(|_| Malformed)?;
        let mut chain = [const { NameBuf::root() }; ALIASES_MAX];
        chain[0] = first.into();
        let (mut len, mut is_negative) = (1, false);
        loop {
            let (found, alias) = self.look_up(answers, chain[len - 1].as_name())?;
            let Some(alias) = alias.filter(|_| !found) else {
                is_negative |= !found;
                break;
            };
            if !alias.as_name().is_within(self.suffix) {
                let Note { rcode, authentic, unfinished, .. } = &mut self.note;
                (*rcode, *authentic, *unfinished) = (Rcode::NoError, false, true);
                break;
            }
            // A chain that goes round, or on for too long: what there is of it is the answer.
            let goes_round = chain[..len].iter().any(|name| name.as_name() == alias.as_name());
            if goes_round || len == ALIASES_MAX {
                break;
            }
            chain[len] = alias;
            len += 1;
        }
        for record in answers {
            let record = record?;
            let owner = record.owner()?;
            let owner = owner.as_name();
            let about = covered(&record);
            let is_asked = self.asks_for(about) || self.asks_for(record.rtype);
            let is_at_name = is_asked || about == Rtype::CNAME;
            // A DNAME makes aliases of the names below it (RFC 6672 §3.1).
            let is_above = about == Rtype::DNAME && owner.is_within(self.suffix);
            let belongs = |name: &NameBuf| match name.as_name() {
                name if name == owner => is_at_name,
                name => is_above && name.is_within(owner),
            };
            if chain[..len].iter().any(belongs) {
                self.note.answers += u16::from(self.take(&record, owner)?);
            }
        }
        Ok(is_negative)
    }

    fn asks_for(&self, rtype: Rtype) -> bool {
        let asked = Rtype(self.key.kind.rtype());
        asked == rtype || asked == Rtype::ANY
    }

    /// Whether there are records that were asked for at a name, and what it is an alias of.
    fn look_up(
        &self,
        answers: Records<'_>,
        name: Name<'_>,
    ) -> Result<(bool, Option<NameBuf>), Malformed> {
        let mut alias = None;
        for record in answers {
            let record = record?;
            let is_asked = self.asks_for(record.rtype);
            if !is_asked && record.rtype != Rtype::CNAME || !record.is_at(name)? {
                continue;
            }
            if is_asked {
                return Ok((true, None));
            }
            let mut data = [0; Name::LEN_MAX];
            let data = record.expand(&mut data)?;
            alias = Some(NameBuf::from(Name::parse(data).map_err(|_| Malformed)?));
        }
        Ok((false, alias))
    }

    /// Takes what says that there is nothing; how long that is true (RFC 2308 §5): not at all
    /// without an SOA. Servers without one are no denial but a referral (RFC 2308 §2.2), and no
    /// answer to who asked for one.
    fn take_denial(&mut self, authorities: Records<'_>) -> Result<u32, Malformed> {
        self.take_proofs(authorities, &[Rtype::SOA])?;
        let has = |rtype| authorities.flatten().any(|record| record.rtype == rtype);
        if self.note.rcode == Rcode::NoError && has(Rtype::NS) && !has(Rtype::SOA) {
            return Err(Malformed);
        }
        for record in authorities {
            let record = record?;
            let owner = record.owner()?;
            if record.rtype == Rtype::SOA && self.is_ours(owner.as_name()) {
                let minimum = record.data().last_chunk().ok_or(Malformed)?;
                return Ok(self.ttl.min(record.ttl).min(u32::from_be_bytes(*minimum)));
            }
        }
        Ok(0)
    }

    /// Takes from the authority section records of these types, and what DNSSEC needs if that is
    /// wanted (RFC 4035 §3.1.3).
    fn take_proofs(&mut self, authorities: Records<'_>, types: &[Rtype]) -> Result<(), Malformed> {
        for record in authorities {
            let record = record?;
            let covered = covered(&record);
            let is_proof = self.key.kind.dnssec_ok()
                && (matches!(covered, Rtype::NSEC | Rtype::NSEC3) || types.contains(&covered));
            if !is_proof && !types.contains(&record.rtype) || self.note.authorities == 255 {
                continue;
            }
            let owner = record.owner()?;
            if self.is_ours(owner.as_name()) {
                self.note.authorities += u16::from(self.take(&record, owner.as_name())?);
            }
        }
        Ok(())
    }

    /// Whether a name is of those that the server was asked about.
    fn is_ours(&self, owner: Name<'_>) -> bool {
        owner.is_within(self.suffix) || self.suffix.is_within(owner)
    }

    /// Takes a record, unless it is a signature that nobody asked for.
    fn take(&mut self, record: &Record<'_>, owner: Name<'_>) -> Result<bool, Malformed> {
        let is_asked = Rtype(self.key.kind.rtype()) == Rtype::RRSIG || self.key.kind.dnssec_ok();
        if record.rtype == Rtype::RRSIG && !is_asked {
            return Ok(false);
        }
        let mut data = [0; RELAYED_DATA_MAX];
        // What is longer has no names to write out.
        let data = match record.data().len() {
            0..=RELAYED_EXPANDED_MAX => record.expand(&mut data)?,
            _ => record.data(),
        };
        self.put(record, owner, data).map_err(|Full| Malformed)?;
        self.ttl = self.ttl.min(record.ttl);
        Ok(true)
    }

    fn put(&mut self, record: &Record<'_>, owner: Name<'_>, data: &[u8]) -> Result<(), Full> {
        self.out.put_name(owner)?;
        let [t0, t1] = record.rtype.0.to_be_bytes();
        let [c0, c1] = record.class.0.to_be_bytes();
        let [l0, l1, l2, l3] = record.ttl.to_be_bytes();
        self.out.put_array([t0, t1, c0, c1, l0, l1, l2, l3])?;
        self.out.put_rdata(record.rtype, data)
    }
}

/// Octets of data that may grow when names in it are written out.
const RELAYED_EXPANDED_MAX: usize = RELAYED_DATA_MAX - 2 * Name::LEN_MAX;

/// The type of what a record is about: a signature's is that of what it signs.
pub(crate) fn covered(record: &Record<'_>) -> Rtype {
    match record.rtype {
        Rtype::RRSIG => Rtype(record.data().first_chunk().map_or(0, |t| u16::from_be_bytes(*t))),
        rtype => rtype,
    }
}
