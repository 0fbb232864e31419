//! Queries: generated around the names of a world's zones.

use std::fmt;

use domain::base::iana::{Class, Rtype};

use crate::limits::PAYLOAD_MAX;
use crate::names::{self, Name, name};
use crate::random::Random;
use crate::world::World;
use crate::zone::{Signing, Zone};

/// Header bit: recursion desired.
pub const RD: u16 = 0x0100;
/// Header bit: the answer was cut.
pub const TC: u16 = 0x0200;
/// Header bit: this is a reply.
pub const QR: u16 = 0x8000;
const AA: u16 = 0x0400;
const RA: u16 = 0x0080;
const Z: u16 = 0x0040;
const AD: u16 = 0x0020;
const CD: u16 = 0x0010;
/// EDNS flag: DNSSEC answers are wanted.
pub const DO: u16 = 0x8000;
/// EDNS option: name server identifier (RFC 5001).
pub const NSID: u16 = 3;
/// EDNS option: client subnet (RFC 7871).
pub const SUBNET: u16 = 8;
/// EDNS option: cookie (RFC 7873).
pub const COOKIE: u16 = 10;
/// EDNS option: edns-tcp-keepalive (RFC 7828).
pub const KEEPALIVE: u16 = 11;
/// EDNS option: padding (RFC 7830).
pub const PADDING: u16 = 12;

/// An OPT record to send (RFC 6891).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The UDP payload size it declares, in bytes.
    pub size: u16,
    /// The EDNS version.
    pub version: u8,
    /// DO and the reserved bits.
    pub flags: u16,
    /// Codes and values.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// One query with its header and EDNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// QNAME, in the case it is sent.
    pub name: Name,
    /// QTYPE.
    pub qtype: Rtype,
    /// QCLASS.
    pub class: Class,
    /// The second 16 bits of the header.
    pub flags: u16,
    /// EDNS, if any.
    pub edns: Option<Edns>,
}

impl Query {
    /// A plain query in class IN.
    pub fn new(name: Name, qtype: Rtype) -> Self {
        Self { name, qtype, class: Class::IN, flags: 0, edns: None }
    }

    /// The message, with id 0.
    pub fn to_wire(&self) -> Vec<u8> {
        let mut wire = vec![0, 0];
        wire.extend(self.flags.to_be_bytes());
        wire.extend([0, 1, 0, 0, 0, 0, 0, self.edns.is_some() as u8]);
        wire.extend(self.name.as_slice());
        wire.extend(self.qtype.to_int().to_be_bytes());
        wire.extend(self.class.to_int().to_be_bytes());
        if let Some(edns) = &self.edns {
            edns.append_to(&mut wire);
        }
        wire
    }

    /// How many bytes a UDP reply may have (RFC 1035 §4.2.1, RFC 6891 §6.2.5).
    pub fn room(&self) -> usize {
        self.edns.as_ref().map_or(512, |edns| edns.size.clamp(512, PAYLOAD_MAX)).into()
    }

    /// True when DO is set.
    pub fn wants_dnssec(&self) -> bool {
        self.edns.as_ref().is_some_and(|edns| edns.flags & DO != 0)
    }
}

impl Edns {
    /// An OPT record of version 0 without flags and options.
    pub fn new(size: u16) -> Self {
        Self { size, version: 0, flags: 0, options: Vec::new() }
    }

    /// Appends the record.
    pub fn append_to(&self, wire: &mut Vec<u8>) {
        wire.extend([0, 0, 41]);
        wire.extend(self.size.to_be_bytes());
        wire.extend([0, self.version]);
        wire.extend(self.flags.to_be_bytes());
        let length: usize = self.options.iter().map(|(_, value)| value.len() + 4).sum();
        wire.extend((length as u16).to_be_bytes());
        for (code, value) in &self.options {
            wire.extend(code.to_be_bytes());
            wire.extend((value.len() as u16).to_be_bytes());
            wire.extend(value);
        }
    }
}

