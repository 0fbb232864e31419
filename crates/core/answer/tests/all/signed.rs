//! TSIG records of queries (RFC 8945): keys that this server does not have, and misplaced records.

use crate::common::{Burst, RD, message, name, section, zones};
use answer::{AnswerCounts, CacheLookup, KeyNames, NoForwarding, Policy, Resolver};
use cache::{CacheHit, CacheKey};
use image::{ForwardRule, Forwards};
use packet::{Packet, Transport, Verdict};
use wire::{NameBuf, Rcode};

const OPT: &[u8] = &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
const ADDRESS: &[u8] = &[0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];

/// A TSIG record of `hmac-sha256`, with this MAC and error.
fn tsig(key: &str, mac: &[u8], error: u8) -> Vec<u8> {
    let mut record = name(key).as_name().as_bytes().to_vec();
    record.extend([0, 250, 0, 255, 0, 0, 0, 0]);
    record.extend((29 + mac.len() as u16).to_be_bytes());
    record.extend(b"\x0bhmac-sha256\0\0\0\x65\x01\x02\x03\x01\x2c");
    record.extend((mac.len() as u16).to_be_bytes());
    record.extend(mac);
    record.extend([0x12, 0x34, 0, error, 0, 0]);
    record
}

/// A query for an address, with these additional records.
fn query(owner: &str, records: &[&[u8]]) -> Vec<u8> {
    message(RD, [1, 0, 0, records.len() as u16], &section(owner, 1, 1), &records.concat())
}

fn send_with(
    policy: &Policy<'_>,
    resolver: &mut dyn Resolver,
    message: &[u8],
    transport: Transport,
) -> (Vec<u8>, AnswerCounts) {
    let zones = zones();
    let burst = Burst { transport, room: 65_535, ..Burst::new(&zones, policy) };
    let (mut sent, counts) = burst.send(resolver, &[message.to_vec()]);
    let (verdict, bytes) = sent.remove(0);
    assert_eq!(verdict, Verdict::Reply);
    (bytes, counts)
}

fn send(message: &[u8], transport: Transport) -> Vec<u8> {
    send_with(&Policy::default(), &mut NoForwarding, message, transport).0
}

/// Header and question of the reply to a query, with these additional records.
fn reply(query: &[u8], owner: &str, rcode: Rcode, records: &[&[u8]]) -> Vec<u8> {
    let question_end = 12 + name(owner).as_name().len() + 4;
    let mut bytes = query[..question_end].to_vec();
    bytes[2..4].copy_from_slice(&[0x81, rcode as u8]);
    bytes[6..12].copy_from_slice(&[0, 0, 0, 0, 0, records.len() as u8]);
    bytes.extend(records.concat());
    bytes
}

#[test]
fn unknown_key_is_not_authorized_and_named_in_an_unsigned_error() {
    let (signed, error) = (tsig("key.example.", &[7; 32], 0), tsig("key.example.", &[], 17));
    for owner in ["ns.example.org.", "missing.example.org.", "elsewhere.test."] {
        for transport in [Transport::Datagram, Transport::Stream] {
            let plain = query(owner, &[&signed]);
            assert_eq!(send(&plain, transport), reply(&plain, owner, Rcode::NotAuth, &[&error]));
            // The TSIG record is behind OPT, the last one (RFC 8945 §5.1).
            let with_opt = query(owner, &[OPT, &signed]);
            let expected = reply(&with_opt, owner, Rcode::NotAuth, &[OPT, &error]);
            assert_eq!(send(&with_opt, transport), expected);
        }
    }
}

#[test]
fn key_name_that_is_a_pointer_is_written_out() {
    let owner = "ns.example.org.";
    let mut signed = tsig(".", &[7; 32], 0);
    signed.splice(..1, [0xc0, 12]);
    let query = query(owner, &[&signed]);
    let expected = reply(&query, owner, Rcode::NotAuth, &[&tsig(owner, &[], 17)]);
    assert_eq!(send(&query, Transport::Datagram), expected);
}

#[test]
fn tsig_that_is_repeated_misplaced_or_malformed_is_a_format_error() {
    let owner = "ns.example.org.";
    let signed = tsig("key.example.", &[7; 32], 0);
    let mut of_class_in = signed.clone();
    of_class_in[13 + 3] = 1;
    let mut cut = signed.clone();
    cut[13 + 9] -= 1;
    cut.pop();
    let mut in_answer = query(owner, &[&signed]);
    (in_answer[7], in_answer[11]) = (1, 0);
    let cases: [(&str, Vec<u8>); 6] = [
        ("twice", query(owner, &[&signed, &signed])),
        ("before another record", query(owner, &[&signed, ADDRESS])),
        ("before OPT", query(owner, &[&signed, OPT])),
        ("in the answer section", in_answer),
        ("of class IN", query(owner, &[&of_class_in])),
        ("cut", query(owner, &[&cut])),
    ];
    for (what, message) in cases {
        let expected = reply(&message, owner, Rcode::FormErr, &[]);
        assert_eq!(send(&message, Transport::Datagram), expected, "{what}");
    }
}

