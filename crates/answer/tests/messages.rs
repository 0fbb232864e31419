//! What is not in a scenario: headers, EDNS and its options, broken messages. Octets go in, octets
//! come out.

use answer::{CookieSecret, Now, Nowhere, Policy, Scratch, Tally, batch};
use compile::{Image, Loader, Zone};
use image::HashKey;
use packet::{Drop, Packet, Transport, Verdict};
use std::sync::Arc;
use wire::{Name, NameBuf};

const ZONE: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\n\
                    both A 192.0.2.2\nboth TXT \"b\"\nmany A 192.0.2.3\nmany A 192.0.2.4\n";

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

fn world() -> Image {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| (n as u64 + 1).wrapping_mul(0x9e37))));
    let mut image = Image::new(Arc::clone(&key));
    let origin = name("example.org.");
    let mut loader = Loader::new(Arc::clone(&key), origin.as_name(), None);
    zonefile::read_stream(&mut ZONE.as_bytes(), origin.as_name(), &mut |r| {
        loader.add(r.owner, r.rtype, r.ttl, r.rdata, 0)
    })
    .unwrap();
    image.put_zone(Arc::new(loader.finish().unwrap()));
    image.put_zone(Arc::new(Zone::unloaded(key, name("late.test.").as_name())));
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

struct Reply {
    verdict: Verdict,
    octets: Vec<u8>,
}

fn send_by(message: &[u8], transport: Transport, seconds: u32) -> Reply {
    let mut buf = vec![0xee; 65_535];
    buf[..message.len()].copy_from_slice(message);
    let peer = "192.0.2.9:5353".parse().unwrap();
    let mut packets = [Packet::new(&mut buf, message.len(), peer, transport)];
    let now = Now { unix_seconds: seconds, monotonic_micros: 0, seed: 3 };
    let mut scratch = Box::<Scratch>::default();
    let secrets = [CookieSecret([7; 16])];
    batch(
        &world(),
        &policy(&secrets),
        now,
        &mut Nowhere,
        &mut scratch,
        &mut packets,
        &mut Tally::default(),
    );
    Reply { verdict: packets[0].verdict, octets: packets[0].message().to_vec() }
}

fn send(message: &[u8]) -> Reply {
    send_by(message, Transport::Datagram, 1_000_000)
}

impl Reply {
    fn rcode(&self) -> u8 {
        assert_eq!(self.verdict, Verdict::Reply);
        assert_eq!(self.octets[2] & 0x80, 0x80, "QR is set");
        self.octets[3] & 0xf
    }

    fn count(&self, section: usize) -> u16 {
        u16::from_be_bytes([self.octets[4 + 2 * section], self.octets[5 + 2 * section]])
    }

