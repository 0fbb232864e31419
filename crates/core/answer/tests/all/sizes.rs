//! What an answer takes in the cache, all told: its bytes, those that tell where it lies, and
//! those that remember it when it is gone.

use crate::common::name;
use answer::{TtlLimits, relay};
use cache::{Bucket, Cache, CacheKey, CacheShape, CacheState, Insertion, QueryKind};
use wire::{Name, NameBuf, Suffixes};

const LIFETIMES: TtlLimits = TtlLimits { ttl_min: 0, ttl_max: 86_400, negative_ttl_max: 3_600 };
const MEMORY: usize = 1 << 20;
/// Bytes of a typical answer, at most.
const BYTES_MAX: usize = 300;
const CLUSTER: &str = "my-service.my-namespace.svc.cluster.local.";
const A: u16 = 1;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const AAAA: u16 = 28;

/// A reply, in the making.
struct ReplyWriter {
    bytes: Vec<u8>,
    rtype: u16,
    name: NameBuf,
}

impl ReplyWriter {
    fn to(text: &str, rtype: u16, rcode: u8) -> Self {
        let name = name(text);
        let mut bytes = vec![0, 0, 0x81, 0x80 | rcode, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(name.as_name().as_bytes());
        bytes.extend(rtype.to_be_bytes());
        bytes.extend([0, 1]);
        Self { bytes, rtype, name }
    }

    /// One more record, in the answer, or in the authority section if it is an SOA.
    fn put(mut self, owner: &str, rtype: u16, data: &[u8]) -> Self {
        self.bytes[if rtype == SOA { 9 } else { 7 }] += 1;
        self.bytes.extend(name(owner).as_name().as_bytes());
        self.bytes.extend(rtype.to_be_bytes());
        self.bytes.extend([0, 1, 0, 0, 0, 30]);
        self.bytes.extend((data.len() as u16).to_be_bytes());
        self.bytes.extend(data);
        self
    }

    fn alias(self, owner: &str, target: &str) -> Self {
        self.put(owner, CNAME, name(target).as_name().as_bytes())
    }

    fn soa(self, owner: &str, server: &str, person: &str) -> Self {
        let mut data =
            [server, person].map(|text| name(text).as_name().as_bytes().to_vec()).concat();
        data.extend([[0; 19].as_slice(), &[30]].concat());
        self.put(owner, SOA, &data)
    }
}

fn replies() -> Vec<(&'static str, ReplyWriter)> {
    let web = "www.example.com.";
    let lost = format!("{web}my-namespace.svc.cluster.local.");
    let cdn = "www.example.com.edge.content-network.net.";
    let edge = "e1234.dscb.content-network.net.";
    let mut chain = ReplyWriter::to(web, A, 0).alias(web, cdn).alias(cdn, edge);
    for last in 1..=4 {
        chain = chain.put(edge, A, &[192, 0, 2, last]);
    }
    let denial = |text: &str, rtype, rcode| {
        ReplyWriter::to(text, rtype, rcode).soa(
            "cluster.local.",
            "ns.dns.cluster.local.",
            "hostmaster.cluster.local.",
        )
    };
    vec![
        ("a service's A", ReplyWriter::to(CLUSTER, A, 0).put(CLUSTER, A, &[10, 96, 0, 10])),
        ("a service's AAAA, of which there is none", denial(CLUSTER, AAAA, 0)),
        ("a name of the search path that is not", denial(&lost, A, 3)),
        ("a host's A", ReplyWriter::to(web, A, 0).put(web, A, &[192, 0, 2, 1])),
        ("a host's AAAA", ReplyWriter::to(web, AAAA, 0).put(web, AAAA, &[7; 16])),
        ("two aliases and four A", chain),
    ]
}

/// Bytes of a cache that an answer takes.
fn size(reply: &ReplyWriter) -> usize {
    let shape = CacheShape::of(MEMORY);
    let mut state = CacheState::new(&shape);
    let mut lines = vec![Bucket::EMPTY; shape.lines];
    let (mut ghosts, mut bytes) = (vec![0; shape.ghosts], vec![0; shape.bytes]);
    let mut cache =
        Cache { state: &mut state, lines: &mut lines, ghosts: &mut ghosts, bytes: &mut bytes };
    let kind = QueryKind::new(reply.rtype, 1, false, false);
    let key = CacheKey { hash: 7, kind, name: reply.name.as_name().as_bytes() };
    let mut buf = vec![0; 4096];
    let taken =
        relay(&key, Name::ROOT, &reply.bytes, &LIFETIMES, &mut Suffixes::new(), &mut buf).unwrap();
    assert!(taken.ttl > 0, "it is kept");
    let put = cache.put(&key, 0, taken.ttl, &buf[taken.value_at..taken.len]);
    assert_eq!((put, state.entries()), (Insertion::Done, 1));
    // There are half as many entries as the index has room for, and a ghost for each.
    let beside = shape.lines * size_of::<Bucket>() + shape.ghosts * size_of::<u32>();
    state.used() + beside / shape.ghosts
}

#[test]
fn typical_answers_are_small() {
    let sizes: Vec<_> = replies().iter().map(|(what, reply)| (*what, size(reply))).collect();
    for (what, bytes) in &sizes {
        println!("| {what} | {bytes} |");
        assert!(*bytes <= BYTES_MAX, "{what}: {bytes}");
    }
    let mean = sizes.iter().map(|(_, bytes)| bytes).sum::<usize>() / sizes.len();
    println!("| on average | {mean} |");
}
