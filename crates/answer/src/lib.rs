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
//! answers, so that the memory of one question is on its way while another is read.
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

use core::array;
use finish::Room;
use image::{HashKey, World};
use limits::UDP_SIZE_DEFAULT;
use packet::{BURST_MAX, Drop, Packet, Verdict, prefetch};
use reply::Reply;
use solve::{Site, Spot, Trip};
use trail::Trail;
use wire::{Class, Fault, QName, Query, Rcode, Rtype, Suffixes};

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
    queries: [Query; BURST_MAX],
    suffixes: Suffixes,
    alias: QName,
    trail: Trail,
}

impl Scratch {
    /// Fresh memory. Large: keep it in a `Box` or a thread's own state.
    pub const fn new() -> Self {
        Self {
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
    Fault(Fault),
    Zone(Spot<'w>),
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
    let Scratch { queries, suffixes, alias, trail } = scratch;
    let key = world.key();
    let ways = look_all(world, key, queries, packets);
    let mut shortly = 0;
    let mut bench =
        Bench { world, key, policy, now, suffixes, alias, trail, dice: Dice(now.seed | 1) };
    for ((packet, query), way) in packets.iter_mut().zip(queries.iter()).zip(&ways) {
        if let Way::Zone(spot) = way
            && let Some(set) = spot.plain_set(query)
            && let Some(len) = plain::reply(policy, query, &set, packet.buf)
        {
            packet.len = len;
            packet.verdict = Verdict::Reply;
            shortly += 1;
            continue;
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
    tally.rcodes[Rcode::NoError.index()] += shortly;
}

/// The first pass.
#[inline(never)]
fn look_all<'w>(
    world: &'w dyn World,
    key: &HashKey,
    queries: &mut [Query; BURST_MAX],
    packets: &[Packet<'_>],
) -> [Way<'w>; BURST_MAX] {
    let mut memo = None;
    array::from_fn(|index| match packets.get(index) {
        Some(packet) => look(world, key, &mut memo, &mut queries[index], packet),
        None => Way::Nobody,
    })
}

/// The first pass over a packet. `memo` is the zone of the one before, where no other zone lies
/// below it: names of a burst are often of one zone, and need not be routed again.
#[inline(always)]
fn look<'w>(
    world: &'w dyn World,
    key: &HashKey,
    memo: &mut Option<Site<'w>>,
    query: &mut Query,
    packet: &Packet<'_>,
) -> Way<'w> {
    if let Err(fault) = query.parse(packet.buf, packet.len) {
        return Way::Fault(fault);
    }
    if query.class != Class::IN {
        return if query.class == Class::CH { Way::Chaos } else { Way::Nobody };
    }
    if query.rtype.is_meta() && query.rtype != Rtype::ANY {
        return Way::Meta;
    }
    let name = &query.name;
    let spot = match memo {
        Some(site) if query.rtype != Rtype::DS && site.holds(name) => Spot::new(key, site, name),
        _ => {
            let Some(routed) = solve::route(world, name, query.rtype) else { return Way::Nobody };
            let site = Site::new(routed.zone);
            *memo = (!routed.has_below).then_some(site);
            Spot::new(key, &site, name)
        }
    };
    prefetch(spot.leaf);
    Way::Zone(spot)
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
        let options = guard::options(self.policy, self.now, query, &packet.peer);
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
        Way::Nobody | Way::Zone(_) => {
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
