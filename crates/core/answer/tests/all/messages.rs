//! What is not in a scenario: headers, EDNS and its options, broken messages. Bytes go in, bytes
//! come out.

use crate::common::{Burst, NOW, image, key, message, name, opt, query, section};
use answer::{CookieSecret, NoForwarding, Now, Policy};
use compile::{Image, Zone};
use packet::{DropReason, Transport, Verdict};
use std::sync::Arc;

const ZONE: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\n\
                    both A 192.0.2.2\nboth TXT \"b\"\nmany A 192.0.2.3\nmany A 192.0.2.4\n\
                    sub NS ns.elsewhere.test.\nto CNAME both\n";
/// Record sets of many sizes at one name, the smallest neither the first nor the last by its type.
const LARGE: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 30\n@ NS ns\n\
                     all A 192.0.2.1\nall A 192.0.2.2\nall A 192.0.2.3\nall A 192.0.2.4\n\
                     all CAA 0 issue \"a.test\"\nall TYPE65300 \\# 1 00\nall TYPE65301 \\# 1 00\n";

fn zones() -> Image {
    // A set of 1,400 bytes, and signatures of 64.
    let mut large = format!("{LARGE}all TXT{}\n", format!(" \"{}\"", "x".repeat(199)).repeat(7));
    for covered in ["A", "TXT", "CAA", "TYPE65300", "TYPE65301"] {
        let signature = format!("{}==", "A".repeat(86));
        large += &format!("all RRSIG {covered} 13 3 60 1800000000 1700000000 1 @ {signature}\n");
    }
    let mut image = image(&[("example.org.", ZONE), ("large.test.", &large)]);
    image.put_zone(Arc::new(Zone::unloaded(key(), name("late.test.").as_name())));
    image
}

/// A policy with everything switched on.
fn policy(secrets: &[CookieSecret]) -> Policy<'_> {
    Policy {
        cookie_secrets: secrets,
        nsid: b"node-7",
        version: b"Dunlin",
        id: b"node-7",
        ..Policy::default()
    }
}

struct ReplyWriter {
    verdict: Verdict,
    bytes: Vec<u8>,
}

fn send_by(message: &[u8], transport: Transport, seconds: u32) -> ReplyWriter {
    let now = Now { unix_seconds: seconds, ..NOW };
    let (zones, secrets) = (zones(), [CookieSecret([7; 16])]);
    let policy = policy(&secrets);
    let burst = Burst { now, transport, room: 65_535, ..Burst::new(&zones, &policy) };
    let (verdict, bytes, _) = burst.send_one(message);
    ReplyWriter { verdict, bytes }
}

fn send(message: &[u8]) -> ReplyWriter {
    send_by(message, Transport::Datagram, 1_000_000)
}

impl ReplyWriter {
    fn rcode(&self) -> u8 {
        assert_eq!(self.verdict, Verdict::Reply);
        assert_eq!(self.bytes[2] & 0x80, 0x80, "QR is set");
        self.bytes[3] & 0xf
    }

    fn count(&self, section: usize) -> u16 {
        u16::from_be_bytes([self.bytes[4 + 2 * section], self.bytes[5 + 2 * section]])
    }

    /// The data of an option; the OPT record is the last one, its owner the root.
    fn option(&self, code: u16, question_end: usize) -> Option<Vec<u8>> {
        let at = (question_end..self.bytes.len() - 10)
            .rev()
            .find(|at| self.bytes[*at..].starts_with(&[0, 0, 41]))?;
        let mut rest = &self.bytes[at + 11..];
        while let [c0, c1, l0, l1, behind @ ..] = rest {
            let (data, behind) = behind.split_at(u16::from_be_bytes([*l0, *l1]).into());
            if u16::from_be_bytes([*c0, *c1]) == code {
                return Some(data.to_vec());
            }
            rest = behind;
        }
        None
    }
}

const FORMERR: u8 = 1;
const SERVFAIL: u8 = 2;
const NOTIMP: u8 = 4;
const REFUSED: u8 = 5;

