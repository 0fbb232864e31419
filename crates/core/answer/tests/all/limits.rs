//! Who may ask, and how much: access lists, a rate for clients, a rate for replies, cookies that
//! prove an address, and how long a stream may be idle.
use crate::common::{RD, image, opt, query as with_opt};
use answer::{
    AnswerCounts, CookieSecret, Limiter, Limits, NoForwarding, Now, Policy, Scratch, batch,
};
use compile::Image;
use limit::{Acl, AclRule, DebtSet, Networks, Rate, RateTable, TableKey};
use packet::{DropReason, Packet, Transport, Verdict};
use std::net::{IpAddr, SocketAddr};

const PLAIN: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";
const RICH: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n\
                    *.wild A 192.0.2.3\nsub NS ns.sub\nns.sub A 192.0.2.4\n";
const SECRETS: &[CookieSecret] = &[CookieSecret([7; 16])];
const KEY: TableKey = TableKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);
const SECOND: u64 = 1_000_000;
const DATAGRAM: Transport = Transport::Datagram;
const STREAM: Transport = Transport::Stream;
const CLIENT: &str = "192.0.2.9";

fn zones() -> Image {
    let many: String = (0..100).map(|n| format!("many 60 A 198.51.100.{n}\n")).collect();
    image(&[("plain.test.", PLAIN), ("rich.test.", &format!("{RICH}{many}"))])
}

/// A server with its tables, and a clock.
struct Server {
    zones: Image,
    scratch: Box<Scratch>,
    answer_counts: AnswerCounts,
    micros: u64,
}

/// A question for A with OPT and these options.
fn query(text: &str, options: &[u8]) -> Vec<u8> {
    let mut opt = opt(1232, 0, 0, &[]);
    opt[10] = options.len() as u8;
    with_opt(RD, text, 1, &[&opt, options].concat())
}

fn cookie(bytes: &[u8]) -> Vec<u8> {
    [&[0, 10, 0, bytes.len() as u8], bytes].concat()
}

struct Sent {
    verdict: Verdict,
    bytes: Vec<u8>,
}

impl Sent {
    fn is_answer(&self) -> bool {
        self.verdict == Verdict::Reply && self.bytes[3] & 0xf == 0 && self.bytes[7] > 0
    }

    /// Nothing but the question and OPT, with TC set and no error.
    fn is_slip(&self, question: &[u8]) -> bool {
        let end = question.windows(3).position(|bytes| bytes == [0, 0, 41]).unwrap();
        self.verdict == Verdict::Reply
            && self.bytes[2] & 0x82 == 0x82
            && self.bytes[3] & 0xf == 0
            && self.bytes[4..12] == [0, 1, 0, 0, 0, 0, 0, 1]
            && self.bytes[12..end] == question[12..end]
            && self.bytes[end..].starts_with(&[0, 0, 41, 4, 208, 0, 0, 0, 0])
    }

    fn option(&self, code: u8) -> Option<&[u8]> {
        let at = self.bytes.windows(3).rposition(|bytes| bytes == [0, 0, 41]).unwrap();
        let mut rest = &self.bytes[at + 11..];
        while let [_, c, _, len, behind @ ..] = rest {
            let (data, behind) = behind.split_at(usize::from(*len));
            if *c == code {
                return Some(data);
            }
            rest = behind;
        }
        None
    }
}

impl Server {
    fn new() -> Self {
        let (scratch, answer_counts) = (Box::default(), AnswerCounts::default());
        Self { zones: zones(), scratch, answer_counts, micros: SECOND }
    }

    fn request(&mut self, policy: &Policy<'_>, client: &str, by: Transport, query: &[u8]) -> Sent {
        let mut buf = vec![0xee; 4096];
        buf[..query.len()].copy_from_slice(query);
        let client = SocketAddr::new(client.parse::<IpAddr>().unwrap(), 5353);
        // Whom it is answered for counts, not who brought it.
        let mut packet = Packet::new(&mut buf, query.len(), "10.9.9.9:53".parse().unwrap(), by);
        packet.context.client = client;
        let now = Now { unix_seconds: 1_000_000, monotonic_micros: self.micros, seed: 3 };
        let packets = &mut [packet];
        batch(
            &self.zones,
            policy,
            now,
            &mut NoForwarding,
            &mut self.scratch,
            packets,
            &mut self.answer_counts,
        );
        let sent = Sent { verdict: packets[0].verdict, bytes: packets[0].message().to_vec() };
        let replies: u32 = self.answer_counts.rcodes.iter().sum();
        assert_eq!(
            replies,
            self.answer_counts.types.iter().sum::<u32>(),
            "each reply is counted by its type"
        );
        sent
    }
}

fn sets() -> Vec<DebtSet> {
    (0..64).map(|_| DebtSet::new()).collect()
}

fn limiter(sets: &[DebtSet], rate: (u32, u32, u8), networks: Networks) -> Option<Limiter<'_>> {
    let rate = Rate::new(rate.0, rate.1, rate.2).unwrap();
    Some(Limiter { table: RateTable::new(sets, KEY), rate, networks })
}

