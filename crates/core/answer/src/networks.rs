//! Where a client is: its network decides its view, its location and the names that it may query.
use crate::Policy;
use crate::computed::put_address;
use crate::ede::Ede;
use crate::reply::{OwnerName, ReplyWriter};
use crate::subnet_reply::{Dependence, SubnetReply};
use core::fmt;
use core::net::IpAddr;
use limit::{Acl, NetworkTable};
use packet::{LocationNumber, Packet, View};
use wire::{Class, ClientSubnet, QName, Query, Rcode};

/// TTL of an address in place of a denied name.
const DENIED_TTL: u32 = 60;

/// What a network decides for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The location.
    pub location: LocationNumber,
    /// The view.
    pub view: View,
    /// Whether names are denied to its clients.
    pub denies: bool,
}

/// All networks.
#[derive(Clone, Copy)]
pub struct ClientNetworks<'p> {
    /// The numbers of networks, by address.
    pub table: NetworkTable<'p>,
    /// Where clients in no network are.
    pub places: Option<ClientPlaces<'p>>,
    /// The networks by number. Number 0 is of clients in no network.
    pub networks: &'p [Network],
    /// The names that are denied to clients of a network.
    pub rules: &'p dyn NameRules,
    /// Resolvers whose client subnet option says where their clients are (RFC 7871).
    pub trust: Acl<'p>,
    /// Whether any of them denies names.
    pub denies: bool,
    /// Whether the packets have their view and location already, and their names were checked.
    pub placed: bool,
}

/// Locations of clients that are in no network.
#[derive(Clone, Copy, Debug)]
pub struct ClientPlaces<'p> {
    /// Their numbers, by address.
    pub table: NetworkTable<'p>,
    /// The number of the network before the one with the first location.
    pub before: u16,
}

impl fmt::Debug for ClientNetworks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientNetworks").field("networks", &self.networks).finish_non_exhaustive()
    }
}

/// Names that are denied to the clients of networks.
pub trait NameRules: Sync {
    /// Whether this name is denied in a network.
    fn deny(&self, network: u16, name: &QName) -> bool;

    /// The answer to denied queries in a network.
    fn answer(&self, network: u16) -> DeniedAnswer<'_>;
}

/// The answer to a query for a denied name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedAnswer<'r> {
    /// NXDOMAIN.
    NxDomain,
    /// REFUSED.
    Refused,
    /// These addresses; NODATA for other types.
    Addresses(&'r [IpAddr]),
}

impl ClientNetworks<'_> {
    /// The number of the network of an address.
    #[inline(always)]
    pub fn number(&self, address: IpAddr) -> u16 {
        match (self.table.number(address), &self.places) {
            (0, Some(places)) => places.number(address),
            (number, _) => number,
        }
    }

    /// The length of the shortest prefix around an address whose addresses have its network.
    fn scope(&self, address: IpAddr) -> u8 {
        let scope = self.table.scope(address);
        match &self.places {
            Some(places) if self.table.number(address) == 0 => {
                scope.max(places.table.scope(address))
            }
            _ => scope,
        }
    }

    /// Finds the network of each client. Returns whether one of these denies names.
    #[inline(never)]
    pub(crate) fn place(&self, queries: &mut [Query], packets: &mut [Packet<'_>]) -> bool {
        let mut denies = false;
        if self.trust.is_none() {
            for packet in packets {
                denies |= self.place_at(packet, packet.context.client.ip());
            }
            return denies;
        }
        for (packet, query) in packets.iter_mut().zip(queries) {
            let client = packet.context.client.ip();
            let subnet = if self.trust.lists(client) { subnet_of(query, packet) } else { None };
            denies |= self.place_at(packet, subnet.map_or(client, |subnet| subnet.address));
        }
        denies
    }

    /// Places a packet whose client has this address. Returns whether its network denies names.
    #[inline(always)]
    fn place_at(&self, packet: &mut Packet<'_>, address: IpAddr) -> bool {
        packet.network = self.number(address);
        let network = self.network(packet);
        if self.placed {
            return false;
        }
        (packet.context.view, packet.context.location) = (network.view, network.location);
        network.denies
    }

    /// The network of a placed packet.
    #[inline(always)]
    pub(crate) fn network(&self, packet: &Packet<'_>) -> Network {
        self.networks.get(usize::from(packet.network)).copied().unwrap_or_default()
    }

    /// Whether a query of a trusted resolver has a malformed client subnet option (RFC 7871
    /// §7.1.2).
    pub(crate) fn is_malformed(&self, query: &Query, packet: &Packet<'_>) -> bool {
        self.trust.lists(packet.context.client.ip())
            && query.client_subnet(packet.message()).is_some_and(|subnet| subnet.is_err())
    }

    /// The client subnet option of the reply to a trusted resolver. Its scope is that of an answer
    /// that depends on the network.
    pub(crate) fn reply_subnet(&self, query: &Query, packet: &Packet<'_>) -> Option<SubnetReply> {
        let subnet = query.client_subnet(packet.message())?.ok()?;
        let is_trusted = self.trust.lists(packet.context.client.ip());
        is_trusted.then(|| SubnetReply::new(subnet, self.scope(subnet.address)))
    }

    /// Whether a query is for a name that is denied to its client.
    pub(crate) fn deny(&self, query: &mut Query, packet: &Packet<'_>) -> bool {
        self.network(packet).denies
            && query.parse(packet.buf, packet.len).is_ok()
            && query.flags.is_query()
            && query.tsig_at.is_none()
            && query.class != Class::CH
            && self.rules.deny(packet.network, &query.name)
    }
}

impl ClientPlaces<'_> {
    #[inline(never)]
    fn number(&self, address: IpAddr) -> u16 {
        match self.table.number(address) {
            0 => 0,
            number => self.before.saturating_add(number),
        }
    }
}

/// The subnet that a query names, if it wants its client to be located.
#[inline(never)]
fn subnet_of(query: &mut Query, packet: &Packet<'_>) -> Option<ClientSubnet> {
    query.parse(packet.buf, packet.len).ok()?;
    let subnet = query.client_subnet(packet.message())?.ok()?;
    (subnet.source_len > 0).then_some(subnet)
}

/// Answers a query for a name that is denied in a network.
#[inline(never)]
pub(crate) fn answer_denied(policy: &Policy<'_>, network: u16, reply: &mut ReplyWriter<'_>) {
    reply.depends = Dependence::Network;
    match policy.networks().map(|networks| networks.rules.answer(network)) {
        Some(DeniedAnswer::NxDomain) => reply.fail(Rcode::NxDomain, Some(Ede::BLOCKED)),
        Some(DeniedAnswer::Addresses(addresses)) => {
            reply.fail(Rcode::NoError, Some(Ede::FORGED));
            for address in addresses {
                put_address(*address, OwnerName::Question(0), DENIED_TTL, reply);
            }
        }
        Some(DeniedAnswer::Refused) | None => reply.fail(Rcode::Refused, Some(Ede::BLOCKED)),
    }
}
