//! Networks of clients: their views, their locations and the names that they may not query.
use crate::common::{name, zones};
use answer::{
    AnswerCounts, ClientNetworks, ClientPlaces, DeniedAnswer, Limits, NameRules, Network,
    NoForwarding, Now, Policy, Scratch, batch,
};
use limit::{Acl, NetworkBounds, NetworkTable, RangeIndex};
use packet::{LocationNumber, Packet, Transport, Verdict, View};
use std::net::IpAddr;
use wire::QName;

/// Network 1 denies `ns.example.org`, network 2 nothing. Network 2 is in another view.
struct Rules(DeniedAnswer<'static>);

impl NameRules for Rules {
    fn deny(&self, network: u16, queried: &QName) -> bool {
        network == 1 && queried.as_name() == name("ns.example.org.").as_name()
    }

    fn answer(&self, _network: u16) -> DeniedAnswer<'_> {
        self.0
    }
}

/// Number 3 is of clients that are in no network, and at a known place.
const NETWORKS: [Network; 4] = [
    Network { location: LocationNumber(0), view: View(0), denies: false },
    Network { location: LocationNumber(5), view: View(0), denies: true },
    Network { location: LocationNumber(6), view: View(9), denies: false },
    Network { location: LocationNumber(7), view: View(0), denies: false },
];

/// The response to a query of this client: code, answers, and what was found of the client.
fn ask(answer: DeniedAnswer<'static>, client: &str, query: &[u8]) -> (u8, Vec<u8>, (u16, u8, u16)) {
    // 10.1.0.0/16 is network 1, 10.2.0.0/16 network 2.
    let (bounds, numbers) = ([0x0a01_0000_u32, 0x0a02_0000, 0x0a03_0000], [0, 1, 2, 0]);
    let (index, len) = RangeIndex::of(&bounds);
    let mut entries = vec![0; len];
    index.fill(&bounds, &mut entries);
    let v4 = NetworkBounds { bounds: &bounds, numbers: &numbers, index, entries: &entries };
    let table = NetworkTable { v4, ..NetworkTable::default() };
    // 10.1.0.0/17, which is in network 1, and 10.200.0.0/16 are at the place.
    let bounds = [0x0a01_0000_u32, 0x0a01_8000, 0x0ac8_0000, 0x0ac9_0000];
    let (index, len) = RangeIndex::of(&bounds);
    let mut entries = vec![0; len];
    index.fill(&bounds, &mut entries);
    let numbers = [0, 1, 0, 1, 0];
    let v4 = NetworkBounds { bounds: &bounds, numbers: &numbers, index, entries: &entries };
    let places = NetworkTable { v4, ..NetworkTable::default() };
    let places = Some(ClientPlaces { table: places, before: 2 });
    let rules = Rules(answer);
    // 192.0.2.53 is a resolver that says where its clients are.
    let bounds = [0xc000_0235, 0xc000_0236];
    let trust = Acl::from_bounds(&bounds, &[], false);
    let denies = NETWORKS.iter().any(|network| network.denies);
    let networks = Some(ClientNetworks {
        table,
        places,
        networks: &NETWORKS,
        rules: &rules,
        trust,
        denies,
        placed: false,
    });
    let limits = Some(Limits { networks, ..Limits::default() });
    let policy = Policy { limits, ..Policy::default() };
    let mut buf = vec![0xee; 1232];
    buf[..query.len()].copy_from_slice(query);
    let peer = (client.parse::<IpAddr>().unwrap(), 5353).into();
    let mut packets = [Packet::new(&mut buf, query.len(), peer, Transport::Datagram)];
    let now = Now { unix_seconds: 0, monotonic_micros: 1_000_000, seed: 1 };
    let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
    let resolver = &mut NoForwarding;
    batch(&zones(), &policy, now, resolver, &mut scratch, &mut packets, &mut counts);
    let [packet] = packets;
    assert_eq!(packet.verdict, Verdict::Reply);
    assert_eq!(counts.rcodes.iter().sum::<u32>(), 1, "counted once");
    let found = (packet.network, packet.context.view.0, packet.context.location.0);
    (packet.message()[3] & 0xf, packet.message().to_vec(), found)
}

