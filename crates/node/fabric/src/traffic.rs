//! What was counted: who sends to whom, by distance.
use crate::Container;
use cpu_topology::{Relation, Topology};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Sub;

/// What one sends to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Frames, as the interface counts them: a long one may become many packets of a wire.
    pub frames: u64,
    /// Packets of a wire.
    pub packets: u64,
    /// Bytes of frames, as the interface counts them.
    pub bytes: u64,
    /// Bytes behind the headers of TCP, UDP or IP. What was sent again counts again.
    pub payload: u64,
}

impl Traffic {
    fn sum(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            payload: self.payload + other.payload,
        }
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            frames: self.frames.saturating_sub(other.frames),
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
            payload: self.payload.saturating_sub(other.payload),
        }
    }
}

/// How many ranges of times the kernel's program tells apart: below 1, 2, 4 .. microseconds.
pub const BUCKETS: usize = 24;

/// Round trips that TCP has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// How many.
    pub number: u64,
    /// Their sum.
    pub sum_us: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// How many took less than 1, 2, 4 .. microseconds, and not less than the one before; the last
    /// has all others.
    pub buckets: [u64; BUCKETS],
}

impl RoundTrips {
    /// An upper limit of the time that this share of them took; `None`: there is none.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let wanted = (self.number as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let place = self.buckets.iter().position(|number| {
            sum += number;
            sum >= wanted
        });
        place.map(|bits| 1 << bits)
    }

    fn sum(mut self, other: &Self) -> Self {
        self.number += other.number;
        self.sum_us += other.sum_us;
        self.retransmissions += other.retransmissions;
        for (own, more) in self.buckets.iter_mut().zip(other.buckets) {
            *own += more;
        }
        self
    }

    fn since(mut self, before: &Self) -> Self {
        self.number = self.number.saturating_sub(before.number);
        self.sum_us = self.sum_us.saturating_sub(before.sum_us);
        self.retransmissions = self.retransmissions.saturating_sub(before.retransmissions);
        for (own, old) in self.buckets.iter_mut().zip(before.buckets) {
            *own = own.saturating_sub(old);
        }
        self
    }
}

/// The other one of a container's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Other {
    /// A container of this machine, by its interface.
    Container(u32),
    /// Another address: a service, the machine itself, or another machine.
    Outside,
    /// No IP, such as ARP.
    NotIp,
}

/// What the kernel's programs have counted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What a container has sent, by its interface and the address it wrote to.
    pub sent: BTreeMap<(u32, Other), Traffic>,
    /// What was delivered to a container, by its interface and the address it came from.
    pub delivered: BTreeMap<(u32, Other), Traffic>,
    /// Round trips, by the interface of the container that has measured and that of the other one.
    pub round_trips: BTreeMap<(u32, Other), RoundTrips>,
    /// Frames that were not counted, since the table of pairs is full.
    pub not_counted: u64,
    /// What the switch has done.
    pub switch: SwitchCounts,
}

/// What the switch has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SwitchCounts {
    /// Packets moved.
    pub packets: u64,
    /// Flows taken.
    pub flows: u64,
    /// Packets that the other end does not take: the stack has their flow from then on.
    pub too_long: u64,
    /// Packets with an address that is not their sender's: left to the stack.
    pub foreign: u64,
    /// Flows that went to the stack because an end has changed.
    pub given_back: u64,
}

/// A table without what it had before.
fn less<K: Copy + Ord>(
    now: &BTreeMap<K, Traffic>,
    then: &BTreeMap<K, Traffic>,
) -> BTreeMap<K, Traffic> {
    let before = |key| then.get(key).copied().unwrap_or_default();
    now.iter().map(|(key, one)| (*key, *one - before(key))).collect()
}

impl Counters {
    /// What was counted since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        let trips = self.round_trips.iter().map(|(key, one)| {
            (*key, one.since(before.round_trips.get(key).unwrap_or(&RoundTrips::default())))
        });
        Self {
            sent: less(&self.sent, &before.sent),
            delivered: less(&self.delivered, &before.delivered),
            round_trips: trips.collect(),
            ..self.clone()
        }
    }

    /// What went from one container to another one. What is sent to the address of a service is
    /// seen only where it is delivered, and its reply only where it is sent.
    fn between(&self, from: u32, to: u32) -> Traffic {
        let of = |table: &BTreeMap<_, Traffic>, one, other| {
            table.get(&(one, Other::Container(other))).copied().unwrap_or_default()
        };
        let (sent, delivered) = (of(&self.sent, from, to), of(&self.delivered, to, from));
        if delivered.bytes > sent.bytes { delivered } else { sent }
    }
}

/// How far two are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// One of them has no process.
    Unknown,
    /// One of them is no container here: another machine, the machine itself, or a service whose
    /// members are not here.
    Outside,
    /// What all their CPUs share.
    #[serde(untagged)]
    Between(Relation),
}

impl Distance {
    /// All of them, nearest first.
    pub fn all() -> impl Iterator<Item = Self> {
        Relation::ALL.into_iter().map(Self::Between).chain([Self::Unknown, Self::Outside])
    }

