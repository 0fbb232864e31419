//! The fast path composes the same bytes as the full path.
//!
//! A query with an unknown option is valid (RFC 6891 §6.1.2) but not plain, and a message with
//! little space behind it cannot be parsed fast. Both take the full path.
use crate::common::{Burst, NOW, RD, key, load, message, name, opt};
use answer::{AnswerCounts, CookieSecret, NoForwarding, Now, Policy};
use compile::{Image, Zone};
use packet::Transport;
use std::collections::HashSet;
use std::sync::Arc;
use wire::{HEADER_LEN, Name, NameBuf, Rtype};

/// An option of the range for local use, without data.
const UNKNOWN: [u8; 4] = [0xfd, 0xe9, 0, 0];
/// The least room in which a message is parsed fast.
const ROOM_MIN: usize = 284;

/// Zones of all kinds, as their records. Long names, both ends of a word, wildcards, cuts, aliases,
/// sets of several records, zones below others, and SOAs that point elsewhere or are in upper case.
const ZONES: &[(&str, &str)] = &[
    (".", "@ 9 SOA a. b. 1 2 3 4 5\n@ 9 NS a.\na 5 A 192.0.2.1\n"),
    (
        "plain.test.",
        "@ 30 SOA ns.dns h.dns.plain.test. 1 2 3 4 20\n@ 30 NS ns.dns\nns.dns 5 A 192.0.2.1
      www 60 A 192.0.2.2\nwww 60 AAAA 2001:db8::1\nsix 60 AAAA 2001:db8::2\nc 9 CNAME www
      two 60 A 192.0.2.3\ntwo 60 A 192.0.2.4\ntext 5 TXT hi\na.b.c.d 5 A 192.0.2.5
      exactly-sixteen 5 A 192.0.2.6\nseventeen-octets 5 A 192.0.2.7\nx 5 A 192.0.2.8
      a-label-that-is-a-good-deal-longer.than-thirty-two-octets.even-48 5 A 192.0.2.9\n",
    ),
    ("wild.test.", "@ 5 SOA ns h 1 2 3 4 20\n@ 5 NS ns\n* 5 A 192.0.2.1\nns 5 A 192.0.2.2\n"),
    (
        "cut.test.",
        "@ 5 SOA ns h 1 2 3 4 20\n@ 5 NS ns\nns 5 A 192.0.2.2\nsub 5 NS ns.sub
      ns.sub 5 A 192.0.2.3\nd 5 DNAME plain.test.\n",
    ),
    (
        "Upper.TEST.",
        "@ 5 SOA NS.Upper.TEST. H.upper.test. 1 2 3 4 20\n@ 5 NS ns\nwww 5 A 192.0.2.2\n",
    ),
    ("apex.test.", "@ 5 SOA @ www.elsewhere. 1 2 3 4 20\n@ 5 NS @\n@ 5 A 192.0.2.2\n"),
    ("above.test.", "@ 5 SOA ns h 1 2 3 4 20\n@ 5 NS ns\nwww 5 A 192.0.2.2\n"),
    ("sub.above.test.", "@ 5 SOA ns h 1 2 3 4 20\n@ 5 NS ns\nwww 5 A 192.0.2.2\n"),
    (
        "long.test.",
        "@ 5 SOA ns.an-owner-with-a-label-of-more-than-a-few-bytes.and-yet-another-such-one \
      h.an-owner-with-a-label-of-more-than-a-few-bytes 1 2 3 4 20\n@ 5 NS ns\nwww 5 A 192.0.2.2\n",
    ),
];

/// Prefixes of the origins, for names that exist and that do not.
const PREFIXES: &[&str] = &[
    "",
    "www.",
    "WwW.",
    "six.",
    "c.",
    "two.",
    "text.",
    "ns.",
    "a.",
    "x.",
    "b.c.d.",
    "a.b.c.d.",
    "many-2.",
    "many-3.",
    "many-4.",
    "many-5.",
    "many-8.",
    "many-9.",
    "nothing.",
    "ns.dns.",
    "no.ns.dns.",
    "exactly-sixteen.",
    "exactly-sixteem.",
    "sub.",
    "ns.sub.",
    "no.sub.",
    "www.sub.",
    "seventeen-octets.",
    "no.d.",
    "unloaded.",
    "www.x.",
    "*.",
    "a-label-that-is-a-good-deal-longer.than-thirty-two-octets.even-48.",
    "a-label-that-is-a-good-deal-longer.than-thirty-two-octets.even-49.",
    "a-label-that-is-a-good-deal-longer.than-thirty-one-octets.even-48.",
];

fn zones() -> Image {
    let mut image = Image::new(key());
    let many = |n: u32, data: &str| -> String {
        (0..n).map(|i| format!("many-{n} 5 {data}{i}\n")).collect()
    };
    let sets: String = (2..11).flat_map(|n| [many(n, "A 192.0.2."), many(n, "AAAA ::")]).collect();
    for (origin, text) in ZONES {
        let sets = if *origin == "plain.test." { sets.as_str() } else { "" };
        let lines = text.lines().chain(sets.lines()).map(|line| format!("{}\n", line.trim()));
        image.put_zone(Arc::new(load(&key(), origin, &lines.collect::<String>())));
    }
    let unloaded = Zone::unloaded(key(), name("unloaded.").as_name());
    image.put_zone(Arc::new(unloaded));
    image
}

