//! Which records of a set a client gets: their shares, who gets which, and that all ways to answer
//! choose alike.
use crate::common::{key, loader, name};
use crate::networks::{subnet_of, with_subnet};
use answer::choose::Chooser;
use answer::{
    AnswerCounts, ClientNetworks, DeniedAnswer, Limits, NameRules, Network, NoForwarding, Now,
    Policy, Scratch, batch,
};
use compile::{AnswerRules, ChosenRecords, ChosenSets, Image, SetChange, Zone};
use image::{Location, Node, Order, RecordSet};
use limit::{Acl, NetworkTable};
use packet::{LocationNumber, Packet, Transport};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use wire::{QName, Records, Rtype};

mod ways;

/// Quantiles of chi-square at p = 0.001, by the degrees of freedom.
const CHI_SQUARE: [f64; 8] = [0.0, 10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32];
/// Room for a reply, and too little for the fast path.
const ROOM: usize = 1232;
const LITTLE_ROOM: usize = 280;
/// Where clients can be, by their numbers.
const PATHS: [&str; 5] = ["eu/fra1/a", "eu/fra1/b", "eu/ams1/a", "us/nyc1/a", "asia"];

fn location(path: &str) -> Location {
    Location::parse(path).unwrap()
}

/// The rules of one record.
fn one(order: Order) -> AnswerRules {
    AnswerRules { order, others: 1, ..AnswerRules::default() }
}

/// The zone of this origin, in which sets at `s` and at `srv` have these rules. Their records end
/// with their numbers.
fn zone(origin: &str, members: usize, rules: &AnswerRules) -> Zone {
    let mut text = "$TTL 7\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    for n in 0..members {
        text += &format!("t{n} A 198.51.100.{n}\n");
    }
    let mut zone = loader(&key(), origin, &text).finish().unwrap();
    let v4: Vec<Vec<u8>> = (0..members).map(|n| vec![10, 0, 0, n as u8]).collect();
    let v6 = |n: usize| Ipv6Addr::from_bits(0x2001_0db8 << 96 | n as u128).octets().to_vec();
    let v6: Vec<Vec<u8>> = (0..members).map(v6).collect();
    let target = |n: usize| name(&format!("t{n}.{origin}")).as_name().as_bytes().to_vec();
    let services = (0..members).map(|n| [vec![0, 1, 0, 1, 0, n as u8], target(n)].concat());
    let services: Vec<Vec<u8>> = services.collect();
    for (name, rtype, data) in [
        (&b"\x01s"[..], Rtype::A, &v4),
        (&b"\x01s"[..], Rtype::AAAA, &v6),
        (&b"\x03srv"[..], Rtype::SRV, &services),
    ] {
        // Any rules: here the test chooses.
        let change = SetChange { name, rtype, set: Some((7, &data[..])), rules: vec![0] };
        zone.change_all(&[change]).unwrap();
    }
    let mut choose = |_, _: Node<'_>, set: RecordSet<'_>| {
        let numbers = (0..set.count()).collect();
        Some(ChosenRecords { ttl: 7, numbers, selection: Some(rules.clone()) }.into())
    };
    zone.chosen(None, &zone.changed_leaves(None), ChosenSets::Ruled, &mut choose)
}

/// Answers one query in so much room; returns the reply.
struct Server {
    image: Image,
    locations: Vec<Location>,
    scratch: Box<Scratch>,
}

impl Server {
    fn new(zone: Zone) -> Self {
        let mut image = Image::new(key());
        image.put_zone(Arc::new(zone));
        let locations = PATHS.iter().map(|path| location(path)).collect();
        Self { image, locations, scratch: Box::default() }
    }

    fn ask(
        &mut self,
        (owner, rtype): (&str, Rtype),
        (client, place): (IpAddr, u16),
        (seed, room): (u64, usize),
    ) -> Vec<u8> {
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(name(owner).as_name().as_bytes());
        query.extend(rtype.0.to_be_bytes());
        query.extend([0, 1]);
        let mut buf = vec![0; room];
        buf[..query.len()].copy_from_slice(&query);
        let peer = SocketAddr::from((client, 5353));
        let mut packet = Packet::new(&mut buf, query.len(), peer, Transport::Datagram);
        packet.context.location = LocationNumber(place);
        let mut packets = [packet];
        let now = Now { unix_seconds: 0, monotonic_micros: 1_000_000, seed };
        let mut counts = AnswerCounts::default();
        let policy = Policy { locations: &self.locations, ..Policy::default() };
        let Self { image, scratch, .. } = self;
        batch(image, &policy, now, &mut NoForwarding, scratch, &mut packets, &mut counts);
        packets[0].message().to_vec()
    }
}