#[test]
fn error_without_room_is_truncated_over_udp_and_complete_over_a_stream() {
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
    // Key and question together leave no room in 512 bytes.
    let query = query(&long, &[&tsig(&long, &[7; 32], 0)]);
    let datagram = send(&query, Transport::Datagram);
    let mut expected = reply(&query, &long, Rcode::NotAuth, &[]);
    expected[2] |= 2;
    assert_eq!(datagram, expected);
    let stream = send(&query, Transport::Stream);
    assert_eq!(stream, reply(&query, &long, Rcode::NotAuth, &[&tsig(&long, &[], 17)]));
}

/// Fails if it is asked for anything.
struct NoCache;

impl Resolver for NoCache {
    fn prefetch(&self, _key: &CacheKey<'_>) {}

    fn find(&mut self, _key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        panic!("a signed query is looked up")
    }

    fn count(&mut self, _lookup: CacheLookup) {}

    fn request(&mut self, _key: &CacheKey<'_>, _group: u16, _packet: &Packet<'_>) -> bool {
        panic!("a signed query is forwarded")
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {}

    fn confirm(&mut self, _key: &CacheKey<'_>, _map: u32) {}
}

#[test]
fn signed_query_for_a_forwarded_name_is_neither_forwarded_nor_cached() {
    let rules = [ForwardRule { suffix: NameBuf::root(), group: 0 }];
    let policy = Policy { forwards: Forwards::new(&rules), ..Policy::default() };
    let owner = "www.elsewhere.test.";
    let message = query(owner, &[OPT, &tsig("key.example.", &[7; 32], 0)]);
    let (sent, counts) = send_with(&policy, &mut NoCache, &message, Transport::Datagram);
    let mut expected =
        reply(&message, owner, Rcode::NotAuth, &[OPT, &tsig("key.example.", &[], 17)]);
    expected[3] |= 0x80;
    assert_eq!(sent, expected);
    assert_eq!(counts.rcodes[Rcode::NotAuth.index()], 1);
}

/// An UPDATE of `z.` with these additional records.
fn update(records: &[&[u8]]) -> Vec<u8> {
    message(5 << 11, [1, 0, 0, records.len() as u16], &section("z.", 6, 1), &records.concat())
}

#[test]
fn known_key_is_verified_elsewhere_and_an_opcode_that_needs_a_signature_refuses_others() {
    let mut keys = ["other.", "Key.example."].map(name);
    KeyNames::sort(&mut keys);
    let policy = Policy {
        keys: KeyNames::new(&keys),
        handled_opcodes: 1 << 5,
        signed_opcodes: 1 << 5,
        ..Policy::default()
    };
    let (known, unknown) = (tsig("kEy.example.", &[7; 32], 0), tsig("a.example.", &[7; 32], 0));
    let notify = {
        let mut notify = query("example.", &[&known]);
        notify[2] |= 4 << 3;
        notify
    };
    let zones = zones();
    let decide = |message: &[u8]| {
        let burst = Burst { room: 65_535, ..Burst::new(&zones, &policy) };
        let (mut sent, counts) = burst.send(&mut NoForwarding, &[message.to_vec()]);
        let (verdict, bytes) = sent.remove(0);
        assert_eq!(counts.passed_on, u32::from(verdict == Verdict::Control));
        assert_eq!(counts.notifies, [0; 3], "a signature is verified before it counts");
        (verdict, bytes[3] & 0xf)
    };
    let control = |message: &[u8]| assert_eq!(decide(message).0, Verdict::Control, "{message:x?}");
    control(&query("www.example.", &[OPT, &known]));
    control(&notify);
    control(&update(&[&known]));
    assert_eq!(decide(&query("www.example.", &[&unknown])), (Verdict::Reply, Rcode::NotAuth as u8));
    assert_eq!(decide(&update(&[&unknown])), (Verdict::Reply, Rcode::NotAuth as u8));
    assert_eq!(decide(&update(&[])), (Verdict::Reply, Rcode::Refused as u8));
    assert_eq!(decide(&update(&[&known, OPT])), (Verdict::Reply, Rcode::Refused as u8));
}