/// A query with these options, where it has an OPT.
fn query(name: &[u8], rtype: Rtype, options: Option<&[u8]>) -> Vec<u8> {
    let question = [name, &rtype.0.to_be_bytes(), &[0, 1]].concat();
    let additional = options.is_some().into();
    let opt = options.map(|options| {
        let mut opt = opt(4096, 0, 0, &[]);
        opt[10] = options.len() as u8;
        [&opt, options].concat()
    });
    message(RD, [1, 0, 0, additional], &question, &opt.unwrap_or_default())
}

/// Sends all queries in one burst, each with so much room. Returns the replies and the counters.
fn request(image: &Image, queries: &[Vec<u8>], room: usize) -> (Vec<Vec<u8>>, AnswerCounts) {
    query_by(image, &Policy::default(), queries, room)
}

fn query_by(
    image: &Image,
    policy: &Policy<'_>,
    queries: &[Vec<u8>],
    room: usize,
) -> (Vec<Vec<u8>>, AnswerCounts) {
    let burst = Burst { room, ..Burst::new(image, policy) };
    let (sent, counts) = burst.send(&mut NoForwarding, queries);
    (sent.into_iter().map(|(_, bytes)| bytes).collect(), counts)
}

/// Names of every zone, grouped by zone or relayed in turns.
fn names(in_turns: bool) -> Vec<Vec<u8>> {
    let bytes = |origin: &str, prefix: &str| {
        let text = if origin == "." { prefix.to_owned() } else { format!("{prefix}{origin}") };
        NameBuf::from_text(text.as_bytes(), Name::ROOT)
            .map_or(vec![0], |n| n.as_name().as_bytes().to_vec())
    };
    match in_turns {
        true => PREFIXES.iter().flat_map(|p| ZONES.iter().map(move |z| bytes(z.0, p))).collect(),
        false => ZONES.iter().flat_map(|z| PREFIXES.iter().map(move |p| bytes(z.0, p))).collect(),
    }
}

/// Sets of as many addresses as 512 bytes have room for, of fewer and of more: the records, the one
/// that comes first, and the truncation are those of a zone with a delegation, which is never fast.
#[test]
fn sets_of_addresses_are_those_of_the_full_path() {
    let (key, mut image) = (key(), Image::new(key()));
    let zone = |n: u32, rest: &str| {
        let sets = ["A 192.0.2.", "AAAA ::"].map(|data| {
            let records = (0..n).map(|last| format!("s 5 {data}{last}\n"));
            records.collect::<String>()
        });
        format!("@ 30 SOA ns h 1 2 3 4 20\n@ 30 NS ns\nns 5 A 192.0.2.1\n{rest}{}", sets.concat())
    };
    let secrets = [CookieSecret([7; 16])];
    let policy = Policy { cookie_secrets: &secrets, ..Policy::default() };
    let cookie = [&[0, 10, 0, 8][..], b"12345678"].concat();
    let (mut whole, mut cut, mut firsts) = (0, 0, HashSet::new());
    for n in 2..36 {
        image.put_zone(Arc::new(load(&key, "fast.test.", &zone(n, ""))));
        image.put_zone(Arc::new(load(&key, "full.test.", &zone(n, "sub 5 NS ns\n"))));
        for (case, options) in
            [None, Some(&[][..]), Some(&cookie)].into_iter().cycle().enumerate().take(24)
        {
            let rtype = if case % 2 == 0 { Rtype::A } else { Rtype::AAAA };
            let (seed, room) = ((u64::from(n) << 32) + case as u64 + 1, [512, 1232][case / 6 % 2]);
            let transport = [Transport::Datagram, Transport::Stream][case / 12];
            let now = Now { seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), ..NOW };
            let burst = Burst { room, now, transport, ..Burst::new(&image, &policy) };
            let answer = |origin: &str| {
                let owner = name(&format!("s.{origin}")).as_name().as_bytes().to_vec();
                let (_, mut reply, counts) = burst.send_one(&query(&owner, rtype, options));
                reply.drain(HEADER_LEN..HEADER_LEN + owner.len());
                (reply, counts)
            };
            let ((fast, counts), full) = (answer("fast.test."), answer("full.test."));
            assert_eq!((&fast, counts), (&full.0, full.1), "{n} {rtype} {case}");
            let is_whole = u32::from(fast[7]) == n;
            (whole, cut) = (whole + u32::from(is_whole), cut + u32::from(!is_whole));
            firsts.insert(fast[HEADER_LEN + 4 + 15]);
        }
    }
    assert!(whole > 400 && cut > 100 && firsts.len() > 20, "{whole} {cut} {}", firsts.len());
}

