//! The upstream of forwarders: a Knot on the client's host, which serves the zone.

use std::net::SocketAddr;

use lab_echo::PortCounter;
use lab_host::hosts::{self, Side};
use lab_host::namespace;

use super::CompareOptions;
use crate::Result;
use crate::servers::{Server, ServerKind, ServerSetup};

/// It runs until this is dropped.
#[derive(Debug)]
pub(super) struct Authority {
    _server: Server,
    queries: PortCounter,
}

impl Authority {
    /// Where it answers.
    pub(super) fn address() -> SocketAddr {
        (hosts::CLIENT, 53).into()
    }

    /// Starts it with one thread, on the generator's host.
    pub(super) fn start(options: &CompareOptions, hosts: &hosts::Options) -> Result<Self> {
        let kind = ServerKind::named("knot")?;
        let netns = hosts.namespace(Side::Client);
        let setup = ServerSetup {
            address: Self::address(),
            cpus: hosts.cpus(Side::Client)?,
            threads: Some(1),
            zone: options.zone.clone(),
            folder: options.folder.join("authority"),
            netns: Some(netns.clone()),
            interface: None,
        };
        let ask_from = hosts.namespace(Side::Server);
        let server = kind.start(&kind.binary(&options.binaries)?, &setup, Some(&ask_from))?;
        let count = || PortCounter::start(Self::address()).map_err(|error| error.to_string());
        Ok(Self { _server: server, queries: namespace::within(Some(&netns), count)? })
    }

    /// Queries since the start or the last call.
    pub(super) fn take(&self) -> Result<u64> {
        let counts = self.queries.take();
        counts.map(|counts| counts.arrived).map_err(|error| format!("queries to Knot: {error}"))
    }
}
