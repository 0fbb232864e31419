//! Counts the waiting queries of each client, so that no client uses all room.
//!
//! A client may have as many waiting queries as there is room left (dynamic thresholds, Choudhury
//! and Hahne 1998): a single client gets half of the room, and others find the other half. Two rows
//! of buckets are indexed by keyed hashes of the address, and the lower count decides (count-min
//! sketch), in memory of a fixed size. A client shares both buckets with a greedy one with a chance
//! of one in millions.
use crate::limits::SHARES_LEN;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

#[derive(Debug)]
pub(crate) struct WaiterShares {
    rows: [Box<[u16]>; 2],
    hasher: RandomState,
}

impl Default for WaiterShares {
    fn default() -> Self {
        let row = || vec![0; SHARES_LEN].into();
        Self { rows: [row(), row()], hasher: RandomState::new() }
    }
}

impl WaiterShares {
    /// Waiting queries of a client: never too low.
    pub(crate) fn of(&self, client: IpAddr) -> usize {
        let [first, second] = self.buckets(client);
        self.rows[0][first].min(self.rows[1][second]).into()
    }

    /// Counts a query.
    pub(crate) fn add(&mut self, client: IpAddr) {
        let buckets = self.buckets(client);
        for (row, bucket) in self.rows.iter_mut().zip(buckets) {
            row[bucket] = row[bucket].saturating_add(1);
        }
    }

    /// Removes a query.
    pub(crate) fn remove(&mut self, client: IpAddr) {
        let buckets = self.buckets(client);
        for (row, bucket) in self.rows.iter_mut().zip(buckets) {
            row[bucket] = row[bucket].saturating_sub(1);
        }
    }

    /// All addresses of an IPv6 /56 are one client.
    fn buckets(&self, client: IpAddr) -> [usize; 2] {
        let hash = match client.to_canonical() {
            IpAddr::V4(address) => self.hasher.hash_one(address.to_bits()),
            IpAddr::V6(address) => self.hasher.hash_one((address.to_bits() >> 72) as u64),
        };
        [hash as usize % SHARES_LEN, (hash >> 32) as usize % SHARES_LEN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn clients_are_counted_apart_and_networks_of_ipv6_together() {
        let mut shares = WaiterShares::default();
        let greedy = IpAddr::from([192, 0, 2, 1]);
        (0..2000).for_each(|_| shares.add(greedy));
        assert_eq!(shares.of(greedy), 2000);
        let others = (0..10_000).map(|n| IpAddr::from(Ipv4Addr::from_bits(n)));
        let crowded = others.filter(|other| shares.of(*other) > 0).count();
        assert!(crowded <= 2, "{crowded}");
        (0..2001).for_each(|_| shares.remove(greedy));
        assert_eq!(shares.of(greedy), 0);
        let of_network = |host: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | host));
        (0..10).for_each(|host| shares.add(of_network(host)));
        assert_eq!(shares.of(of_network(77 << 64)), 10);
        assert_eq!(shares.of(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().into()), 0);
        shares.add(greedy);
        assert_eq!(shares.of(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().into()), 1);
    }
}
