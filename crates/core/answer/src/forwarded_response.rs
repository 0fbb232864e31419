//! Reduces the response of an upstream server to what answers the query, in a form for the cache.
//!
//! The cached message has a special form. Header and question have the same length as in the query,
//! so that pointers into the question's name stay valid in every reply. A [`CacheFacts`] replaces
//! type and class.
use crate::limits::{ALIASES_MAX, RELAYED_DATA_MAX};
use cache::CacheKey;
use wire::{
    Class, Composer, Flags, HEADER_LEN, Malformed, Name, NameBuf, NoSpace, Rcode, Record, Records,
    Rtype, Suffixes, age_records, expanded, inject_panic, skip_name,
};

/// Bytes between name and records: response code and marks, count of authority records, count of
/// answers (2 bytes).
pub(crate) const NOTE_LEN: usize = 4;
/// Bytes of the longest cached failure.
pub const FAILURE_LEN_MAX: usize = HEADER_LEN + Name::LEN_MAX + NOTE_LEN;
/// Marks in a note's first byte; the lower half is the response code.
const AUTHENTIC: u8 = 0x80;
const UNFINISHED: u8 = 0x40;

/// The response codes of a note. Others are never written.
const CODES: [Rcode; 16] = {
    let mut codes = [Rcode::NoError; 16];
    codes[Rcode::ServFail as usize] = Rcode::ServFail;
    codes[Rcode::NxDomain as usize] = Rcode::NxDomain;
    codes[Rcode::YxDomain as usize] = Rcode::YxDomain;
    codes
};

/// Bounds of the cache lifetime, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct TtlLimits {
    /// The shortest lifetime of a cacheable answer.
    pub ttl_min: u32,
    /// The longest lifetime of an answer.
    pub ttl_max: u32,
    /// The longest lifetime of a negative answer (RFC 2308 §5).
    pub negative_ttl_max: u32,
}

/// The part of a response that [`relay`] accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedRecords {
    /// Bytes written.
    pub len: usize,
    /// Offset of the cache value: behind header and name.
    pub value_at: usize,
    /// Lifetime in seconds; 0: it answers the waiting clients only, and is not cached.
    pub ttl: u32,
    /// Whether the name does not exist, for any type.
    pub is_name_error: bool,
    /// Whether the answer ends with an alias whose target must be queried next: it lies outside
    /// `suffix`, or the server said nothing about it.
    pub is_unfinished: bool,
}

/// The facts about a cached message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheFacts {
    pub(crate) rcode: Rcode,
    /// Whether the server set AD.
    pub(crate) authentic: bool,
    /// Whether the chain ends with an alias whose target must be queried next.
    pub(crate) unfinished: bool,
    pub(crate) answers: u16,
    pub(crate) authorities: u16,
}

