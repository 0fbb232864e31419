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
        hints.into_iter().flatten().flatten().collect()
    }
}
