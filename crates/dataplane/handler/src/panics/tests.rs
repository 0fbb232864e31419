//! A panic is injected at each step: what it costs, and that the thread continues.
use super::*;
use crate::{
    AccessList, DebtTable, FIRST_TYPE, Forwarding, OnPanic, OwnQuery, PROBE_ANSWERS, RateLimit,
    Settings, TOKEN_LEN,
};
use answer::TtlLimits;
use compile::{Image, Loader};
use image::{ForwardRule, HashKey, RewriteRule};
use limit::{Networks, Prefix, Rate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use sync::Publisher;
use tap::QueryTap;
use upstream::{ResolverPlan, ServerMarks, UpstreamServers};
use wire::NameBuf;
use worker::{App, StreamLimits, Streams, listen};

const NO_ERROR: u8 = 0;
const SERV_FAIL: u8 = 2;
const REFUSED: u8 = 5;
const PATIENCE: Duration = Duration::from_secs(20);
const CLIENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9)), 5353);

/// A handler that serves `example.`, answers `old.` as `example.`, and forwards `net.` to the test.
struct Scene {
    app: Answerer<Image>,
    upstream: UdpSocket,
    reports: Arc<Mutex<Vec<String>>>,
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn zones() -> Image {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| {
        (n as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })));
    let mut image = Image::new(Arc::clone(&key));
    let origin = name("example.");
    let mut loader = Loader::new(key, origin.as_name(), None);
    let text = "@ 60 SOA ns root 1 1 1 1 60\n@ 60 NS ns\n* 60 A 192.0.2.1\nns 60 A 192.0.2.2\n";
    zonefile::read_stream(&mut text.as_bytes(), origin.as_name(), &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    })
    .expect("a zone");
    image.put_zone(Arc::new(loader.finish().expect("a sound zone")));
    image
}

fn all() -> AccessList {
    AccessList::of(&[Prefix::new("0.0.0.0".parse().expect("an address"), 0).expect("a prefix")])
}

fn settings(replies: Option<RateLimit>) -> Settings {
    Settings {
        udp_size_max: 1232,
        cookie_secrets: Vec::new(),
        nsid: String::new(),
        version: String::new(),
        id: String::new(),
        keepalive: 300,
        query: all(),
        recursion: all(),
        notify_from: AccessList::default(),
        handled_opcodes: 0,
        signed_opcodes: 0,
        keys: Vec::new(),
        silent: false,
        exempt: AccessList::default(),
        clients: None,
        limited: replies.is_some(),
        replies,
        networks: crate::NetworkList::default(),
        proxies: AccessList::default(),
        rewrites: vec![RewriteRule { from: name("old."), to: name("example."), exact: false }],
        own_query: Some(OwnQuery::new([7; TOKEN_LEN])),
        forwarding: None,
    }
}

fn plan(upstream: SocketAddr) -> ResolverPlan {
    ResolverPlan {
        serial: 0,
        groups: vec![UpstreamServers {
            first: 0,
            is_retired: false,
            suffix: name("net."),
            addresses: vec![upstream.into()],
            mixes_case: false,
            fixed_ports: None,
            ttl_max: None,
            caches: true,
        }],
        cache_len: 1 << 20,
        lifetimes: TtlLimits { ttl_min: 0, ttl_max: 3600, negative_ttl_max: 3600 },
        stale_max: 3600,
        failure_ttl: 5,
        trust: None,
        marks: ServerMarks::new(0),
    }
}

impl Scene {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(replies: Option<RateLimit>) -> Self {
        wire::enable_injected_panics();
        let upstream = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        upstream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let rules = vec![ForwardRule { suffix: name("net."), group: 0 }];
        let forwarding = Forwarding::new(rules, plan(upstream.local_addr().expect("an address")));
        let settings = Settings { forwarding: Some(forwarding), ..settings(replies) };
        // The readers keep what they read alive.
        let (mut zones, mut settings) = (Publisher::new(zones()), Publisher::new(settings));
        let (zones, settings) = (zones.reader(), settings.reader());
        let (zones, settings) = (zones.expect("a reader"), settings.expect("a reader"));
        let (tap, _) = QueryTap::new(Arc::default(), 1);
        let app = Answerer::new(zones, settings, tap, 1);
        let mut scene = Self { app: app.expect("a handler"), upstream, reports: Arc::default() };
        let reports = Arc::clone(&scene.reports);
        scene.app.report_panics(OnPanic::new(move |QueryPanic { panic, query }| {
            let query = query.as_deref().unwrap_or("none");
            reports.lock().expect("no panic").push(format!("{query}: {panic}"));
        }));
        scene
    }