impl CacheFacts {
    /// Reads the note behind a name of `name_len` bytes; also returns the offset of the records.
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

/// Takes from a response what answers the query: the CNAME chain from the query name while it stays
/// within `suffix`, the records at its end, and proofs. All other records are dropped, because the
/// client did not request them and the server has no authority for them. The caller has matched the
/// response with the query.
///
/// `buf` needs room for twice the message.
///
/// # Errors
/// [`Malformed`] if it cannot be parsed, or is a referral.
pub fn relay(
    key: &CacheKey<'_>,
    suffix: Name<'_>,
    message: &[u8],
    lifetimes: &TtlLimits,
    suffixes: &mut Suffixes,
    buf: &mut [u8],
) -> Result<ForwardedRecords, Malformed> {
    let header: &[u8; HEADER_LEN] = message.first_chunk().ok_or(Malformed)?;
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let flags = Flags(u16::from_be_bytes([header[2], header[3]]));
    let answers_at = skip_name(message, HEADER_LEN)? + 4;
    let answers = Records::new(message, answers_at, count(6));
    let mut authorities = answers;
    authorities.by_ref().try_for_each(|record| record.map(|_| ()))?;
    let authorities = Records::new(message, authorities.at(), count(8));
    inject_panic("relay", || key.name);
    let value_at = HEADER_LEN + key.name.len();
    let records_at = value_at + NOTE_LEN;
    let limit = buf.len();
    let front = buf.get_mut(..records_at).ok_or(Malformed)?;
    front.fill(0);
    front[HEADER_LEN..value_at].copy_from_slice(key.name);
    let note = CacheFacts {
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
    let mut collector = RecordCollector { key, suffix, note, ttl: u32::MAX, out };
    let (mut is_negative, end) = collector.follow_chain(answers)?;
    let is_left_out = |target: &NameBuf| {
        collector.says_nothing(authorities) && !collector.renames(answers, target.as_name())
    };
    if is_negative && end.as_ref().is_some_and(is_left_out) {
        (collector.note.authentic, collector.note.unfinished) = (false, true);
        is_negative = false;
    }
    if is_negative && !collector.note.unfinished {
        collector.ttl = collector.take_denial(authorities)?.min(lifetimes.negative_ttl_max);
    } else if key.kind.dnssec_ok() {
        collector.take_proofs(authorities, &[])?;
    }
    let RecordCollector { note, ttl, out, .. } = collector;
    let is_empty = note.answers == 0 && note.authorities == 0;
    let ttl = match ttl {
        // No record limits the lifetime.
        _ if is_empty => 0,
        0 => 0,
        ttl => ttl.clamp(lifetimes.ttl_min, lifetimes.ttl_max),
    };
    let (buf, len) = out.into_parts();
    // A client must not cache longer than the SOA of a negative answer allows (RFC 2308 §5), and no
    // answer longer than `ttl_max` (RFC 8767 §4, where a TTL with the highest bit set is an
    // ordinary one).
    let longest = if is_negative { ttl } else { lifetimes.ttl_max };
    age_records(&mut buf[records_at..len], |own| own.min(longest));
    note.write(buf, value_at);
    let is_name_error = note.rcode == Rcode::NxDomain && note.answers == 0;
    let is_unfinished = note.unfinished;
    Ok(ForwardedRecords { len, value_at, ttl, is_name_error, is_unfinished })
}

/// Writes the cache entry of a failure (RFC 9520 §3.2).
pub fn failure(key: &CacheKey<'_>, buf: &mut [u8; FAILURE_LEN_MAX]) -> ForwardedRecords {
    let value_at = HEADER_LEN + key.name.len();
    buf[HEADER_LEN..value_at].copy_from_slice(key.name);
    let (rcode, authentic, unfinished) = (Rcode::ServFail, false, false);
    CacheFacts { rcode, authentic, unfinished, answers: 0, authorities: 0 }.write(buf, value_at);
    let (len, is_name_error, is_unfinished) = (value_at + NOTE_LEN, false, false);
    ForwardedRecords { len, value_at, ttl: 0, is_name_error, is_unfinished }
}

/// Whether a cached message is a failure.
pub fn is_failure(message: &[u8], name_len: usize) -> bool {
    CacheFacts::read(message, name_len).is_some_and(|(note, _)| note.rcode == Rcode::ServFail)
}

/// The state of [`relay`].
struct RecordCollector<'t, 'b> {
    key: &'t CacheKey<'t>,
    suffix: Name<'t>,
    note: CacheFacts,
    ttl: u32,
    out: Composer<'b>,
}

impl RecordCollector<'_, '_> {
    /// Takes the CNAME chain and the records at its end; returns whether there are none, and the
    /// target of the last alias.
    fn follow_chain(&mut self, answers: Records<'_>) -> Result<(bool, Option<NameBuf>), Malformed> {
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
                let CacheFacts { rcode, authentic, unfinished, .. } = &mut self.note;
                (*rcode, *authentic, *unfinished) = (Rcode::NoError, false, true);
                break;
            }
            // The part of a looping or too long chain is the answer.
            let is_loop = chain[..len].iter().any(|name| name.as_name() == alias.as_name());
            if is_loop || len == ALIASES_MAX {
                break;
            }
            chain[len] = alias;
            len += 1;
        }
        for record in self.of_class(answers) {
            let record = record?;
            let owner = record.owner()?;
            let owner = owner.as_name();
            let about = covered(&record);
            let is_asked = self.asks_for(about) || self.asks_for(record.rtype);
            let is_at_name = is_asked || about == Rtype::CNAME;
            // A DNAME synthesizes CNAMEs of the names below it (RFC 6672 §3.1).
            let is_above = about == Rtype::DNAME && owner.is_within(self.suffix);
            let belongs = |name: &NameBuf| match name.as_name() {
                name if name == owner => is_at_name,
                name => is_above && name.is_within(owner),
            };
            if chain[..len].iter().any(belongs) {
                self.note.answers += u16::from(self.take(&record, owner)?);
            }
        }
        Ok((is_negative, (len > 1).then(|| chain[len - 1].as_name().into())))
    }

    /// Whether a DNAME of the answer renames this name. A server that has the DNAME and does not
    /// follow it has met a loop, or a chain that is too long.
    fn renames(&self, answers: Records<'_>, name: Name<'_>) -> bool {
        let mut dnames =
            self.of_class(answers).flatten().filter(|record| record.rtype == Rtype::DNAME);
        dnames.any(|record| {
            record.owner().is_ok_and(|owner| {
                let owner = owner.as_name();
                owner != name && name.is_within(owner)
            })
        })
    }

