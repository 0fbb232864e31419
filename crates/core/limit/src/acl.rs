//! Access lists of addresses.
//!
//! The most specific prefix decides, as in a routing table. The rules are flattened into the
//! addresses at which the verdict changes. A lookup counts the ones up to the client's address; an
//! odd number means the other verdict.
use crate::Prefix;
use crate::flatten::flatten;
use crate::prefix::mapped;
use core::cmp::Reverse;
use core::fmt;
use core::hint::select_unpredictable;
use core::net::IpAddr;

/// The verdict for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// The prefix.
    pub prefix: Prefix,
    /// Whether its addresses are listed.
    pub listed: bool,
}

/// The memory for a list is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclFull;

impl fmt::Display for AclFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an access list needs room for two bounds a rule")
    }
}

impl core::error::Error for AclFull {}

/// A list of addresses, in borrowed memory.
#[derive(Clone, Copy, Debug)]
pub struct Acl<'m> {
    v4: &'m [u32],
    v6: &'m [u128],
    otherwise: bool,
}

/// Bounds that are searched in steps of fixed width; a power of two.
const BLOCK_LEN: usize = 2048;

impl<'m> Acl<'m> {
    /// The empty list.
    pub const NONE: Self = Self { v4: &[], v6: &[], otherwise: false };
    /// The list of all addresses.
    pub const ALL: Self = Self { otherwise: true, ..Self::NONE };

    /// The most bounds of one family that `rules` rules need.
    pub const fn bounds_max(rules: usize) -> usize {
        2 * rules
    }

    /// Builds a list and sorts its rules. `otherwise` is the verdict without a rule. If two rules
    /// for one prefix differ, it is not listed.
    ///
    /// # Errors
    /// [`AclFull`] if `v4` or `v6` is shorter than [`Acl::bounds_max`].
    pub fn build(
        rules: &mut [AclRule],
        otherwise: bool,
        v4: &'m mut [u32],
        v6: &'m mut [u128],
    ) -> Result<Self, AclFull> {
        rules.sort_unstable_by_key(|AclRule { prefix, listed }| {
            (prefix.address(), prefix.len(), Reverse(*listed))
        });
        let (rules_v4, rules_v6) =
            rules.split_at(rules.partition_point(|rule| rule.prefix.address().is_ipv4()));
        let (mut v4_len, mut v6_len) = (0, 0);
        flatten(verdicts(rules_v4), otherwise, &mut |at, _| {
            // A range up to the last address needs no bound behind it.
            let Ok(at) = u32::try_from(at) else { return Ok(()) };
            push(v4, &mut v4_len, at)
        })?;
        flatten(verdicts(rules_v6), otherwise, &mut |at, _| push(v6, &mut v6_len, at))?;
        let (v4, v6): (&'m [u32], &'m [u128]) = (v4, v6);
        Ok(Self { v4: &v4[..v4_len], v6: &v6[..v6_len], otherwise })
    }

    /// A list from the [`bounds`](Acl::bounds) of another one.
    pub const fn from_bounds(v4: &'m [u32], v6: &'m [u128], otherwise: bool) -> Self {
        Self { v4, v6, otherwise }
    }

    /// The addresses at which the verdict changes, ascending, of each family.
    pub const fn bounds(&self) -> (&'m [u32], &'m [u128]) {
        (self.v4, self.v6)
    }

