//! The interface and next hop of a query, by the kernel's tables of routes, devices and adjacent
//! hosts say (`rtnetlink(7)`).

use crate::limits::{NEIGHBOUR_LOOK, NEIGHBOUR_PATIENCE};
use port_xdp::netlink::{ACK, Netlink, attribute, cut_short, half, word};
use std::io;
use std::net::IpAddr;
use std::thread::sleep;
use std::time::Instant;

/// Bytes of the headers of messages about routes, devices and adjacent hosts.
const ROUTE: usize = 12;
const DEVICE: usize = 16;
const NEIGHBOUR: usize = 12;

// `linux/netlink.h`, `linux/rtnetlink.h`, `linux/neighbour.h`, `linux/if_link.h`.
const CREATE: u16 = 0x400;
const GET_DEVICE: u16 = 18;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const ROUTE_TO: u16 = 1;
const ROUTE_FROM: u16 = 2;
const ROUTE_DEVICE: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_VIA: u16 = 18;
const DEVICE_ADDRESS: u16 = 1;
const DEVICE_NAME: u16 = 3;
const NEIGHBOUR_IP: u16 = 1;
const NEIGHBOUR_ADDRESS: u16 = 2;
/// A route to this host itself (`RTN_LOCAL`).
const LOCAL: u8 = 2;
/// A device of Ethernet (`ARPHRD_ETHER`).
const ETHERNET: u16 = 1;
/// Have the kernel look for a neighbour as if it had something to send (`NTF_USE`).
const USE: u8 = 1;
/// States in which a neighbour's address is known: REACHABLE, STALE, DELAY, PROBE, NOARP and
/// PERMANENT.
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// An Ethernet address.
pub type Address = [u8; 6];

/// The first hop to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface: its name, number and address.
    pub name: String,
    index: u32,
    pub address: Address,
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
        let mut kernel = Kernel::open().map_err(told)?;
        let given = match name {
            Some(name) => Some(kernel.device(0, Some(name)).map_err(|error| {
                format!("there is no interface \"{name}\" (`ip link` lists them): {error}")
            })?),
            None => None,
        };
        let by = given.as_ref().map(|device| device.index);
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
        let device = kernel.device(route.device, None).map_err(told)?;
        let name = device.name;
        let address = device.address.ok_or_else(|| {
            format!("{name}, by which {server} is reached, does not carry Ethernet frames")
        })?;
        Ok(Self { name, index: device.index, address, next: route.gateway.unwrap_or(server) })
    }

    /// The Ethernet address of the next hop. Where it is unknown, the kernel is made to resolve it.
    ///
    /// # Errors
    /// No host answers to that address there.
    pub fn resolve(&self) -> Result<Address, String> {
        let Self { name, next, .. } = self;
        let told = |error: io::Error| format!("the neighbour {next} on {name}: {error}");
        let mut kernel = Kernel::open().map_err(told)?;
        let end = Instant::now() + NEIGHBOUR_PATIENCE;
        loop {
            if let Some(address) = kernel.neighbour(self.index, *next).map_err(told)? {
                return Ok(address);
            }
            // This restarts a failed resolution and leaves a running one alone. An entry
            // that is permanent would not stay permanent: this is for unknown ones only.
            kernel.look_for(self.index, *next).map_err(told)?;
            if Instant::now() > end {
                return Err(format!(
                    "{next} does not tell its link address on {name}: is it there, and the link \
                     up? (`ip neigh show dev {name}`, `ip link show {name}`)"
                ));
            }
            sleep(NEIGHBOUR_LOOK);
        }
    }
}

/// A route, as the kernel reports it.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    is_local: bool,
    device: u32,
    gateway: Option<IpAddr>,
}

/// A device, as the kernel reports it.
#[derive(Debug, PartialEq, Eq)]
struct Device {
    index: u32,
    name: String,
    /// Nothing: it does not carry Ethernet frames.
    address: Option<Address>,
}

/// A line to the kernel.
struct Kernel(Netlink);

impl Kernel {
    fn open() -> io::Result<Self> {
        Netlink::open().map(Self)
    }

    fn route(&mut self, to: IpAddr, from: IpAddr, by: Option<u32>) -> io::Result<Route> {
        let (to, from, by) = (bytes(to), bytes(from), by.map(u32::to_ne_bytes));
        let mut fixed = [0; ROUTE];
        fixed[..3].copy_from_slice(&[family(&to), to.len() as u8 * 8, from.len() as u8 * 8]);
        let mut attributes = vec![(ROUTE_TO, &to[..]), (ROUTE_FROM, &from[..])];
        attributes.extend(by.as_ref().map(|index| (ROUTE_DEVICE, &index[..])));
        read_route(self.0.ask(GET_ROUTE, 0, &fixed, &attributes)?)
    }

    /// A device by its number, or by its name.
    fn device(&mut self, index: u32, name: Option<&str>) -> io::Result<Device> {
        let mut fixed = [0; DEVICE];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        let name = name.map(|name| [name.as_bytes(), &[0]].concat());
        let attributes: Vec<_> = name.iter().map(|name| (DEVICE_NAME, &name[..])).collect();
        read_device(self.0.ask(GET_DEVICE, 0, &fixed, &attributes)?)
    }