/// The options `dig` would be given.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {} {}", self.name.fmt_with_dot(), self.class, self.qtype)?;
        write!(f, " {}", if self.flags & RD != 0 { "+rd" } else { "+nord" })?;
        let bits = [(AA, " +aaflag"), (TC, " +tcflag"), (RA, " +raflag"), (Z, " +zflag")];
        let more = [(AD, " +ad"), (CD, " +cd")];
        for (bit, option) in bits.iter().chain(&more) {
            if self.flags & bit != 0 {
                f.write_str(option)?;
            } else if *bit == AD {
                f.write_str(" +noad")?;
            }
        }
        let Some(edns) = &self.edns else { return f.write_str(" +noedns") };
        write!(f, " +nocookie +edns={} +bufsize={}", edns.version, edns.size)?;
        if edns.flags & DO != 0 {
            f.write_str(" +do")?;
        }
        if edns.flags & !DO != 0 {
            write!(f, " +ednsflags={:#06x}", edns.flags & !DO)?;
        }
        for (code, value) in &edns.options {
            write!(f, " +ednsopt={code}:")?;
            value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

const COMMON: [Rtype; 12] = [
    Rtype::A,
    Rtype::A,
    Rtype::AAAA,
    Rtype::CNAME,
    Rtype::NS,
    Rtype::SOA,
    Rtype::MX,
    Rtype::TXT,
    Rtype::SRV,
    Rtype::DS,
    Rtype::ANY,
    Rtype::HTTPS,
];

const RARE: [Rtype; 17] = [
    Rtype::DNAME,
    Rtype::PTR,
    Rtype::SVCB,
    Rtype::DNSKEY,
    Rtype::NSEC,
    Rtype::NSEC3,
    Rtype::NSEC3PARAM,
    Rtype::RRSIG,
    Rtype::CAA,
    Rtype::NAPTR,
    Rtype::TLSA,
    Rtype::HINFO,
    Rtype::NULL,
    Rtype::from_int(1234),
    Rtype::from_int(65280),
    Rtype::from_int(65535),
    Rtype::SPF,
];

const LABELS: [&[u8]; 14] = [
    b"*", b"a", b"b", b"x", b"www", b"host", b"_tcp", b"ns", b"0", b"zz", b"c", b"nothere", b"-",
    b"\x00",
];

/// Without CH, for which BIND has a rate limit: that is one of the oddities.
const OTHER_CLASSES: [Class; 6] =
    [Class::HS, Class::NONE, Class::from_int(2), Class::from_int(4711), Class::ANY, Class::ANY];

/// Names of no zone, or of the root's world alone.
const ELSEWHERE: [&str; 5] = ["example.net", "test", ".", "unowned", "a.b.c.example"];

/// Makes queries about one world.
#[derive(Debug)]
pub struct QueryGenerator<'a> {
    world: &'a World,
    random: Random,
    /// The names of each zone.
    nodes: Vec<Vec<&'a Name>>,
    /// The owners of each zone's NSEC3 records.
    hashes: Vec<Vec<&'a Name>>,
}

impl<'a> QueryGenerator<'a> {
    /// The queries of `seed` about `world`.
    pub fn new(world: &'a World, seed: u64) -> Self {
        let (mut nodes, mut hashes) = (Vec::new(), Vec::new());
        for zone in &world.zones {
            let (hash, other) = zone.nodes.keys().partition(|name| zone.is_hash(name));
            hashes.push(hash);
            nodes.push(other);
        }
        Self { world, random: Random::new(seed), nodes, hashes }
    }

    /// The next query.
    pub fn query(&mut self) -> Query {
        let index = self.random.below(self.world.zones.len());
        let zone = &self.world.zones[index];
        let node = match &self.hashes[index][..] {
            [_, ..] if self.random.chance(3) => *self.random.pick(&self.hashes[index]),
            _ => *self.random.pick(&self.nodes[index]),
        };
        let mut name = self.variant(zone, node, index);
        if self.random.chance(25) {
            name = names::shuffle_case(&name, &mut self.random);
        }
        let qtype = self.qtype(zone, node);
        let edns = self.edns(zone.signing);
        Query { name, qtype, class: self.class(), flags: self.flags(), edns }
    }

