//! The interface and next hop of a query, by the kernel's tables of routes, devices and adjacent
//! hosts say (`rtnetlink(7)`).

use crate::limits::{NEIGHBOUR_PATIENCE, NEIGHBOUR_READ_INTERVAL};
use netlink::{LinkAddress, LinkId, Netlink};
use std::io;
use std::net::IpAddr;
use std::thread::sleep;
use std::time::Instant;

/// The first hop to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface: its name, number and address.
    pub name: String,
    index: u32,
    pub address: LinkAddress,
    /// The next hop: a gateway, or the server itself.
    next: IpAddr,
}

impl Hop {
    /// The first hop of what this host sends from `source` to `server`, by the route there is, or
    /// by the interface that is given.
    ///
    /// # Errors
    /// There is no way, or none by a device that carries Ethernet frames.
    pub fn find(server: IpAddr, source: IpAddr, name: Option<&str>) -> Result<Self, String> {
        let told = |error: io::Error| format!("the kernel tells no route to {server}: {error}");
        let mut kernel = Netlink::open().map_err(told)?;
        let given = name.map(|name| kernel.link(LinkId::Name(name)));
        let given = given.transpose().map_err(|error| error.to_string())?;
        let by = given.map(|link| link.index);
        let route = kernel.route(server, source, by).map_err(|error| {
            format!(
                "there is no route from {source} to {server} (`ip route get {server}`): {error}"
            )
        })?;
        if route.is_local {
            return Err(format!(
                "{server} is this host itself, to which frames do not leave by a device: ask over \
                 sockets, or from another network namespace (--netns)"
            ));
        }
        let link = kernel.link(LinkId::Index(route.link)).map_err(told)?;
        let name = link.name;
        let address = link.address.ok_or_else(|| {
            format!("{name}, by which {server} is reached, does not carry Ethernet frames")
        })?;
        Ok(Self { name, index: link.index, address, next: route.gateway.unwrap_or(server) })
    }

    /// The Ethernet address of the next hop. Where it is unknown, the kernel is made to resolve it.
    ///
    /// # Errors
    /// No host answers to that address there.
    pub fn resolve(&self) -> Result<LinkAddress, String> {
        let Self { name, next, .. } = self;
        let told = |error: io::Error| format!("the neighbour {next} on {name}: {error}");
        let mut kernel = Netlink::open().map_err(told)?;
        let end = Instant::now() + NEIGHBOUR_PATIENCE;
        loop {
            if let Some(address) = kernel.neighbor(self.index, *next).map_err(told)? {
                return Ok(address);
            }
            kernel.resolve_neighbor(self.index, *next).map_err(told)?;
            if Instant::now() > end {
                return Err(format!(
                    "{next} does not tell its link address on {name}: is it there, and the link \
                     up? (`ip neigh show dev {name}`, `ip link show {name}`)"
                ));
            }
            sleep(NEIGHBOUR_READ_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_not_reached_by_a_device() {
        let localhost: IpAddr = "127.0.0.1".parse().unwrap();
        let error = Hop::find(localhost, localhost, None).unwrap_err();
        assert!(error.contains("is this host itself"), "{error}");
        let error = Hop::find(localhost, localhost, Some("nosuch0")).unwrap_err();
        assert!(error.contains("\"nosuch0\"") && error.contains("ip link"), "{error}");
    }
}
