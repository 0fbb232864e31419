//! Packets no resolver sends: broken headers, counts that lie, names that loop, EDNS gone wrong.

use domain::base::iana::Rtype;

use crate::packet::QueryPacket;
use crate::queries::{COOKIE, Edns, KEEPALIVE, NSID, PADDING, QR, Query, SUBNET, TC};
use crate::random::Random;
use crate::world::World;

/// Changes a packet; the query it was made from is given for its length and name.
type Change = fn(&mut Vec<u8>, &Query, &mut Random);

/// Where a message's query begins.
const QUESTION: usize = 12;

/// Every oddity: its name in reports and in `reasons.toml`, and how it is made.
pub const ODDITIES: [(&str, Change); 45] = [
    ("opcode", |packet, _, random| {
        let opcodes = [1, 2, 3, 6, 7, 9, 15];
        packet[2] |= opcodes[random.below(opcodes.len())] << 3;
    }),
    ("notify", |packet, _, _| packet[2] |= 4 << 3),
    ("update", |packet, _, _| packet[2] |= 5 << 3),
    ("response", |packet, _, _| packet[2] |= (QR >> 8) as u8),
    ("aa-in-query", |packet, _, _| packet[2] |= 4),
    ("tc-in-query", |packet, _, _| packet[2] |= (TC >> 8) as u8),
    ("ra-in-query", |packet, _, _| packet[3] |= 0x80),
    ("rcode-in-query", |packet, _, random| packet[3] |= 1 + random.below(15) as u8),
    ("no-question", |packet, query, _| {
        packet[5] = 0;
        packet.drain(QUESTION..question_end(query));
    }),
    ("qdcount-0", |packet, _, _| packet[5] = 0),
    ("qdcount-2-lie", |packet, _, _| packet[5] = 2),
    ("two-questions", |packet, query, _| {
        packet[5] = 2;
        let end = question_end(query);
        let again = packet[QUESTION..end].to_vec();
        packet.splice(end..end, again);
    }),
    ("qdcount-65535", |packet, _, _| (packet[4], packet[5]) = (255, 255)),
    ("truncated", |packet, _, random| {
        let length = 2 + random.below(packet.len() - 2);
        packet.truncate(length);
    }),
    ("header-only", |packet, _, _| packet.truncate(QUESTION)),
    ("trailing", |packet, _, random| {
        let more = 1 + random.below(20);
        packet.extend((0..more).map(|byte| byte as u8));
    }),
    ("answer-in-query", |packet, query, _| {
        packet[7] = 1;
        let end = question_end(query);
        packet.splice(end..end, ADDRESS);
    }),
    ("ancount-lie", |packet, _, _| packet[7] = 1),
    ("authority-in-query", |packet, query, _| {
        packet[9] = 1;
        let end = question_end(query);
        packet.splice(end..end, ADDRESS);
    }),
    ("additional-in-query", |packet, _, _| {
        packet[11] += 1;
        packet.extend(ADDRESS);
    }),
    ("arcount-lie", |packet, _, _| packet[11] += 1),
    ("two-opt", |packet, query, _| {
        packet.truncate(question_end(query));
        packet[11] = 2;
        Edns::new(1232).append_to(packet);
        Edns::new(1232).append_to(packet);
    }),
    ("opt-not-at-root", |packet, query, _| {
        packet.truncate(question_end(query));
        packet[11] = 1;
        packet.extend([1, b'x']);
        Edns::new(1232).append_to(packet);
    }),
    ("opt-in-answer", |packet, query, _| {
        packet.truncate(question_end(query));
        (packet[7], packet[11]) = (1, 0);
        Edns::new(1232).append_to(packet);
    }),
    ("option-too-long", |packet, query, _| {
        packet.truncate(question_end(query));
        packet[11] = 1;
        Edns { options: vec![(65001, vec![0; 4])], ..Edns::new(1232) }.append_to(packet);
        let length = packet.len();
        packet[length - 5] = 5;
    }),
    ("opt-too-long", |packet, query, _| {
        packet.truncate(question_end(query));
        packet[11] = 1;
        Edns::new(1232).append_to(packet);
        *packet.last_mut().expect("it has a header") = 1;
    }),
    ("cookie-of-bad-length", |packet, query, random| {
        let length = [0, 1, 7, 9, 15, 41][random.below(6)];
        set_option(packet, query, COOKIE, vec![7; length]);
    }),
    ("cookie-twice", |packet, query, _| {
        set_options(packet, query, vec![(COOKIE, vec![1; 8]), (COOKIE, vec![2; 8])]);
    }),
    ("subnet-of-bad-prefix", |packet, query, random| {
        // Longer than an address, fewer bytes than the prefix needs, more, and bits behind it.
        let all: [&[u8]; 5] = [
            &[0, 1, 33, 0, 192, 0, 2, 1, 0],
            &[0, 2, 129, 0],
            &[0, 1, 24, 0, 192, 0],
            &[0, 1, 16, 0, 192, 0, 2],
            &[0, 1, 20, 0, 192, 0, 0xff],
        ];
        set_option(packet, query, SUBNET, all[random.below(all.len())].to_vec());
    }),
    ("subnet-of-bad-family", |packet, query, random| {
        set_option(packet, query, SUBNET, vec![0, [0, 3][random.below(2)], 8, 0, 10]);
    }),
    ("subnet-cut-short", |packet, query, random| {
        set_option(packet, query, SUBNET, vec![0, 1, 0][..random.below(4)].to_vec());
    }),
    ("keepalive-with-timeout", |packet, query, random| {
        set_option(packet, query, KEEPALIVE, vec![1; 1 + random.below(3)]);
    }),
    ("nsid-with-data", |packet, query, _| {
        set_option(packet, query, NSID, b"who".to_vec());
    }),
    ("padding-of-ones", |packet, query, _| {
        set_option(packet, query, PADDING, vec![1; 20]);
    }),
    ("opt-not-last", |packet, query, _| {
        packet.truncate(question_end(query));
        packet[11] = 2;
        edns(query).append_to(packet);
        packet.extend(ADDRESS);
    }),
    ("tsig", |packet, _, _| {
        packet[11] += 1;
        packet.extend(TSIG);
    }),
    ("tsig-not-last", |packet, _, _| {
        packet[11] += 2;
        packet.extend(TSIG);
        packet.extend(ADDRESS);
    }),
    ("pointer-to-itself", |packet, _, _| {
        packet.splice(QUESTION.., [0xc0, QUESTION as u8, 0, 1, 0, 1]);
        packet[11] = 0;
    }),
    ("pointer-forward", |packet, _, _| {
        packet.splice(QUESTION.., [0xc0, 18, 0, 1, 0, 1, 1, b'a', 0]);
        packet[11] = 0;
    }),
    ("label-type-01", |packet, _, _| packet[QUESTION] |= 0x40),
    ("label-type-10", |packet, _, _| packet[QUESTION] |= 0x80),
    ("name-of-256", |packet, query, _| {
        let mut name = Vec::new();
        while name.len() < 255 {
            name.extend([1, b'a']);
        }
        packet.splice(QUESTION..question_end(query) - 4, name.into_iter().chain([0]));
    }),
    ("class-ch", |packet, query, _| packet[question_end(query) - 1] = 3),
    ("meta-type", |packet, query, random| {
        let types = [0, 41, 249, 250, 253, 254, 128, 248];
        let end = question_end(query);
        packet[end - 3] = types[random.below(types.len())];
        packet[end - 4] = 0;
    }),
    ("transfer", |packet, query, random| {
        let end = question_end(query);
        (packet[end - 4], packet[end - 3]) = (0, 251 + random.below(2) as u8);
    }),
];

