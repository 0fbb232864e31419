//! Instructions per query of `answer::batch`, counted by valgrind: a warm burst of 64 questions
//! with OPT against a zone of a million names, which is what a worker on a busy core sees.
//!
//! What each limit makes of a hit in a zone of 20,000 names, from clients all over the address
//! space: an access list of 1,000 prefixes, a rate for clients, a rate for replies, and a cookie of
//! a client that comes again. Each may cost a quarter of the hit without it.
//!
//! The same with a table of networks of 1,000 prefixes, for clients of both families in none of
//! them.
//!
//! And what another server said of a name, that is known from its last answer.
//!
//! And sets of eight addresses: all of them, one of them by weight or by the client's address, and
//! those that are nearest to the client, which are all eight here.
//!
//! A limit that is passed fails the run: `cargo bench -p answer`.
#![allow(missing_docs, reason = "the macros make undocumented items")]

#[path = "instructions/cached.rs"]
mod cached;
#[path = "instructions/prefixes.rs"]
mod prefixes;
#[path = "instructions/sets.rs"]
mod sets;

use answer::{
    AnswerCounts, CookieSecret, Limiter, Limits, Now, Policy, Scratch, TtlLimits, batch, relay,
};
use cache::{CacheKey, Insertion, QueryKind};
use cached::{ForwardedAnswer, Memory};
use compile::{Image, Loader};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint, EventKind};
use image::{ForwardRule, Forwards, HashKey, Location};
use limit::{Acl, DebtSet, Networks, Rate, RateTable, TableKey};
use packet::{BURST_MAX, LocationNumber, Packet, Transport};
use prefixes::{Places, Rules, client_v6};
use sets::{Sets, VIEW, load_sets, load_view, location};
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype, Suffixes};

/// Services of the anchor zone.
const NAMES: u32 = 1_000_000;
/// Services of the zone that limits are measured in: enough to fill leaves, and loaded soon.
const NAMES_FEW: u32 = 20_000;
/// Most instructions of a burst of hits, and of names that do not exist.
const HIT_MAX: u64 = 400 * BURST_MAX as u64;
const NXDOMAIN_MAX: u64 = 600 * BURST_MAX as u64;
/// Most instructions of a burst of hits in that zone, and of one with a limit in use.
const FEW_MAX: u64 = 388 * BURST_MAX as u64;
const USED_MAX: u64 = FEW_MAX + FEW_MAX / 4;
/// Most with a table of networks, for clients of IPv4 and of IPv6.
const NETWORKS_V4_MAX: u64 = FEW_MAX + 60 * BURST_MAX as u64;
const NETWORKS_V6_MAX: u64 = FEW_MAX + 120 * BURST_MAX as u64;
/// Most where every client was never seen before, as in a flood of sources that are made up.
const NEW_MAX: u64 = 729 * BURST_MAX as u64;
/// Most where each cookie has to be made again to see whether it is ours.
const UNKNOWN_MAX: u64 = 936 * BURST_MAX as u64;
/// Most where questions with a cookie that is remembered and questions without one take turns.
const TURNS_MAX: u64 = 528 * BURST_MAX as u64;
/// Most of a burst of names that are known from others.
const KNOWN_MAX: u64 = 713 * BURST_MAX as u64;
/// Room of each packet.
const ROOM: usize = 1232;

struct Responder {
    image: Image,
    scratch: Box<Scratch>,
    questions: Vec<Vec<u8>>,
    packets: Vec<Vec<u8>>,
    answer_counts: AnswerCounts,
    use_limits: Use,
    rules: Rules,
    places: Places,
    sets: Vec<DebtSet>,
    forwards: [ForwardRule; 1],
    known: ForwardedAnswer,
    locations: [Location; 1],
}

/// The enabled feature.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Nothing,
    Access,
    Clients,
    Replies,
    Cookies,
    Others,
    Networks,
    NetworksOfV6,
    View,
}

/// As random as a key must be.
const KEY: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
const SECRETS: &[CookieSecret] = &[CookieSecret([7; 16])];

