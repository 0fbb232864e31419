//! The configuration: servers, groups, and lifetimes.
use crate::loops::ServerMarks;
use crate::tls::TrustAnchors;
use answer::TtlLimits;
use forward::{UpstreamGroup, UpstreamTransport};
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::SocketAddr;
use wire::{Name, NameBuf};

/// The configuration of a thread.
#[derive(Clone, Debug)]
pub struct ResolverPlan {
    /// Counts the plans of a process. A client follows a plan with another number than its own.
    pub serial: u64,
    /// The groups of servers, by number. A group keeps its number and its range of servers in all
    /// plans that have it, and those of a retired group are free once none of its queries can be
    /// under way.
    pub groups: Vec<UpstreamServers>,
    /// Bytes of the thread's share of the cache.
    pub cache_len: usize,
    /// Bounds of the lifetimes of answers.
    pub lifetimes: TtlLimits,
    /// Seconds after its end that an answer is served if no server answers; 0: never.
    pub stale_max: u32,
    /// First lifetime of a failure in seconds, 1 to
    /// [`FAILURE_TTL_MAX`](crate::limits::FAILURE_TTL_MAX).
    pub failure_ttl: u32,
    /// Trusted issuers; `None`: no certificate is accepted.
    pub trust: Option<TrustAnchors>,
    /// The marks of the servers.
    pub marks: ServerMarks,
}

impl ResolverPlan {
    /// Whether the group has the longest suffix of a name.
    pub(crate) fn is_of(&self, group: usize, name: Name<'_>) -> bool {
        let all = self.groups.iter().enumerate();
        let about = all
            .filter(|(_, servers)| !servers.is_retired && name.is_within(servers.suffix.as_name()));
        let longest = about.max_by_key(|(_, servers)| servers.suffix.as_name().len());
        longest.is_some_and(|(number, _)| number == group)
    }
}

/// Servers for the names at and below a suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamServers {
    /// The number of the first server; the others follow it.
    pub first: u16,
    /// The suffix, in lower case.
    pub suffix: NameBuf,
    /// Their addresses, at most [`GROUP_LEN_MAX`](forward::limits::GROUP_LEN_MAX).
    pub addresses: Vec<UpstreamAddress>,
    /// Whether queries have random case.
    pub mixes_case: bool,
    /// UDP source ports to each server that never change, 1 to
    /// [`SOCKETS_PER_SERVER`](crate::limits::SOCKETS_PER_SERVER). `None`: as many as that, which
    /// change (RFC 5452 §9.2).
    pub fixed_ports: Option<u8>,
    /// Whether answers are cached.
    pub caches: bool,
    /// The longest lifetime of an answer in seconds, if it is shorter than that of the plan.
    pub ttl_max: Option<u32>,
    /// Whether no rule leads here any more. Queries under way end with these servers.
    pub is_retired: bool,
}

impl UpstreamServers {
    /// Whether another group has the same names and servers, treated in the same way.
    pub fn is_like(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.mixes_case, it.fixed_ports, it.caches, it.ttl_max);
        parts(self) == parts(other)
            && self.suffix == other.suffix
            && self.addresses == other.addresses
    }

    /// The bounds of the lifetimes of its answers; `all`: those of all groups.
    pub(crate) fn lifetimes(&self, all: &TtlLimits) -> TtlLimits {
        let most = self.ttl_max.unwrap_or(u32::MAX);
        let TtlLimits { ttl_min, ttl_max, negative_ttl_max } = *all;
        TtlLimits {
            ttl_min: ttl_min.min(most),
            ttl_max: ttl_max.min(most),
            negative_ttl_max: negative_ttl_max.min(most),
        }
    }

    /// The servers with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u16, &UpstreamAddress)> {
        (self.first..).zip(&self.addresses)
    }

    pub(crate) fn group(&self) -> UpstreamGroup {
        let len = self.addresses.len() as u16;
        UpstreamGroup { first: self.first, len, mixes_case: self.mixes_case }
    }
}

/// The address of a server, and its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// Address and port.
    pub at: SocketAddr,
    /// The transport.
    pub over: QueryTransport,
}

/// The transport of queries to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryTransport {
    /// UDP, and TCP for answers that are too long.
    Udp,
    /// TCP (RFC 7766).
    Tcp,
    /// TLS (RFC 7858) with a certificate for this name or address (RFC 8310 §8.1), and nothing
    /// else.
    Tls(ServerName<'static>),
}

impl From<SocketAddr> for UpstreamAddress {
    fn from(at: SocketAddr) -> Self {
        Self { at, over: QueryTransport::Udp }
    }
}

/// As in the config: `tls://192.0.2.1:853#dns.example`.
impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match &self.over {
            QueryTransport::Udp => write!(f, "{at}"),
            QueryTransport::Tcp => write!(f, "tcp://{at}"),
            QueryTransport::Tls(name) => write!(f, "tls://{at}#{}", name.to_str()),
        }
    }
}

impl UpstreamAddress {
    pub(crate) fn transport(&self) -> UpstreamTransport {
        match self.over {
            QueryTransport::Udp => UpstreamTransport::Datagrams,
            QueryTransport::Tcp => UpstreamTransport::Streams,
            QueryTransport::Tls(_) => UpstreamTransport::Enciphered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_shortens_lifetimes_and_lengthens_none() {
        let group = |ttl_max| UpstreamServers {
            first: 0,
            suffix: NameBuf::root(),
            addresses: Vec::new(),
            mixes_case: true,
            fixed_ports: None,
            caches: true,
            ttl_max,
            is_retired: false,
        };
        let all = TtlLimits { ttl_min: 2, ttl_max: 60, negative_ttl_max: 30 };
        for (own, wanted) in [
            (None, [2, 60, 30]),
            (Some(1), [1, 1, 1]),
            (Some(40), [2, 40, 30]),
            (Some(600), [2, 60, 30]),
        ] {
            let TtlLimits { ttl_min, ttl_max, negative_ttl_max } = group(own).lifetimes(&all);
            assert_eq!([ttl_min, ttl_max, negative_ttl_max], wanted, "{own:?}");
        }
    }
}