    /// The name in labels of metrics, which is that in JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Between(Relation::SameCore) => "same_core",
            Self::Between(Relation::SameL2) => "same_l2",
            Self::Between(Relation::SameL3) => "same_l3",
            Self::Between(Relation::SameNode) => "same_node",
            Self::Between(Relation::SameSocket) => "same_socket",
            Self::Between(Relation::OtherSocket) => "other_socket",
            Self::Unknown => "unknown",
            Self::Outside => "outside",
        }
    }

    /// Between two containers: the smallest part of the machine that has all CPUs of both.
    pub fn between(topology: &Topology, one: &Container, other: &Container) -> Self {
        if one.cpus.is_empty() || other.cpus.is_empty() {
            return Self::Unknown;
        }
        let all = one.cpus.union(&other.cpus);
        let first = all.iter().next();
        let relation = |id| topology.relation(first?, id);
        let farthest = all.iter().map(|id| relation(id).unwrap_or(Relation::OtherSocket)).max();
        farthest.map_or(Self::Unknown, Self::Between)
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(relation) => relation.fmt(f),
            Self::Unknown => f.pad("unknown"),
            Self::Outside => f.pad("outside"),
        }
    }
}

/// What one sends to another, and how far that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The sender; `None`: one that is no container here.
    pub from: Option<String>,
    /// The receiver; `None`: one that is no container here.
    pub to: Option<String>,
    /// How far it is.
    pub distance: Distance,
    /// What is sent.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Round trips as the sender has measured them.
    pub round_trips: RoundTrips,
}

/// Everything between containers, and between them and others; most bytes first.
pub fn pairs(topology: &Topology, containers: &[Container], counters: &Counters) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let by_interface: BTreeMap<u32, &Container> =
        containers.iter().map(|one| (one.interface, one)).collect();
    let mut between: BTreeMap<(u32, u32), Traffic> = BTreeMap::new();
    let keys = counters.sent.keys().map(|key| (key.0, key.1));
    let keys = keys.chain(counters.delivered.keys().filter_map(|(to, from)| match from {
        Other::Container(from) => Some((*from, Other::Container(*to))),
        _ => None,
    }));
    for (from, to) in keys {
        let Other::Container(to) = to else { continue };
        between.insert((from, to), counters.between(from, to));
    }
    for ((from, to), traffic) in &between {
        let (Some(one), Some(other)) = (by_interface.get(from), by_interface.get(to)) else {
            continue;
        };
        let trips = counters.round_trips.get(&(*from, Other::Container(*to)));
        pairs.push(Pair {
            from: Some(one.name.clone()),
            to: Some(other.name.clone()),
            distance: Distance::between(topology, one, other),
            traffic: *traffic,
            round_trips: trips.copied().unwrap_or_default(),
        });
    }
    for one in containers {
        pairs.extend(outside(one, counters, &between));
    }
    pairs.retain(|pair| pair.traffic.frames > 0 || pair.round_trips.number > 0);
    pairs.sort_by(|a, b| {
        b.traffic.bytes.cmp(&a.traffic.bytes).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to)))
    });
    pairs
}

/// What a container sends to those that are none here, and receives from them: all that is not
/// known to be between two.
fn outside(
    one: &Container,
    counters: &Counters,
    between: &BTreeMap<(u32, u32), Traffic>,
) -> [Pair; 2] {
    let total = |table: &BTreeMap<(u32, Other), Traffic>| {
        let own = table.range((one.interface, Other::Container(0))..=(one.interface, Other::NotIp));
        let ip = own.filter(|((_, other), _)| *other != Other::NotIp);
        ip.fold(Traffic::default(), |sum, (_, more)| sum.sum(*more))
    };
    let known = |is_own: &dyn Fn(&(u32, u32)) -> bool| {
        let own = between.iter().filter(|(key, _)| is_own(key));
        own.fold(Traffic::default(), |sum, (_, more)| sum.sum(*more))
    };
    let sent = total(&counters.sent) - known(&|(from, _)| *from == one.interface);
    let received = total(&counters.delivered) - known(&|(_, to)| *to == one.interface);
    let trips = counters.round_trips.get(&(one.interface, Other::Outside)).copied();
    let name = || Some(one.name.clone());
    let distance = Distance::Outside;
    [
        Pair {
            from: name(),
            to: None,
            distance,
            traffic: sent,
            round_trips: trips.unwrap_or_default(),
        },
        Pair {
            from: None,
            to: name(),
            distance,
            traffic: received,
            round_trips: RoundTrips::default(),
        },
    ]
}

/// The sums of each distance, nearest first; all of them, also those without traffic.
pub fn by_distance(pairs: &[Pair]) -> Vec<(Distance, Traffic, RoundTrips)> {
    let of = |distance| {
        let own = pairs.iter().filter(|pair| pair.distance == distance);
        own.fold((Traffic::default(), RoundTrips::default()), |(traffic, trips), pair| {
            (traffic.sum(pair.traffic), trips.sum(&pair.round_trips))
        })
    };
    Distance::all()
        .map(|distance| {
            let (traffic, trips) = of(distance);
            (distance, traffic, trips)
        })
        .collect()
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