    /// The data of an option; the OPT record is the last one, its owner the root.
    fn option(&self, code: u16, question_end: usize) -> Option<Vec<u8>> {
        let at = (question_end..self.octets.len() - 10)
            .rev()
            .find(|at| self.octets[*at..].starts_with(&[0, 0, 41]))?;
        let mut rest = &self.octets[at + 11..];
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

/// Header (flags, counts), question, and what else there is.
fn message(flags: u16, counts: [u16; 4], question: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut octets = vec![0xab, 0xcd];
    octets.extend(flags.to_be_bytes());
    octets.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    octets.extend(question);
    octets.extend(rest);
    octets
}

fn question(text: &str, rtype: u16, class: u16) -> Vec<u8> {
    let mut octets = name(text).as_name().octets().to_vec();
    octets.extend(rtype.to_be_bytes());
    octets.extend(class.to_be_bytes());
    octets
}

fn opt(size: u16, version: u8, flags: u8, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    for (code, value) in options {
        data.extend(code.to_be_bytes());
        data.extend((value.len() as u16).to_be_bytes());
        data.extend(*value);
    }
    let mut octets = vec![0, 0, 41];
    octets.extend(size.to_be_bytes());
    octets.extend([0, version, flags, 0]);
    octets.extend((data.len() as u16).to_be_bytes());
    octets.extend(data);
    octets
}

const FORMERR: u8 = 1;
const SERVFAIL: u8 = 2;
const NOTIMP: u8 = 4;
const REFUSED: u8 = 5;

#[test]
fn responses_and_stumps_are_dropped() {
    let question = question("ns.example.org.", 1, 1);
    let response = send(&message(0x8000, [1, 0, 0, 0], &question, &[]));
    assert_eq!(response.verdict, Verdict::Drop(Drop::Response));
    for len in 0..12 {
        let whole = message(0, [1, 0, 0, 0], &question, &[]);
        assert_eq!(send(&whole[..len]).verdict, Verdict::Drop(Drop::Short), "{len} octets");
    }
}

#[test]
fn one_question_or_none_for_a_cookie() {
    let one = question("ns.example.org.", 1, 1);
    let two = [one.clone(), one.clone()].concat();
    let reply = send(&message(0, [2, 0, 0, 0], &two, &[]));
    assert_eq!((reply.rcode(), reply.octets.len(), reply.count(0)), (FORMERR, 12, 0));
    assert_eq!(send(&message(0, [0, 0, 0, 0], &[], &[])).rcode(), FORMERR);
    assert_eq!(send(&message(0, [0, 0, 0, 1], &[], &opt(1232, 0, 0, &[]))).rcode(), FORMERR);
    // RFC 7873 §5.4.
    let cookie = send(&message(0, [0, 0, 0, 1], &[], &opt(1232, 0, 0, &[(10, b"12345678")])));
    assert_eq!((cookie.rcode(), cookie.count(0), cookie.count(3)), (0, 0, 1));
    assert_eq!(cookie.option(10, 12).unwrap().len(), 24);
}

#[test]
fn other_opcodes_are_not_implemented() {
    for opcode in 1..16u16 {
        let asked = message(opcode << 11, [1, 0, 0, 0], &question("example.org.", 6, 1), &[]);
        let reply = send(&asked);
        assert_eq!((reply.rcode(), reply.octets.len()), (NOTIMP, 12), "opcode {opcode}");
        assert_eq!(u16::from(reply.octets[2] >> 3 & 0xf), opcode, "the opcode comes back");
    }
}

/// RFC 6895 §3.1: types 128 to 255 can only be asked for, and most of them mean nothing yet.
#[test]
fn types_that_are_no_data_are_refused_for_what_they_are() {
    for rtype in 0..=300 {
        let wanted = match rtype {
            0 | 41 | 128 | 249 | 250 => 1,
            129..=248 | 253 | 254 => NOTIMP,
            251 | 252 => 5,
            _ => 0,
        };
        let asked = message(0, [1, 0, 0, 0], &question("ns.example.org.", rtype, 1), &[]);
        assert_eq!(send(&asked).rcode(), wanted, "type {rtype}");
    }
}

#[test]
fn broken_questions_are_format_errors() {
    let good = question("ns.example.org.", 1, 1);
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
        ("a name of 257 octets", many),
        ("an octet too many", [good.clone(), vec![0]].concat()),
    ] {
        let reply = send(&message(0x0100, [1, 0, 0, 0], &broken, &[]));
        assert_eq!(reply.rcode(), FORMERR, "{what}");
        assert_eq!(reply.octets[..2], [0xab, 0xcd], "{what}: the ID comes back");
    }
    let missing = send(&message(0, [1, 0, 0, 1], &good, &[]));
    assert_eq!((missing.rcode(), missing.count(0)), (FORMERR, 1));
    // The longest name there is can be asked for.
    let mut longest = [1, b'a'].repeat(127);
    longest.extend([0, 0, 1, 0, 1]);
    assert_eq!(send(&message(0, [1, 0, 0, 0], &longest, &[])).rcode(), REFUSED);
}

#[test]
fn edns_is_that_of_rfc_6891() {
    let one = question("ns.example.org.", 1, 1);
    let ask = |rest: &[u8], additional| send(&message(0, [1, 0, 0, additional], &one, rest));
    let plain = ask(&opt(4096, 0, 0x80, &[]), 1);
    assert_eq!((plain.rcode(), plain.count(1), plain.count(3)), (0, 1, 1));
    // Our size, version 0, DO as it came.
    assert!(plain.octets.ends_with(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0]));
    let unknown = ask(&opt(1232, 0, 0, &[(65_001, b"what"), (8, &[0, 1, 0, 0])]), 1);
    assert_eq!((unknown.rcode(), unknown.count(1)), (0, 1));
    assert!(unknown.octets.ends_with(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]));
    let version = ask(&opt(1232, 1, 0, &[]), 1);
    assert_eq!((version.rcode(), version.count(1)), (0, 0));
    assert!(version.octets.ends_with(&[0, 0, 41, 0x04, 0xd0, 1, 0, 0, 0, 0, 0]), "BADVERS is 16");
    let twice = [opt(1232, 0, 0, &[]), opt(1232, 0, 0, &[])].concat();
    assert_eq!(ask(&twice, 2).rcode(), FORMERR);
    let named = [vec![1, b'a'], opt(1232, 0, 0, &[])].concat();
    assert_eq!(ask(&named, 1).rcode(), FORMERR);
    let mut overrun = opt(1232, 0, 0, &[(3, b"1234")]);
    overrun[14] = 9;
    assert_eq!(ask(&overrun, 1).rcode(), FORMERR);
    let no_edns = ask(&[], 0);
    assert_eq!((no_edns.rcode(), no_edns.count(3)), (0, 0));
}