/// No name is denied.
struct NoRules;

impl NameRules for NoRules {
    fn deny(&self, _network: u16, _queried: &QName) -> bool {
        false
    }

    fn answer(&self, _network: u16) -> DeniedAnswer<'_> {
        DeniedAnswer::Refused
    }
}

/// The address of a resolver that says where its clients are.
const RESOLVER: u32 = 0xc000_0235;

/// What this client gets for `s` if its query has this option: the number of the record, and the
/// option of the reply.
fn ask_with_subnet(server: &mut Server, client: IpAddr, option: &[u8]) -> (u8, Option<(u8, u8)>) {
    let (bounds, query) = ([RESOLVER, RESOLVER + 1], with_subnet("s.cluster.local.", option));
    let networks = Some(ClientNetworks {
        table: NetworkTable::default(),
        places: None,
        networks: &[Network::default()],
        rules: &NoRules,
        trust: Acl::from_bounds(&bounds, &[], false),
        denies: false,
        placed: false,
    });
    let limits = Some(Limits { networks, ..Limits::default() });
    let policy = Policy { limits, ..Policy::default() };
    let mut buf = vec![0; ROOM];
    buf[..query.len()].copy_from_slice(&query);
    let peer = SocketAddr::from((client, 5353));
    let mut packets = [Packet::new(&mut buf, query.len(), peer, Transport::Datagram)];
    let now = Now { unix_seconds: 0, monotonic_micros: 1_000_000, seed: 1 };
    let Server { image, scratch, .. } = server;
    let mut counts = AnswerCounts::default();
    batch(image, &policy, now, &mut NoForwarding, scratch, &mut packets, &mut counts);
    let reply = packets[0].message();
    assert_eq!((reply[3] & 15, reply[7]), (0, 1));
    let start = 12 + name("s.cluster.local.").as_name().len() + 4;
    let record = Records::new(reply, start, 1).next().unwrap().unwrap();
    (record.expand(&mut [0; 4]).unwrap()[3], subnet_of(reply))
}

/// The last byte of each record of an answer, and of each additional one.
fn numbers(reply: &[u8], owner: &str) -> (Vec<u8>, Vec<u8>) {
    let start = 12 + name(owner).as_name().len() + 4;
    let [answer, _, additional] = [6, 8, 10].map(|at| usize::from(reply[at + 1]));
    let all: Vec<u8> = Records::new(reply, start, answer + additional)
        .map(|record| {
            let (record, mut room) = (record.unwrap(), [0; 300]);
            let data = record.expand(&mut room).unwrap();
            // The port of a service is its number.
            if record.rtype == Rtype::SRV { data[5] } else { data[data.len() - 1] }
        })
        .collect();
    (all[..answer].to_vec(), all[answer..].to_vec())
}

fn set_of<'z>(zone: &'z Zone, rtype: Rtype) -> RecordSet<'z> {
    zone.names().get(b"\x01s").unwrap().set(rtype).unwrap()
}

/// What a client of this address and location gets.
fn chosen(set: &RecordSet<'_>, chooser: Chooser) -> Vec<u8> {
    let (mut records, selection) = (Vec::new(), set.selection().unwrap());
    let count = chooser.choose(set, &selection, &mut |data| -> Result<(), ()> {
        records.push(data[data.len() - 1]);
        Ok(())
    });
    assert_eq!(count, Ok(records.len() as u16));
    records
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn client(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + n).into()
}

/// Chi-square of counts, whose shares are to be those of the weights.
fn check_shares(counts: &[u64], weights: &[u16], what: &str) {
    let (all, sum): (u64, u64) =
        (counts.iter().sum(), weights.iter().map(|weight| u64::from(*weight)).sum());
    let chi_square: f64 = counts
        .iter()
        .zip(weights)
        .map(|(count, weight)| {
            let expected = all as f64 * f64::from(*weight) / sum as f64;
            (*count as f64 - expected).powi(2) / expected
        })
        .sum();
    let max = CHI_SQUARE[counts.len() - 1];
    assert!(chi_square < max, "{what}: {counts:?} for {weights:?}: {chi_square:.1} > {max}");
}

