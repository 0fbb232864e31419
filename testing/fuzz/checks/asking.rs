//! Asking a world, and what must hold for every reply.
use std::cell::RefCell;
use std::net::SocketAddr;

use answer::{
    AnswerCounts, CookieSecret, Limiter, Limits, NoForwarding, Now, Policy, Scratch, batch,
};
use compile::Image;
use limit::{DebtSet, Networks, Rate, RateTable, TableKey};
use packet::{DropReason, Packet, Transport, Verdict};
use wire::{HEADER_LEN, Query};

use crate::reply::{self, Record, Reply};

const OPT: u16 = 41;
const RRSIG: u16 = 46;

/// How a question comes.
pub struct Way {
    pub transport: Transport,
    pub room: usize,
    pub udp_size_max: u16,
    options: bool,
    limits: bool,
}

impl Way {
    /// The bits of a byte say it.
    pub fn new(byte: u8) -> Self {
        let stream = byte & 1 != 0;
        Self {
            transport: if stream { Transport::Stream } else { Transport::Datagram },
            room: if stream && byte & 2 == 0 { 65_535 } else { 4096 },
            udp_size_max: [1232, 512, 4096, 1400][usize::from(byte >> 2 & 3)],
            options: byte & 16 == 0,
            limits: byte & 32 != 0,
        }
    }
}

/// Asks, and looks at what comes: a reply must be sound, and the same each time. Returns it.
pub fn check_question(world: &Image, way: &Way, message: &[u8]) -> Option<Vec<u8>> {
    if message.len() > way.room {
        return None;
    }
    let (verdict, reply) = ask(world, way, message, 0);
    // What stood in the buffer does not count, nor what was answered before.
    let again = ask(world, way, message, 0xff);
    assert_eq!((&verdict, &reply), (&again.0, &again.1));
    match verdict {
        Verdict::Drop(DropReason::Short) => assert!(message.len() < HEADER_LEN),
        Verdict::Drop(DropReason::Response) => assert_ne!(message[2] & 0x80, 0),
        Verdict::Drop(other) => panic!("dropped: {}", other.name()),
        Verdict::Deferred | Verdict::Control | Verdict::Stream => panic!("there is no upstream"),
        Verdict::Reply => {
            sound(way, message, &reply);
            return Some(reply);
        }
    }
    None
}

/// The verdict and the reply.
fn ask(world: &Image, way: &Way, message: &[u8], filler: u8) -> (Verdict, Vec<u8>) {
    thread_local! {
        static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Box::new(Scratch::new()));
    }
    let secrets = [CookieSecret([7; 16])];
    let mut policy = Policy { udp_size_max: way.udp_size_max, ..Policy::default() };
    if way.options {
        policy = Policy { cookie_secrets: &secrets, nsid: b"fuzz", ..policy };
        (policy.version, policy.id) = (b"1", b"2");
    }
    // High limits change nothing.
    let sets = [const { DebtSet::new() }; 2];
    if way.limits {
        let rate = Rate::new(1, 1, 1).expect("a rate");
        let table = RateTable::new(&sets, TableKey::new([3, 5, 7, 11]));
        let limiter = |networks| Some(Limiter { table, rate, networks });
        let (clients, replies) = (limiter(Networks::HOSTS), limiter(Networks::SITES));
        policy.limits = Some(Limits { clients, replies, ..Limits::default() });
        policy.keepalive = Some(300);
    }
    let mut buf = vec![filler; way.room];
    buf[..message.len()].copy_from_slice(message);
    let peer = SocketAddr::from(([127, 0, 0, 1], 5300));
    let mut packets = [Packet::new(&mut buf, message.len(), peer, way.transport)];
    let now = Now { unix_seconds: 1_600_000_000, monotonic_micros: 0, seed: 1 };
    let mut tally = AnswerCounts::default();
    SCRATCH.with_borrow_mut(|scratch| {
        batch(world, &policy, now, &mut NoForwarding, scratch, &mut packets, &mut tally);
    });
    let (verdict, len) = (packets[0].verdict, packets[0].len);
    let replies = tally.rcodes.iter().sum::<u32>();
    assert_eq!(replies, u32::from(verdict == Verdict::Reply), "each is counted once");
    (verdict, buf[..len].to_vec())
}

/// A reply against its question.
fn sound(way: &Way, message: &[u8], bytes: &[u8]) {
    let mut query = Query::new();
    let parsed = query.parse(message, message.len());
    let reply = reply::read(bytes);
    let Reply { flags, question_end, sections } = &reply;
    assert_eq!(bytes[..2], message[..2], "the same ID");
    assert_eq!(flags & 0x80c0, 0x8000, "a response, no recursion, a zero");
    assert_eq!(flags & 0x7900, u16::from(message[2] & 0x79) << 8, "opcode and RD are copied");
    if parsed.is_ok() {
        assert_eq!(*question_end, query.question_end);
    }
    assert_eq!(bytes[HEADER_LEN..*question_end], message[HEADER_LEN..*question_end]);
    if way.transport == Transport::Datagram {
        let client = query.edns.as_ref().map_or(512, |edns| edns.size.min(way.udp_size_max));
        assert!(bytes.len() <= usize::from(client.max(512)).max(message.len()));
    }
    let opts: usize = sections.iter().flatten().filter(|record| record.rtype == OPT).count();
    assert_eq!(opts, usize::from(query.edns.is_some()), "OPT for OPT");
    for section in sections {
        once_each(section);
    }
}

/// No record twice in a section, and one TTL for a set (RFC 2181 §5).
fn once_each(section: &[Record]) {
    let mut records: Vec<_> = section.iter().collect();
    records.sort_unstable();
    for pair in records.windows(2) {
        assert!(pair[0] != pair[1], "a record twice: {:?}", pair[0]);
        let same_set = |a: &Record, b: &Record| {
            (&a.owner, a.rtype, a.class) == (&b.owner, b.rtype, b.class) && a.rtype != RRSIG
        };
        assert!(!same_set(pair[0], pair[1]) || pair[0].ttl == pair[1].ttl, "two TTLs");
    }
}