fn compare(fast: &[Vec<u8>], full: &[Vec<u8>]) {
    assert_eq!(fast.len(), full.len());
    for (fast, full) in fast.iter().zip(full) {
        assert_eq!(fast, full);
    }
}

#[test]
fn fast_path_composes_the_bytes_of_the_full_path() {
    let image = zones();
    for rtype in [Rtype::A, Rtype::AAAA, Rtype::TXT, Rtype::DS, Rtype::SOA, Rtype::ANY] {
        for in_turns in [true, false] {
            let all = |opt: Option<&[u8]>| -> Vec<_> {
                names(in_turns).iter().map(|name| query(name, rtype, opt)).collect()
            };
            let (fast, fast_counts) = request(&image, &all(Some(&[])), 1232);
            let (full, full_counts) = request(&image, &all(Some(&UNKNOWN)), 1232);
            compare(&fast, &full);
            assert_eq!(fast_counts, full_counts);
            let (roomy, _) = request(&image, &all(None), ROOM_MIN);
            let (narrow, _) = request(&image, &all(None), ROOM_MIN - 1);
            compare(&roomy, &narrow);
        }
    }
}

/// Each query of a burst may be like the one before, or not.
#[test]
fn fast_path_equals_the_full_path_with_some_cookies() {
    let image = zones();
    let policy = Policy { cookie_secrets: &[CookieSecret([7; 16])], ..Policy::default() };
    let cookie = [&[0, 10, 0, 8][..], b"12345678"].concat();
    for pattern in [0b01, 0b0110, 0b0111, 0b1_0000_0001u32] {
        let has_cookie = |at: usize| pattern >> (at % 9) & 1 == 1;
        let all = |others: &[u8]| -> Vec<_> {
            let options = |at| [if has_cookie(at) { &cookie[..] } else { &[] }, others].concat();
            let request = |(at, name): (_, &Vec<u8>)| query(name, Rtype::A, Some(&options(at)));
            names(false).iter().enumerate().map(request).collect()
        };
        let (fast, answer_counts) = query_by(&image, &policy, &all(&[]), 1232);
        let (full, full_counts) = query_by(&image, &policy, &all(&UNKNOWN), 1232);
        compare(&fast, &full);
        assert_eq!(answer_counts, full_counts);
        for (at, reply) in fast.iter().enumerate() {
            let given = reply.windows(4).any(|head| head == [0, 10, 0, 24]);
            assert_eq!(given, has_cookie(at), "{at}");
        }
    }
}

/// A query with nothing but a cookie is fast too: with that of a client, and one of this server.
#[test]
fn fast_path_equals_the_full_path_with_cookies() {
    let image = zones();
    let secrets = [CookieSecret([7; 16])];
    for secrets in [&secrets[..], &[]] {
        let policy = Policy { cookie_secrets: secrets, ..Policy::default() };
        let mut cookie = [&[0, 10, 0, 8][..], b"12345678"].concat();
        // The third time, the cookie is one that was given the first time, and is known.
        for round in 0..3 {
            for rtype in [Rtype::A, Rtype::AAAA, Rtype::TXT] {
                let all = |others: &[u8]| -> Vec<_> {
                    let options = [&cookie[..], others].concat();
                    names(false).iter().map(|name| query(name, rtype, Some(&options))).collect()
                };
                let (fast, answer_counts) = query_by(&image, &policy, &all(&[]), 1232);
                let (full, full_counts) = query_by(&image, &policy, &all(&UNKNOWN), 1232);
                compare(&fast, &full);
                assert_eq!(answer_counts, full_counts);
                let given = fast[0].windows(4).rposition(|head| head == [0, 10, 0, 24]);
                assert_eq!(given.is_some(), !secrets.is_empty());
                if let Some(at) = given.filter(|_| round == 0) {
                    cookie = fast[0][at..at + 28].to_vec();
                }
            }
        }
    }
}

/// An invalid name is found, though the fast path has not read its labels.
#[test]
fn invalid_name_is_a_format_error_on_both_paths() {
    let image = zones();
    let good = name("nothing.a.b.plain.test.").as_name().as_bytes().to_vec();
    let mut queries = [Vec::new(), Vec::new()];
    for at in 0..good.len() {
        // The fast path begins after a query of a zone.
        queries.iter_mut().for_each(|all| all.push(query(&good, Rtype::A, None)));
        for value in [0, 1, 2, 3, 7, 9, 62, 63, 64, 0x80, 0xc0, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            queries[0].push(query(&bad, Rtype::A, Some(&[])));
            queries[1].push(query(&bad, Rtype::A, Some(&UNKNOWN)));
        }
    }
    let [(fast, answer_counts), (full, full_counts)] =
        queries.map(|queries| request(&image, &queries, 1232));
    compare(&fast, &full);
    assert_eq!(answer_counts, full_counts);
    assert!(answer_counts.rcodes[1] > 50 && answer_counts.rcodes[3] > 100, "{answer_counts:?}");
}
