//! Who has how much: members with weights, grouped by the client they belong to.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Whom connections are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// One IPv4 address or one IPv6 /64: whoever has one IPv6 address usually has its /64.
    Network(IpAddr),
    /// A proxy that has not told yet whom it forwards.
    Proxy(IpAddr),
}

impl Client {
    /// The client an address belongs to.
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

/// Members, each with a weight, since when it has it, and the client it belongs to. Finds the
/// oldest member of a client and of the heaviest client; every operation is O(log n).
#[derive(Debug, Default)]
pub struct Shares {
    members: HashMap<u64, Member>,
    groups: HashMap<Client, Group>,
    /// The heaviest client last; of equally heavy ones, the one whose oldest member is oldest.
    ranks: BTreeSet<Rank>,
    weight: usize,
}

type Rank = (usize, Reverse<Duration>, Client);

#[derive(Clone, Copy, Debug)]
struct Member {
    client: Client,
    weight: usize,
    since: Duration,
}

#[derive(Debug, Default)]
struct Group {
    weight: usize,
    by_age: BTreeSet<(Duration, u64)>,
}

impl Group {
    fn rank(&self, client: Client) -> Option<Rank> {
        let (since, _) = self.by_age.first()?;
        Some((self.weight, Reverse(*since), client))
    }
}

impl Shares {
    /// Adds a member, or gives one another client, weight and time.
    pub fn put(&mut self, id: u64, client: Client, weight: usize, since: Duration) {
        self.take(id);
        self.weight += weight;
        self.members.insert(id, Member { client, weight, since });
        self.change(client, |group| {
            group.weight += weight;
            group.by_age.insert((since, id));
        });
    }

    /// Takes a member out, and tells whether there was one.
    pub fn take(&mut self, id: u64) -> bool {
        let Some(Member { client, weight, since }) = self.members.remove(&id) else {
            return false;
        };
        self.weight -= weight;
        self.change(client, |group| {
            group.weight -= weight;
            group.by_age.remove(&(since, id));
        });
        true
    }

    /// Gives a member another time, and tells whether there is one.
    pub fn renew(&mut self, id: u64, since: Duration) -> bool {
        let Some(&Member { client, weight, .. }) = self.members.get(&id) else {
            return false;
        };
        self.put(id, client, weight, since);
        true
    }

    /// Changes a client's group, which is there as long as it has members.
    fn change(&mut self, client: Client, change: impl FnOnce(&mut Group)) {
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

    /// The weight of all members.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// The weight of a client's members.
    pub fn weight_of(&self, client: Client) -> usize {
        self.groups.get(&client).map_or(0, |group| group.weight)
    }

    /// The heaviest client.
    pub fn heaviest(&self) -> Option<Client> {
        self.ranks.last().map(|(_, _, client)| *client)
    }

    /// A client's oldest member.
    pub fn oldest_of(&self, client: Client) -> Option<u64> {
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
        let at = |text: &str| Client::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    }

    proptest! {
        /// Whatever is put and taken: the answers are those of one who looks at every member.
        #[test]
        fn the_heaviest_and_the_oldest_are_found(
            steps in proptest::collection::vec((0..12u64, 0..4u8, 0..5usize, 0..20u64), 1..60),
        ) {
            let client = |n: u8| Client::at(IpAddr::from([192, 0, 2, n]));
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
