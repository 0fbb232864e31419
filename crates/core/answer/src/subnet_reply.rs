//! The client subnet option of a reply (RFC 7871), and what its scope depends on.
use crate::choose::hashed_len;
use core::net::IpAddr;
use wire::ClientSubnet;

/// What of the client an answer depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dependence {
    /// All clients get it.
    #[default]
    None,
    /// Its network.
    Network,
    /// Its address, as far as a hash takes it in.
    Address,
}

/// The client subnet option of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubnetReply {
    subnet: ClientSubnet,
    scope: u8,
}

impl SubnetReply {
    /// Bytes of its data, at most.
    pub(crate) const LEN_MAX: usize = ClientSubnet::LEN_MAX;

    /// The option, for an answer that is the same in this prefix around the address.
    pub(crate) fn new(subnet: ClientSubnet, scope: u8) -> Self {
        Self { subnet, scope }
    }

    /// The address of the client, if it wants to be located.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        (self.subnet.source_len > 0).then_some(self.subnet.address)
    }

    /// Its data and their length.
    pub(crate) fn data(&self, depends: Dependence) -> ([u8; ClientSubnet::LEN_MAX], usize) {
        self.subnet.response(match (depends, self.client()) {
            (Dependence::None, _) | (_, None) => 0,
            (Dependence::Network, _) => self.scope,
            (Dependence::Address, Some(client)) => self.scope.max(hashed_len(client)),
        })
    }
}