    /// Whether a response denies nothing and refers to no other server: then an alias at its end
    /// says nothing about the target (RFC 2308 §2.1, §2.2).
    fn says_nothing(&self, authorities: Records<'_>) -> bool {
        let mut authorities = self.of_class(authorities).flatten();
        self.note.rcode == Rcode::NoError
            && !authorities.any(|record| matches!(record.rtype, Rtype::SOA | Rtype::NS))
    }

    /// The records of the query class, and parse errors. Other classes answer nothing.
    fn of_class<'m>(
        &self,
        records: Records<'m>,
    ) -> impl Iterator<Item = Result<Record<'m>, Malformed>> + use<'m> {
        let asked = Class(self.key.kind.class());
        records.filter(move |record| {
            record.as_ref().map_or(true, |record| asked == Class::ANY || record.class == asked)
        })
    }

    /// Whether records of a type answer the query. Those of a meta type, such as OPT and TSIG, are
    /// about one message, and no answer (RFC 6895 §3.1).
    fn asks_for(&self, rtype: Rtype) -> bool {
        let asked = Rtype(self.key.kind.rtype());
        !rtype.is_meta() && (asked == rtype || asked == Rtype::ANY)
    }

    /// Whether a name has records of the query type, and otherwise the target of its CNAME.
    fn look_up(
        &self,
        answers: Records<'_>,
        name: Name<'_>,
    ) -> Result<(bool, Option<NameBuf>), Malformed> {
        let mut alias = None;
        for record in self.of_class(answers) {
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

    /// Takes the proof of a negative answer. Returns its lifetime (RFC 2308 §5), which is 0 without
    /// an SOA. NS without SOA is a referral (RFC 2308 §2.2), which does not answer the query.
    fn take_denial(&mut self, authorities: Records<'_>) -> Result<u32, Malformed> {
        self.take_proofs(authorities, &[Rtype::SOA])?;
        let own = |records| self.of_class(records).flatten();
        let has = |rtype| own(authorities).any(|record| record.rtype == rtype);
        if self.note.rcode == Rcode::NoError && has(Rtype::NS) && !has(Rtype::SOA) {
            return Err(Malformed);
        }
        for record in self.of_class(authorities) {
            let record = record?;
            let owner = record.owner()?;
            if record.rtype == Rtype::SOA && self.is_ours(owner.as_name()) {
                let minimum = record.data().last_chunk().ok_or(Malformed)?;
                return Ok(self.ttl.min(record.ttl).min(u32::from_be_bytes(*minimum)));
            }
        }
        Ok(0)
    }

    /// Takes authority records of these types, and NSEC and NSEC3 if DNSSEC is requested (RFC 4035
    /// §3.1.3).
    fn take_proofs(&mut self, authorities: Records<'_>, types: &[Rtype]) -> Result<(), Malformed> {
        for record in self.of_class(authorities) {
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

    /// Whether the server has authority for a name.
    fn is_ours(&self, owner: Name<'_>) -> bool {
        owner.is_within(self.suffix) || self.suffix.is_within(owner)
    }

    /// Takes a record, except a signature that the client did not request.
    fn take(&mut self, record: &Record<'_>, owner: Name<'_>) -> Result<bool, Malformed> {
        let is_asked = Rtype(self.key.kind.rtype()) == Rtype::RRSIG || self.key.kind.dnssec_ok();
        if record.rtype == Rtype::RRSIG && !is_asked {
            return Ok(false);
        }
        let mut data = [0; RELAYED_DATA_MAX];
        let data = match record.data().len() {
            0..=RELAYED_EXPANDED_MAX => record.expand(&mut data)?,
            _ if expanded(record.rtype).is_empty() => record.data(),
            // No type with names has data of this length.
            _ => return Err(Malformed),
        };
        self.put(record, owner, data).map_err(|NoSpace| Malformed)?;
        self.ttl = self.ttl.min(record.ttl);
        Ok(true)
    }

    fn put(&mut self, record: &Record<'_>, owner: Name<'_>, data: &[u8]) -> Result<(), NoSpace> {
        self.out.put_name(owner)?;
        let [t0, t1] = record.rtype.0.to_be_bytes();
        let [c0, c1] = record.class.0.to_be_bytes();
        let [l0, l1, l2, l3] = record.ttl.to_be_bytes();
        self.out.put_array([t0, t1, c0, c1, l0, l1, l2, l3])?;
        self.out.put_rdata(record.rtype, data)
    }
}

/// Bytes of data that may grow when its names are expanded.
const RELAYED_EXPANDED_MAX: usize = RELAYED_DATA_MAX - 2 * Name::LEN_MAX;

/// The type of a record, or for a signature the type that it covers.
pub(crate) fn covered(record: &Record<'_>) -> Rtype {
    match record.rtype {
        Rtype::RRSIG => Rtype(record.data().first_chunk().map_or(0, |t| u16::from_be_bytes(*t))),
        rtype => rtype,
    }
}