    /// The result of each query: its response code, or the verdict without one.
    fn burst(&mut self, queries: &[Vec<u8>], transport: Transport) -> Vec<Result<u8, Verdict>> {
        let mut bufs: Vec<_> = queries.iter().map(|query| roomy(query)).collect();
        let packet = |(buf, query): (_, &Vec<u8>)| Packet::new(buf, query.len(), CLIENT, transport);
        let bufs = bufs.iter_mut().map(Vec::as_mut_slice);
        let mut packets: Vec<_> = bufs.zip(queries).map(packet).collect();
        self.app.burst(&mut packets, now());
        let result = |(packet, query): (&Packet<'_>, &Vec<u8>)| match packet.verdict {
            Verdict::Reply => Ok(rcode(packet.message(), query)),
            verdict => Err(verdict),
        };
        packets.iter().zip(queries).map(result).collect()
    }

    /// Answers the upstream's query for a name, and no earlier one.
    fn serve(&self, owner: &str) {
        let owner = name(owner);
        loop {
            let mut message = [0; 512];
            let (_, from) = self.upstream.recv_from(&mut message).expect("a query");
            if !message[HEADER_LEN..].starts_with(owner.as_name().as_bytes()) {
                continue;
            }
            let end = HEADER_LEN + owner.as_name().len() + 4;
            message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            let answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1];
            message[end..end + answer.len()].copy_from_slice(&answer);
            self.upstream.send_to(&message[..end + answer.len()], from).expect("sent");
            return;
        }
    }

    /// The response codes of so many deferred queries, by name.
    fn deferred(&mut self, count: usize) -> BTreeMap<String, u8> {
        let mut codes = BTreeMap::new();
        let end = now() + PATIENCE;
        while codes.len() < count {
            assert!(now() < end, "not all are answered: {codes:?}");
            if let Some(fd) = self.app.as_fd() {
                let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&second));
            }
            self.app.poll_deferred(now(), &mut |packet, _| {
                let message = packet.message();
                let name = Name::parse(&message[HEADER_LEN..]).expect("its question");
                assert_eq!(codes.insert(name.to_string(), message[3] & 0xf), None, "once");
            });
        }
        codes
    }

    /// Has a forwarded name cached.
    fn learn(&mut self, owner: &str) {
        let deferred = self.burst(&[plain(owner)], Transport::Datagram);
        assert_eq!(deferred, [Err(Verdict::Deferred)]);
        self.serve(owner);
        assert_eq!(self.deferred(1), BTreeMap::from([(owner.to_owned(), NO_ERROR)]));
    }

    fn panics(&self) -> u64 {
        self.app.counters().read()[PANICS]
    }

    fn last_report(&self) -> String {
        self.reports.lock().expect("no panic").last().cloned().expect("a report")
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn roomy(query: &[u8]) -> Vec<u8> {
    [query, &[0xee; 4096][..]].concat()
}

/// The response code of a reply that has the query's ID and question.
fn rcode(reply: &[u8], query: &[u8]) -> u8 {
    let end = HEADER_LEN + Name::parse(&query[HEADER_LEN..]).expect("a name").len() + 4;
    assert_eq!((&reply[..2], reply[2] & 0x80), (&query[..2], 0x80), "its ID, and a reply");
    assert_eq!(reply[HEADER_LEN..end], query[HEADER_LEN..end], "its question");
    reply[3] & 0xf
}

/// A query for an address that takes the short paths.
fn plain(owner: &str) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(name(owner).as_name().as_bytes());
    query.extend([0, 1, 0, 1]);
    query
}

/// The query of the server to itself, with this token.
fn own(token: [u8; TOKEN_LEN]) -> Vec<u8> {
    [b"\x12\x34", OwnQuery::new(token).message()].concat()
}