#[test]
fn answers_by_weight_have_their_shares() {
    check_all_shares(200_000, 20_000);
}

#[test]
#[ignore = "slow: 12 million choices and 4 million queries"]
fn million_answers_by_weight_have_their_shares() {
    check_all_shares(1_000_000, 1_000_000);
}

/// One, two and four workers, each with the seeds that a handler gives its bursts; and queries.
fn check_all_shares(choices: u64, queries: u64) {
    let cases: [(Order, &[u16]); 4] = [
        (Order::Random, &[1; 8]),
        (Order::Weighted, &[1, 2, 3, 10]),
        (Order::Weighted, &[65_535, 1_000]),
        (Order::Weighted, &[5, 5, 5, 5, 5, 5, 5, 90]),
    ];
    for (order, weights) in cases {
        let equal = weights.iter().all(|weight| *weight == weights[0]);
        let weighed = if equal { Vec::new() } else { weights.to_vec() };
        let rules = AnswerRules { weights: weighed, ..one(order) };
        let zone = zone("cluster.local.", weights.len(), &rules);
        let set = set_of(&zone, Rtype::A);
        for workers in [1, 2, 4] {
            let mut counts = vec![0; weights.len()];
            for worker in 0..workers {
                let mut state = 7 + worker;
                for _ in 0..choices / workers {
                    let (client, draw) = (client(1), random(&mut state));
                    let location = Location::UNKNOWN;
                    let got = chosen(&set, Chooser { client, location, draw });
                    counts[usize::from(got[0])] += 1;
                }
            }
            check_shares(&counts, weights, &format!("{workers} workers, {order:?}"));
        }
        let mut server = Server::new(zone);
        let (mut counts, mut seed) = (vec![0; weights.len()], 99u64);
        for _ in 0..queries {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let question = ("s.cluster.local.", Rtype::A);
            let reply = server.ask(question, (client(1), 0), (seed, ROOM));
            counts[usize::from(numbers(&reply, question.0).0[0])] += 1;
        }
        check_shares(&counts, weights, &format!("queries, {order:?}"));
    }
}

/// The second record is chosen among the others by their weights.
#[test]
fn further_records_have_their_shares_and_none_comes_twice() {
    let weights = [1, 2, 3, 10];
    let rules = AnswerRules { others: 2, weights: weights.into(), ..one(Order::Weighted) };
    let zone = zone("cluster.local.", 4, &rules);
    let (set, mut state) = (set_of(&zone, Rtype::A), 5);
    let (mut first, mut after) = ([0; 4], [0; 4]);
    for _ in 0..100_000 {
        let (client, location) = (client(1), Location::UNKNOWN);
        let got = chosen(&set, Chooser { client, location, draw: random(&mut state) });
        assert!(got.len() == 2 && got[0] != got[1], "{got:?}");
        first[usize::from(got[0])] += 1;
        if got[0] == 3 {
            after[usize::from(got[1])] += 1;
        }
    }
    check_shares(&first, &weights, "first");
    check_shares(&after[..3], &weights[..3], "second after the heaviest");
}

#[test]
fn hash_balances_and_a_member_that_leaves_moves_only_its_clients() {
    const CLIENTS: u32 = 65_536;
    for members in [2usize, 4, 8] {
        let weight = |n: usize| 1 + n as u16 % 3;
        for weights in [Vec::new(), (0..members).map(weight).collect()] {
            let rules = AnswerRules { weights: weights.clone(), ..one(Order::Hash) };
            let zone_of = |members: usize| {
                let mut rules = rules.clone();
                rules.weights.truncate(members);
                zone("cluster.local.", members, &rules)
            };
            let (all, fewer) = (zone_of(members), zone_of(members - 1));
            let (all, fewer) = (set_of(&all, Rtype::A), set_of(&fewer, Rtype::A));
            let mut counts = vec![0u64; members];
            for n in 0..CLIENTS {
                let (client, location) = (client(n), Location::UNKNOWN);
                let before = chosen(&all, Chooser { client, location, draw: u64::from(n) })[0];
                let again = chosen(&all, Chooser { client, location, draw: 0 })[0];
                let after = chosen(&fewer, Chooser { client, location, draw: 1 })[0];
                assert_eq!(before, again, "chance changes nothing");
                let is_gone = usize::from(before) == members - 1;
                assert!(is_gone || before == after, "client {n} moves from {before} to {after}");
                counts[usize::from(before)] += 1;
            }
            let weight = |n: usize| weights.get(n).copied().map_or(1.0, f64::from);
            let sum: f64 = (0..members).map(weight).sum();
            for (n, count) in counts.iter().enumerate() {
                let share = f64::from(CLIENTS) * weight(n) / sum;
                assert!(*count as f64 <= 1.05 * share, "{n} of {members}: {counts:?}");
            }
        }
    }
}

