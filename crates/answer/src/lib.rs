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
//! A burst is taken in two passes: the first ([`scout`]) parses, routes, hashes and prefetches, the
//! second ([`bench`](mod@bench)) answers, so that the memory of one question is on its way while
//! another is read. Most questions take a shorter way through both: [`plain`] those about a zone's
//! names, [`known`] those about names that others told of. What is not always wanted, be it a
//! limit, a cookie or a rate for replies, has a pass of its own before or behind those, so that
//! they stay as short as they are without it.
#![no_std]
#![forbid(unsafe_code)]

mod bench;
mod chaos;
mod deny;
mod elsewhere;
mod extra;
mod find;
mod finish;
mod gate;
mod guard;
mod host;
mod kept;
mod known;
mod ledger;
pub mod limits;
mod plain;
mod relay;
mod rename;
mod reply;
mod scout;
mod solve;
mod tally;
mod trail;

pub use elsewhere::{Elsewhere, Lookup, Nowhere, is_old};
pub use gate::{Limiter, Limits};
pub use guard::CookieSecret;
pub use kept::{Summary, leads_to, summary, tells_of};
pub use relay::{FAILURE_LEN_MAX, Lifetimes, Relayed, failure, is_failure, relay};
pub use tally::{TYPE_NAMES, Tally};

use bench::Bench;
use gate::{Keeper, Open};
use guard::CookieMemo;
use host::Host;
use image::{Forwards, Rewrites, World};
use known::{Hint, Shelf};
use ledger::{Ledger, Made};
use limit::Acl;
use limits::{TAIL_MAX, UDP_SIZE_DEFAULT};
use packet::{BURST_MAX, Drop, Packet};
use plain::Lead;
use scout::Scout;
use solve::{Abroad, Spot};
use trail::Trail;
use wire::{Fault, Flags, Glance, QName, Query, Suffixes};

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
    /// Which names are looked up as other ones.
    pub rewrites: Rewrites<'p>,
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
            rewrites: Rewrites::default(),
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
    /// The short way of names that others told of, and was answered there.
    Known(Hint),
    /// It was meant to take that way, but could not.
    Unknown,
    Zone(Spot<'w>),
    /// To a hosts file.
    Hosts(Host<'w>),
    /// To this group of servers.
    Forward(u16),
    /// It is looked up as another name, by this rule.
    Renamed(u16),
    /// That name would be too long.
    Overlong,
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
    let Policy { rewrites, recursion, .. } = policy;
    let (memo, awaits_cookie, met_cookie) = (None, false, false);
    let (expects_theirs, met_known) = (false, false);
    let mut scout = Scout {
        world,
        key,
        forwards,
        rewrites,
        recursion,
        memo,
        awaits_cookie,
        met_cookie,
        expects_theirs,
        met_known,
    };
    let mut ways = [Way::Nobody; BURST_MAX];
    match limits.and_then(|limits| Keeper::new(limits, policy, now, packets)) {
        None => scout.look_all(&Open, glances, queries, packets, &mut ways),
        Some(keeper) => scout.look_all(&keeper, glances, queries, packets, &mut ways),
    }
    let map = world.map();
    if scout.met_known {
        Shelf::new(map, policy).answer_all(elsewhere, glances, &mut ways, packets, tally);
    }
    let dice = Dice(now.seed | 1);
    let (may_ask, settles) = (false, false);
    let abroad = Abroad { elsewhere, forwards, may_ask, settles, map };
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