    /// A name in, above, below or beside `node`, or somewhere else altogether.
    fn variant(&mut self, zone: &Zone, node: &Name, index: usize) -> Name {
        let random = &mut self.random;
        let label = *random.pick(&LABELS);
        let near = |label: &[u8]| {
            let above = names::parent(node).unwrap_or_else(Name::root_vec);
            names::child(label, &above)
        };
        let changed = match random.below(100) {
            0..35 => None,
            35..42 => names::parent(node),
            42..62 => names::child(label, node),
            62..70 => names::child(label, node)
                .and_then(|name| names::child(LABELS[random.below(LABELS.len())], &name)),
            70..80 => near(label),
            80..90 => near(&neighbour(names::first_label(node), random)),
            90..94 => {
                let other = *random.pick(&self.nodes[index]);
                names::child(names::first_label(other), node)
            }
            94..97 => {
                let other = random.pick(&self.world.zones);
                names::child(names::first_label(node), &other.name)
            }
            97..99 => names::child(label, &zone.name),
            _ => Some(name(ELSEWHERE[random.below(ELSEWHERE.len())])),
        };
        changed.unwrap_or_else(|| node.clone())
    }

    fn qtype(&mut self, zone: &Zone, node: &Name) -> Rtype {
        let own: Vec<_> = zone.nodes[node].iter().copied().collect();
        match self.random.below(100) {
            0..35 if !own.is_empty() => *self.random.pick(&own),
            0..85 => *self.random.pick(&COMMON),
            85..99 => *self.random.pick(&RARE),
            _ => Rtype::from_int(256 + self.random.below(65000) as u16),
        }
    }

    fn class(&mut self) -> Class {
        match self.random.below(200) {
            0 => *self.random.pick(&OTHER_CLASSES),
            _ => Class::IN,
        }
    }

    fn flags(&mut self) -> u16 {
        [(RD, 50), (CD, 10), (AD, 10), (Z, 2)]
            .into_iter()
            .filter(|(_, percent)| self.random.chance(*percent))
            .fold(0, |flags, (bit, _)| flags | bit)
    }

    fn edns(&mut self, signing: Signing) -> Option<Edns> {
        let random = &mut self.random;
        let signed = signing != Signing::Unsigned;
        if random.chance(if signed { 15 } else { 35 }) {
            return None;
        }
        let mut edns = Edns::new(*random.pick(&[0, 511, 512, 700, 1232, 1232, 1400, 4096, 65535]));
        if random.chance(if signed { 70 } else { 15 }) {
            edns.flags |= DO;
        }
        if random.chance(1) {
            edns.version = *random.pick(&[1, 255]);
        }
        if random.chance(2) {
            edns.flags |= 1 << random.below(15);
        }
        if random.chance(5) {
            let value = (0..random.below(12)).map(|byte| byte as u8).collect();
            edns.options.push((*random.pick(&[20, 100, 65001, 65534]), value));
        }
        for _ in 0..2 {
            let (code, value) = option(random);
            if random.chance(5) && edns.options.iter().all(|(other, _)| *other != code) {
                edns.options.push((code, value));
            }
        }
        Some(edns)
    }
}

/// An option that some server knows, as a client sends it.
fn option(random: &mut Random) -> (u16, Vec<u8>) {
    let bytes = |length| (0..length).map(|byte| byte as u8).collect::<Vec<_>>();
    match random.below(7) {
        0 => (NSID, Vec::new()),
        1 => (COOKIE, bytes(8)),
        2 => (COOKIE, bytes(*random.pick(&[16, 24, 40]))),
        // RFC 7871 §6: family, source and scope prefix lengths, and as much of the address.
        3 => (SUBNET, vec![0, 1, 24, 0, 192, 0, 2]),
        4 => (SUBNET, vec![0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0]),
        5 => (KEEPALIVE, Vec::new()),
        _ => (PADDING, vec![0; random.below(64)]),
    }
}

