//! Objects with records of their own in zones of the config: what is kept of them.
use super::rules::PartRules;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An object with a part, but for Services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PartObject {
    /// The annotations and the age.
    pub rules: PartRules,
    /// Where its records come from.
    pub content: PartContent,
}

/// Where the records of an object come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum PartContent {
    /// It lists them itself: a DNSEndpoint.
    Records(GivenRecords),
    /// Hostnames with the addresses of a load balancer: an Ingress.
    Hosts(Box<[Box<str>]>, Targets),
    /// Listeners, and the addresses of all: a Gateway.
    Listeners(Box<[Listener]>, Targets),
    /// Hostnames with the addresses of the Gateways that take them: a route.
    Route(Box<[Box<str>]>, Box<[Parent]>),
    /// The Service of its name: a ServiceExport.
    Service,
}

/// The records of a DNSEndpoint, and its status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GivenRecords {
    /// The generation of what it says.
    pub generation: u64,
    /// The records.
    pub sets: Box<[GivenSet]>,
    /// Sets above the maximum.
    pub left_out: u32,
    /// The status, as far as Dunlin writes it.
    pub status: GivenStatus,
}

/// Records of one name and type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GivenSet {
    /// The name.
    pub name: Box<str>,
    /// The type.
    pub rtype: Box<str>,
    /// The TTL in seconds; 0: none.
    pub ttl: i64,
    /// The data of each record.
    pub targets: Box<[Box<str>]>,
}

/// The status of an object whose records may be live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GivenStatus {
    /// The generation that it is of.
    pub observed_generation: u64,
    /// `status` of the condition; empty: there is none.
    pub status: Box<str>,
    /// `reason` of the condition.
    pub reason: Box<str>,
    /// `message` of the condition.
    pub message: Box<str>,
    /// Since when the condition has this status.
    pub since: Box<str>,
}

/// Where clients of a name are to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Targets {
    /// Addresses.
    pub addresses: Box<[IpAddr]>,
    /// A name, if there are none; empty: neither.
    pub name: Box<str>,
}

impl Targets {
    /// Targets of addresses, and of the first of the names.
    pub(super) fn new<'t>(
        addresses: impl Iterator<Item = &'t str>,
        mut names: impl Iterator<Item = &'t str>,
    ) -> Self {
        let addresses = addresses.filter_map(|address| address.parse().ok()).collect();
        Self { addresses, name: names.next().unwrap_or_default().into() }
    }
}

/// A listener of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Listener {
    /// The name.
    pub name: Box<str>,
    /// The hostname that it is for; empty: all.
    pub hostname: Box<str>,
}

/// A Gateway that has accepted a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Parent {
    /// The namespace; empty: that of the route.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The listener; empty: each.
    pub listener: Box<str>,
}

impl Parent {
    /// The namespace of it, for a route in this one.
    pub fn namespace<'n>(&'n self, of_route: &'n str) -> &'n str {
        if self.namespace.is_empty() { of_route } else { &self.namespace }
    }
}