#[test]
fn responses_and_stumps_are_dropped() {
    let question = section("ns.example.org.", 1, 1);
    let response = send(&message(0x8000, [1, 0, 0, 0], &question, &[]));
    assert_eq!(response.verdict, Verdict::Drop(DropReason::Response));
    for len in 0..12 {
        let whole = message(0, [1, 0, 0, 0], &question, &[]);
        assert_eq!(send(&whole[..len]).verdict, Verdict::Drop(DropReason::Short), "{len} bytes");
    }
}

#[test]
fn query_needs_one_entry_or_only_a_cookie() {
    let one = section("ns.example.org.", 1, 1);
    let two = [one.clone(), one.clone()].concat();
    let reply = send(&message(0, [2, 0, 0, 0], &two, &[]));
    assert_eq!((reply.rcode(), reply.bytes.len(), reply.count(0)), (FORMERR, 12, 0));
    assert_eq!(send(&message(0, [0, 0, 0, 0], &[], &[])).rcode(), FORMERR);
    assert_eq!(send(&message(0, [0, 0, 0, 1], &[], &opt(1232, 0, 0, &[]))).rcode(), FORMERR);
    // RFC 7873 §5.4.
    let cookie = send(&message(0, [0, 0, 0, 1], &[], &opt(1232, 0, 0, &[(10, b"12345678")])));
    assert_eq!((cookie.rcode(), cookie.count(0), cookie.count(3)), (0, 0, 1));
    assert_eq!(cookie.option(10, 12).unwrap().len(), 24);
}

#[test]
fn other_opcodes_are_not_implemented() {
    // 4 is NOTIFY.
    for opcode in (1..16u16).filter(|opcode| *opcode != 4) {
        let asked = query(opcode << 11, "example.org.", 6, &[]);
        let reply = send(&asked);
        assert_eq!((reply.rcode(), reply.bytes.len()), (NOTIMP, 12), "opcode {opcode}");
        assert_eq!(u16::from(reply.bytes[2] >> 3 & 0xf), opcode, "the opcode comes back");
    }
}

/// RFC 6891 §6.1.1: OPT for OPT, whatever the message is.
#[test]
fn opcode_that_is_not_implemented_is_answered_with_opt() {
    let asked = opt(1232, 0, 0x80, &[(3, b""), (10, b"12345678")]);
    for (questions, question) in [(1, section("example.org.", 6, 1)), (0, vec![])] {
        let reply = send(&message(2 << 11, [questions, 0, 0, 1], &question, &asked));
        assert_eq!((reply.rcode(), reply.count(0), reply.count(3)), (NOTIMP, 0, 1));
        assert_eq!(reply.bytes[12..], [0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0]);
    }
    let version = opt(1232, 1, 0, &[]);
    let reply = send(&message(2 << 11, [1, 0, 0, 1], &section("example.org.", 6, 1), &version));
    assert_eq!((reply.rcode(), reply.bytes[17]), (0, 1), "BADVERS is 16");
    let unreadable = message(2 << 11, [2, 0, 0, 1], &section("example.org.", 6, 1), &asked);
    assert_eq!((send(&unreadable).rcode(), send(&unreadable).bytes.len()), (NOTIMP, 12));
}

/// RFC 6895 §3.1: types 128 to 255 can only be asked for, and most of them mean nothing yet.
#[test]
fn meta_types_are_refused_with_their_rcode() {
    for rtype in 0..=300 {
        let wanted = match rtype {
            0 | 41 | 128 | 249 | 250 => 1,
            129..=248 | 253 | 254 => NOTIMP,
            251 | 252 => 5,
            _ => 0,
        };
        let asked = query(0, "ns.example.org.", rtype, &[]);
        assert_eq!(send(&asked).rcode(), wanted, "type {rtype}");
    }
}