#[test]
fn options_are_answered() {
    let one = question("ns.example.org.", 1, 1);
    let end = 12 + one.len();
    let ask = |options: &[(u16, &[u8])], seconds| {
        let asked = message(0, [1, 0, 0, 1], &one, &opt(1232, 0, 0, options));
        send_by(&asked, Transport::Datagram, seconds)
    };
    assert_eq!(ask(&[(3, b"")], 0).option(3, end).unwrap(), b"node-7");
    let first = ask(&[(10, b"12345678")], 1000).option(10, end).unwrap();
    assert_eq!((&first[..8], first.len()), (&b"12345678"[..], 24));
    assert_eq!(ask(&[(10, &first)], 1500).option(10, end).unwrap(), first, "young: kept");
    assert_ne!(ask(&[(10, &first)], 5000).option(10, end).unwrap(), first, "old: made anew");
    for len in [0, 1, 7, 9, 15, 41] {
        assert_eq!(ask(&[(10, &vec![1; len])], 0).rcode(), FORMERR, "a cookie of {len} octets");
    }
}

#[test]
fn errors_are_explained() {
    let ask = |text: &str| {
        let one = question(text, 1, 1);
        let reply = send(&message(0, [1, 0, 0, 1], &one, &opt(1232, 0, 0, &[])));
        (reply.rcode(), reply.option(15, 12 + one.len()))
    };
    assert_eq!(ask("www.example.com."), (REFUSED, Some(vec![0, 20])));
    assert_eq!(ask("www.late.test."), (SERVFAIL, Some(vec![0, 14])));
    assert_eq!(ask("nothing.example.org."), (3, None));
}

#[test]
fn the_question_comes_back_as_it_was_asked() {
    let asked = message(0x0110, [1, 0, 0, 0], &question("nS.eXaMpLe.OrG.", 1, 1), &[]);
    let reply = send(&asked);
    assert_eq!(reply.octets[12..asked.len()], asked[12..]);
    assert_eq!(reply.octets[2..4], [0x85, 0x00], "QR, AA and RD; CD is cleared");
    // The one record's owner points to the question.
    assert_eq!(
        reply.octets[asked.len()..],
        [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]
    );
}

