//! A question becomes an answer inside its own buffer.
//!
//! The order of work, each step a file:
//!
//! 1. `wire::Query` **parses**,
//! 2. [`guard`] looks at cookies,
//! 3. `image::World` **routes**: which zone, or nobody's,
//! 4. [`find`] and [`solve`] decide what the answer is (RFC 1034 §4.3.2), [`deny`] proves what is
//!    not there, [`extra`] adds what helps,
//! 5. [`reply`] **composes** record sets in place,
//! 6. [`finish`] adds OPT and sets flags and counts.
//!
//! A burst is taken in two passes: the first parses, routes, hashes and prefetches, the second
//! answers, so that the memory of one question is on its way while another is read. Most questions
//! take a shorter way through both: see [`plain`].
#![no_std]
#![forbid(unsafe_code)]

mod chaos;
mod deny;
mod extra;
mod find;
mod finish;
mod guard;
pub mod limits;
mod plain;
mod reply;
mod solve;
mod trail;

pub use guard::CookieSecret;

use finish::Room;
use image::{HashKey, World};
use limits::UDP_SIZE_DEFAULT;
use packet::{BURST_MAX, Drop, Packet, Verdict, prefetch};
use plain::{Desk, Lead};
use reply::Reply;
use solve::{Site, Spot, Trip};
use trail::Trail;
use wire::{Class, Fault, Glance, QName, Query, Rcode, Rtype, Suffixes};

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
}

impl Default for Policy<'_> {
    fn default() -> Self {
        let udp_size_max = UDP_SIZE_DEFAULT;
        Self { udp_size_max, cookie_secrets: &[], nsid: &[], version: &[], id: &[] }
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

/// What became of the packets of some bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Replies by [`Rcode::index`].
    pub rcodes: [u32; Rcode::ALL.len()],
    /// Replies with TC set.
    pub truncated: u32,
}

/// Memory of one worker, used again for each burst.
#[derive(Debug)]
pub struct Scratch {
    glances: [Glance; BURST_MAX],
    queries: [Query; BURST_MAX],
    suffixes: Suffixes,
    alias: QName,
    trail: Trail,
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
    Fault(Fault),
    Nobody,
    Chaos,
    /// A type that no record has.
    Meta,
}

/// Answers a burst of at most [`BURST_MAX`] packets in place, and sets each verdict.
pub fn batch(
    world: &dyn World,
    policy: &Policy<'_>,
    now: Now,
    scratch: &mut Scratch,
    packets: &mut [Packet<'_>],
    tally: &mut Tally,
) {
    let Scratch { glances, queries, suffixes, alias, trail } = scratch;
    let key = world.key();
    let mut scout = Scout { world, key, memo: None };
    let mut ways = [Way::Nobody; BURST_MAX];
    scout.look_all(glances, queries, packets, &mut ways);
    let mut desk = Desk::new(key, policy);
    let mut bench =
        Bench { world, key, policy, now, suffixes, alias, trail, dice: Dice(now.seed | 1) };
    for (((packet, glance), query), way) in
        packets.iter_mut().zip(&*glances).zip(queries).zip(&mut ways)
    {
        if let Way::Plain(lead) = way {
            if let Some((rcode, len)) = desk.answer(lead, glance, packet.buf) {
                (packet.len, packet.verdict) = (len, Verdict::Reply);
                tally.rcodes[rcode.index()] += 1;
                continue;
            }
            *way = scout.look_closely(query, packet);
        }
        packet.verdict = match way {
            Way::Fault(Fault::Short) => Verdict::Drop(Drop::Short),
            Way::Fault(Fault::Response) => Verdict::Drop(Drop::Response),
            _ => {
                bench.answer(query, way, packet, tally);
                Verdict::Reply
            }
        };
    }
}

/// What the first pass works with.
struct Scout<'w> {
    world: &'w dyn World,
    key: &'w HashKey,
    /// The zone of the question before, where no other zone lies below it: names of a burst are
    /// often of one zone, and need not be routed again.
    memo: Option<Site<'w>>,
}