impl Responder {
    fn policy(&self) -> Policy<'_> {
        let table = RateTable::new(&self.sets, TableKey::new(KEY));
        let rate = Rate::new(1_000_000, 1_000_000, 2).expect("a rate");
        let limiter = |networks| Some(Limiter { table, rate, networks });
        let mut policy = Policy { locations: &self.locations, ..Policy::default() };
        match self.use_limits {
            Use::Nothing | Use::View => {}
            Use::Access => {
                let access = Acl::from_bounds(&self.rules.v4, &self.rules.v6, true);
                policy.limits = Some(Limits { access, ..Limits::default() });
            }
            Use::Clients => {
                let clients = limiter(Networks::HOSTS);
                policy.limits = Some(Limits { clients, ..Limits::default() });
            }
            Use::Replies => {
                let replies = limiter(Networks::SITES);
                policy.limits = Some(Limits { replies, ..Limits::default() });
            }
            Use::Cookies => policy.cookie_secrets = SECRETS,
            Use::Networks | Use::NetworksOfV6 => {
                let networks = Some(self.places.networks());
                policy.limits = Some(Limits { networks, ..Limits::default() });
            }
            Use::Others => policy.forwards = Forwards::new(&self.forwards),
        }
        policy
    }
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn service(n: u32) -> String {
    format!("svc-{n}.ns-{}.svc.cluster.local.", n % 100)
}

