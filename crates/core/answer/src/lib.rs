//! Turns a query into its response inside the query's own buffer.
//!
//! The order of work, each step a file:
//!
//! 1. [`networks`] finds the network of each client, and [`admission`] applies access lists, query
//!    rates and denied names, if configured.
//! 2. [`classify`] is the first pass over a burst: parse (`wire`), find the owner of the name
//!    (`image::ZoneTable`), hash, prefetch.
//! 3. [`cache_path`] answers from the cache and [`fast_path`] from a zone, where the query is
//!    simple.
//! 4. [`respond`] is the second pass over all other queries. [`cookies`] decides their options.
//! 5. [`solve`] and [`find`] decide the answer (RFC 1034 §4.3.2), [`denial`] proves what does not
//!    exist, [`extra`] adds addresses, [`resolver`] reads the cache, which [`forwarded_response`]
//!    fills.
//! 6. [`reply`] composes record sets, of which [`choose`] selects the records. [`finish`] adds OPT,
//!    flags and counts.
//! 7. [`control`] decides which messages a handler outside the data plane gets, [`tsig`] completes
//!    replies to signed queries.
//! 8. [`rrl`] charges for the replies, if configured.
//! 9. [`panicked`] answers a query after one of these steps has panicked.
//!
//! Two passes let the memory of one query load while another query is processed. Optional work,
//! such as limits and cookies, has passes of its own, so that servers without it do not pay for it.
#![no_std]
#![forbid(unsafe_code)]

mod admission;
mod cache_path;
mod cached;
mod chaos;
pub mod choose;
mod classify;
mod cname_chain;
mod computed;
mod control;
mod cookies;
mod counters;
mod denial;
mod ede;
mod extra;
mod fast_path;
mod find;
mod finish;
mod forwarded_response;
mod hosts;
pub mod limits;
mod name_owner;
mod networks;
mod panicked;
mod rename;
mod reply;
mod reply_room;
mod resolver;
mod respond;
mod rrl;
mod solve;
mod subnet_reply;
mod tsig;

pub use admission::{Limiter, Limits};
pub use cached::{CachedSummary, leads_to_name, may_be_stale, mentions_name, summary};
pub use control::{ControlAnswer, answer_control};
pub use cookies::CookieSecret;
pub use counters::{AnswerCounts, NOTIFY_NAMES, TYPE_NAMES};
pub use forwarded_response::{
    FAILURE_LEN_MAX, ForwardedRecords, TtlLimits, failure, is_failure, relay,
};
pub use networks::{ClientNetworks, ClientPlaces, DeniedAnswer, NameRules, Network};
pub use panicked::{answer_panicked, cut_unsettled};
pub use resolver::{CacheLookup, NoForwarding, Resolver, is_old};
pub use tsig::KeyNames;

use admission::{ClientLimiter, OpenAdmission};
use cache_path::{CacheCandidate, CachePath};
use classify::Classifier;
use cname_chain::CnameChain;
use cookies::CookieMemo;
use fast_path::FastPath;
use hosts::HostEntry;
use image::{Forwards, Location, Rewrites, ZoneTable};
use limit::Acl;
use limits::{TAIL_MAX, UDP_SIZE_DEFAULT};
use packet::{BURST_MAX, DropReason, LocationNumber, Packet};
use respond::{EchoedQuestion, Responder};
use rrl::{Rrl, RrlReply};
use solve::{ForwardConfig, NodeLookup};
use wire::{FastParse, Flags, QName, Query, QueryFault, Suffixes};