    /// Has the kernel find out a neighbour's address, if it does not know it.
    fn look_for(&mut self, device: u32, ip: IpAddr) -> io::Result<()> {
        let ip = bytes(ip);
        let mut fixed = about(device, &ip);
        fixed[10] = USE;
        self.0.ask(NEW_NEIGHBOUR, ACK | CREATE, &fixed, &[(NEIGHBOUR_IP, &ip)]).map(drop)
    }

    /// A neighbour's address, where it is known.
    fn neighbour(&mut self, device: u32, ip: IpAddr) -> io::Result<Option<Address>> {
        let ip = bytes(ip);
        match self.0.ask(GET_NEIGHBOUR, 0, &about(device, &ip), &[(NEIGHBOUR_IP, &ip)]) {
            Ok(answer) => Ok(read_neighbour(answer)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The header of what is said of a neighbour.
fn about(device: u32, ip: &[u8]) -> [u8; NEIGHBOUR] {
    let mut fixed = [0; NEIGHBOUR];
    fixed[0] = family(ip);
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    fixed
}

fn bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().to_be_bytes().to_vec(),
        IpAddr::V6(ip) => ip.to_bits().to_be_bytes().to_vec(),
    }
}

fn family(ip: &[u8]) -> u8 {
    if ip.len() == 4 { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || bytes.try_into().ok().map(|bytes: [u8; 4]| bytes.into());
    let v6 = || bytes.try_into().ok().map(|bytes: [u8; 16]| bytes.into());
    v4().or_else(v6)
}

fn read_route(body: &[u8]) -> io::Result<Route> {
    let (fixed, attributes) = body.split_at_checked(ROUTE).ok_or_else(cut_short)?;
    let is_local = fixed[7] == LOCAL;
    let device = attribute(attributes, ROUTE_DEVICE).ok_or_else(cut_short)?;
    // By a gateway of the other family: that family, then the address.
    let via = || attribute(attributes, ROUTE_VIA)?.get(2..);
    let gateway = attribute(attributes, ROUTE_GATEWAY).or_else(via).and_then(ip);
    Ok(Route { is_local, device: word(device, 0)?, gateway })
}

fn read_device(body: &[u8]) -> io::Result<Device> {
    let (fixed, attributes) = body.split_at_checked(DEVICE).ok_or_else(cut_short)?;
    let name = attribute(attributes, DEVICE_NAME).ok_or_else(cut_short)?;
    let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    let address = attribute(attributes, DEVICE_ADDRESS).and_then(|address| address.try_into().ok());
    let address = address.filter(|_| half(fixed, 2).is_ok_and(|kind| kind == ETHERNET));
    Ok(Device { index: word(fixed, 4)?, name, address })
}

fn read_neighbour(body: &[u8]) -> Option<Address> {
    let (fixed, attributes) = body.split_at_checked(NEIGHBOUR)?;
    let address = attribute(attributes, NEIGHBOUR_ADDRESS)?.try_into().ok()?;
    (half(fixed, 8).ok()? & KNOWN != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use port_xdp::netlink::{answer, message};
    use proptest::prelude::*;

    #[test]
    fn this_host_is_not_reached_by_a_device() {
        let localhost: IpAddr = "127.0.0.1".parse().unwrap();
        let error = Hop::find(localhost, localhost, None).unwrap_err();
        assert!(error.contains("is this host itself"), "{error}");
        let error = Hop::find(localhost, localhost, Some("nosuch0")).unwrap_err();
        assert!(error.contains("\"nosuch0\"") && error.contains("ip link"), "{error}");
        // No network for documentation has a neighbour behind the loopback device.
        let lo = Kernel::open().unwrap().device(0, Some("lo")).unwrap();
        assert_eq!((lo.name.as_str(), lo.address), ("lo", None));
    }

    #[test]
    fn attributes_are_written_as_they_are_read() {
        let gateway: IpAddr = "fe80::1".parse().unwrap();
        let via = [&[10, 0][..], &bytes(gateway)].concat();
        let attributes = [(ROUTE_TO, &[192, 0, 2][..]), (ROUTE_DEVICE, &[7, 0, 0, 0]), (18, &via)];
        let told = message(24, 0, &[2, 32, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], &attributes);
        let route = read_route(answer(&told).unwrap()).unwrap();
        assert_eq!(route, Route { is_local: false, device: 7, gateway: Some(gateway) });
    }

    #[test]
    fn neighbor_entries_count_only_in_valid_states() {
        let link = [2, 0, 0, 0, 0, 9];
        let of = |state: u8| {
            let mut fixed = [0; NEIGHBOUR];
            fixed[8] = state;
            let told = message(NEW_NEIGHBOUR, 0, &fixed, &[(NEIGHBOUR_ADDRESS, &link)]);
            read_neighbour(answer(&told).unwrap())
        };
        assert_eq!([of(0x02), of(0x80)], [Some(link); 2], "reachable, permanent");
        assert_eq!([of(0), of(0x01), of(0x20)], [None; 3], "none, incomplete, failed");
    }

    proptest! {
        /// Whatever the kernel were to say: no panic.
        #[test]
        fn nothing_in_an_answer_makes_it_panic(bytes: Vec<u8>) {
            let _ = (read_route(&bytes), read_device(&bytes), read_neighbour(&bytes));
        }
    }
}