#[test]
fn unreadable_query_is_a_format_error() {
    let good = section("ns.example.org.", 1, 1);
    let tail = [0, 1, 0, 1];
    let long = [[63; 64].repeat(4), tail.to_vec()].concat();
    let mut many = [1, b'a'].repeat(128);
    many.extend([0, 0, 1, 0, 1]);
    for (what, broken) in [
        ("no name", vec![]),
        ("a name cut short", vec![3, b'w', b'w']),
        ("no type", vec![0]),
        ("no class", vec![0, 0, 1]),
        ("a pointer to itself", [vec![0xc0, 12], tail.to_vec()].concat()),
        ("a pointer into the header", [vec![1, b'a', 0xc0, 0], tail.to_vec()].concat()),
        ("a label of 64", [vec![64; 65], vec![0], tail.to_vec()].concat()),
        ("an extended label", [vec![0x41, 0, 0], tail.to_vec()].concat()),
        ("a name without end", long),
        ("a name of 257 bytes", many),
        ("an byte too many", [good.clone(), vec![0]].concat()),
    ] {
        let reply = send(&message(0x0100, [1, 0, 0, 0], &broken, &[]));
        assert_eq!(reply.rcode(), FORMERR, "{what}");
        assert_eq!(reply.bytes[..2], [0x12, 0x34], "{what}: the ID comes back");
    }
    let missing = send(&message(0, [1, 0, 0, 1], &good, &[]));
    assert_eq!((missing.rcode(), missing.count(0)), (FORMERR, 1));
    // The longest name there is can be asked for.
    let mut longest = [1, b'a'].repeat(127);
    longest.extend([0, 0, 1, 0, 1]);
    assert_eq!(send(&message(0, [1, 0, 0, 0], &longest, &[])).rcode(), REFUSED);
}

#[test]
fn edns_follows_rfc_6891() {
    let one = section("ns.example.org.", 1, 1);
    let request = |rest: &[u8], additional| send(&message(0, [1, 0, 0, additional], &one, rest));
    let plain = request(&opt(4096, 0, 0x80, &[]), 1);
    assert_eq!((plain.rcode(), plain.count(1), plain.count(3)), (0, 1, 1));
    // Our size, version 0, DO as it came.
    assert!(plain.bytes.ends_with(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0]));
    let unknown = request(&opt(1232, 0, 0, &[(65_001, b"what"), (8, &[0, 1, 0, 0])]), 1);
    assert_eq!((unknown.rcode(), unknown.count(1)), (0, 1));
    assert!(unknown.bytes.ends_with(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]));
    let version = request(&opt(1232, 1, 0, &[]), 1);
    assert_eq!((version.rcode(), version.count(1)), (0, 0));
    assert!(version.bytes.ends_with(&[0, 0, 41, 0x04, 0xd0, 1, 0, 0, 0, 0, 0]), "BADVERS is 16");
    let twice = [opt(1232, 0, 0, &[]), opt(1232, 0, 0, &[])].concat();
    assert_eq!(request(&twice, 2).rcode(), FORMERR);
    let named = [vec![1, b'a'], opt(1232, 0, 0, &[])].concat();
    assert_eq!(request(&named, 1).rcode(), FORMERR);
    let mut overrun = opt(1232, 0, 0, &[(3, b"1234")]);
    overrun[14] = 9;
    assert_eq!(request(&overrun, 1).rcode(), FORMERR);
    let no_edns = request(&[], 0);
    assert_eq!((no_edns.rcode(), no_edns.count(3)), (0, 0));
}

/// RFC 6891 §7: FORMERR without OPT would say that this server knows no EDNS.
#[test]
fn malformed_edns_is_a_format_error_with_opt() {
    let one = section("ns.example.org.", 1, 1);
    let overrun = |len: u8, at: usize| {
        let mut bytes = opt(1232, 0, 0x80, &[(3, b"1234")]);
        bytes[at] = len;
        bytes
    };
    let cookie = |len: usize| opt(1232, 0, 0x80, &[(3, b""), (10, &vec![1; len])]);
    let plain = opt(1232, 0, 0x80, &[]);
    let named = [vec![1, b'a'], plain.clone()].concat();
    let address = [0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];
    for (what, counts, rest) in [
        ("an option longer than the OPT", [1, 0, 0, 1], overrun(9, 14)),
        ("an option's head cut short", [1, 0, 0, 1], [&plain[..9], &[0, 3, 0, 3, 0]].concat()),
        ("an OPT longer than the message", [1, 0, 0, 1], overrun(99, 10)),
        ("a cookie of 7 bytes", [1, 0, 0, 1], cookie(7)),
        ("a cookie of 9 bytes", [1, 0, 0, 1], cookie(9)),
        ("a cookie of 41 bytes", [1, 0, 0, 1], cookie(41)),
        ("an empty cookie", [1, 0, 0, 1], cookie(0)),
        ("two of them", [1, 0, 0, 2], [plain.clone(), plain.clone()].concat()),
        ("an owner", [1, 0, 0, 1], named),
        ("in the answer section", [1, 1, 0, 0], plain.clone()),
        ("bytes behind it", [1, 0, 0, 1], [&plain[..], &[0]].concat()),
        ("a record behind it that is missing", [1, 0, 0, 2], plain.clone()),
    ] {
        let reply = send(&message(0, counts, &one, &rest));
        assert_eq!((reply.rcode(), reply.count(0), reply.count(3)), (FORMERR, 1, 1), "{what}");
        let behind = &reply.bytes[12 + one.len()..];
        assert_eq!(behind, [0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0], "{what}");
    }
    let last = send(&message(0, [1, 0, 0, 2], &one, &[&plain[..], &address].concat()));
    assert_eq!((last.rcode(), last.count(1), last.count(3)), (0, 1, 1), "OPT need not be last");
}

