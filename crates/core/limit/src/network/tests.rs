extern crate std;
use super::*;
use crate::flatten::range;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

/// The memory of a table.
#[derive(Default)]
struct Owned {
    v4: (Vec<u32>, Vec<u16>, Vec<u32>, RangeIndex),
    v6: (Vec<u128>, Vec<u16>, Vec<u32>, RangeIndex),
}

impl Owned {
    fn new(mut prefixes: Vec<(Prefix, u16)>) -> Self {
        let mut owned = Self::default();
        (owned.v4.1, owned.v6.1) = (vec![0], vec![0]);
        let Self { v4, v6 } = &mut owned;
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
        let (index, entries) = RangeIndex::of(&v4.0);
        (v4.2, v4.3) = (vec![0; entries], index);
        index.fill(&v4.0, &mut v4.2);
        let (index, entries) = RangeIndex::of(&v6.0);
        (v6.2, v6.3) = (vec![0; entries], index);
        index.fill(&v6.0, &mut v6.2);
        owned
    }

    fn table(&self) -> NetworkTable<'_> {
        let Self { v4, v6 } = self;
        NetworkTable {
            v4: NetworkBounds { bounds: &v4.0, numbers: &v4.1, entries: &v4.2, index: v4.3 },
            v6: NetworkBounds { bounds: &v6.0, numbers: &v6.1, entries: &v6.2, index: v6.3 },
        }
    }
}

/// The longest prefix decides.
fn naive(prefixes: &[(Prefix, u16)], address: IpAddr) -> u16 {
    let holding = prefixes.iter().filter(|(prefix, _)| prefix.holds(address));
    holding.max_by_key(|(prefix, number)| (prefix.len(), *number)).map_or(0, |(_, number)| *number)
}

/// Addresses around both ends of every prefix, and some others.
fn probes(prefixes: &[(Prefix, u16)]) -> Vec<IpAddr> {
    let others = ["0.0.0.0", "255.255.255.255", "::", "2001:db8::1", "::ffff:10.0.0.1"];
    let mut probes: Vec<IpAddr> = others.iter().map(|text| text.parse().unwrap()).collect();
    probes.push(Ipv6Addr::from_bits(u128::MAX).into());
    for (prefix, _) in prefixes {
        let (first, last) = range(prefix);
        for at in [first, first.wrapping_sub(1), last, last.wrapping_add(1)] {
            probes.push(match prefix.address() {
                IpAddr::V4(_) => Ipv4Addr::from_bits(at as u32).into(),
                IpAddr::V6(_) => Ipv6Addr::from_bits(at).into(),
            });
        }
    }
    probes
}

fn compare(prefixes: &[(Prefix, u16)]) {
    let owned = Owned::new(prefixes.to_vec());
    for address in probes(prefixes) {
        let (found, wanted) = (owned.table().number(address), naive(prefixes, address));
        assert_eq!(found, wanted, "{address} {prefixes:?}");
    }
}

/// A prefix with few distinct addresses, so that prefixes nest, and lie in few slots or in many.
fn any_prefix() -> impl Strategy<Value = (Prefix, u16)> {
    let masks = prop_oneof![Just(0xc000_0001 << 96 | 0x8000_0003_u128), Just(u128::MAX)];
    (any::<bool>(), 0u8..=128, any::<u128>(), masks, 0..5u16).prop_map(
        |(v4, len, bits, mask, number)| {
            let prefix = if v4 {
                let len = len % 33;
                let bits =
                    (bits & mask) as u32 & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                Prefix::new(Ipv4Addr::from_bits(bits).into(), len)
            } else {
                let bits = bits & mask & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                Prefix::new(Ipv6Addr::from_bits(bits).into(), len)
            };
            (prefix.unwrap_or("2001:db8::/32".parse().unwrap()), number)
        },
    )
}

/// All addresses of the prefix are in one network, and not all of the next shorter one are.
fn check_scope(prefixes: &[(Prefix, u16)]) {
    let owned = Owned::new(prefixes.to_vec());
    let is_same = |address: IpAddr, len: u8| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                Prefix::new(Ipv4Addr::from_bits(v4.to_bits() & mask).into(), len)
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(bits - u32::from(len)).unwrap_or(0);
                Prefix::new(Ipv6Addr::from_bits(v6.to_bits() & mask).into(), len)
            }
        };
        // Mapped addresses have no prefix.
        let Ok(prefix) = prefix else { return true };
        let (first, last) = range(&prefix);
        let passed = |at: u128| match address {
            IpAddr::V4(_) => owned.v4.0.partition_point(|bound| u128::from(*bound) <= at),
            IpAddr::V6(_) => owned.v6.0.partition_point(|bound| *bound <= at),
        };
        passed(first) == passed(last)
    };
    for address in probes(prefixes) {
        let scope = owned.table().scope(address);
        // A mapped address has the scope of the IPv4 address, behind the 96 bits before it.
        let (address, scope) = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or((address, scope), |v4| {
                (IpAddr::V4(v4), scope.checked_sub(96).expect("behind them"))
            }),
            IpAddr::V4(_) => (address, scope),
        };
        assert!(is_same(address, scope), "{address}/{scope}");
        assert!(scope == 0 || !is_same(address, scope - 1), "{address}/{scope}");
    }
}

proptest! {
    #[test]
    fn scope_is_the_shortest_prefix_within_one_network(
        prefixes in proptest::collection::vec(any_prefix(), 0..20),
    ) {
        check_scope(&prefixes);
    }

    #[test]
    fn longest_prefix_decides(prefixes in proptest::collection::vec(any_prefix(), 0..60)) {
        compare(&prefixes);
    }
}

#[test]
fn client_in_no_prefix_has_no_network() {
    let owned = Owned::new(Vec::new());
    for address in probes(&[]) {
        assert_eq!(owned.table().number(address), 0);
    }
    assert_eq!(NetworkTable::default().number("192.0.2.1".parse().unwrap()), 0);
}

#[test]
fn prefixes_of_every_length_lie_within_each_other() {
    let nested: Vec<(Prefix, u16)> = (0..=128)
        .map(|len| {
            let bits = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            (Prefix::new(Ipv6Addr::from_bits(bits).into(), len).unwrap(), u16::from(len) + 1)
        })
        .collect();
    compare(&nested);
}

#[test]
fn thousands_of_prefixes_are_found_in_a_few_slots_or_in_many() {
    for spread in [0x9e37_79b9_u32, 1 << 8, 1 << 16] {
        let prefixes: Vec<(Prefix, u16)> = (0..5000u32)
            .map(|n| {
                let address = Ipv4Addr::from_bits(n.wrapping_mul(spread) & !0xff);
                (Prefix::new(address.into(), 24).unwrap(), (n % 7) as u16)
            })
            .collect();
        let owned = Owned::new(prefixes.clone());
        let mut longest: Vec<(Prefix, u16)> = prefixes;
        longest.sort_unstable();
        longest.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 = if is_same { next.1 } else { kept.1 };
            is_same
        });
        for (prefix, number) in longest {
            assert_eq!(owned.table().number(prefix.address()), number, "{prefix}");
        }
    }
}