/// An A record at the root: owner, type, class, TTL, length, address.
const ADDRESS: [u8; 15] = [0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];

/// A TSIG record (RFC 8945 §4.2) of a key named `k` that no server has: owner, type, class ANY,
/// TTL, length, then `hmac-sha256`, a time, fudge 300, a MAC of 4 bytes, ID 0, no error, no more
/// data.
const TSIG: [u8; 46] = *b"\x01k\0\0\xfa\0\xff\0\0\0\0\0\x21\
    \x0bhmac-sha256\0\0\0\x65\0\0\0\x01\x2c\0\x04\x01\x02\x03\x04\0\0\0\0\0\0";

/// Gives the message an OPT record of one option, in place of all records it has.
fn set_option(packet: &mut Vec<u8>, query: &Query, code: u16, value: Vec<u8>) {
    set_options(packet, query, vec![(code, value)]);
}

/// The same of several options.
fn set_options(packet: &mut Vec<u8>, query: &Query, options: Vec<(u16, Vec<u8>)>) {
    packet.truncate(question_end(query));
    packet[11] = 1;
    Edns { options, ..edns(query) }.append_to(packet);
}

/// The query's OPT, or one that lets no reply be larger than without.
fn edns(query: &Query) -> Edns {
    query.edns.clone().unwrap_or_else(|| Edns::new(512))
}

fn question_end(query: &Query) -> usize {
    QUESTION + query.name.len() + 4
}

/// One packet made from `query`: its message with one thing wrong.
pub fn odd(query: Query, random: &mut Random) -> QueryPacket {
    make(ODDITIES[random.below(ODDITIES.len())], query, random)
}

/// Oddities of other EDNS versions. Chance makes few of them, and NSD limits how many errors it
/// sends, so that none of these might be answered.
pub fn rare_oddities(world: &World, random: &mut Random) -> Vec<QueryPacket> {
    let is_rare = |(name, _): &(&str, Change)| matches!(*name, "no-question" | "tsig" | "update");
    let name = &world.zones[0].name;
    let query = |version| {
        let edns = Edns { version, ..Edns::new(1_232) };
        Query { edns: Some(edns), ..Query::new(name.clone(), Rtype::A) }
    };
    let mut packets = Vec::new();
    for oddity in ODDITIES.into_iter().filter(is_rare) {
        packets.extend((1..=20).map(|version| make(oddity, query(version), random)));
    }
    packets
}

fn make(
    (name, change): (&'static str, Change),
    mut query: Query,
    random: &mut Random,
) -> QueryPacket {
    let mut packet = query.to_wire();
    change(&mut packet, &query, random);
    if matches!(name, "meta-type" | "transfer") {
        let at = question_end(&query) - 4;
        query.qtype = Rtype::from_int(u16::from_be_bytes([packet[at], packet[at + 1]]));
    }
    QueryPacket { query, bytes: packet, oddity: Some(name) }
}

#[cfg(test)]
mod tests {
    use super::ODDITIES;
    use crate::names::name;
    use crate::queries::{Edns, Query};
    use crate::random::Random;
    use domain::base::iana::Rtype;

    #[test]
    fn every_oddity_changes_the_packet() {
        let mut random = Random::new(1);
        for (oddity, change) in ODDITIES {
            let mut query = Query::new(name("a.example"), Rtype::A);
            query.edns = Some(Edns::new(512));
            let mut packet = query.to_wire();
            change(&mut packet, &query, &mut random);
            assert_ne!(packet, query.to_wire(), "{oddity}");
        }
    }
}