#[test]
fn options_are_answered() {
    let one = section("ns.example.org.", 1, 1);
    let end = 12 + one.len();
    let request = |options: &[(u16, &[u8])], seconds| {
        let asked = message(0, [1, 0, 0, 1], &one, &opt(1232, 0, 0, options));
        send_by(&asked, Transport::Datagram, seconds)
    };
    assert_eq!(request(&[(3, b"")], 0).option(3, end).unwrap(), b"node-7");
    let first = request(&[(10, b"12345678")], 1000).option(10, end).unwrap();
    assert_eq!((&first[..8], first.len()), (&b"12345678"[..], 24));
    assert_eq!(request(&[(10, &first)], 1500).option(10, end).unwrap(), first, "young: kept");
    assert_ne!(request(&[(10, &first)], 5000).option(10, end).unwrap(), first, "old: made anew");
    for len in [0, 1, 7, 9, 15, 41] {
        assert_eq!(request(&[(10, &vec![1; len])], 0).rcode(), FORMERR, "a cookie of {len} bytes");
    }
}

#[test]
fn errors_are_explained() {
    let request = |text: &str| {
        let one = section(text, 1, 1);
        let reply = send(&message(0, [1, 0, 0, 1], &one, &opt(1232, 0, 0, &[])));
        (reply.rcode(), reply.option(15, 12 + one.len()))
    };
    assert_eq!(request("www.example.com."), (REFUSED, Some(vec![0, 20])));
    assert_eq!(request("www.late.test."), (SERVFAIL, Some(vec![0, 14])));
    assert_eq!(request("nothing.example.org."), (3, None));
}

