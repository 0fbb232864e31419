//! Where the clients of each endpoint are.
use super::{Cluster, Entry};
use std::collections::BTreeMap;
use std::net::IpAddr;

impl Cluster {
    /// The location of the clients that each endpoint of a service is for; empty: all are for all.
    pub(super) fn locations_of(
        &self,
        namespace: &str,
        entry: &Entry,
    ) -> BTreeMap<IpAddr, Box<str>> {
        let slices = entry.slices.iter().filter(|kept| kept.ready > 0);
        let hints = slices.map(|kept| self.checks.hints.get((false, namespace, &kept.name)));
        let hints: Option<Vec<_>> = hints.collect();
        let mut locations: BTreeMap<IpAddr, Box<str>> = BTreeMap::new();
        for (address, path) in hints.into_iter().flatten().flatten() {
            // An address that moves is in two slices for a while. Servers got them in different
            // orders, and choose alike.
            match locations.get_mut(&address) {
                Some(other) => *other = path.min(other.clone()),
                None => drop(locations.insert(address, path)),
            }
        }
        locations
    }
}