    /// Whether the list contains all addresses, so that no lookup is needed.
    #[inline]
    pub const fn is_all(&self) -> bool {
        self.otherwise && self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether the list is empty.
    #[inline]
    pub const fn is_none(&self) -> bool {
        !self.otherwise && self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether the list contains an address. An IPv4-mapped address counts as the IPv4 address.
    #[inline(always)]
    pub fn lists(&self, address: IpAddr) -> bool {
        let passed = match address {
            IpAddr::V4(v4) => passed(self.v4, v4.to_bits()),
            IpAddr::V6(v6) => match mapped(v6) {
                Some(v4) => passed(self.v4, v4),
                None => passed(self.v6, v6.to_bits()),
            },
        };
        self.otherwise ^ (passed % 2 == 1)
    }
}

/// How many bounds are at or below an address. The steps have fixed widths, so that the compiler
/// unrolls them without branches that depend on the address.
#[inline(always)]
fn passed<T: Copy + Ord>(bounds: &[T], address: T) -> usize {
    let blocks = bounds.as_chunks::<BLOCK_LEN>().0;
    let before = blocks.partition_point(|block| block[0] <= address);
    // The last bound passed, if the first is. The last block may lie before a part of one.
    let (mut at, mut step) = (before.saturating_sub(1) * BLOCK_LEN, BLOCK_LEN);
    while step > 0 {
        let next = at + step;
        if let Some(bound) = bounds.get(next) {
            at = select_unpredictable(*bound <= address, next, at);
        }
        step /= 2;
    }
    at + usize::from(bounds.get(at).is_some_and(|bound| *bound <= address))
}

fn verdicts(rules: &[AclRule]) -> impl Iterator<Item = (Prefix, bool)> {
    rules.iter().map(|rule| (rule.prefix, rule.listed))
}

fn push<T: Copy>(bounds: &mut [T], len: &mut usize, at: T) -> Result<(), AclFull> {
    *bounds.get_mut(*len).ok_or(AclFull)? = at;
    *len += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::flatten::range;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::vec;
    use std::vec::Vec;

    fn rule(text: &str, listed: bool) -> AclRule {
        AclRule { prefix: text.parse().unwrap(), listed }
    }

    /// The longest matching prefix decides; of two, the one that does not list the address.
    fn naive(rules: &[AclRule], otherwise: bool, address: IpAddr) -> bool {
        let holding = rules.iter().filter(|rule| rule.prefix.holds(address));
        let best = holding.max_by_key(|rule| (rule.prefix.len(), !rule.listed));
        best.map_or(otherwise, |rule| rule.listed)
    }

    /// Addresses around both ends of every prefix, and some others.
    fn probes(rules: &[AclRule]) -> Vec<IpAddr> {
        let mut probes: Vec<IpAddr> = ["0.0.0.0", "255.255.255.255", "::", "2001:db8::1"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        probes.push(Ipv6Addr::from_bits(u128::MAX).into());
        for rule in rules {
            let (first, last) = range(&rule.prefix);
            for at in [first, first.wrapping_sub(1), last, last.wrapping_add(1)] {
                probes.push(match rule.prefix.address() {
                    IpAddr::V4(_) => Ipv4Addr::from_bits(at as u32).into(),
                    IpAddr::V6(_) => Ipv6Addr::from_bits(at).into(),
                });
            }
        }
        probes
    }

    fn compare(mut rules: Vec<AclRule>, otherwise: bool) {
        let max = Acl::bounds_max(rules.len());
        let (mut v4, mut v6) = (vec![0; max], vec![0; max]);
        let acl = Acl::build(&mut rules, otherwise, &mut v4, &mut v6).unwrap();
        let (v4, v6) = acl.bounds();
        assert!(v4.is_sorted_by(|a, b| a < b) && v6.is_sorted_by(|a, b| a < b));
        let again = Acl::from_bounds(v4, v6, otherwise);
        for address in probes(&rules) {
            let wanted = naive(&rules, otherwise, address);
            assert_eq!(acl.lists(address), wanted, "{address} {rules:?}");
            assert_eq!(again.lists(address), wanted);
        }
    }

    fn any_rule() -> impl Strategy<Value = AclRule> {
        // Few distinct addresses, so that prefixes nest.
        (any::<bool>(), 0u8..=128, any::<u128>(), any::<bool>()).prop_map(
            |(v4, len, bits, listed)| {
                let prefix = match v4 {
                    true => {
                        let len = len % 33;
                        let bits = bits as u32
                            & 0xc000_8181
                            & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                        Prefix::new(Ipv4Addr::from_bits(bits).into(), len)
                    }
                    false => {
                        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                        let bits = bits & (0xc000_0001 << 96 | 0x8000_0003) & mask;
                        Prefix::new(Ipv6Addr::from_bits(bits).into(), len)
                    }
                };
                AclRule { prefix: prefix.unwrap_or("2001:db8::/32".parse().unwrap()), listed }
            },
        )
    }

    proptest! {
        #[test]
        fn the_most_specific_rule_wins(
            rules in proptest::collection::vec(any_rule(), 0..40),
            otherwise: bool,
        ) {
            compare(rules, otherwise);
        }
    }

    #[test]
    fn thousands_of_prefixes_are_fine() {
        let rules = (0..5000u32).map(|n| {
            let address = Ipv4Addr::from_bits(n.wrapping_mul(0x9e37_79b9) & !0xff);
            AclRule { prefix: Prefix::new(address.into(), 24).unwrap(), listed: n % 3 == 0 }
        });
        compare(rules.collect(), true);
    }

    /// Around the lengths at which the search changes.
    #[test]
    fn lists_of_every_length_are_searched_to_their_ends() {
        for block in 0..4 {
            for len in (block * BLOCK_LEN).saturating_sub(2)..=block * BLOCK_LEN + 2 {
                let bounds: Vec<u32> = (1..=len as u32).map(|n| 2 * n).collect();
                for address in 0..=2 * len as u32 + 1 {
                    assert_eq!(passed(&bounds, address), address as usize / 2, "{len}");
                }
            }
        }
    }

    #[test]
    fn prefixes_of_every_length_lie_within_each_other() {
        let v6 = (0..=128).map(|len| {
            let bits = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            AclRule {
                prefix: Prefix::new(Ipv6Addr::from_bits(bits).into(), len).unwrap(),
                listed: len % 2 == 0,
            }
        });
        let twice: Vec<_> = v6.clone().chain(v6).collect();
        compare(twice, false);
    }

    #[test]
    fn of_two_rules_for_one_prefix_the_one_that_does_not_list_wins() {
        let mut rules = vec![
            rule("192.0.2.0/24", false),
            rule("192.0.2.0/24", true),
            rule("192.0.2.128/25", true),
        ];
        compare(rules.clone(), true);
        let (mut v4, mut v6) = ([0; 6], [0; 6]);
        let acl = Acl::build(&mut rules, true, &mut v4, &mut v6).unwrap();
        assert!(!acl.lists("192.0.2.1".parse().unwrap()));
        assert!(!acl.lists("::ffff:192.0.2.1".parse().unwrap()), "mapped");
        assert!(acl.lists("192.0.2.129".parse().unwrap()));
    }

    #[test]
    fn too_little_memory_is_an_error() {
        let mut rules = vec![rule("192.0.2.0/24", true), rule("2001:db8::/32", true)];
        let build = |v4: &mut [u32], v6: &mut [u128], rules: &mut [AclRule]| {
            Acl::build(rules, false, v4, v6).map(|_| ())
        };
        assert_eq!(build(&mut [0; 2], &mut [0; 2], &mut rules), Ok(()));
        assert_eq!(build(&mut [0; 1], &mut [0; 2], &mut rules), Err(AclFull));
        assert_eq!(build(&mut [0; 2], &mut [0; 1], &mut rules), Err(AclFull));
    }

    #[test]
    fn lists_of_nobody_and_everybody() {
        let address = "2001:db8::1".parse().unwrap();
        assert!(!Acl::NONE.lists(address) && Acl::ALL.lists(address));
        assert!(!Acl::NONE.is_all() && Acl::ALL.is_all());
    }
}