#[test]
fn response_repeats_the_case_of_the_query() {
    let asked = query(0x0110, "nS.eXaMpLe.OrG.", 1, &[]);
    let reply = send(&asked);
    assert_eq!(reply.bytes[12..asked.len()], asked[12..]);
    assert_eq!(reply.bytes[2..4], [0x85, 0x00], "QR, AA and RD; CD is cleared");
    // The one record's owner points to the question.
    assert_eq!(reply.bytes[asked.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
}

#[test]
fn any_gets_one_set_over_datagrams_and_all_over_streams() {
    let asked = query(0, "both.example.org.", 255, &[]);
    assert_eq!(send_by(&asked, Transport::Datagram, 0).count(1), 1);
    assert_eq!(send_by(&asked, Transport::Stream, 0).count(1), 2);
}

/// RFC 8482 §4.1; the bound is what one short record and the OPT add to the question.
#[test]
fn any_over_datagrams_is_the_smallest_set_and_does_not_amplify() {
    let asked = query(0, "all.large.test.", 255, &opt(4096, 0, 0, &[]));
    let all = send_by(&asked, Transport::Stream, 0);
    assert!(all.count(1) == 8 && all.bytes.len() > 1_500, "{} bytes", all.bytes.len());
    for seconds in 0..8 {
        let smallest = send_by(&asked, Transport::Datagram, seconds);
        assert_eq!((smallest.rcode(), smallest.count(1), smallest.bytes[2] & 2), (0, 1, 0));
        let record = [0xc0, 12, 0xff, 0x14, 0, 1, 0, 0, 0, 60, 0, 1, 0];
        assert_eq!(smallest.bytes[asked.len() - 11..][..13], record, "the lower type of two");
        assert!(smallest.bytes.len() < 2 * asked.len(), "{} bytes", smallest.bytes.len());
    }
    let dnssec = opt(4096, 0, 0x80, &[]);
    let asked = message(0, [1, 0, 0, 1], &section("all.large.test.", 255, 1), &dnssec);
    let signed = send(&asked);
    assert_eq!((signed.rcode(), signed.count(1)), (0, 2), "the set and its signature");
    assert!(signed.bytes.len() < 4 * asked.len(), "{} bytes", signed.bytes.len());
}

/// RFC 1034 §3.7.1: every class there is, of which this server knows one; so it has no authority.
#[test]
fn class_any_is_answered_as_in_without_authority() {
    let request = |text: &str, rtype, class, transport| {
        let one = section(text, rtype, class);
        let asked = message(0x0100, [1, 0, 0, 1], &one, &opt(1232, 0, 0x80, &[]));
        send_by(&asked, transport, 0).bytes
    };
    for (text, rtype) in [
        ("ns.example.org.", 1),
        ("to.example.org.", 16),
        ("nothing.example.org.", 1),
        ("ns.example.org.", 28),
        ("a.sub.example.org.", 1),
        ("both.example.org.", 255),
        ("ns.example.org.", 252),
        ("ns.example.org.", 41),
        ("www.example.com.", 1),
        ("www.late.test.", 1),
    ] {
        for transport in [Transport::Datagram, Transport::Stream] {
            let (any, mut one) =
                (request(text, rtype, 255, transport), request(text, rtype, 1, transport));
            // But for AA and the class of the question.
            one[2] &= !4;
            one[12 + name(text).as_name().len() + 3] = 255;
            assert_eq!(any, one, "{text} {rtype} {transport:?}");
        }
    }
}

#[test]
fn class_ch_answers_version_and_id() {
    let request = |text: &str, rtype, class| {
        send(&message(0, [1, 0, 0, 0], &section(text, rtype, class), &[]))
    };
    assert!(request("version.bind.", 16, 3).bytes.ends_with(b"\x00\x07\x06Dunlin"));
    assert!(request("ID.server.", 16, 3).bytes.ends_with(b"\x00\x07\x06node-7"));
    for (text, rtype, class) in
        [("version.bind.", 1, 3), ("other.bind.", 16, 3), ("version.bind.", 16, 4)]
    {
        assert_eq!(request(text, rtype, class).rcode(), REFUSED, "{text} {rtype} {class}");
    }
    let asked = message(0, [1, 0, 0, 0], &section("version.bind.", 16, 3), &[]);
    let (_, bytes, _) = Burst::new(&zones(), &Policy::default()).send_one(&asked);
    assert_eq!(bytes[3] & 0xf, REFUSED, "switched off");
}

#[test]
fn queries_of_all_kinds_in_one_burst_do_not_mix() {
    let kinds: Vec<Vec<u8>> = vec![
        query(0, "ns.example.org.", 1, &[]),
        query(0x8000, "ns.example.org.", 1, &[]),
        query(0, "x.example.org.", 1, &[]),
        message(0, [2, 0, 0, 0], &section("ns.example.org.", 1, 1), &[]),
        query(0, "many.example.org.", 1, &opt(512, 0, 0, &[])),
        query(0, "example.com.", 1, &[]),
        vec![1, 2, 3],
        query(0, "late.test.", 1, &[]),
    ];
    let burst: Vec<Vec<u8>> = kinds.iter().cycle().take(packet::BURST_MAX).cloned().collect();
    let (zones, policy) = (zones(), Policy::default());
    let (sent, answer_counts) = Burst::new(&zones, &policy).send(&mut NoForwarding, &burst);
    assert_eq!(answer_counts.rcodes, [16, 8, 8, 8, 0, 8, 0, 0, 0, 0, 0, 0]);
    for (at, (verdict, bytes)) in sent.into_iter().enumerate() {
        let alone = send(&burst[at]);
        assert_eq!(verdict, alone.verdict, "{at}");
        // But for the order of the two addresses.
        if at % kinds.len() != 4 && verdict == Verdict::Reply {
            assert_eq!(bytes[..12], alone.bytes[..12], "{at}");
        }
    }
}