/// The network counts, and the zone; not the process, the order of records or the address family's
/// spelling.
#[test]
fn hash_depends_on_the_network_and_the_zone_alone() {
    let rules = one(Order::Hash);
    let (zone_a, zone_b) = (zone("cluster.local.", 8, &rules), zone("example.org.", 8, &rules));
    let (a, b) = (set_of(&zone_a, Rtype::A), set_of(&zone_b, Rtype::A));
    let of = |set: &RecordSet<'_>, client: IpAddr| {
        chosen(set, Chooser { client, location: Location::UNKNOWN, draw: 0 })[0]
    };
    let v6 = |text: &str| IpAddr::from(text.parse::<Ipv6Addr>().unwrap());
    assert_eq!(of(&a, v6("2001:db8:1:200::1")), of(&a, v6("2001:db8:1:2ff:9::")), "one /56");
    assert_eq!(of(&a, client(9)), of(&a, v6("::ffff:10.0.0.9")));
    let count = |differs: &dyn Fn(u32) -> bool| (0..1000).filter(|n| differs(*n)).count();
    assert!(count(&|n| of(&a, client(n)) != of(&b, client(n))) > 800, "the zone counts");
    let networks = |n: u32| v6(&format!("2001:db8:{n:x}:100::1"));
    assert!(count(&|n| of(&a, networks(n)) != of(&a, networks(n + 1))) > 800);
    // Servers of different versions have to agree.
    let some: Vec<u8> = (0..8).map(|n| of(&a, client(n))).collect();
    assert_eq!(some, GOLDEN, "the choice of a client has changed");
}

/// Each client of a trusted resolver is led as if it had asked itself, and the resolver may not
/// give its record to others.
#[test]
fn hash_takes_the_client_that_a_trusted_resolver_names() {
    let mut server = Server::new(zone("cluster.local.", 8, &one(Order::Hash)));
    let resolver = IpAddr::from(Ipv4Addr::from_bits(RESOLVER));
    let alone =
        |server: &mut Server, client: IpAddr| ask_with_subnet(server, client, &[0, 1, 0, 0]).0;
    let (own, mut others) = (alone(&mut server, resolver), 0);
    for n in 0..64 {
        let led = alone(&mut server, [10, 1, n, 0].into());
        let v4 = [0, 1, 24, 0, 10, 1, n];
        assert_eq!(ask_with_subnet(&mut server, resolver, &v4), (led, Some((24, 32))), "{n}");
        others += u32::from(led != own);
        let not_trusted = ask_with_subnet(&mut server, [10, 9, 9, 9].into(), &v4);
        assert_eq!(not_trusted, (alone(&mut server, [10, 9, 9, 9].into()), None));
        let v6 = [0, 2, 48, 0, 0x20, 1, 0xd, 0xb8, 0, n];
        let site = Ipv6Addr::new(0x2001, 0xdb8, n.into(), 0, 0, 0, 0, 0);
        let led = alone(&mut server, site.into());
        assert_eq!(ask_with_subnet(&mut server, resolver, &v6), (led, Some((48, 56))), "{n}");
        let mapped = [[0, 2, 120, 0].as_slice(), &[0; 10], &[255, 255, 10, 1, n]].concat();
        let led = alone(&mut server, [10, 1, n, 0].into());
        assert_eq!(ask_with_subnet(&mut server, resolver, &mapped), (led, Some((120, 128))));
    }
    assert!(others > 40, "clients are led as the resolver would be");
    assert_eq!(ask_with_subnet(&mut server, resolver, &[0, 1, 0, 0]), (own, Some((0, 0))));
}

