//! Names that are somebody else's: what is known of them, and who asks about them.
use crate::finish::Ede;
use crate::limits::{ALIASES_MAX, RELAYED_DATA_MAX, RENEWED_SHARE, RENEWED_USES, STALE_TTL};
use crate::relay::{Note, covered};
use crate::reply::{Owner, Reply};
use cache::{Found, Key, Kind};
use image::HashKey;
use packet::Packet;
use wire::{Flags, Malformed, Name, NameBuf, QName, Query, Rcode, Record, Records, Rtype};

/// What a look-up came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Something good.
    Hit,
    /// Something too old, which nobody could make new.
    Stale,
    /// Nothing.
    Miss,
}

/// What is known of other servers' names, and who asks about them.
pub trait Elsewhere {
    /// Has what [`find`](Self::find) will need fetched into the CPU's cache.
    fn prefetch(&self, key: &Key<'_>);

    /// What is known, fresh or not: a message of [`relay`](crate::relay()).
    fn find(&mut self, key: &Key<'_>) -> Option<Found<'_>>;

    /// Counts what a look-up came to.
    fn count(&mut self, lookup: Lookup);

    /// Asks, and has the packet answered when the answer is known: by another
    /// [`batch`](crate::batch()), for which it is here as it came. False where nobody can be asked:
    /// then this batch answers with what there is.
    fn ask(&mut self, key: &Key<'_>, group: u16, packet: &Packet<'_>) -> bool;

    /// Asks about what is known and will soon be too old.
    fn renew(&mut self, key: &Key<'_>, group: u16);

    /// What is known is of a name that is theirs by this map of names ([`image::World::map`]).
    fn confirm(&mut self, key: &Key<'_>, map: u32);
}

/// Nothing is known, and nobody can be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Elsewhere for Nowhere {
    fn prefetch(&self, _key: &Key<'_>) {}

    fn find(&mut self, _key: &Key<'_>) -> Option<Found<'_>> {
        None
    }

    fn count(&mut self, _lookup: Lookup) {}

    fn ask(&mut self, _key: &Key<'_>, _group: u16, _packet: &Packet<'_>) -> bool {
        false
    }

    fn renew(&mut self, _key: &Key<'_>, _group: u16) {}

    fn confirm(&mut self, _key: &Key<'_>, _map: u32) {}
}

/// What came of a name that is somebody else's.
#[allow(clippy::large_enum_variant, reason = "lives on the stack for the length of one call")]
pub(crate) enum Known {
    /// The reply has what there is.
    Done,
    /// It has an alias, and what that stands for is not known to who was asked.
    Continue(NameBuf),
    /// Somebody has to be asked first.
    Unknown,
}

/// What a question is to those who know of it.
pub(crate) fn key<'n>(key: &HashKey, name: &'n QName, query: &Query) -> Key<'n> {
    let octets = name.octets();
    let hash = key.hash(name.padded(), 0, octets.len() - 1);
    let kind =
        Kind::new(query.rtype.0, query.class.0, query.dnssec_ok(), query.flags.has(Flags::CD));
    Key { hash, kind, name: octets }
}

/// Answers with what is known, if that is good enough; `first` for the name of the question itself,
/// `settles` where nobody is left to ask. `map` is the world's map; 0: what is found is not
/// confirmed by it. `strays` tells of an alias's target whether others than this group are to be
/// asked about it.
pub(crate) fn answer(
    elsewhere: &mut dyn Elsewhere,
    (group, strays): (u16, Strays<'_>),
    key: &Key<'_>,
    (first, settles, map): (bool, bool, u32),
    reply: &mut Reply<'_>,
) -> Known {
    if first {
        reply.set_authoritative(false);
        // RFC 4035 §3.2.2: the bit is copied.
        reply.flags |= reply.query.flags.0 & Flags::CD;
    }
    let found = elsewhere.find(key).filter(|found| found.is_fresh() || settles);
    let Some(found) = found else {
        elsewhere.count(Lookup::Miss);
        if settles {
            reply.fail(Rcode::ServFail, Some(Ede::NO_REACHABLE_AUTHORITY));
            return Known::Done;
        }
        return Known::Unknown;
    };
    let (lookup, renews) = match found.is_fresh() {
        true => (Lookup::Hit, is_due(&found)),
        false => (Lookup::Stale, false),
    };
    let confirms = map != 0 && found.map != map;
    let mut is_cut = false;
    let known = match put(&found, key, (first, strays, &mut is_cut), reply) {
        Ok(None) => Known::Done,
        Ok(Some(target)) => Known::Continue(target),
        // What was kept is always a message; were it not, nobody could be told what it says.
        Err(Malformed) => {
            reply.fail(Rcode::ServFail, None);
            Known::Done
        }
    };
    elsewhere.count(lookup);
    if confirms && !is_cut {
        elsewhere.confirm(key, map);
    }
    if renews {
        elsewhere.renew(key, group);
    }
    known
}

/// Whether a name is not the group's that told of it.
pub(crate) type Strays<'s> = &'s dyn Fn(Name<'_>) -> bool;

/// Whether somebody should be asked anew, though the answer is still good: it is wanted, and will
/// soon be too old.
#[inline]
pub(crate) fn is_due(found: &Found<'_>) -> bool {
    is_old(found) && found.uses >= RENEWED_USES && found.may_renew
}

/// Whether what is known, and still good, will soon be too old.
#[inline]
pub fn is_old(found: &Found<'_>) -> bool {
    found.age >= found.ttl - found.ttl / RENEWED_SHARE
}

/// Puts what was found behind what the reply already has; the target of its last alias, if that is
/// all it ends with, or is good for: what a server says of names that are others' is not.
fn put(
    found: &Found<'_>,
    key: &Key<'_>,
    (first, strays, is_cut): (bool, Strays<'_>, &mut bool),
    reply: &mut Reply<'_>,
) -> Result<Option<NameBuf>, Malformed> {
    let (mut note, records_at) = Note::read(found.message, key.name.len()).ok_or(Malformed)?;
    let chain = Chain::cut(found.message, records_at, &note, key, strays)?;
    if chain.is_some() {
        (note.rcode, note.authentic) = (Rcode::NoError, false);
        *is_cut = true;
    }
    let is_stale = !found.is_fresh();
    let ede = match note.rcode {
        Rcode::ServFail => Some(Ede::CACHED_ERROR),
        Rcode::NxDomain if is_stale => Some(Ede::STALE_NXDOMAIN),
        _ if is_stale => Some(Ede::STALE),
        _ => None,
    };
    reply.fail(note.rcode, ede);
    // What is true of the whole answer only (RFC 4035 §3.2.3), for who understands it (RFC 6840
    // §5.8).
    let asks = reply.query.flags.has(Flags::AD) || reply.query.dnssec_ok();
    if first && note.authentic && asks && !is_stale {
        reply.flags |= Flags::AD;
    }
    let ttl = |ttl: u32| if is_stale { STALE_TTL } else { ttl.saturating_sub(found.age) };
    let records = found.message.get(records_at..).unwrap_or_default();
    let is_alone = first && reply.out.len() == reply.query.question_end;
    let counts = match (&chain, is_alone) {
        (None, true) => {
            let put = reply.out.put_records(records, ttl);
            put.ok().map(|()| [note.answers, note.authorities])
        }
        _ => put_each(found.message, records_at, (&note, chain.as_ref()), ttl, reply)?,
    };
    let Some([answers, authorities]) = counts else {
        reply.truncate();
        return Ok(None);
    };
    reply.counts[0] += answers;
    reply.counts[1] += authorities;
    if let Some(Chain { target, .. }) = chain {
        return Ok(Some(target));
    }
    if !note.unfinished {
        return Ok(None);
    }
    let answers = Records::new(found.message, records_at, note.answers.into());
    let mut target = None;
    for record in answers {
        let record = record?;
        if record.rtype == Rtype::CNAME {
            let mut data = [0; Name::LEN_MAX];
            let name = Name::parse(record.expand(&mut data)?).map_err(|_| Malformed)?;
            target = Some(NameBuf::from(name));
        }
    }
    Ok(target)
}

/// A chain of aliases that leads to somebody else's name.
struct Chain {
    /// Names that are aliases.
    names: [NameBuf; ALIASES_MAX],
    len: usize,
    /// Where it leads.
    target: NameBuf,
}

impl Chain {
    /// The chain of a message up to the first name that strays; nothing where none does.
    fn cut(
        message: &[u8],
        records_at: usize,
        note: &Note,
        key: &Key<'_>,
        strays: Strays<'_>,
    ) -> Result<Option<Self>, Malformed> {
        let answers = Records::new(message, records_at, note.answers.into());
        let leads_on = !matches!(Rtype(key.kind.rtype()), Rtype::CNAME | Rtype::ANY);
        if !leads_on || !answers.flatten().any(|record| record.rtype == Rtype::CNAME) {
            return Ok(None);
        }
        let mut names = [const { NameBuf::root() }; ALIASES_MAX];
        names[0] = Name::parse(key.name).map_err(|_| Malformed)?.into();
        for len in 1..=ALIASES_MAX {
            let mut target = None;
            for record in answers {
                let record = record?;
                if record.rtype == Rtype::CNAME && record.is_at(names[len - 1].as_name())? {
                    let mut data = [0; Name::LEN_MAX];
                    let name = Name::parse(record.expand(&mut data)?).map_err(|_| Malformed)?;
                    target = Some(NameBuf::from(name));
                }
            }
            let Some(target) = target else { return Ok(None) };
            if strays(target.as_name()) {
                let is_at = |record: Record<'_>| record.is_at(target.as_name()) == Ok(true);
                // Whoever ends there anyway has nothing that is to be cut off.
                let is_whole = note.unfinished && !answers.flatten().any(is_at);
                return Ok((!is_whole).then_some(Self { names, len, target }));
            }
            if let Some(next) = names.get_mut(len) {
                *next = target;
            }
        }
        Ok(None)
    }

    /// Whether a record is one of its aliases, of the DNAMEs that made them, or of the proofs that
    /// wildcards might.
    fn has(&self, record: &Record<'_>) -> Result<bool, Malformed> {
        let owner = record.owner()?;
        let mut names = self.names[..self.len].iter();
        Ok(match covered(record) {
            Rtype::CNAME => names.any(|name| *name == owner),
            Rtype::DNAME => names.any(|name| name.as_name().is_within(owner.as_name())),
            Rtype::NSEC | Rtype::NSEC3 => true,
            _ => false,
        })
    }
}

/// Puts records one by one, since their pointers are right in another message, or, of a chain that
/// is cut, its aliases alone; how many of each section. Nothing where not all fit.
fn put_each(
    message: &[u8],
    records_at: usize,
    (note, chain): (&Note, Option<&Chain>),
    ttl: impl Fn(u32) -> u32,
    reply: &mut Reply<'_>,
) -> Result<Option<[u16; 2]>, Malformed> {
    let mark = reply.out.mark();
    let answers = usize::from(note.answers);
    let count = answers + usize::from(note.authorities);
    let mut counts = [0; 2];
    for (nth, record) in Records::new(message, records_at, count).enumerate() {
        let record = record?;
        if let Some(chain) = chain
            && !chain.has(&record)?
        {
            continue;
        }
        let mut data = [0; RELAYED_DATA_MAX];
        let data = match record.data().len() {
            0..RELAYED_DATA_MAX => record.expand(&mut data)?,
            _ => record.data(),
        };
        let owner = record.owner()?;
        let owner = Owner::Name(owner.as_name());
        if reply.put_record(owner, record.rtype, ttl(record.ttl), data).is_err() {
            reply.out.rewind(mark);
            return Ok(None);
        }
        counts[usize::from(nth >= answers)] += 1;
    }
    Ok(Some(counts))
}
