//! Access lists with the memory they are in.
use limit::{Acl, AclRule, Prefix};
use std::net::IpAddr;

/// Addresses that are on a list.
#[derive(Debug, Default)]
pub struct AccessList {
    v4: Vec<u32>,
    v6: Vec<u128>,
}

impl AccessList {
    /// A list of these rules: the longest prefix decides; an address in no prefix is not listed.
    pub fn new(rules: &[AclRule]) -> Self {
        let max = Acl::bounds_max(rules.len());
        let (mut v4, mut v6) = (vec![0; max], vec![0; max]);
        let list = Acl::build(&mut rules.to_vec(), false, &mut v4, &mut v6);
        let (v4, v6) = list.expect("there is room for as many bounds as there can be").bounds();
        Self { v4: v4.into(), v6: v6.into() }
    }

    /// A list of the addresses in these prefixes.
    pub fn of(prefixes: &[Prefix]) -> Self {
        let rules: Vec<AclRule> =
            prefixes.iter().map(|prefix| AclRule { prefix: *prefix, listed: true }).collect();
        Self::new(&rules)
    }

    /// The list as `answer` reads it.
    pub fn acl(&self) -> Acl<'_> {
        Acl::from_bounds(&self.v4, &self.v6, false)
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether an address is on it.
    pub fn lists(&self, address: IpAddr) -> bool {
        self.acl().lists(address)
    }
}