fn query(owner: &str, rtype: u8, class: u8) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    bytes.extend(name(owner).as_name().as_bytes());
    bytes.extend([0, rtype, 0, class, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    bytes
}

const NXDOMAIN: DeniedAnswer<'static> = DeniedAnswer::NxDomain;

#[test]
fn client_gets_the_view_and_the_location_of_its_network() {
    let of = |client| ask(NXDOMAIN, client, &query("www.example.org.", 1, 1));
    let (rcode, _, found) = of("192.0.2.1");
    assert_eq!((rcode, found), (3, (0, 0, 0)));
    assert_eq!(of("10.1.9.9").2, (1, 0, 5));
    let (rcode, _, found) = of("::ffff:10.2.0.1");
    assert_eq!((rcode, found), (3, (2, 9, 6)));
}

#[test]
fn places_are_for_clients_in_no_network() {
    let of = |client| ask(NXDOMAIN, client, &query("www.example.org.", 1, 1)).2;
    assert_eq!(of("10.200.1.1"), (3, 0, 7));
    assert_eq!(of("10.1.1.1"), (1, 0, 5), "its network decides");
    assert_eq!([of("10.3.0.1"), of("10.201.0.0")], [(0, 0, 0); 2]);
    // The answer may be another one where the place ends.
    let (_, reply, found) =
        ask(NXDOMAIN, RESOLVER, &with_subnet("ns.example.org.", &[0, 1, 24, 0, 10, 200, 7]));
    assert_eq!((found, subnet_of(&reply)), ((3, 0, 7), Some((24, 16))));
    let denied = with_subnet("ns.example.org.", &[0, 1, 24, 0, 10, 1, 7]);
    let (_, reply, found) = ask(NXDOMAIN, RESOLVER, &denied);
    assert_eq!((found, subnet_of(&reply)), ((1, 0, 5), Some((24, 16))));
}

#[test]
fn denied_name_gets_the_answer_of_the_network() {
    let denied = query("NS.example.org.", 1, 1);
    let has_error = |reply: &[u8], code: u8| reply.ends_with(&[0, 15, 0, 2, 0, code]);
    let (rcode, reply, _) = ask(NXDOMAIN, "10.1.0.1", &denied);
    assert!(rcode == 3 && has_error(&reply, 15), "{reply:x?}");
    assert_eq!(reply[2] & 4, 0, "not authoritative");
    let (rcode, reply, _) = ask(DeniedAnswer::Refused, "10.1.0.1", &denied);
    assert!(rcode == 5 && has_error(&reply, 15), "{reply:x?}");
    const ADDRESSES: &[IpAddr] = &[IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 77))];
    let (rcode, reply, _) = ask(DeniedAnswer::Addresses(ADDRESSES), "10.1.0.1", &denied);
    assert!(rcode == 0 && reply[7] == 1 && has_error(&reply, 4), "{reply:x?}");
    assert!(reply.windows(6).any(|bytes| bytes == [0, 4, 192, 0, 2, 77]), "{reply:x?}");
    let aaaa = query("ns.example.org.", 28, 1);
    let (rcode, reply, _) = ask(DeniedAnswer::Addresses(ADDRESSES), "10.1.0.1", &aaaa);
    assert_eq!((rcode, reply[7], reply[9]), (0, 0, 0), "no data");
}

#[test]
fn other_names_and_other_clients_are_answered() {
    for (client, owner, class) in [
        ("10.3.0.1", "ns.example.org.", 1),
        ("192.0.2.1", "ns.example.org.", 1),
        ("10.1.0.1", "example.org.", 1),
    ] {
        let (rcode, ..) = ask(NXDOMAIN, client, &query(owner, 1, class));
        assert_eq!(rcode, 0, "{client} {owner}");
    }
    let (rcode, ..) = ask(NXDOMAIN, "10.1.0.1", &query("ns.example.org.", 16, 3));
    assert_eq!(rcode, 5, "class CH");
    let mut malformed = query("ns.example.org.", 1, 1);
    malformed.pop();
    assert_eq!(ask(NXDOMAIN, "10.1.0.1", &malformed).0, 1);
}

/// A query with a client subnet option.
pub fn with_subnet(owner: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = query(owner, 1, 1);
    let at = bytes.len() - 1;
    bytes[at] = data.len() as u8 + 4;
    bytes.extend([0, 8, 0, data.len() as u8]);
    bytes.extend(data);
    bytes
}

const RESOLVER: &str = "192.0.2.53";

/// The client subnet option of a reply: the source length and the scope.
pub fn subnet_of(reply: &[u8]) -> Option<(u8, u8)> {
    let at = reply.windows(6).position(|bytes| {
        bytes.starts_with(&[0, 8, 0])
            && matches!(bytes[3], 4..=20)
            && matches!(bytes[4..], [0, 1 | 2])
    })?;
    Some((reply[at + 6], reply[at + 7]))
}

#[test]
fn trusted_resolver_says_where_its_client_is() {
    let ask = |client, data: &[u8]| ask(NXDOMAIN, client, &with_subnet("ns.example.org.", data));
    let (rcode, reply, found) = ask(RESOLVER, &[0, 1, 24, 0, 10, 1, 7]);
    assert_eq!((rcode, found, subnet_of(&reply)), (3, (1, 0, 5), Some((24, 16))), "{reply:x?}");
    let (rcode, reply, found) = ask(RESOLVER, &[0, 1, 24, 0, 11, 0, 0]);
    assert_eq!((rcode, found, subnet_of(&reply)), (0, (0, 0, 0), Some((24, 8))), "{reply:x?}");
    // RFC 7871 §7.1.2: a source of /0 asks not to be located.
    let (rcode, reply, found) = ask(RESOLVER, &[0, 1, 0, 0]);
    assert_eq!((rcode, found, subnet_of(&reply)), (0, (0, 0, 0), Some((0, 0))), "{reply:x?}");
    for malformed in [&[0, 1, 24, 0, 10, 1][..], &[0, 3, 0, 0], &[0, 1, 8, 8, 10]] {
        assert_eq!(ask(RESOLVER, malformed).0, 1, "FORMERR");
        assert_eq!(ask("192.0.2.1", malformed).0, 0, "it is not trusted");
    }
    let (rcode, reply, found) = ask("192.0.2.1", &[0, 1, 24, 0, 10, 1, 7]);
    assert_eq!((rcode, found, subnet_of(&reply)), (0, (0, 0, 0), None), "{reply:x?}");
}
