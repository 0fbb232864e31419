//! Forwarded names: the interface to the cache and the upstream client, and answers from the cache.
use crate::ede::Ede;
use crate::forwarded_response::{CacheFacts, NOTE_LEN, covered};
use crate::limits::{
    ALIASES_MAX, ANY_TYPES_MAX, RELAYED_DATA_MAX, RENEWED_SHARE, RENEWED_USES, STALE_TTL,
};
use crate::reply::{OwnerName, ReplyWriter};
use cache::{CacheHit, CacheKey, QueryKind};
use image::HashKey;
use packet::{Packet, Transport, View};
use wire::{
    Flags, HEADER_LEN, Malformed, Name, NameBuf, QName, Query, Rcode, Record, Records, Rtype,
};

/// Bytes of a record before its data if the owner is a pointer.
const RECORD_HEAD_LEN: usize = 12;

/// The result of a cache lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLookup {
    /// A fresh answer.
    Hit,
    /// A stale answer that no server could renew.
    Stale,
    /// No answer.
    Miss,
}

/// The cache, and the client of upstream servers.
pub trait Resolver {
    /// Prefetches what [`find`](Self::find) will read.
    fn prefetch(&self, key: &CacheKey<'_>);

    /// The cache entry, fresh or stale: a message of [`relay`](crate::relay()).
    fn find(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>>;

    /// Counts a lookup.
    fn count(&mut self, lookup: CacheLookup);

    /// Sends a query to upstream servers and defers the packet: a later [`batch`](crate::batch())
    /// gets it unchanged. Returns false if no server can be queried; this batch then answers with
    /// what the cache has.
    fn request(&mut self, key: &CacheKey<'_>, group: u16, packet: &Packet<'_>) -> bool;

    /// Renews a cache entry that expires soon.
    fn renew(&mut self, key: &CacheKey<'_>, group: u16);

    /// Marks a cache entry as forwarded by this name map ([`image::ZoneTable::map`]).
    fn confirm(&mut self, key: &CacheKey<'_>, map: u32);
}

/// No cache and no upstream servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoForwarding;

impl Resolver for NoForwarding {
    fn prefetch(&self, _key: &CacheKey<'_>) {}

    fn find(&mut self, _key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        None
    }

    fn count(&mut self, _lookup: CacheLookup) {}

    fn request(&mut self, _key: &CacheKey<'_>, _group: u16, _packet: &Packet<'_>) -> bool {
        false
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {}

    fn confirm(&mut self, _key: &CacheKey<'_>, _map: u32) {}
}

/// The result for a forwarded name.
#[allow(clippy::large_enum_variant, reason = "lives on the stack for the length of one call")]
pub(crate) enum ForwardedAnswer {
    /// The reply is complete.
    Done,
    /// The answer ends with an alias to this name, which must be looked up next.
    Continue(NameBuf),
    /// An upstream server must be queried first.
    Missing,
}

/// The cache key of a query for `name` in a view.
pub(crate) fn key<'n>(key: &HashKey, view: View, name: &'n QName, query: &Query) -> CacheKey<'n> {
    let bytes = name.as_bytes();
    let hash = key.hash(name.padded(), 0, bytes.len() - 1);
    let kind =
        QueryKind::new(query.rtype.0, query.class.0, query.dnssec_ok(), query.flags.has(Flags::CD));
    CacheKey { hash, kind: kind.in_view(view.0.into()), name: bytes }
}

/// Answers from the cache if the entry is good enough. `first`: the name is that of the question.
/// `is_final`: no server is left to query, so that a stale entry is used. `map` is the number of
/// the name map; 0: the entry is not confirmed. `leaves_group` tells whether a target is outside
/// the group.
pub(crate) fn answer(
    resolver: &mut dyn Resolver,
    (group, leaves_group): (u16, BailiwickTest<'_>),
    key: &CacheKey<'_>,
    (first, is_final, map): (bool, bool, u32),
    reply: &mut ReplyWriter<'_>,
) -> ForwardedAnswer {
    if first {
        reply.set_authoritative(false);
        // RFC 4035 §3.2.2: the bit is copied.
        reply.flags |= reply.query.flags.0 & Flags::CD;
    }
    let found = resolver.find(key).filter(|found| found.is_fresh() || is_final);
    let Some(found) = found else {
        resolver.count(CacheLookup::Miss);
        if is_final {
            reply.fail(Rcode::ServFail, Some(Ede::NO_REACHABLE_AUTHORITY));
            return ForwardedAnswer::Done;
        }
        return ForwardedAnswer::Missing;
    };
    let (lookup, renews) = match found.is_fresh() {
        true => (CacheLookup::Hit, is_due(&found)),
        false => (CacheLookup::Stale, false),
    };
    let confirms = map != 0 && found.map != map;
    let mut is_cut = false;
    let known = match put(&found, key, (first, leaves_group, &mut is_cut), reply) {
        Ok(None) => ForwardedAnswer::Done,
        Ok(Some(target)) => ForwardedAnswer::Continue(target),
        // Does not happen: the cache holds only valid messages.
        Err(Malformed) => {
            reply.fail(Rcode::ServFail, None);
            ForwardedAnswer::Done
        }
    };
    resolver.count(lookup);
    if confirms && !is_cut {
        resolver.confirm(key, map);
    }
    if renews {
        resolver.renew(key, group);
    }
    known
}

/// Whether a name is outside the group of servers that answered.
pub(crate) type BailiwickTest<'s> = &'s dyn Fn(Name<'_>) -> bool;

/// Whether a fresh entry should be renewed: it is in use, and expires soon.
#[inline]
pub(crate) fn is_due(found: &CacheHit<'_>) -> bool {
    is_old(found) && found.uses >= RENEWED_USES && found.may_renew
}

/// Whether a fresh entry expires soon.
#[inline]
pub fn is_old(found: &CacheHit<'_>) -> bool {
    found.age >= found.ttl - found.ttl / RENEWED_SHARE
}

/// Puts a cache entry behind what the reply has. Returns the target of the last alias if the answer
/// ends there, or is only valid up to there: a server has no authority for names outside its
/// suffix.
fn put(
    found: &CacheHit<'_>,
    key: &CacheKey<'_>,
    (first, leaves_group, is_cut): (bool, BailiwickTest<'_>, &mut bool),
    reply: &mut ReplyWriter<'_>,
) -> Result<Option<NameBuf>, Malformed> {
    let (mut note, records_at) =
        CacheFacts::read(found.message, key.name.len()).ok_or(Malformed)?;
    let chain = ForwardedChain::cut(found.message, records_at, &note, key, leaves_group)?;
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
    // AD is about the whole answer (RFC 4035 §3.2.3), and only for clients that request it (RFC
    // 6840 §5.8).
    let asks = reply.query.flags.has(Flags::AD) || reply.query.dnssec_ok();
    if first && note.authentic && asks && !is_stale {
        reply.flags |= Flags::AD;
    }
    let ttl = |ttl: u32| if is_stale { STALE_TTL } else { ttl.saturating_sub(found.age) };
    let records = found.message.get(records_at..).unwrap_or_default();
    let is_alone = first && reply.out.len() == reply.query.question_end;
    let is_any = key.kind.rtype() == Rtype::ANY.0 && reply.context.transport == Transport::Datagram;
    let counts = match &chain {
        Some(chain) => {
            let keeps = |_, record: &Record<'_>| chain.has(record);
            put_each(found.message, records_at, (&note, &keeps), ttl, reply)?
        }
        None if is_any => {
            let smallest = smallest(found.message, records_at, &note)?;
            let keeps = |is_answer: bool, record: &Record<'_>| {
                Ok(!is_answer || smallest.is_none_or(|rtype| covered(record) == rtype))
            };
            put_each(found.message, records_at, (&note, &keeps), ttl, reply)?
        }
        None if is_alone => {
            let put = reply.out.put_records(records, ttl);
            put.ok().map(|()| [note.answers, note.authorities])
        }
        None => put_each(found.message, records_at, (&note, &|_, _| Ok(true)), ttl, reply)?,
    };
    let Some([answers, authorities]) = counts else {
        reply.truncate();
        if chain.is_none() && !is_any {
            put_part(found.message, records_at, &note, ttl, reply)?;
        }
        return Ok(None);
    };
    reply.counts[0] += answers;
    reply.counts[1] += authorities;
    if let Some(ForwardedChain { target, .. }) = chain {
        return Ok(Some(target));
    }
    if !note.unfinished {
        return Ok(None);
    }
    chain_end(found.message, records_at, note.answers)
}

/// The target of a name's CNAME. Inlined: a call saves registers also where no alias is, which
/// costs each answer from the cache six instructions.
#[inline(always)]
fn alias_of(answers: Records<'_>, name: Name<'_>) -> Result<Option<NameBuf>, Malformed> {
    let mut target = None;
    for record in answers {
        let record = record?;
        if record.rtype == Rtype::CNAME && record.is_at(name)? {
            let mut data = [0; Name::LEN_MAX];
            let name = Name::parse(record.expand(&mut data)?).map_err(|_| Malformed)?;
            target = Some(NameBuf::from(name));
        }
    }
    Ok(target)
}

/// The name to which the aliases of a cached answer lead; `None` without an alias. Its message has
/// the key's name, so that callers need not keep the key.
#[cold]
#[inline(never)]
fn chain_end(
    message: &[u8],
    records_at: usize,
    answers: u16,
) -> Result<Option<NameBuf>, Malformed> {
    let key_name = message.get(HEADER_LEN..records_at - NOTE_LEN).ok_or(Malformed)?;
    let answers = Records::new(message, records_at, answers.into());
    let mut end: Option<NameBuf> = None;
    for _ in 0..ALIASES_MAX {
        let name = match &end {
            Some(end) => end.as_name(),
            None => Name::parse(key_name).map_err(|_| Malformed)?,
        };
        let Some(target) = alias_of(answers, name)? else { break };
        end = Some(target);
    }
    Ok(end)
}

/// A CNAME chain that leads to a name outside the group.
struct ForwardedChain {
    /// Names that have a CNAME.
    names: [NameBuf; ALIASES_MAX],
    len: usize,
    target: NameBuf,
}

impl ForwardedChain {
    /// The chain of a message up to the first target outside the group; `None` if it stays inside.
    fn cut(
        message: &[u8],
        records_at: usize,
        note: &CacheFacts,
        key: &CacheKey<'_>,
        leaves_group: BailiwickTest<'_>,
    ) -> Result<Option<Self>, Malformed> {
        let answers = Records::new(message, records_at, note.answers.into());
        let follows_aliases = !matches!(Rtype(key.kind.rtype()), Rtype::CNAME | Rtype::ANY);
        if !follows_aliases || !answers.flatten().any(|record| record.rtype == Rtype::CNAME) {
            return Ok(None);
        }
        let mut names = [const { NameBuf::root() }; ALIASES_MAX];
        names[0] = Name::parse(key.name).map_err(|_| Malformed)?.into();
        for len in 1..=ALIASES_MAX {
            let target = alias_of(answers, names[len - 1].as_name())?;
            let Some(target) = target else { return Ok(None) };
            if leaves_group(target.as_name()) {
                let is_at = |record: Record<'_>| record.is_at(target.as_name()) == Ok(true);
                // The answer ends there anyway: nothing to cut.
                let is_whole = note.unfinished && !answers.flatten().any(is_at);
                return Ok((!is_whole).then_some(Self { names, len, target }));
            }
            if let Some(next) = names.get_mut(len) {
                *next = target;
            }
        }
        Ok(None)
    }

    /// Whether a record belongs to the chain: its CNAMEs, the DNAMEs that synthesized them, and
    /// proofs for wildcards.
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

/// The type of the smallest record set, with signatures. Over UDP it answers ANY (RFC 8482 §4.1).
/// `None` for a DNAME answer, which is needed whole.
fn smallest(
    message: &[u8],
    records_at: usize,
    note: &CacheFacts,
) -> Result<Option<Rtype>, Malformed> {
    let mut sizes = [(Rtype(0), 0); ANY_TYPES_MAX];
    let mut len = 0;
    for record in Records::new(message, records_at, note.answers.into()) {
        let record = record?;
        let rtype = covered(&record);
        if rtype == Rtype::DNAME {
            return Ok(None);
        }
        let at = sizes[..len].iter().position(|(known, _)| *known == rtype).unwrap_or(len);
        if let Some((known, size)) = sizes.get_mut(at) {
            (*known, len) = (rtype, len.max(at + 1));
            *size += RECORD_HEAD_LEN + record.data().len();
        }
    }
    Ok(sizes[..len].iter().min_by_key(|(_, size)| *size).map(|(rtype, _)| *rtype))
}

/// Selects records: whether it is in the answer section, and the record.
type RecordFilter<'k> = &'k dyn Fn(bool, &Record<'_>) -> Result<bool, Malformed>;

/// Puts the records that `keeps` selects one by one, because their pointers are only valid in the
/// cached message. Returns the count of each section; `None` if they do not all fit.
fn put_each(
    message: &[u8],
    records_at: usize,
    (note, keeps): (&CacheFacts, RecordFilter<'_>),
    ttl: impl Fn(u32) -> u32,
    reply: &mut ReplyWriter<'_>,
) -> Result<Option<[u16; 2]>, Malformed> {
    let mark = reply.out.mark();
    let answers = usize::from(note.answers);
    let count = answers + usize::from(note.authorities);
    let mut counts = [0; 2];
    for (nth, record) in Records::new(message, records_at, count).enumerate() {
        let record = record?;
        if !keeps(nth < answers, &record)? {
            continue;
        }
        if !put_one(&record, &ttl, reply)? {
            reply.out.rewind(mark);
            return Ok(None);
        }
        counts[usize::from(nth >= answers)] += 1;
    }
    Ok(Some(counts))
}

/// Puts the aliases of an answer that does not fit, and of its other records as many as fit (RFC
/// 2181 §9). A signed answer is put whole or not at all: a part of a set cannot be validated.
#[inline(never)]
fn put_part(
    message: &[u8],
    records_at: usize,
    note: &CacheFacts,
    ttl: impl Fn(u32) -> u32,
    reply: &mut ReplyWriter<'_>,
) -> Result<(), Malformed> {
    let answers = Records::new(message, records_at, note.answers.into());
    if answers.flatten().any(|record| record.rtype == Rtype::RRSIG) {
        return Ok(());
    }
    for are_aliases in [true, false] {
        for record in answers {
            let record = record?;
            if matches!(record.rtype, Rtype::CNAME | Rtype::DNAME) != are_aliases {
                continue;
            }
            let mark = reply.out.mark();
            if !put_one(&record, &ttl, reply)? {
                reply.out.rewind(mark);
                return Ok(());
            }
            reply.counts[0] += 1;
        }
    }
    Ok(())
}

/// Puts a record of a cached message; returns whether it fits.
fn put_one(
    record: &Record<'_>,
    ttl: &impl Fn(u32) -> u32,
    reply: &mut ReplyWriter<'_>,
) -> Result<bool, Malformed> {
    let mut data = [0; RELAYED_DATA_MAX];
    let data = match record.data().len() {
        0..RELAYED_DATA_MAX => record.expand(&mut data)?,
        _ => record.data(),
    };
    let owner = record.owner()?;
    let owner = OwnerName::Name(owner.as_name());
    Ok(reply.put_record(owner, record.rtype, ttl(record.ttl), data).is_ok())
}
