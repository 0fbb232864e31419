//! Changes of the servers. The cache, the queries under way and the sockets of other servers stay.
use super::UpstreamClient;
use super::restart::changing;
use crate::tls::TlsClient;
use crate::{QueryTransport, ResolverPlan, UpstreamAddress, UpstreamServers};
use forward::{Forwarder, Upstream};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// In the place of a server that is none.
const NO_SERVER: UpstreamAddress = UpstreamAddress {
    at: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    over: QueryTransport::Udp,
};

impl UpstreamClient {
    /// Uses the servers of a plan from now on. No effect if it does so already.
    #[inline]
    pub fn follow(&mut self, plan: &ResolverPlan) {
        if plan.serial != self.plan.serial {
            changing(|| self.begin_groups(plan));
        }
    }

    /// Begins with the groups that are new in a plan.
    #[cold]
    pub(super) fn begin_groups(&mut self, plan: &ResolverPlan) {
        if self.streams.lacks_tls() {
            // The control plane has refused servers over TLS without trust anchors.
            self.streams.set_tls(tls(plan).unwrap_or_default());
        }
        let is_new = |(number, servers): &(usize, &UpstreamServers)| {
            // Other threads may send queries for retired groups, too, until they follow the plan.
            self.plan.groups.get(*number).is_none_or(|known| {
                let is_same = known.first == servers.first && known.is_like(servers);
                !is_same || known.is_retired && !servers.is_retired
            })
        };
        let new: Vec<_> = plan.groups.iter().enumerate().filter(is_new).map(|(_, it)| it).collect();
        // Read before any is overwritten.
        let states: Vec<_> = new.iter().map(|servers| self.states(servers)).collect();
        for (servers, states) in new.into_iter().zip(states) {
            self.begin_group(servers, states);
        }
        for number in plan.groups.iter().filter(|it| it.is_retired).flat_map(|it| it.numbered()) {
            // It is not probed any more.
            self.with(|forwarder, _, _| forwarder.upstream(number.0).is_drained = true);
        }
        self.groups = plan.groups.iter().map(UpstreamServers::group).collect();
        self.plan = plan.clone();
    }

    /// The state of each server of a new group: what is known of it if a group for the same names
    /// had it.
    fn states(&mut self, servers: &UpstreamServers) -> Vec<Upstream> {
        let Self { plan, state, queries, .. } = self;
        let same = |old: &&UpstreamServers| !old.is_retired && old.suffix == servers.suffix;
        let old = plan.groups.iter().find(same);
        let mut forwarder = Forwarder { state, queries };
        let mut state = |address: &UpstreamAddress| {
            let number = old?.numbered().find(|(_, old)| *old == address)?.0;
            Some(forwarder.upstream(number).without_queries())
        };
        servers.addresses.iter().map(|address| state(address).unwrap_or(Upstream::NEW)).collect()
    }

    fn begin_group(&mut self, servers: &UpstreamServers, states: Vec<Upstream>) {
        for ((number, address), state) in servers.numbered().zip(states) {
            self.with(|forwarder, _, _| {
                let upstream = forwarder.upstream(number);
                *upstream = state;
                upstream.transport = address.transport();
                forwarder.set_probe_name(number, servers.suffix.as_name());
            });
            let slot = usize::from(number);
            self.addresses.resize(self.addresses.len().max(slot + 1), NO_SERVER);
            self.addresses[slot] = address.clone();
            self.sockets.begin(slot, servers.fixed_ports);
            self.streams.begin(slot, address);
        }
    }
}

/// The TLS configuration, if some server needs it.
pub(super) fn tls(plan: &ResolverPlan) -> io::Result<Option<TlsClient>> {
    let mut addresses = plan.groups.iter().flat_map(|servers| &servers.addresses);
    if !addresses.any(|address| matches!(address.over, QueryTransport::Tls(_))) {
        return Ok(None);
    }
    let no_client =
        || io::Error::other("an upstream needs TLS, and there are no trusted CA certificates");
    let trust = plan.trust.as_ref().ok_or_else(no_client)?;
    TlsClient::new(trust).map(Some).map_err(io::Error::other)
}