#[test]
fn any_gets_one_set_over_datagrams_and_all_over_streams() {
    let asked = message(0, [1, 0, 0, 0], &question("both.example.org.", 255, 1), &[]);
    assert_eq!(send_by(&asked, Transport::Datagram, 0).count(1), 1);
    assert_eq!(send_by(&asked, Transport::Stream, 0).count(1), 2);
}

#[test]
fn class_ch_tells_what_it_was_told() {
    let ask = |text: &str, rtype, class| {
        send(&message(0, [1, 0, 0, 0], &question(text, rtype, class), &[]))
    };
    assert!(ask("version.bind.", 16, 3).octets.ends_with(b"\x00\x07\x06Dunlin"));
    assert!(ask("ID.server.", 16, 3).octets.ends_with(b"\x00\x07\x06node-7"));
    for (text, rtype, class) in
        [("version.bind.", 1, 3), ("other.bind.", 16, 3), ("version.bind.", 16, 4)]
    {
        assert_eq!(ask(text, rtype, class).rcode(), REFUSED, "{text} {rtype} {class}");
    }
    let asked = message(0, [1, 0, 0, 0], &question("version.bind.", 16, 3), &[]);
    let mut buf = vec![0; 512];
    buf[..asked.len()].copy_from_slice(&asked);
    let peer = "192.0.2.9:5353".parse().unwrap();
    let mut packets = [Packet::new(&mut buf, asked.len(), peer, Transport::Datagram)];
    let (now, mut scratch) =
        (Now { unix_seconds: 0, monotonic_micros: 0, seed: 1 }, Box::<Scratch>::default());
    batch(
        &world(),
        &Policy::default(),
        now,
        &mut Nowhere,
        &mut scratch,
        &mut packets,
        &mut Tally::default(),
    );
    assert_eq!(packets[0].message()[3] & 0xf, REFUSED, "switched off");
}

#[test]
fn a_burst_of_all_kinds_keeps_them_apart() {
    let kinds: Vec<Vec<u8>> = vec![
        message(0, [1, 0, 0, 0], &question("ns.example.org.", 1, 1), &[]),
        message(0x8000, [1, 0, 0, 0], &question("ns.example.org.", 1, 1), &[]),
        message(0, [1, 0, 0, 0], &question("x.example.org.", 1, 1), &[]),
        message(0, [2, 0, 0, 0], &question("ns.example.org.", 1, 1), &[]),
        message(0, [1, 0, 0, 1], &question("many.example.org.", 1, 1), &opt(512, 0, 0, &[])),
        message(0, [1, 0, 0, 0], &question("example.com.", 1, 1), &[]),
        vec![1, 2, 3],
        message(0, [1, 0, 0, 0], &question("late.test.", 1, 1), &[]),
    ];
    let burst: Vec<&Vec<u8>> = kinds.iter().cycle().take(packet::BURST_MAX).collect();
    let mut bufs: Vec<Vec<u8>> =
        burst.iter().map(|kind| [&kind[..], &[0xee; 600]].concat()).collect();
    let peer = "192.0.2.9:5353".parse().unwrap();
    let mut packets: Vec<Packet<'_>> = bufs
        .iter_mut()
        .zip(&burst)
        .map(|(buf, kind)| Packet::new(buf, kind.len(), peer, Transport::Datagram))
        .collect();
    let (mut tally, mut scratch) = (Tally::default(), Box::<Scratch>::default());
    let now = Now { unix_seconds: 0, monotonic_micros: 0, seed: 1 };
    batch(&world(), &Policy::default(), now, &mut Nowhere, &mut scratch, &mut packets, &mut tally);
    assert_eq!(tally.rcodes, [16, 8, 8, 8, 0, 8, 0, 0]);
    for (at, packet) in packets.iter().enumerate() {
        let alone = send(burst[at]);
        assert_eq!(packet.verdict, alone.verdict, "{at}");
        // But for the order of the two addresses.
        if at % kinds.len() != 4 && packet.verdict == Verdict::Reply {
            assert_eq!(packet.message()[..12], alone.octets[..12], "{at}");
        }
    }
}
