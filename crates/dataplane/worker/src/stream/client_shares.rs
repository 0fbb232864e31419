//! Weights of items, grouped by client.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// The client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientIdentity {
    /// One IPv4 address or IPv6 /64: a client with one IPv6 address usually has its /64.
    Network(IpAddr),
    /// A proxy that has not sent its header yet.
    Proxy(IpAddr),
}

impl ClientIdentity {
    /// The client of an address.
    pub fn at(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Network(address),
            IpAddr::V6(v6) => {
                let network = v6.to_bits() & !u128::from(u64::MAX);
                Self::Network(Ipv6Addr::from_bits(network).into())
            }
        }
    }
}

/// Items with a weight, a time and a client. Finds the oldest item of a client, and the client with
/// the largest weight; every operation is O(log n).
#[derive(Debug, Default)]
pub struct Shares {
    members: HashMap<u64, ConnectionShare>,
    groups: HashMap<ClientIdentity, ClientShare>,
    /// The client with the largest weight last; for equal weights, the one with the oldest item.
    ranks: BTreeSet<ClientRank>,
    weight: usize,
}

type ClientRank = (usize, Reverse<Duration>, ClientIdentity);

#[derive(Clone, Copy, Debug)]
struct ConnectionShare {
    client: ClientIdentity,
    weight: usize,
    since: Duration,
}

#[derive(Debug, Default)]
struct ClientShare {
    weight: usize,
    by_age: BTreeSet<(Duration, u64)>,
}

impl ClientShare {
    fn rank(&self, client: ClientIdentity) -> Option<ClientRank> {
        let (since, _) = self.by_age.first()?;
        Some((self.weight, Reverse(*since), client))
    }
}

impl Shares {
    /// Adds or replaces an item.
    pub fn put(&mut self, id: u64, client: ClientIdentity, weight: usize, since: Duration) {
        self.take(id);
        self.weight += weight;
        self.members.insert(id, ConnectionShare { client, weight, since });
        self.change(client, |group| {
            group.weight += weight;
            group.by_age.insert((since, id));
        });
    }

    /// Removes an item; returns whether it existed.
    pub fn take(&mut self, id: u64) -> bool {
        let Some(ConnectionShare { client, weight, since }) = self.members.remove(&id) else {
            return false;
        };
        self.weight -= weight;
        self.change(client, |group| {
            group.weight -= weight;
            group.by_age.remove(&(since, id));
        });
        true
    }

    /// Sets the time of an item; returns whether it exists.
    pub fn renew(&mut self, id: u64, since: Duration) -> bool {
        let Some(&ConnectionShare { client, weight, .. }) = self.members.get(&id) else {
            return false;
        };
        self.put(id, client, weight, since);
        true
    }

    /// Changes the group of a client, which exists as long as it has items.
    fn change(&mut self, client: ClientIdentity, change: impl FnOnce(&mut ClientShare)) {
        let group = self.groups.entry(client).or_default();
        if let Some(rank) = group.rank(client) {
            self.ranks.remove(&rank);
        }
        change(group);
        match group.rank(client) {
            Some(rank) => _ = self.ranks.insert(rank),
            None => _ = self.groups.remove(&client),
        }
    }

    /// The weight of all items.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// The weight of a client's items.
    pub fn weight_of(&self, client: ClientIdentity) -> usize {
        self.groups.get(&client).map_or(0, |group| group.weight)
    }

    /// The client with the largest weight.
    pub fn heaviest(&self) -> Option<ClientIdentity> {
        self.ranks.last().map(|(_, _, client)| *client)
    }

    /// A client's oldest item.
    pub fn oldest_of(&self, client: ClientIdentity) -> Option<u64> {
        let (_, id) = self.groups.get(&client)?.by_age.first()?;
        Some(*id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_client_is_an_address_or_a_64() {
        let at = |text: &str| ClientIdentity::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    }

    proptest! {
        /// The answers equal those of a search through all items.
        #[test]
        fn the_heaviest_and_the_oldest_are_found(
            steps in proptest::collection::vec((0..12u64, 0..4u8, 0..5usize, 0..20u64), 1..60),
        ) {
            let client = |n: u8| ClientIdentity::at(IpAddr::from([192, 0, 2, n]));
            let mut shares = Shares::default();
            let mut naive: BTreeMap<u64, (u8, usize, u64)> = BTreeMap::new();
            for (id, of, weight, since) in steps {
                if weight == 0 {
                    prop_assert_eq!(shares.take(id), naive.remove(&id).is_some());
                } else if since == 0 {
                    let there = naive.contains_key(&id);
                    prop_assert_eq!(shares.renew(id, Duration::from_secs(7)), there);
                    naive.entry(id).and_modify(|member| member.2 = 7);
                } else {
                    shares.put(id, client(of), weight, Duration::from_secs(since));
                    naive.insert(id, (of, weight, since));
                }
                let oldest = |of: u8| {
                    let theirs = naive.iter().filter(|(_, member)| member.0 == of);
                    theirs.map(|(id, member)| (member.2, *id)).min()
                };
                let weight = |of: u8| -> usize {
                    naive.values().filter(|member| member.0 == of).map(|member| member.1).sum()
                };
                for of in 0..4 {
                    prop_assert_eq!(shares.oldest_of(client(of)), oldest(of).map(|(_, id)| id));
                    prop_assert_eq!(shares.weight_of(client(of)), weight(of));
                }
                let heaviest = (0..4)
                    .filter_map(|of| Some((weight(of), Reverse(oldest(of)?.0), of)))
                    .max()
                    .map(|(_, _, of)| client(of));
                prop_assert_eq!(shares.heaviest(), heaviest);
                prop_assert_eq!(shares.weight(), (0..4).map(weight).sum::<usize>());
            }
        }
    }
}
