//! The prefixes of an access list and of networks.
use answer::{ClientNetworks, DeniedAnswer, NameRules, Network};
use limit::{Acl, AclRule, NetworkBounds, NetworkTable, Prefix, RangeIndex};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::QName;

/// Prefixes of each.
const PREFIXES: u32 = 1000;

/// An access list.
pub struct Rules {
    pub v4: Vec<u32>,
    pub v6: Vec<u128>,
}

impl Rules {
    pub fn new() -> Self {
        let mut rules: Vec<AclRule> = (0..PREFIXES)
            .map(|n| {
                let address = Ipv4Addr::from_bits(n.wrapping_mul(0x0041_8937) & !0xff);
                let prefix = Prefix::new(address.into(), 24).expect("a prefix");
                AclRule { prefix, listed: false }
            })
            .collect();
        let max = Acl::bounds_max(rules.len());
        let (mut v4, mut v6) = (vec![0; max], vec![0; max]);
        let acl = Acl::build(&mut rules, true, &mut v4, &mut v6).expect("room for all");
        let (v4_len, v6_len) = (acl.bounds().0.len(), acl.bounds().1.len());
        v4.truncate(v4_len);
        v6.truncate(v6_len);
        Self { v4, v6 }
    }
}

/// A table of networks, each of one prefix of both families.
pub struct Places {
    v4: (Vec<u32>, Vec<u16>, RangeIndex, Vec<u32>),
    v6: (Vec<u128>, Vec<u16>, RangeIndex, Vec<u32>),
    networks: Vec<Network>,
}

/// Site n of a /32.
fn site(n: u32) -> u128 {
    0x2001_0db8 << 96 | u128::from(n.wrapping_mul(0x9e37) & 0xffff) << 80
}

/// Clients of the same /32, at no such site.
pub fn client_v6(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(site(PREFIXES + n * 7) | 1)
}

impl Places {
    pub fn new() -> Self {
        let mut prefixes: Vec<(Prefix, u16)> = (0..PREFIXES)
            .flat_map(|n| {
                let v4 = Ipv4Addr::from_bits(n.wrapping_mul(0x0041_8937) & !0xff).into();
                let v6 = Ipv6Addr::from_bits(site(n)).into();
                [(v4, 24), (v6, 48)].map(|(address, len)| {
                    (Prefix::new(address, len).expect("a prefix"), n as u16 + 1)
                })
            })
            .collect();
        let (mut v4, mut v6) = ((Vec::new(), vec![0]), (Vec::new(), vec![0]));
        NetworkTable::flatten(
            &mut prefixes,
            |at, number| {
                v4.0.push(at);
                v4.1.push(number);
            },
            |at, number| {
                v6.0.push(at);
                v6.1.push(number);
            },
        );
        let ((index_v4, len_v4), (index_v6, len_v6)) =
            (RangeIndex::of(&v4.0), RangeIndex::of(&v6.0));
        let (mut entries_v4, mut entries_v6) = (vec![0; len_v4], vec![0; len_v6]);
        index_v4.fill(&v4.0, &mut entries_v4);
        index_v6.fill(&v6.0, &mut entries_v6);
        Self {
            v4: (v4.0, v4.1, index_v4, entries_v4),
            v6: (v6.0, v6.1, index_v6, entries_v6),
            networks: vec![Network::default(); PREFIXES as usize + 1],
        }
    }

    pub fn networks(&self) -> ClientNetworks<'_> {
        let Self { v4, v6, networks } = self;
        let v4 = NetworkBounds { bounds: &v4.0, numbers: &v4.1, index: v4.2, entries: &v4.3 };
        let v6 = NetworkBounds { bounds: &v6.0, numbers: &v6.1, index: v6.2, entries: &v6.3 };
        let table = NetworkTable { v4, v6 };
        let (rules, trust) = (&NoRules, Acl::NONE);
        let places = None;
        ClientNetworks { table, places, networks, rules, trust, denies: false, placed: false }
    }
}

struct NoRules;

impl NameRules for NoRules {
    fn deny(&self, _network: u16, _name: &QName) -> bool {
        false
    }

    fn answer(&self, _network: u16) -> DeniedAnswer<'_> {
        DeniedAnswer::Refused
    }
}