/// What the operator configured.
#[derive(Clone, Debug)]
pub struct Policy<'p> {
    /// Largest UDP payload to send, in bytes, 512 to 4096.
    pub udp_size_max: u16,
    /// Secrets of server cookies: the first makes new cookies, all are accepted; empty: no cookies.
    pub cookie_secrets: &'p [CookieSecret],
    /// The NSID option (RFC 5001); empty: none.
    pub nsid: &'p [u8],
    /// The answer to `version.bind`; empty: REFUSED.
    pub version: &'p [u8],
    /// The answer to `id.server` (RFC 4892); empty: REFUSED.
    pub id: &'p [u8],
    /// Idle timeout of streams, in units of 100 ms, sent to clients that request it (RFC 7828). 0:
    /// the stream is about to close; `None`: not sent.
    pub keepalive: Option<u16>,
    /// Access lists and rates; `None`: all clients without limit.
    pub limits: Option<Limits<'p>>,
    /// Names that are forwarded.
    pub forwards: Forwards<'p>,
    /// Names that are rewritten to others.
    pub rewrites: Rewrites<'p>,
    /// Clients that may use forwarding.
    pub recursion: Acl<'p>,
    /// Clients whose NOTIFY is obeyed (RFC 1996).
    pub notify_from: Acl<'p>,
    /// Bit n: a handler outside the data plane decides messages of opcode n.
    pub handled_opcodes: u16,
    /// Bit n: of those, only messages that are signed with one of the keys.
    pub signed_opcodes: u16,
    /// The keys of signed messages, which a handler outside the data plane verifies.
    pub keys: KeyNames<'p>,
    /// Where clients are: `packet::LocationNumber` counts them from 1.
    pub locations: &'p [Location],
}

impl<'p> Policy<'p> {
    /// The location with this number.
    fn location(&self, number: LocationNumber) -> Location {
        let place = usize::from(number.0).checked_sub(1);
        place.and_then(|place| self.locations.get(place)).copied().unwrap_or_default()
    }

    /// The networks of clients, if any are configured.
    #[inline]
    fn networks(&self) -> Option<&ClientNetworks<'p>> {
        self.limits.as_ref()?.networks.as_ref()
    }

    /// RA, if the server forwards (RFC 1035 §4.1.1).
    #[inline(always)]
    fn ra_flag(&self) -> u16 {
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
            recursion: Acl::ALL,
            notify_from: Acl::NONE,
            handled_opcodes: 0,
            signed_opcodes: 0,
            keys: KeyNames::default(),
            locations: &[],
        }
    }
}

/// Time and randomness, which core crates cannot get themselves (invariant I2).
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Wall clock, seconds since 1970, as RFC 9018 §4.3 counts them.
    pub unix_seconds: u32,
    /// Monotonic clock, microseconds; the same clock for all workers of a server.
    pub monotonic_micros: u64,
    /// A random number, new for each burst.
    pub seed: u64,
}

/// Memory of one worker, reused for each burst.
#[derive(Debug)]
pub struct Scratch {
    fast_parses: [FastParse; BURST_MAX],
    queries: [Query; BURST_MAX],
    suffixes: Suffixes,
    alias: QName,
    chain: CnameChain,
    cookies: CookieMemo,
    tail: [u8; TAIL_MAX],
    asked: EchoedQuestion,
}

