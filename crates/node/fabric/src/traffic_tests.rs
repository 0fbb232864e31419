use super::*;
use crate::tests::container;
use cpu_topology::{Cpu, Relation};
use proptest::prelude::*;

/// Two sockets of two L3 domains of two cores of two threads.
fn machine() -> Topology {
    let cpu = |id: usize| Cpu {
        id,
        core: id / 2 * 2,
        l2: Some(id / 2),
        l3: Some(id / 4),
        die: id / 8,
        node: id / 8,
        socket: id / 8,
        kind: cpu_topology::CoreKind::Standard,
    };
    Topology { cpus: (0..16).map(cpu).collect(), ..Topology::default() }
}

fn traffic(bytes: u64) -> Traffic {
    Traffic { frames: 1, packets: 1, bytes, payload: bytes / 2 }
}

#[test]
fn distance_is_the_smallest_part_with_all_cpus_of_both() {
    let topology = machine();
    for (one, other, expected) in [
        ("0", "1", Distance::Between(Relation::SameCore)),
        ("0", "0", Distance::Between(Relation::SameCore)),
        ("0", "2", Distance::Between(Relation::SameL3)),
        ("0-1", "2-3", Distance::Between(Relation::SameL3)),
        ("0", "4", Distance::Between(Relation::SameNode)),
        ("0-3", "0-7", Distance::Between(Relation::SameNode)),
        ("0", "8", Distance::Between(Relation::OtherSocket)),
        ("0-15", "0-15", Distance::Between(Relation::OtherSocket)),
        ("0", "", Distance::Unknown),
        ("0", "99", Distance::Between(Relation::OtherSocket)),
    ] {
        let (one, other) = (container("a", 1, one), container("b", 2, other));
        for (one, other) in [(&one, &other), (&other, &one)] {
            assert_eq!(Distance::between(&topology, one, other), expected, "{one:?} {other:?}");
        }
    }
}

#[test]
fn flow_to_a_service_counts_where_it_arrives_and_its_reply_where_it_leaves() {
    let containers = [container("client", 2, "0"), container("member", 3, "4")];
    let mut counters = Counters::default();
    // The client writes to the service, and has the reply from it.
    counters.sent.insert((2, Other::Outside), traffic(100));
    counters.delivered.insert((2, Other::Outside), traffic(900));
    // The member knows the client's address.
    counters.delivered.insert((3, Other::Container(2)), traffic(100));
    counters.sent.insert((3, Other::Container(2)), traffic(900));
    counters.sent.insert((3, Other::NotIp), traffic(42));
    let found = pairs(&machine(), &containers, &counters);
    let name = |name: &str| Some(name.to_owned());
    let short: Vec<_> =
        found.iter().map(|p| (p.from.clone(), p.to.clone(), p.traffic.bytes)).collect();
    assert_eq!(
        short,
        [(name("member"), name("client"), 900), (name("client"), name("member"), 100)]
    );
    let sums = by_distance(&found);
    let near = sums
        .iter()
        .find(|(distance, ..)| *distance == Distance::Between(Relation::SameNode))
        .unwrap();
    assert_eq!(near.1.bytes, 1_000);
}

#[test]
fn median_is_the_limit_of_its_range() {
    let mut trips = RoundTrips { number: 10, ..RoundTrips::default() };
    (trips.buckets[3], trips.buckets[7]) = (6, 4);
    assert_eq!(trips.quantile_us(0.5), Some(8));
    assert_eq!(trips.quantile_us(0.99), Some(128));
    assert_eq!(RoundTrips::default().quantile_us(0.5), None);
}

proptest! {
    /// What is sent and delivered appears once, in each order of senders and receivers.
    #[test]
    fn no_byte_between_two_is_lost_or_counted_twice(
        flows in proptest::collection::vec((2_u32..6, 2_u32..7, 1_u64..1_000, any::<bool>()), 0..30)
    ) {
        let containers: Vec<_> = (2..6).map(|n| container(&format!("c{n}"), n, "0-15")).collect();
        let mut counters = Counters::default();
        let mut expected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (from, to, bytes, is_service) in flows {
            let is_here = to < 6 && from != to;
            let other = match is_here && !is_service {
                true => Other::Container(to),
                false => Other::Outside,
            };
            let add = |table: &mut BTreeMap<_, Traffic>, key| {
                let entry = table.entry(key).or_insert(Traffic::default());
                *entry = entry.sum(traffic(bytes));
            };
            add(&mut counters.sent, (from, other));
            if is_here {
                add(&mut counters.delivered, (to, Other::Container(from)));
            }
            *expected.entry((from, if is_here { to } else { 0 })).or_default() += bytes;
        }
        let found = pairs(&machine(), &containers, &counters);
        let number = |name: &Option<String>| {
            name.as_ref().map_or(0, |name| name[1..].parse::<u32>().unwrap())
        };
        let found: BTreeMap<_, _> = found
            .iter()
            .map(|pair| ((number(&pair.from), number(&pair.to)), pair.traffic.bytes))
            .collect();
        prop_assert_eq!(found, expected);
    }
}
