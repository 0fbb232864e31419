//! A question becomes an answer inside its own buffer.
//!
//! The order of work, each step a file:
//!
//! 1. [`gate`] **guards**: who may ask, and how much; where nothing is configured it is not there,
//! 2. `wire::Query` **parses**, and [`guard`] looks at cookies,
//! 3. `image::World` **routes**: which zone, or nobody's,
//! 4. [`find`] and [`solve`] decide what the answer is (RFC 1034 §4.3.2), [`deny`] proves what is
//!    not there, [`extra`] adds what helps; [`elsewhere`] has what is known of others' names, as
//!    [`relay`](mod@relay) took it from their servers,
//! 5. [`reply`] **composes** record sets in place,
//! 6. [`finish`] adds OPT and sets flags and counts,
//! 7. [`ledger`] charges for the replies, where that is configured.
//!
//! A burst is taken in two passes: the first parses, routes, hashes and prefetches, the second
//! answers, so that the memory of one question is on its way while another is read. Most questions
//! take a shorter way through both: see [`plain`]. What is not always wanted, be it a limit, a
//! cookie or a rate for replies, has a pass of its own before or behind those, so that they stay
//! as short as they are without it.
#![no_std]
#![forbid(unsafe_code)]

mod chaos;
mod deny;
mod elsewhere;
mod extra;
mod find;
mod finish;
mod gate;
mod guard;
mod ledger;
pub mod limits;
mod plain;
mod relay;
mod reply;
mod solve;
mod tally;
mod trail;

pub use elsewhere::{Elsewhere, Nowhere};
pub use gate::{Limiter, Limits};
pub use guard::CookieSecret;
pub use relay::{FAILURE_LEN_MAX, Lifetimes, Relayed, failure, is_failure, relay};
pub use tally::{TYPE_NAMES, Tally};

use finish::Room;
use gate::{Gate, Keeper, Open};
use guard::{CookieMemo, Options};
use image::{Forwards, HashKey, World};
use ledger::{Ledger, Made};
use limit::Acl;
use limits::{TAIL_MAX, UDP_SIZE_DEFAULT};
use packet::{BURST_MAX, Drop, Packet, Verdict, prefetch};
use plain::{Desk, Lead, put_cookie};
use reply::Reply;
use solve::{Abroad, Missing, Site, Spot, Start, Trip, Whose};
use tally::{TYPE_OTHER, type_index};
use trail::Trail;
use wire::{Class, Fault, Flags, Glance, QName, Query, Rcode, Rtype, Suffixes};

/// What the operator decided.
#[derive(Clone, Debug)]
pub struct Policy<'p> {
    /// UDP payload sent at most, in octets, 512 to 4096.
    pub udp_size_max: u16,
    /// Secrets of server cookies: the first makes them, all are accepted; none: no cookies.
    pub cookie_secrets: &'p [CookieSecret],
    /// What NSID says (RFC 5001); empty: nothing.
    pub nsid: &'p [u8],
    /// What `version.bind` says; empty: refused.
    pub version: &'p [u8],
    /// What `id.server` says (RFC 4892); empty: refused.
    pub id: &'p [u8],
    /// How long an idle stream stays open, in units of 100 ms, told to clients that ask over one
    /// (RFC 7828); 0: it is about to be closed; nothing: not told.
    pub keepalive: Option<u16>,
    /// Who may ask, and how much; nothing: everybody without end.
    pub limits: Option<Limits<'p>>,
    /// Whose names are somebody else's.
    pub forwards: Forwards<'p>,
    /// For whom they are asked.
    pub recursion: Acl<'p>,
}

impl Policy<'_> {
    /// RA, where names of others are answered too (RFC 1035 §4.1.1).
    #[inline(always)]
    fn offers(&self) -> u16 {
        if self.forwards.is_empty() { 0 } else { Flags::RA }
    }
}

impl Default for Policy<'_> {
    fn default() -> Self {
        Self {
            udp_size_max: UDP_SIZE_DEFAULT,
            cookie_secrets: &[],
            nsid: &[],
            version: &[],
            id: &[],
            keepalive: None,
            limits: None,
            forwards: Forwards::default(),
            recursion: Acl::EVERYBODY,
        }
    }
}

/// Time and chance, which hot rooms cannot get themselves (invariant I2).
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Wall clock, seconds since 1970, as RFC 9018 §4.3 counts them.
    pub unix_seconds: u32,
    /// Monotonic clock, microseconds; the same clock for all workers of a server.
    pub monotonic_micros: u64,
    /// A random number, new for each burst.
    pub seed: u64,
}