impl Scratch {
    /// Large: keep it in a `Box` or in the thread's own state.
    pub const fn new() -> Self {
        Self {
            fast_parses: [const { FastParse::new() }; BURST_MAX],
            queries: [const { Query::new() }; BURST_MAX],
            suffixes: Suffixes::new(),
            alias: QName::new(),
            chain: CnameChain::new(),
            cookies: CookieMemo::new(),
            tail: [0; TAIL_MAX],
            asked: EchoedQuestion::new(),
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of the first pass for a packet, and later what became of it.
#[derive(Clone, Copy)]
enum Disposition<'w> {
    /// A plain query for a name of a zone.
    Fast(FastPath<'w>),
    /// A plain query for a forwarded name, answered from the cache.
    Cached(CacheCandidate),
    /// The same, but the cache path could not answer it.
    NotCached,
    Zone(NodeLookup<'w>),
    /// A hosts file has the name.
    Hosts(HostEntry<'w>),
    /// A group of upstream servers has the name.
    Forward(u16),
    /// A rewrite rule with this number applies.
    Renamed(u16),
    /// The rewritten name is too long.
    NameTooLong,
    Fault(QueryFault),
    NotOurs,
    Chaos,
    /// A type that no record has.
    Meta,
    /// A NOTIFY that is obeyed.
    Control,
    /// Signed with a key of this server, or of an opcode with a handler: one outside the data plane
    /// decides.
    PassedOn,
    /// Not signed, and of an opcode that needs it.
    Unsigned,
    /// A NOTIFY of a client that may not send one.
    NotifyRefused,
    /// A NOTIFY about a zone that is not served.
    NotifyUnknown,
    /// The query is signed with a key that this server does not have.
    Signed,
    /// The client gets REFUSED: the access list does not contain it.
    Denied,
    /// The name is denied to clients of the network with this number.
    NameDenied(u16),
    /// The client gets REFUSED over a stream: it exceeds its rate.
    Limited,
    /// The client gets a truncated reply, so that it retries over a stream.
    Slip,
    /// The packet is dropped for this reason.
    Dropped(DropReason),
    /// Answered on the full path.
    Answered(RrlReply<'w>),
    /// Answered, and exempt from the reply rate: the client proved its address, or gets a truncated
    /// reply.
    Proven,
    /// Answered later, when an upstream server has replied.
    Deferred,
}

/// Answers a burst of at most [`BURST_MAX`] packets in place, and sets each verdict.
pub fn batch(
    zones: &dyn ZoneTable,
    policy: &Policy<'_>,
    now: Now,
    resolver: &mut dyn Resolver,
    scratch: &mut Scratch,
    packets: &mut [Packet<'_>],
    answer_counts: &mut AnswerCounts,
) {
    let Scratch { fast_parses, queries, suffixes, alias, chain, cookies, tail, asked } = scratch;
    let key = zones.key();
    let limits = policy.limits.as_ref();
    let forwards = policy.forwards;
    let mut classifier = Classifier::new(zones, policy);
    let mut dispositions = [Disposition::NotOurs; BURST_MAX];
    match limits.and_then(|limits| admit(limits, policy, now, queries, packets)) {
        None => classifier.classify_all(
            &OpenAdmission,
            fast_parses,
            queries,
            packets,
            &mut dispositions,
        ),
        Some(client_limiter) => classifier.classify_all(
            &client_limiter,
            fast_parses,
            queries,
            packets,
            &mut dispositions,
        ),
    }
    let map = zones.map();
    if classifier.met_cached {
        CachePath::new(map, policy).answer_all(
            resolver,
            fast_parses,
            &mut dispositions,
            packets,
            answer_counts,
        );
    }
    let random = SmallRng(now.seed | 1);
    let (may_forward, is_final) = (false, false);
    let forwarding = ForwardConfig { resolver, forwards, may_forward, is_final, map };
    let mut responder = Responder {
        zones,
        key,
        policy,
        now,
        suffixes,
        alias,
        chain,
        cookies,
        tail,
        asked,
        random,
        forwarding,
    };
    responder.answer_all(
        &mut classifier,
        fast_parses,
        queries,
        &mut dispositions,
        packets,
        answer_counts,
    );
    if classifier.met_cookie {
        responder.add_cookies(fast_parses, &mut dispositions, packets);
    }
    if let Some(Limits { replies: Some(limiter), exempt, .. }) = limits {
        Rrl { limiter, exempt, key, dispositions: &dispositions, fast_parses }.settle(
            now,
            packets,
            answer_counts,
        );
    }
}

/// Finds the networks of the clients of a burst and applies the limits; `None`: all may pass.
#[inline(always)]
fn admit<'k, 'p>(
    limits: &'k Limits<'p>,
    policy: &'k Policy<'p>,
    now: Now,
    queries: &mut [Query],
    packets: &mut [Packet<'_>],
) -> Option<ClientLimiter<'k, 'p>> {
    let denies = limits.networks.as_ref().is_some_and(|networks| networks.place(queries, packets));
    ClientLimiter::new(limits, policy, now, packets, denies)
}

/// A small generator (xorshift64*, Vigna 2014), for the choice and the order of records only.
#[derive(Clone, Debug)]
pub(crate) struct SmallRng(u64);

impl SmallRng {
    /// A uniform number.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A uniform number below `sides`.
    #[inline]
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        choose::below(self.next(), sides)
    }
}