#[test]
fn own_query_is_answered_among_others_and_counted_apart() {
    let mut scene = Scene::new();
    let ours = own([7; TOKEN_LEN]);
    let others = own([8; TOKEN_LEN]);
    let burst = [ours.clone(), plain("www.example."), others, ours.clone(), ours];
    for transport in [Transport::Datagram, Transport::Stream] {
        let codes = scene.burst(&burst, transport);
        // The server has no identity for others.
        assert_eq!(codes, [Ok(NO_ERROR), Ok(NO_ERROR), Ok(REFUSED), Ok(NO_ERROR), Ok(NO_ERROR)]);
    }
    let counters = scene.app.counters().read();
    assert_eq!(counters[PROBE_ANSWERS], 6);
    assert_eq!(counters[..FIRST_TYPE].iter().sum::<u64>(), 4, "responses by code");
}

/// A query with DO, which takes the full path.
fn full(owner: &str) -> Vec<u8> {
    let mut query = plain(owner);
    query[11] = 1;
    query.extend([0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
    query
}

#[test]
fn panic_in_a_burst_costs_the_query_that_met_it() {
    let steps: [(&str, &str); 5] = [
        ("parse", "panic-parse.example."),
        ("classify", "panic-classify.example."),
        ("solve", "Panic-SOLVE.example."),
        ("rename", "panic-rename.old."),
        ("revert", "panic-revert.old."),
    ];
    let mut scene = Scene::new();
    for (nth, (step, bad)) in (0..).zip(steps.into_iter().flat_map(|step| [step; 6])) {
        let bad = bad.to_owned();
        let transport = [Transport::Datagram, Transport::Stream][nth % 2];
        let mut queries = vec![full("www.example."), plain("ns.example."), full("new.old.")];
        let mut expected = vec![Ok(NO_ERROR); 3];
        queries.insert(nth / 2 % 4, full(&bad));
        expected.insert(nth / 2 % 4, Ok(SERV_FAIL));
        assert_eq!(scene.burst(&queries, transport), expected, "{step} {nth}");
        assert_eq!(scene.panics(), nth as u64 + 1);
        let report = scene.last_report();
        assert!(report.contains(&format!("injected at {step}")), "{report}");
        assert!(report.starts_with(&format!("{bad} A over ")), "{report}");
        queries.retain(|query| *query != full(&bad));
        assert_eq!(scene.burst(&queries, transport), [Ok(NO_ERROR); 3], "the thread goes on");
    }
    let counted = scene.app.counters().read();
    let replies = counted[..crate::FIRST_TYPE].iter().sum::<u64>();
    // A reply that is composed, and lost while its names are translated, is counted too.
    assert_eq!(replies, 30 * (4 + 3) + 6, "each is counted once");
}

#[test]
fn panic_of_the_cache_path_costs_no_other_query() {
    let mut scene = Scene::new();
    ["a.net.", "b.net."].iter().for_each(|owner| scene.learn(owner));
    let queries = ["a.net.", "b.net.", "panic-cache.net.", "a.net."].map(plain);
    let results = scene.burst(&queries, Transport::Datagram);
    // By itself it takes the full path, which does not panic.
    assert_eq!(results, [Ok(NO_ERROR), Ok(NO_ERROR), Err(Verdict::Deferred), Ok(NO_ERROR)]);
    assert_eq!(scene.panics(), 1);
    assert!(scene.last_report().starts_with("none: "), "{}", scene.last_report());
    scene.serve("panic-cache.net.");
    assert_eq!(scene.deferred(1)["panic-cache.net."], NO_ERROR);
}

#[test]
fn panic_in_the_relay_of_a_response_restarts_the_client() {
    let mut scene = Scene::new();
    scene.learn("known.net.");
    let fd = scene.app.as_fd().expect("it forwards").as_raw_fd();
    let queries = ["panic-relay.net.", "other.net."].map(plain);
    let deferred = [Err(Verdict::Deferred); 2];
    assert_eq!(scene.burst(&queries, Transport::Datagram), deferred);
    scene.serve("panic-relay.net.");
    let codes = scene.deferred(2);
    assert_eq!(codes.values().copied().collect::<Vec<_>>(), [SERV_FAIL; 2], "{codes:?}");
    assert!(scene.last_report().contains("none: injected at relay"));
    assert!(scene.panics() == 1 && !scene.app.has_deferred());
    assert_eq!(scene.app.as_fd().expect("it forwards").as_raw_fd(), fd, "it is watched");
    // The cache is new.
    scene.learn("known.net.");
    scene.learn("next.net.");
}

#[test]
fn panic_of_a_deferred_query_costs_that_query() {
    let mut scene = Scene::new();
    let queries = ["panic-solve.net.", "fine.net."].map(plain);
    let deferred = [Err(Verdict::Deferred); 2];
    assert_eq!(scene.burst(&queries, Transport::Datagram), deferred);
    scene.serve("panic-solve.net.");
    scene.serve("fine.net.");
    let codes = scene.deferred(2);
    assert_eq!(codes["panic-solve.net."], SERV_FAIL);
    assert_eq!(codes["fine.net."], NO_ERROR);
    assert_eq!(scene.panics(), 1);
    // The client was not in the middle of anything, so the cache stays.
    assert_eq!(scene.burst(&[plain("fine.net.")], Transport::Datagram), [Ok(NO_ERROR)]);
}

#[test]
fn panic_in_a_lookup_restarts_the_client_and_answers_the_burst() {
    let mut scene = Scene::new();
    scene.learn("known.net.");
    let waits = scene.burst(&[plain("waits.net.")], Transport::Datagram);
    assert_eq!(waits, [Err(Verdict::Deferred)]);
    let queries = [full("www.example."), full("panic-find.net."), full("ns.example.")];
    let expected = [Ok(NO_ERROR), Ok(SERV_FAIL), Ok(NO_ERROR)];
    assert_eq!(scene.burst(&queries, Transport::Datagram), expected);
    assert!(scene.app.has_deferred());
    assert_eq!(scene.deferred(1)["waits.net."], SERV_FAIL);
    assert_eq!(scene.panics(), 1);
    scene.learn("known.net.");
}

#[test]
fn unsettled_reply_is_truncated_where_replies_have_a_rate() {
    let table = Arc::new(DebtTable::new(1 << 16, [1, 2, 3, 4]));
    let rate = Rate::new(1_000, 1, 2).expect("a rate");
    let limit = RateLimit { table, rate, networks: Networks::SITES };
    let mut scene = Scene::with(Some(limit));
    let queries = [full("www.example."), full("panic-solve.example.")];
    let mut bufs: Vec<_> = queries.iter().map(|query| roomy(query)).collect();
    let packet =
        |(buf, query): (_, &Vec<u8>)| Packet::new(buf, query.len(), CLIENT, Transport::Datagram);
    let bufs = bufs.iter_mut().map(Vec::as_mut_slice);
    let mut packets: Vec<_> = bufs.zip(&queries).map(packet).collect();
    scene.app.burst(&mut packets, now());
    let reply = packets[0].message();
    assert_eq!((reply.len(), reply[2] & 2), (queries[0].len() - 11, 2));
    assert_eq!(rcode(packets[1].message(), &queries[1]), SERV_FAIL);
}

#[test]
fn response_that_panics_is_not_answered() {
    let mut scene = Scene::new();
    let mut response = full("panic-parse.example.");
    response[2] |= 0x80;
    let results = scene.burst(&[response, vec![0; 5]], Transport::Datagram);
    assert_eq!(results[0], Err(Verdict::Drop(DropReason::Panicked)));
    assert_eq!(results[1], Err(Verdict::Drop(DropReason::Short)));
}

#[test]
fn stream_goes_on_after_a_panic() {
    let Scene { app, reports, .. } = Scene::new();
    let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let on_failure = Arc::new(|failure| panic!("{failure}"));
    let limits = StreamLimits::default();
    let streams =
        Streams::start(vec![listener], vec![app], limits, Arc::new(|_| false), on_failure);
    let streams = streams.expect("a thread");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    for round in 0..3 {
        let queries = ["a.example.", "panic-solve.example.", "b.example."].map(full);
        let framed = queries
            .iter()
            .flat_map(|query| [&(query.len() as u16).to_be_bytes()[..], query].concat());
        stream.write_all(&framed.collect::<Vec<_>>()).expect("it reads");
        let codes = queries.map(|query| {
            let mut len = [0; 2];
            stream.read_exact(&mut len).expect("a reply");
            let mut reply = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut reply).expect("a reply");
            rcode(&reply, &query)
        });
        assert_eq!(codes, [NO_ERROR, SERV_FAIL, NO_ERROR], "{round}");
    }
    streams.stop();
    let reports = reports.lock().expect("no panic");
    let place = "panic-solve.example. A over TCP: crates/core/wire/src/inject.rs:";
    assert!(reports.len() == 3 && reports[2].starts_with(place), "{reports:?}");
}