fn with(limits: Limits<'_>) -> Policy<'_> {
    Policy { cookie_secrets: SECRETS, limits: Some(limits), ..Policy::default() }
}

#[test]
fn denied_client_gets_refused_or_no_answer() {
    let mut rules = [
        AclRule { prefix: "192.0.2.0/24".parse().unwrap(), listed: false },
        AclRule { prefix: "192.0.2.9".parse().unwrap(), listed: true },
    ];
    let (mut v4, mut v6) = ([0; 4], [0; 4]);
    let access = Acl::build(&mut rules, true, &mut v4, &mut v6).unwrap();
    let mut server = Server::new();
    for by in [DATAGRAM, STREAM] {
        for silent in [false, true] {
            let policy = with(Limits { access, silent, ..Limits::default() });
            let asked = query("www.plain.test.", &[]);
            assert!(server.request(&policy, CLIENT, by, &asked).is_answer());
            assert!(server.request(&policy, "198.51.100.1", by, &asked).is_answer());
            let denied = server.request(&policy, "192.0.2.10", by, &asked);
            if silent {
                assert_eq!(denied.verdict, Verdict::Drop(DropReason::Denied));
                continue;
            }
            assert_eq!((denied.verdict, denied.bytes[3] & 0xf), (Verdict::Reply, 5));
            assert_eq!(denied.option(15), Some(&[0, 18][..]), "EDE 18, Prohibited");
            let response =
                server.request(&policy, "192.0.2.10", by, &[0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(response.verdict, Verdict::Drop(DropReason::Response));
        }
    }
}

#[test]
fn client_above_its_rate_is_dropped_and_every_third_query_slips() {
    let memory = sets();
    let clients = limiter(&memory, (10, 20, 3), Networks::HOSTS);
    let policy = with(Limits { clients, ..Limits::default() });
    let mut server = Server::new();
    let asked = query("www.plain.test.", &[]);
    for n in 0..20 {
        assert!(server.request(&policy, CLIENT, DATAGRAM, &asked).is_answer(), "{n}");
    }
    for n in 1..=30 {
        let sent = server.request(&policy, CLIENT, DATAGRAM, &asked);
        match n % 3 {
            0 => assert!(sent.is_slip(&asked), "{n}"),
            _ => assert_eq!(sent.verdict, Verdict::Drop(DropReason::RateLimited), "{n}"),
        }
    }
    assert!(server.request(&policy, "192.0.2.10", DATAGRAM, &asked).is_answer(), "another client");
    // A client that got TC is answered over a stream, even if others spoof its address.
    for _ in 0..20 {
        assert!(server.request(&policy, CLIENT, STREAM, &asked).is_answer());
    }
    let refused = server.request(&policy, CLIENT, STREAM, &asked);
    assert_eq!((refused.bytes[3] & 0xf, refused.option(15)), (5, None), "it is not prohibited");
    server.micros += SECOND / 10;
    assert!(server.request(&policy, CLIENT, DATAGRAM, &asked).is_answer(), "time pays");
}

#[test]
fn client_with_a_cookie_has_an_account_of_its_own() {
    let memory = sets();
    let clients = limiter(&memory, (10, 5, 0), Networks::HOSTS);
    let policy = with(Limits { clients, ..Limits::default() });
    let mut server = Server::new();
    let first =
        server.request(&policy, CLIENT, DATAGRAM, &query("www.plain.test.", &cookie(b"12345678")));
    let own = first.option(10).unwrap().to_vec();
    let proven = query("www.plain.test.", &cookie(&own));
    let spoofed = query("www.plain.test.", &[]);
    while server.request(&policy, CLIENT, DATAGRAM, &spoofed).is_answer() {}
    let answered =
        (0..20).filter(|_| server.request(&policy, CLIENT, DATAGRAM, &proven).is_answer());
    assert_eq!(answered.count(), 5, "the burst of its own account, and no more");
    let mut forged = own.clone();
    forged[20] ^= 1;
    server.micros += SECOND / 20;
    let sent =
        server.request(&policy, CLIENT, DATAGRAM, &query("www.plain.test.", &cookie(&forged)));
    assert_eq!(sent.verdict, Verdict::Drop(DropReason::RateLimited));
}

/// Each kind of reply, over its limit: the third of each is too much, the fourth slips.
#[test]
fn equal_responses_are_limited_and_slip_as_truncated() {
    // Names of one kind, and whether its replies can be cut short.
    for (kind, names, content) in [
        ("a name", ["www.plain.test."; 4], true),
        ("a part of a set", ["many.rich.test."; 4], true),
        ("missing", ["a.plain.test.", "b.plain.test.", "c.plain.test.", "d.plain.test."], true),
        ("missing", ["a.rich.test.", "b.rich.test.", "c.rich.test.", "d.rich.test."], true),
        (
            "wildcard",
            ["a.wild.rich.test.", "b.wild.rich.test.", "c.wild.rich.test.", "d.wild.rich.test."],
            true,
        ),
        (
            "referral",
            ["a.sub.rich.test.", "b.sub.rich.test.", "c.sub.rich.test.", "d.sub.rich.test."],
            true,
        ),
        ("empty", ["wild.rich.test.", "rich.test.", "wild.rich.test.", "rich.test."], true),
        ("error", ["a.test.", "b.test.", "c.test.", "d.test."], false),
    ] {
        let memory = sets();
        let replies = limiter(&memory, (1, 2, 2), Networks::SITES);
        let policy = with(Limits { replies, ..Limits::default() });
        let mut server = Server::new();
        let asked = names.map(|name| query(name, &[]));
        // From anywhere in the network.
        for (at, query) in asked[..2].iter().enumerate() {
            let sent = server.request(&policy, &format!("192.0.2.{at}"), DATAGRAM, query);
            assert_eq!((sent.verdict, sent.is_slip(query)), (Verdict::Reply, false), "{kind} {at}");
        }
        let answer_counts = server.answer_counts;
        let over = server.request(&policy, "192.0.2.7", DATAGRAM, &asked[2]);
        assert_eq!(over.verdict, Verdict::Drop(DropReason::ResponseLimited), "{kind}");
        assert_eq!(server.answer_counts, answer_counts, "what is not sent is not counted");
        let slipped = server.request(&policy, "192.0.2.8", DATAGRAM, &asked[3]);
        assert_eq!(slipped.verdict, Verdict::Reply);
        assert_eq!(slipped.is_slip(&asked[3]), content, "{kind}: {:x?}", slipped.bytes);
        let truncated = answer_counts.truncated + u32::from(content);
        assert_eq!(server.answer_counts.truncated, truncated, "{kind}");
        // Another network, another kind, and streams are not concerned.
        let other = query("ns.plain.test.", &[]);
        assert!(server.request(&policy, "192.0.2.8", DATAGRAM, &other).is_answer(), "{kind}");
        for (client, by) in [("198.51.100.1", DATAGRAM), ("192.0.2.8", STREAM)] {
            let sent = server.request(&policy, client, by, &asked[3]);
            assert_eq!((sent.verdict, sent.is_slip(&asked[3])), (Verdict::Reply, false), "{kind}");
        }
    }
}

#[test]
fn valid_cookie_exempts_from_response_rate_limiting() {
    let memory = sets();
    let replies = limiter(&memory, (1, 1, 0), Networks::SITES);
    let policy = with(Limits { replies, ..Limits::default() });
    // The fast path, and the full path.
    for name in ["www.plain.test.", "www.rich.test."] {
        let mut server = Server::new();
        let first = server.request(&policy, CLIENT, DATAGRAM, &query(name, &cookie(b"12345678")));
        let own = first.option(10).unwrap().to_vec();
        for n in 0..10 {
            let sent = server.request(&policy, CLIENT, DATAGRAM, &query(name, &cookie(&own)));
            assert!(sent.is_answer(), "{name} {n}");
            assert_eq!(sent.option(10), Some(&own[..]));
        }
        let new = server.request(&policy, CLIENT, DATAGRAM, &query(name, &cookie(b"87654321")));
        assert_eq!(
            new.verdict,
            Verdict::Drop(DropReason::ResponseLimited),
            "a client's part is not a proof"
        );
    }
}

#[test]
fn exempt_client_is_never_limited() {
    let mut rules = [AclRule { prefix: "192.0.2.0/24".parse().unwrap(), listed: true }];
    let (mut v4, mut v6) = ([0; 2], [0; 2]);
    let exempt = Acl::build(&mut rules, false, &mut v4, &mut v6).unwrap();
    let (first, second) = (sets(), sets());
    let clients = limiter(&first, (1, 1, 0), Networks::HOSTS);
    let replies = limiter(&second, (1, 1, 0), Networks::SITES);
    let asked = query("www.plain.test.", &[]);
    for (clients, replies) in [(clients, None), (None, replies)] {
        let policy = with(Limits { exempt, clients, replies, ..Limits::default() });
        let mut server = Server::new();
        let mut answered = |client| {
            (0..9).filter(|_| server.request(&policy, client, DATAGRAM, &asked).is_answer()).count()
        };
        assert_eq!((answered(CLIENT), answered("198.51.100.1")), (9, 1));
    }
}

#[test]
fn keepalive_option_is_answered_over_streams() {
    let mut server = Server::new();
    for (keepalive, told) in
        [(None, None), (Some(300), Some(&[1, 44][..])), (Some(0), Some(&[0, 0][..]))]
    {
        let policy = Policy { keepalive, ..Policy::default() };
        for name in ["www.plain.test.", "www.rich.test.", "a.test."] {
            let asks = query(name, &[0, 11, 0, 0]);
            assert_eq!(server.request(&policy, CLIENT, STREAM, &asks).option(11), told);
            assert_eq!(server.request(&policy, CLIENT, DATAGRAM, &asks).option(11), None);
            let silent = query(name, &[]);
            assert_eq!(server.request(&policy, CLIENT, STREAM, &silent).option(11), None);
            let tells = query(name, &[0, 11, 0, 2, 0, 1]);
            let sent = server.request(&policy, CLIENT, STREAM, &tells);
            assert_eq!((sent.verdict, sent.option(11)), (Verdict::Reply, None));
        }
    }
}
