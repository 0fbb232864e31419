//! What must hold for the answer to a query that an upstream answers with any bytes.
//!
//! Input: how the query comes ([`Way`]), marks, how much the response is stretched (two bytes), the
//! length of the query, the query, the response.
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::LazyLock;

use answer::{
    AnswerCounts, CacheLookup, Now, Policy, Resolver, Scratch, TtlLimits, batch, leads_to_name,
    mentions_name, relay, summary,
};
use cache::{CacheHit, CacheKey};
use image::{ForwardRule, Forwards, RewriteRule, Rewrites, ZoneTable};
use packet::{DropReason, Packet, Transport, Verdict};
use wire::{HEADER_LEN, Name, NameBuf, Query, Rtype, Suffixes};

use crate::asking::Way;
use crate::reply::{self, Frame};
use crate::world::WORLD;

const LIFETIMES: TtlLimits = TtlLimits { ttl_min: 0, ttl_max: 86_400, negative_ttl_max: 3_600 };
const MESSAGE_MAX: usize = 65_535;
/// Marks: the answer is stale; the servers are those of a suffix; the name map is the cache's.
const STALE: u8 = 1;
const SUFFIX: u8 = 2;
const CONFIRMED: u8 = 4;

/// Names that become shorter, that become longer, and names of a zone.
static REWRITES: LazyLock<Vec<RewriteRule>> = LazyLock::new(|| {
    let long = format!("{0}.{0}.{0}.long.", "l".repeat(63));
    let rules = [
        (&long[..], "t.", false),
        ("short.", &long[..], false),
        ("z.", "example.", false),
        ("one.test.", "signed.", true),
    ];
    let rule = |(from, to, exact)| RewriteRule { from: name(from), to: name(to), exact };
    let mut rules: Vec<_> = rules.into_iter().map(rule).collect();
    Rewrites::sort(&mut rules);
    rules
});

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// Asks the query, which an upstream answers with the response, and looks at the reply.
pub fn check(bytes: &[u8]) {
    let Some((&[way, marks, s0, s1, len], rest)) = bytes.split_first_chunk() else { return };
    let Some((query, response)) = rest.split_at_checked(len.into()) else { return };
    let way = Way::new(way);
    let response = stretch(response, u16::from_be_bytes([s0, s1]).into());
    let (verdict, reply) = ask(&way, marks, query, &response);
    match verdict {
        Verdict::Drop(DropReason::Short) => assert!(query.len() < HEADER_LEN),
        Verdict::Drop(DropReason::Response) => assert_ne!(query[2] & 0x80, 0),
        Verdict::Reply => sound(&way, query, &reply),
        other => panic!("{other:?}"),
    }
}

/// The response with its last two bytes as a length, and this many bytes behind it: a large record
/// of a small input.
fn stretch(response: &[u8], by: usize) -> Vec<u8> {
    let mut stretched = response.to_vec();
    if by > 0
        && let Some(length) = stretched.last_chunk_mut::<2>()
    {
        *length = (by as u16).to_be_bytes();
        stretched.resize(response.len() + by, 0);
    }
    stretched.truncate(MESSAGE_MAX);
    stretched
}

/// An upstream that answers every query with the same bytes.
struct Upstream<'r> {
    response: &'r [u8],
    marks: u8,
    saved: Vec<u8>,
}

impl Resolver for Upstream<'_> {
    fn prefetch(&self, _key: &CacheKey<'_>) {}

    fn find(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        let suffix = if self.marks & SUFFIX == 0 { name(".") } else { name("long.") };
        let (mut suffixes, saved) = (Suffixes::new(), &mut self.saved);
        saved.resize(2 * MESSAGE_MAX, 0xff);
        let suffix = suffix.as_name();
        let taken = relay(key, suffix, self.response, &LIFETIMES, &mut suffixes, saved).ok()?;
        let (message, name_len) = (&saved[..taken.len], key.name.len());
        assert!(summary(message, name_len).is_some());
        mentions_name(message, name_len, |_| false);
        leads_to_name(message, name_len, |_| false);
        let is_stale = self.marks & STALE != 0;
        let age = if is_stale { taken.ttl.saturating_add(1) } else { 0 };
        let ttl = if is_stale { taken.ttl } else { taken.ttl.max(1) };
        let map = if self.marks & CONFIRMED == 0 { 0 } else { WORLD.map() };
        Some(CacheHit { message, age, ttl, uses: 0, may_renew: false, map })
    }

    fn count(&mut self, _lookup: CacheLookup) {}

    fn request(&mut self, _key: &CacheKey<'_>, _group: u16, _packet: &Packet<'_>) -> bool {
        false
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {}

    fn confirm(&mut self, _key: &CacheKey<'_>, _map: u32) {}
}

/// The verdict and the reply. The query comes twice, so that the second one may be answered on the
/// cache's fast path.
fn ask(way: &Way, marks: u8, query: &[u8], response: &[u8]) -> (Verdict, Vec<u8>) {
    thread_local! {
        static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Box::new(Scratch::new()));
    }
    let rules = [ForwardRule { suffix: name("."), group: 0 }];
    let policy = Policy {
        udp_size_max: way.udp_size_max,
        forwards: Forwards::new(&rules),
        rewrites: Rewrites::new(&REWRITES),
        ..Policy::default()
    };
    let peer = SocketAddr::from(([127, 0, 0, 1], 5300));
    let mut bufs = [0, 0xff].map(|filler| [query, &vec![filler; way.room - query.len()]].concat());
    let packet = |buf| Packet::new(buf, query.len(), peer, way.transport);
    let mut packets: Vec<_> = bufs.iter_mut().map(Vec::as_mut_slice).map(packet).collect();
    let now = Now { unix_seconds: 1_600_000_000, monotonic_micros: 0, seed: 1 };
    let mut counts = AnswerCounts::default();
    let mut upstream = Upstream { response, marks, saved: Vec::new() };
    SCRATCH.with_borrow_mut(|scratch| {
        batch(&*WORLD, &policy, now, &mut upstream, scratch, &mut packets, &mut counts);
    });
    assert_eq!(packets[0].verdict, packets[1].verdict);
    let replies = packets.iter().filter(|packet| packet.verdict == Verdict::Reply).count();
    assert_eq!(counts.rcodes.iter().sum::<u32>(), replies as u32, "each is counted once");
    (packets[1].verdict, packets[1].message().to_vec())
}

/// A reply against its query.
fn sound(way: &Way, message: &[u8], bytes: &[u8]) {
    let mut query = Query::new();
    let is_query = query.parse(message, message.len()).is_ok();
    let (question_end, sections) = reply::frames(bytes);
    assert_eq!(bytes[..2], message[..2], "the same ID");
    assert_ne!(bytes[2] & 0x80, 0, "a response");
    if is_query {
        assert_eq!(bytes[HEADER_LEN..question_end], message[HEADER_LEN..query.question_end]);
    }
    if way.transport == Transport::Datagram {
        let client = query.edns.as_ref().map_or(512, |edns| edns.size.min(way.udp_size_max));
        assert!(bytes.len() <= usize::from(client.max(512)).max(message.len()));
    }
    let is_meta = |frame: &Frame| Rtype(frame.rtype).is_meta();
    let [answers, authorities, additional] = &sections;
    assert!(!answers.iter().chain(authorities).any(is_meta), "no answer is of a meta type");
    let opts = additional.iter().filter(|frame| is_meta(frame)).count();
    let signed = usize::from(query.tsig_at.is_some());
    assert!(opts <= usize::from(query.edns.is_some()) + signed, "OPT for OPT");
}