/// Where these clients were led when the hash was written down.
const GOLDEN: [u8; 8] = [5, 4, 3, 1, 1, 7, 6, 2];

fn near(order: Order, others: u16) -> AnswerRules {
    let mut locations: Vec<Location> =
        ["eu/fra1/a", "eu/fra1/b", "eu/ams1", "us", "us"].map(location).into();
    locations.push(Location::UNKNOWN);
    locations.sort_unstable();
    AnswerRules { order, others, locations, ..AnswerRules::default() }
}

#[test]
fn nearest_answers_the_longest_common_path_that_has_any() {
    let rules = near(Order::Random, u16::MAX);
    let zone = zone("cluster.local.", 6, &rules);
    let set = set_of(&zone, Rtype::A);
    let number = |path: &str| {
        let is_it = |one: &&Location| **one == location(path);
        rules.locations.iter().position(|one| is_it(&one)).unwrap() as u8
    };
    let [fra_a, fra_b, ams, us] = ["eu/fra1/a", "eu/fra1/b", "eu/ams1", "us"].map(number);
    let every: Vec<u8> = (0..6).collect();
    for (path, expected) in [
        ("eu/fra1/a", vec![fra_a]),
        ("eu/fra1/a/rack7", vec![fra_a]),
        ("eu/fra1/c", vec![fra_a, fra_b]),
        ("eu/ams1/b", vec![ams]),
        ("eu/par1", vec![fra_a, fra_b, ams]),
        ("us/nyc1/a", vec![us, us + 1]),
        ("asia", every.clone()),
    ] {
        let mut expected = expected;
        expected.sort_unstable();
        for draw in [0, 1 << 40, u64::MAX] {
            let (client, location) = (client(1), location(path));
            let mut got = chosen(&set, Chooser { client, location, draw });
            got.sort_unstable();
            assert_eq!(got, expected, "{path}");
        }
    }
    let (client, location) = (client(1), Location::UNKNOWN);
    let mut got = chosen(&set, Chooser { client, location, draw: 3 });
    got.sort_unstable();
    assert_eq!(got, every, "a client whose location is not known");
}

#[test]
fn member_of_weight_zero_is_answered_only_if_no_other_is_near() {
    let mut rules = near(Order::Random, u16::MAX);
    let at = |path: &str| rules.locations.iter().position(|one| *one == location(path)).unwrap();
    let (fra_a, fra_b) = (at("eu/fra1/a"), at("eu/fra1/b"));
    rules.weights = vec![1; 6];
    rules.weights[fra_a] = 0;
    for (order, others) in
        [(Order::Random, u16::MAX), (Order::Weighted, 1), (Order::Hash, 1), (Order::Hash, 9)]
    {
        let zone = zone("cluster.local.", 6, &AnswerRules { order, others, ..rules.clone() });
        let set = set_of(&zone, Rtype::A);
        for draw in 0..200 {
            let of = |path| {
                let draw = draw << 56 | draw;
                chosen(&set, Chooser { client: client(1), location: location(path), draw })
            };
            assert_eq!(of("eu/fra1/a"), [fra_a as u8], "{order:?}: no other is as near");
            assert_eq!(of("eu/fra1"), [fra_b as u8], "{order:?}");
        }
    }
}

/// Additional records are those of the chosen services alone.
#[test]
fn addresses_follow_the_services_that_were_chosen() {
    let mut first: HashMap<u8, u32> = HashMap::new();
    for (order, others) in [(Order::Random, 1), (Order::Weighted, 2), (Order::Hash, 3)] {
        let weights = vec![1, 2, 3, 4, 5];
        let rules = AnswerRules { weights, others, ..one(order) };
        let mut server = Server::new(zone("cluster.local.", 5, &rules));
        for seed in 1..200 {
            let question = ("srv.cluster.local.", Rtype::SRV);
            let reply = server.ask(question, (client(seed as u32), 0), (seed, ROOM));
            let (services, addresses) = numbers(&reply, question.0);
            assert_eq!(services.len(), usize::from(others), "{order:?}");
            assert_eq!(services, addresses, "{order:?}");
            *first.entry(services[0]).or_default() += 1;
        }
    }
    assert_eq!(first.len(), 5, "each service comes first: {first:?}");
}