/// Queries every run asks, because what they show is rare: name, type and payload size; DO is
/// set where the zone is signed.
const RARITIES: [(&str, Rtype, u16); 8] = [
    ("dnskey.types.test", Rtype::ANY, 1232),
    ("cd3.alias.test", Rtype::A, 1232),
    ("c.d3.alias.nsec", Rtype::PTR, 511),
    ("cd4.alias.nsec3", Rtype::NSEC, 511),
    ("a-label-that-takes-some-room.d.wild.nsec", Rtype::SOA, 512),
    ("zz.tostar.wild.nsec3", Rtype::TXT, 1232),
    ("*.nothere.wild.nsec3", Rtype::SOA, 1232),
    ("*.nothere.uvidkaefl9porj4at56r7tup7230bopu.wild.nsec3", Rtype::TXT, 1232),
];

/// The queries about `world` that every run asks.
pub fn rarities(world: &World) -> Vec<Query> {
    let known = RARITIES.into_iter().map(|(text, qtype, size)| (name(text), qtype, size));
    known
        .filter_map(|(name, qtype, size)| {
            let zone = crate::zone::nearest(&world.zones, &name)?;
            let mut edns = Edns::new(size);
            if zone.signing != Signing::Unsigned {
                edns.flags = DO;
            }
            Some(Query { edns: Some(edns), ..Query::new(name, qtype) })
        })
        .collect()
}

/// A label just before or after `label` in canonical order, or with one byte changed.
fn neighbour(label: &[u8], random: &mut Random) -> Vec<u8> {
    let mut label = label.to_vec();
    match (random.below(3), label.last_mut()) {
        (0, Some(last)) => *last = last.wrapping_add(1),
        (1, Some(last)) => *last = last.wrapping_sub(1),
        _ => label.push(0),
    }
    label.truncate(63);
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> World {
        let zone = Zone {
            name: name("example"),
            file: Default::default(),
            signing: Signing::Unsigned,
            nodes: ["example", "a.example", "*.b.example", "b.example"]
                .into_iter()
                .map(|owner| (name(owner), [Rtype::A].into()))
                .collect(),
        };
        World { name: "test", zones: vec![zone] }
    }

    #[test]
    fn the_same_seed_asks_the_same() {
        let world = world();
        let ask = |seed| {
            let mut generator = QueryGenerator::new(&world, seed);
            (0..100).map(|_| generator.query()).collect::<Vec<_>>()
        };
        assert_eq!(ask(5), ask(5));
        assert_ne!(ask(5), ask(6));
    }

    #[test]
    fn queries_are_in_above_below_and_outside() {
        let world = world();
        let mut generator = QueryGenerator::new(&world, 1);
        let names: Vec<_> = (0..1000).map(|_| generator.query().name).collect();
        let apex = name("example");
        for wanted in ["a.example", "example", "host.a.example", "www.example", "."] {
            assert!(names.contains(&name(wanted)), "no question for {wanted}");
        }
        assert!(names.iter().any(|name| !name.ends_with(&apex)));
    }

    #[test]
    fn the_message_is_what_domain_reads() {
        let mut query = Query::new(name("a.Example"), Rtype::MX);
        query.flags = RD;
        query.edns = Some(Edns { flags: DO, options: vec![(20, vec![1, 2])], ..Edns::new(700) });
        let wire = query.to_wire();
        let message = domain::base::Message::from_slice(&wire).unwrap();
        assert_eq!(message.sole_question().unwrap().qtype(), Rtype::MX);
        let opt = message.opt().unwrap();
        assert!(opt.dnssec_ok() && opt.udp_payload_size() == 700 && message.header().rd());
        assert_eq!(query.room(), 700);
    }
}