/// Memory of one worker, used again for each burst.
#[derive(Debug)]
pub struct Scratch {
    glances: [Glance; BURST_MAX],
    queries: [Query; BURST_MAX],
    suffixes: Suffixes,
    alias: QName,
    trail: Trail,
    cookies: CookieMemo,
    tail: [u8; TAIL_MAX],
}

impl Scratch {
    /// Fresh memory. Large: keep it in a `Box` or a thread's own state.
    pub const fn new() -> Self {
        Self {
            glances: [const { Glance::new() }; BURST_MAX],
            queries: [const { Query::new() }; BURST_MAX],
            suffixes: Suffixes::new(),
            alias: QName::new(),
            trail: Trail::new(),
            cookies: CookieMemo::new(),
            tail: [0; TAIL_MAX],
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// What the first pass found out about a packet.
#[derive(Clone, Copy)]
enum Way<'w> {
    /// The short way: the message was only glanced at.
    Plain(Lead<'w>),
    Zone(Spot<'w>),
    /// To this group of servers.
    Forward(u16),
    Fault(Fault),
    Nobody,
    Chaos,
    /// A type that no record has.
    Meta,
    /// The client may not ask, and is told so.
    Denied,
    /// The client asks too much, over a stream, and is told so.
    Limited,
    /// The client is told to come back over a stream.
    Slip,
    /// It is dropped, and this is why.
    Shut(Drop),
    /// It was answered, but not the short way.
    Made(Made<'w>),
    /// The same, to a client that proved its address, or is told to.
    Proven,
    /// It is answered when others have.
    Later,
}

/// Answers a burst of at most [`BURST_MAX`] packets in place, and sets each verdict.
pub fn batch(
    world: &dyn World,
    policy: &Policy<'_>,
    now: Now,
    elsewhere: &mut dyn Elsewhere,
    scratch: &mut Scratch,
    packets: &mut [Packet<'_>],
    tally: &mut Tally,
) {
    let Scratch { glances, queries, suffixes, alias, trail, cookies, tail } = scratch;
    let key = world.key();
    let limits = policy.limits.as_ref();
    let forwards = policy.forwards;
    let recursion = &policy.recursion;
    let (memo, awaits_cookie, met_cookie) = (None, false, false);
    let mut scout =
        Scout { world, key, forwards, recursion, memo, awaits_cookie, met_cookie };
    let mut ways = [Way::Nobody; BURST_MAX];
    match limits.and_then(|limits| Keeper::new(limits, policy, now, packets)) {
        None => scout.look_all(&Open, glances, queries, packets, &mut ways),
        Some(keeper) => scout.look_all(&keeper, glances, queries, packets, &mut ways),
    }
    let dice = Dice(now.seed | 1);
    let abroad = Abroad { elsewhere, forwards, may_ask: false, settles: false };
    let mut bench =
        Bench { world, key, policy, now, suffixes, alias, trail, cookies, tail, dice, abroad };
    bench.answer_all(&mut scout, glances, queries, &mut ways, packets, tally);
    if scout.met_cookie {
        bench.seal_all(glances, &mut ways, packets);
    }
    if let Some(Limits { replies: Some(limiter), exempt, .. }) = limits {
        Ledger { limiter, exempt, key, ways: &ways, glances }.settle(now, packets, tally);
    }
}

/// What the first pass works with.
struct Scout<'f, 'w> {
    world: &'w dyn World,
    key: &'w HashKey,
    forwards: Forwards<'f>,
    recursion: &'f Acl<'f>,
    /// The zone of the question before, where no other zone lies below it: names of a burst are
    /// often of one zone, and need not be routed again.
    memo: Option<Site<'w>>,
    /// Whether the last question on the short way had a cookie: then the next one often has.
    awaits_cookie: bool,
    /// Whether a question took the short way with a cookie.
    met_cookie: bool,
}

impl<'w> Scout<'_, 'w> {
    /// The first pass.
    #[inline(never)]
    fn look_all<G: Gate<'w>>(
        &mut self,
        gate: &G,
        glances: &mut [Glance; BURST_MAX],
        queries: &mut [Query; BURST_MAX],
        packets: &[Packet<'_>],
        ways: &mut [Way<'w>; BURST_MAX],
    ) {
        for (at, (((packet, glance), query), way)) in
            packets.iter().zip(glances).zip(queries).zip(ways).enumerate()
        {
            if let Some(other) = gate.admit(at, query, packet) {
                *way = other;
                continue;
            }
            match self.glance(&self.memo, self.awaits_cookie, glance, packet) {
                Some(short) => *way = short,
                None => self.look(glance, query, packet, way),
            }
        }
    }

    /// Takes a packet the short way, if this zone has it and there is a cookie or none, as said.
    #[inline(always)]
    fn glance(
        &self,
        site: &Option<Site<'w>>,
        with_cookie: bool,
        glance: &mut Glance,
        packet: &Packet<'_>,
    ) -> Option<Way<'w>> {
        let lead = match with_cookie {
            true => Lead::with_cookie(self.key, site, glance, packet)?,
            false => Lead::new(self.key, site, glance, packet)?,
        };
        prefetch(lead.leaf);
        Some(Way::Plain(lead))
    }

    /// The same of one that may be unlike the one before.
    #[inline(always)]
    fn glance_anew(
        &mut self,
        site: &Option<Site<'w>>,
        with_cookie: bool,
        glance: &mut Glance,
        packet: &Packet<'_>,
    ) -> Option<Way<'w>> {
        let way = self.glance(site, with_cookie, glance, packet)?;
        self.awaits_cookie = with_cookie;
        self.met_cookie |= with_cookie;
        Some(way)
    }

    /// Takes a packet the long way, or a short one that the packet before did not take.
    #[inline(never)]
    fn look(
        &mut self,
        glance: &mut Glance,
        query: &mut Query,
        packet: &Packet<'_>,
        way: &mut Way<'w>,
    ) {
        if let Some(short) = self.glance_anew(&{ self.memo }, !self.awaits_cookie, glance, packet) {
            *way = short;
            return;
        }
        *way = match self.find_site(query, packet) {
            Ok(site) if query.plain || query.cookie.is_some() => self
                .glance_anew(&Some(site), !query.plain, glance, packet)
                .unwrap_or_else(|| self.spot(&site, query)),
            Ok(site) => self.spot(&site, query),
            Err(way) => way,
        };
    }

    /// Takes a packet the long way.
    #[inline(never)]
    fn look_closely(&mut self, query: &mut Query, packet: &Packet<'_>) -> Way<'w> {
        self.find_site(query, packet).map_or_else(|way| way, |site| self.spot(&site, query))
    }

    fn spot(&self, site: &Site<'w>, query: &Query) -> Way<'w> {
        let spot = Spot::new(self.key, site, &query.name);
        prefetch(spot.leaf);
        Way::Zone(spot)
    }

    /// Parses and routes: the zone to ask, or the way of what is no question to one.
    #[inline(never)]
    fn find_site(&mut self, query: &mut Query, packet: &Packet<'_>) -> Result<Site<'w>, Way<'w>> {
        query.parse(packet.buf, packet.len).map_err(Way::Fault)?;
        if query.class != Class::IN {
            return Err(if query.class == Class::CH { Way::Chaos } else { Way::Nobody });
        }
        if query.rtype.is_meta() && query.rtype != Rtype::ANY {
            return Err(Way::Meta);
        }
        match self.memo {
            Some(site) if query.rtype != Rtype::DS && site.holds(&query.name) => Ok(site),
            _ => {
                let desired = query.flags.has(Flags::RD);
                let forwards = if desired { self.forwards } else { Forwards::default() };
                match solve::whose(self.world, forwards, &query.name, query.rtype) {
                    Whose::Ours(routed) => {
                        let site = Site::new(routed.zone);
                        let is_whole =
                            !routed.has_below && !self.forwards.has_below(routed.zone.origin());
                        self.memo = is_whole.then_some(site);
                        Ok(site)
                    }
                    Whose::Theirs(group) if self.recursion.lists(packet.client.ip()) => {
                        Err(Way::Forward(group))
                    }
                    Whose::Theirs(_) => Err(Way::Denied),
                    Whose::Nobodys => Err(Way::Nobody),
                }
            }
        }
    }
}

/// What the second pass works with.
struct Bench<'b, 'e, 'w> {
    world: &'w dyn World,
    key: &'w HashKey,
    policy: &'b Policy<'b>,
    now: Now,
    suffixes: &'b mut Suffixes,
    alias: &'b mut QName,
    trail: &'b mut Trail,
    cookies: &'b mut CookieMemo,
    tail: &'b mut [u8; TAIL_MAX],
    dice: Dice,
    abroad: Abroad<'e>,
}

impl<'w> Bench<'_, '_, 'w> {
    /// The second pass.
    #[inline(never)]
    fn answer_all(
        &mut self,
        scout: &mut Scout<'_, 'w>,
        glances: &[Glance; BURST_MAX],
        queries: &mut [Query; BURST_MAX],
        ways: &mut [Way<'w>; BURST_MAX],
        packets: &mut [Packet<'_>],
        tally: &mut Tally,
    ) {
        let mut desk = Desk::new(self.key, self.policy);
        for (((packet, glance), query), way) in
            packets.iter_mut().zip(glances).zip(queries).zip(ways)
        {
            if let Way::Plain(lead) = way
                && let Some((rcode, len)) = desk.answer(lead, glance, packet.buf)
            {
                (packet.len, packet.verdict) = (len, Verdict::Reply);
                tally.count(rcode, glance.rtype == Rtype::AAAA);
            } else {
                self.answer_closely(scout, query, way, packet, tally);
            }
        }
    }

    /// The second pass over a packet that takes the long way, or could not go on the short one.
    #[inline(never)]
    fn answer_closely(
        &mut self,
        scout: &mut Scout<'_, 'w>,
        query: &mut Query,
        way: &mut Way<'w>,
        packet: &mut Packet<'_>,
        tally: &mut Tally,
    ) {
        if let Way::Plain(_) = way {
            *way = scout.look_closely(query, packet);
        }
        packet.verdict = match way {
            Way::Fault(Fault::Short) => Verdict::Drop(Drop::Short),
            Way::Fault(Fault::Response) => Verdict::Drop(Drop::Response),
            Way::Shut(reason) => Verdict::Drop(*reason),
            _ => match self.answer(query, way, packet, tally) {
                Some(made) => {
                    *way = made;
                    Verdict::Reply
                }
                None => {
                    *way = Way::Later;
                    Verdict::Later
                }
            },
        };
    }

    /// Puts cookies behind short replies.
    #[inline(never)]
    fn seal_all(
        &mut self,
        glances: &[Glance; BURST_MAX],
        ways: &mut [Way<'w>; BURST_MAX],
        packets: &mut [Packet<'_>],
    ) {
        let Some(secret) = self.policy.cookie_secrets.first() else { return };
        for ((packet, glance), way) in packets.iter_mut().zip(glances).zip(ways) {
            if !matches!(way, Way::Plain(_)) || glance.cookie().is_empty() {
                continue;
            }
            let known = glance
                .whole_cookie()
                .filter(|cookie| self.cookies.knows(secret, self.now, packet.client.ip(), cookie));
            match known {
                Some(own) => {
                    packet.len = put_cookie(packet.buf, packet.len, own);
                    *way = Way::Proven;
                }
                None => self.seal_anew(glance, way, packet),
            }
        }
    }

    /// The same of one reply, where the cookie is new, or not known to be ours.
    #[inline(never)]
    fn seal_anew(&mut self, glance: &Glance, way: &mut Way<'w>, packet: &mut Packet<'_>) {
        let (secrets, client) = (self.policy.cookie_secrets, packet.client.ip());
        let seal = self.cookies.seal(secrets, self.now, client, glance.cookie());
        if seal.proven {
            *way = Way::Proven;
        } else if let Way::Plain(lead) = way {
            *way = Way::Made(lead.made(glance, packet.len));
        }
        packet.len = put_cookie(packet.buf, packet.len, &seal.data);
    }

    /// The second pass over a packet; what is to be charged for. Nothing: it is answered later.
    #[inline(always)]
    fn answer(
        &mut self,
        query: &Query,
        way: &Way<'w>,
        packet: &mut Packet<'_>,
        tally: &mut Tally,
    ) -> Option<Way<'w>> {
        let options = guard::options(self.policy, self.now, query, packet, self.cookies);
        if !self.policy.forwards.is_empty() {
            self.abroad.may_ask = self.policy.recursion.lists(packet.client.ip());
            // What could not be given back as it came is answered with what there is.
            self.abroad.settles = !self.keep_tail(query, packet);
        }
        loop {
            match self.make(query, way, packet, &options, tally) {
                Ok(made) => return Some(made),
                Err(missing) if self.ask(&missing, query, packet) => return None,
                Err(_) => self.abroad.settles = true,
            }
        }
    }

    /// Keeps what stands behind the question, which a reply that is begun overwrites; false where
    /// that is too much.
    #[inline(never)]
    fn keep_tail(&mut self, query: &Query, packet: &Packet<'_>) -> bool {
        let tail = &packet.message()[query.question_end.min(packet.len)..];
        let kept = self.tail.get_mut(..tail.len());
        kept.map(|kept| kept.copy_from_slice(tail)).is_some()
    }

    /// Has somebody asked about what is missing, for a packet that is as it came again.
    #[inline(never)]
    fn ask(&mut self, missing: &Missing, query: &Query, packet: &mut Packet<'_>) -> bool {
        let tail = &mut packet.buf[query.question_end..packet.len];
        tail.copy_from_slice(&self.tail[..tail.len()]);
        let name = if missing.first { &query.name } else { &*self.alias };
        let key = elsewhere::key(self.key, name, query);
        self.abroad.elsewhere.ask(&key, missing.group, packet)
    }

    /// Makes the reply, unless somebody has to be asked first; what is to be charged for.
    #[inline(always)]
    fn make(
        &mut self,
        query: &Query,
        way: &Way<'w>,
        packet: &mut Packet<'_>,
        options: &Options,
        tally: &mut Tally,
    ) -> Result<Way<'w>, Missing> {
        let room = Room::new(self.policy, query, packet.transport, packet.buf.len(), options);
        let buf = &mut packet.buf[..room.limit];
        let mut reply =
            Reply::new(buf, room, query, packet.transport, self.suffixes, &mut self.dice);
        let start = match way {
            Way::Zone(spot) => Some(Start::Ours(spot)),
            Way::Forward(group) => Some(Start::Theirs(*group)),
            _ => None,
        };
        match start {
            Some(start) => {
                let trip = Trip { alias: self.alias, trail: self.trail };
                solve::solve(self.world, self.key, start, trip, &mut self.abroad, &mut reply)?;
            }
            None => refuse(way, self.policy, &mut reply),
        }
        // A message that could not be read has no type.
        let index = if matches!(way, Way::Fault(_)) { TYPE_OTHER } else { type_index(query.rtype) };
        tally.count(reply.rcode, index);
        tally.truncated += u32::from(reply.is_truncated());
        let made = match options.proven || matches!(way, Way::Slip) {
            true => Way::Proven,
            false => Way::Made(Made {
                kind: reply.kind(self.key, start),
                rcode: reply.rcode,
                type_index: index as u8,
                question_end: query.question_end as u16,
                records_end: reply.out.len() as u16,
            }),
        };
        packet.len = finish::finish(self.policy, options, reply);
        Ok(made)
    }
}

/// Answers what needs no zone.
#[inline(never)]
fn refuse(way: &Way<'_>, policy: &Policy<'_>, reply: &mut Reply<'_>) {
    match way {
        Way::Chaos => chaos::answer(policy, reply),
        Way::Meta => refuse_meta(reply),
        Way::Fault(Fault::Opcode) => reply.fail(Rcode::NotImp, None),
        Way::Fault(Fault::Version) => reply.fail(Rcode::BadVers, None),
        Way::Fault(Fault::CookieOnly) => {}
        Way::Fault(_) => reply.fail(Rcode::FormErr, None),
        Way::Denied => reply.fail(Rcode::Refused, Some(finish::Ede::PROHIBITED)),
        // It may ask again in a moment, and no code says so (RFC 8914 §4).
        Way::Limited => reply.fail(Rcode::Refused, None),
        Way::Slip => reply.truncate(),
        _ => reply.fail(Rcode::Refused, Some(finish::Ede::NOT_AUTHORITATIVE)),
    }
}

/// Questions for what is no record: transfers are not offered, mailbox queries were never
/// (RFC 1035 §3.2.3). What nobody has given a meaning yet may ask for anything (RFC 6895 §3.1), so
/// that neither NODATA nor a format error would be true (RFC 8906 §3.1.2). The rest belongs into
/// other sections than the question, or into none (NXNAME, RFC 9824).
fn refuse_meta(reply: &mut Reply<'_>) {
    match reply.query.rtype {
        Rtype::AXFR | Rtype::IXFR => reply.fail(Rcode::Refused, Some(finish::Ede::NOT_SUPPORTED)),
        Rtype::MAILA | Rtype::MAILB | Rtype(129..=248) => reply.fail(Rcode::NotImp, None),
        _ => reply.fail(Rcode::FormErr, None),
    }
}

/// A small generator (xorshift64*, Vigna 2014) for what only has to be fair.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// A number below `sides`, each with the same chance.
    #[inline]
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (number as usize * sides) >> 32
    }
}