impl<'w> Scout<'w> {
    /// The first pass.
    #[inline(never)]
    fn look_all(
        &mut self,
        glances: &mut [Glance; BURST_MAX],
        queries: &mut [Query; BURST_MAX],
        packets: &[Packet<'_>],
        ways: &mut [Way<'w>; BURST_MAX],
    ) {
        for (((packet, glance), query), way) in packets.iter().zip(glances).zip(queries).zip(ways) {
            match self.glance(glance, packet) {
                Some(plain) => *way = plain,
                None => *way = self.look(glance, query, packet),
            }
        }
    }

    /// Takes a packet the short way, if the zone of the one before has it.
    #[inline(always)]
    fn glance(&self, glance: &mut Glance, packet: &Packet<'_>) -> Option<Way<'w>> {
        let lead = Lead::new(self.key, &self.memo, glance, packet)?;
        prefetch(lead.leaf);
        Some(Way::Plain(lead))
    }

    /// Takes a packet the long way, or the short one to a zone that was not known before.
    #[inline(never)]
    fn look(&mut self, glance: &mut Glance, query: &mut Query, packet: &Packet<'_>) -> Way<'w> {
        match self.find_site(query, packet) {
            Ok(site) => {
                let lead = Lead::new(self.key, &Some(site).filter(|_| query.plain), glance, packet);
                lead.map_or_else(|| self.spot(&site, query), Way::Plain)
            }
            Err(way) => way,
        }
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
                let routed = solve::route(self.world, &query.name, query.rtype);
                let routed = routed.ok_or(Way::Nobody)?;
                let site = Site::new(routed.zone);
                self.memo = (!routed.has_below).then_some(site);
                Ok(site)
            }
        }
    }
}

/// What the second pass works with.
struct Bench<'b, 'w> {
    world: &'w dyn World,
    key: &'w HashKey,
    policy: &'b Policy<'b>,
    now: Now,
    suffixes: &'b mut Suffixes,
    alias: &'b mut QName,
    trail: &'b mut Trail,
    dice: Dice,
}

impl<'w> Bench<'_, 'w> {
    /// The second pass over a packet.
    #[inline(always)]
    fn answer(&mut self, query: &Query, way: &Way<'w>, packet: &mut Packet<'_>, tally: &mut Tally) {
        let options = guard::options(self.policy, self.now, query, &packet.client);
        let room = Room::new(self.policy, query, packet.transport, packet.buf.len(), &options);
        let buf = &mut packet.buf[..room.limit];
        let mut reply =
            Reply::new(buf, room, query, packet.transport, self.suffixes, &mut self.dice);
        match way {
            Way::Zone(spot) => {
                let trip = Trip { alias: self.alias, trail: self.trail };
                solve::solve(self.world, self.key, spot, trip, &mut reply);
            }
            _ => refuse(way, self.policy, &mut reply),
        }
        tally.rcodes[reply.rcode.index()] += 1;
        tally.truncated += u32::from(reply.is_truncated());
        packet.len = finish::finish(self.policy, &options, reply);
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
        Way::Nobody | Way::Plain(_) | Way::Zone(_) => {
            reply.fail(Rcode::Refused, Some(finish::Ede::NOT_AUTHORITATIVE));
        }
    }
}

/// Questions for what is no record: transfers are not offered, mailbox queries were never
/// (RFC 1035 §3.2.3), and the rest belongs into other sections than the question.
fn refuse_meta(reply: &mut Reply<'_>) {
    match reply.query.rtype {
        Rtype::AXFR | Rtype::IXFR => reply.fail(Rcode::Refused, Some(finish::Ede::NOT_SUPPORTED)),
        Rtype::MAILA | Rtype::MAILB => reply.fail(Rcode::NotImp, None),
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