fn load(names: u32) -> Image {
    let mut image = Image::new(Arc::new(HashKey::new(std::array::from_fn(|word| {
        (word as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }))));
    let origin = name("cluster.local.");
    let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
    let mut soa = Vec::new();
    soa.extend(name("ns.dns.cluster.local.").as_name().as_bytes());
    soa.extend(name("hostmaster.cluster.local.").as_name().as_bytes());
    soa.extend([1u32, 7200, 1800, 86400, 30].iter().flat_map(|n| n.to_be_bytes()));
    let mut add = |owner: &str, rtype, data: &[u8]| {
        loader.add(name(owner).as_name(), rtype, 30, data, 0).expect("in the zone");
    };
    add("cluster.local.", Rtype::SOA, &soa);
    add("cluster.local.", Rtype::NS, name("ns.dns.cluster.local.").as_name().as_bytes());
    for n in 0..names {
        add(&service(n), Rtype::A, &(0x0a00_0000 | n).to_be_bytes());
    }
    image.put_zone(Arc::new(loader.finish().expect("a zone")));
    image
}

/// A query for A with RD and OPT, as resolvers send it.
fn question(text: &str, id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    bytes.extend(name(text).as_name().as_bytes());
    bytes.extend([0, 1, 0, 1]);
    bytes.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// Clients, all over the address space.
fn client(n: u32) -> u32 {
    (n + 1).wrapping_mul(0x9e37_79b1)
}

fn warm(use_limits: Use, names: u32, name: impl Fn(u32) -> String) -> Responder {
    warm_in(load(names), use_limits, names, name)
}

fn warm_in(image: Image, use_limits: Use, names: u32, name: impl Fn(u32) -> String) -> Responder {
    let mut responder = Responder {
        image,
        scratch: Box::default(),
        questions: (0..BURST_MAX as u32)
            .map(|n| question(&name(n * (names / BURST_MAX as u32 - 1)), n as u16))
            .collect(),
        packets: vec![vec![0; ROOM]; BURST_MAX],
        answer_counts: AnswerCounts::default(),
        use_limits,
        rules: Rules::new(),
        places: Places::new(),
        sets: (0..limit::limits::SETS_DEFAULT).map(|_| DebtSet::new()).collect(),
        forwards: [ForwardRule { suffix: NameBuf::root(), group: 0 }],
        known: ForwardedAnswer::default(),
        locations: [location("eu/mad1")],
    };
    if use_limits == Use::Cookies {
        responder = give_cookies(responder);
    }
    responder = burst(responder, warming);
    responder.answer_counts = AnswerCounts::default();
    responder
}

/// Asks with a client's cookie, and asks again with what came back.
fn give_cookies(mut responder: Responder) -> Responder {
    for (n, question) in responder.questions.iter_mut().enumerate() {
        let len = question.len();
        question[len - 1] = 12;
        question.extend([0, 10, 0, 8]);
        question.extend((n as u64).to_be_bytes());
    }
    responder = burst(responder, warming);
    for (question, reply) in responder.questions.iter_mut().zip(&responder.packets) {
        let at = reply.windows(4).rposition(|option| option == [0, 10, 0, 24]).expect("a cookie");
        let len = question.len();
        question[len - 13] = 28;
        question[len - 9] = 24;
        question.truncate(len - 8);
        question.extend(&reply[at + 4..at + 28]);
    }
    responder
}

type Answer = fn(
    &Image,
    &Policy<'_>,
    &mut ForwardedAnswer,
    &mut Scratch,
    &mut [Packet<'_>],
    &mut AnswerCounts,
);

fn burst(mut responder: Responder, answer: Answer) -> Responder {
    let mut scratch = std::mem::take(&mut responder.scratch);
    let mut buffers = std::mem::take(&mut responder.packets);
    let mut answer_counts = responder.answer_counts;
    let mut packets: Vec<Packet<'_>> = Vec::with_capacity(BURST_MAX);
    for (at, (buf, question)) in buffers.iter_mut().zip(&responder.questions).enumerate() {
        buf.fill(0);
        buf[..question.len()].copy_from_slice(question);
        let peer = match responder.use_limits {
            Use::NetworksOfV6 => (client_v6(at as u32), 5353).into(),
            _ => SocketAddr::from((Ipv4Addr::from_bits(client(at as u32)), 5353)),
        };
        let mut packet = Packet::new(buf, question.len(), peer, Transport::Datagram);
        packet.context.location = LocationNumber(1);
        if responder.use_limits == Use::View {
            packet.context.view = VIEW;
        }
        packets.push(packet);
    }
    let mut known = std::mem::take(&mut responder.known);
    answer(
        &responder.image,
        &responder.policy(),
        &mut known,
        &mut scratch,
        &mut packets,
        &mut answer_counts,
    );
    drop(packets);
    Responder { scratch, packets: buffers, answer_counts, known, ..responder }
}

/// The same as [`measured`], but not counted.
#[inline(never)]
fn warming(
    image: &Image,
    policy: &Policy<'_>,
    known: &mut ForwardedAnswer,
    scratch: &mut Scratch,
    packets: &mut [Packet<'_>],
    answer_counts: &mut AnswerCounts,
) {
    let now = Now { unix_seconds: 1_800_000_000, monotonic_micros: 0, seed: 6 };
    batch(image, policy, now, known, scratch, black_box(packets), answer_counts);
}

#[inline(never)]
fn measured(
    image: &Image,
    policy: &Policy<'_>,
    known: &mut ForwardedAnswer,
    scratch: &mut Scratch,
    packets: &mut [Packet<'_>],
    answer_counts: &mut AnswerCounts,
) {
    let now = Now { unix_seconds: 1_800_000_000, monotonic_micros: 0, seed: 7 };
    batch(image, policy, now, known, scratch, black_box(packets), answer_counts);
}

fn hits() -> Responder {
    warm(Use::Nothing, NAMES, service)
}

fn missing() -> Responder {
    warm(Use::Nothing, NAMES, |n| format!("svc-{n}x.ns-{}.svc.cluster.local.", n % 100))
}

fn several(sets: Sets) -> Responder {
    warm_in(load_sets(NAMES_FEW, sets), Use::Nothing, NAMES_FEW, service)
}

fn in_view() -> Responder {
    warm_in(load_view(NAMES_FEW), Use::View, NAMES_FEW, service)
}

fn few(use_limits: Use) -> Responder {
    warm(use_limits, NAMES_FEW, service)
}

/// No client has a debt yet.
fn few_from_newcomers(use_limits: Use) -> Responder {
    let responder = few(use_limits);
    let sets = responder.sets.iter().map(|_| DebtSet::new()).collect();
    Responder { scratch: Box::default(), sets, ..responder }
}

/// Every second question has no cookie.
fn taking_turns() -> Responder {
    let mut responder = few(Use::Cookies);
    for question in responder.questions.iter_mut().step_by(2) {
        let end = question.len() - 28;
        question.truncate(end);
        question[end - 1] = 0;
    }
    responder = burst(responder, warming);
    responder.answer_counts = AnswerCounts::default();
    responder
}

/// Forwarded names whose addresses are all cached.
fn known() -> Responder {
    let other = |n: u32| format!("svc-{n}.ns-{}.example.net.", n % 100);
    let mut responder = warm(Use::Others, NAMES_FEW, other);
    let mut memory = Memory::new();
    for n in 0..NAMES_FEW {
        let name = name(&other(n));
        let bytes = name.as_name().as_bytes();
        let hash = responder.image.key().hash_of(&bytes[..bytes.len() - 1]);
        let key = CacheKey { hash, kind: QueryKind::new(Rtype::A.0, 1, false, false), name: bytes };
        let mut reply = question(&other(n), 0);
        (reply[2], reply[7], reply[11]) = (0x81, 1, 0);
        reply.truncate(reply.len() - 11);
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 10, 0, 0, 1]);
        let lifetimes = TtlLimits { ttl_min: 0, ttl_max: 3600, negative_ttl_max: 3600 };
        let (mut saved, mut suffixes) = ([0; 512], Suffixes::new());
        let taken = relay(&key, Name::ROOT, &reply, &lifetimes, &mut suffixes, &mut saved);
        let taken = taken.expect("a message");
        let value = &saved[taken.value_at..taken.len];
        assert_eq!(memory.lend().put(&key, 0, taken.ttl, value), Insertion::Done);
    }
    responder.known = ForwardedAnswer(Some(memory));
    responder = burst(responder, warming);
    responder.answer_counts = AnswerCounts::default();
    responder
}

fn all_hit(responder: Responder) -> Responder {
    let responder = burst(responder, measured);
    assert_eq!(responder.answer_counts.rcodes[0], BURST_MAX as u32, "every name is there");
    responder
}

/// Only what happens within `measured` counts.
fn config(limit: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind
        .entry_point(EntryPoint::Custom("*::measured".to_owned()))
        .hard_limits([(EventKind::Ir, limit)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark(config = config(HIT_MAX))]
#[bench::a_with_opt(setup = hits)]
fn hit(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(NXDOMAIN_MAX))]
#[bench::a_with_opt(setup = missing)]
fn nxdomain(responder: Responder) -> Responder {
    let responder = burst(responder, measured);
    assert_eq!(responder.answer_counts.rcodes[3], BURST_MAX as u32, "no name is there");
    responder
}

#[library_benchmark(config = config(FEW_MAX))]
#[bench::nothing(args = (Use::Nothing), setup = few)]
fn unlimited(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(USED_MAX))]
#[bench::access_list(args = (Use::Access), setup = few)]
#[bench::client_rate(args = (Use::Clients), setup = few)]
#[bench::reply_rate(args = (Use::Replies), setup = few)]
#[bench::known_cookie(args = (Use::Cookies), setup = few)]
fn used(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(NETWORKS_V4_MAX))]
#[bench::v4(args = (Use::Networks), setup = few)]
fn networks_v4(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(NETWORKS_V6_MAX))]
#[bench::v6(args = (Use::NetworksOfV6), setup = few)]
fn networks_v6(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(UNKNOWN_MAX))]
#[bench::unknown(args = (Use::Cookies), setup = few_from_newcomers)]
fn new_cookie(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(NEW_MAX))]
#[bench::client_rate(args = (Use::Clients), setup = few_from_newcomers)]
#[bench::reply_rate(args = (Use::Replies), setup = few_from_newcomers)]
fn newcomers(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(TURNS_MAX))]
#[bench::one_by_one(setup = taking_turns)]
fn turns(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(KNOWN_MAX))]
#[bench::a_with_opt(setup = known)]
fn resolver(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark]
#[bench::two(args = (Sets::Two), config = config(sets::TWO_MAX), setup = several)]
#[bench::eight(args = (Sets::All), config = config(sets::ALL_MAX), setup = several)]
fn rotated(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark]
#[bench::weighted(
    args = (Sets::OneByWeight), config = config(sets::WEIGHTED_MAX), setup = several
)]
#[bench::hash(args = (Sets::OneByHash), config = config(sets::HASH_MAX), setup = several)]
#[bench::hash_and_weight(
    args = (Sets::OneByHashAndWeight), config = config(sets::HASH_AND_WEIGHT_MAX), setup = several
)]
fn one_of_eight(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(sets::NEAREST_MAX))]
#[bench::eight(args = (Sets::Nearest), setup = several)]
fn nearest(responder: Responder) -> Responder {
    all_hit(responder)
}

#[library_benchmark(config = config(sets::VIEW_MAX))]
#[bench::address(setup = in_view)]
fn view(responder: Responder) -> Responder {
    all_hit(responder)
}

library_benchmark_group!(
    name = instructions,
    benchmarks = [
        hit,
        nxdomain,
        unlimited,
        used,
        networks_v4,
        networks_v6,
        turns,
        new_cookie,
        newcomers,
        resolver,
        rotated,
        one_of_eight,
        nearest,
        view,
    ]
);
main!(library_benchmark_groups = instructions);
