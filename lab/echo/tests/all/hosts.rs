//! Two hosts made of namespaces, with a veth pair between them, for what needs a device.

use test_support::skip;
use test_support::spaces;

pub use skip::skip;
use spaces::{Spaces, within};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;

/// Where the server is.
pub const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// The hosts, until this is dropped.
pub struct Hosts(Spaces);

impl Hosts {
    /// Makes both. Needs root and iproute2; where they lack this says so loudly, or fails if
    /// nothing may be skipped.
    pub fn up(name: &str) -> Option<Self> {
        Self::of_mtu(name, 9_000)
    }

    /// The same with packets of this many bytes at most.
    pub fn of_mtu(name: &str, mtu: u32) -> Option<Self> {
        let lacking = if !rustix::process::geteuid().is_root() {
            Some("network namespaces need root")
        } else if Command::new("ip").arg("-V").output().is_err() {
            Some("ip is not here (Debian: apt install iproute2)")
        } else {
            None
        };
        if let Some(lacking) = lacking {
            skip(lacking);
            return None;
        }
        Some(Self(Spaces::wired(name, [&*format!("mtu {mtu}"); 2])))
    }

    /// The name of the server's namespace.
    pub fn server(&self) -> String {
        self.0.server.clone()
    }

    /// Whether a program is attached to the server's device.
    pub fn has_program(&self) -> bool {
        self.0.told_by("ip -n {s} link show dev s0").unwrap().contains("prog/xdp")
    }

    /// Has a program at the client's end, which lets everything pass: without one, that end of a
    /// veth device does not receive what a program at the other end sends.
    pub fn let_client_poll(&self) -> port_xdp::FilterProgram {
        within(&self.0.client, || {
            let interface = port_xdp::Interface::find("c0").unwrap();
            port_xdp::FilterProgram::attach(&interface, &port_xdp::FilterRules::default()).unwrap()
        })
    }

    /// A socket on the client's host, to ask what is at `server`.
    pub fn client(&self, server: IpAddr) -> UdpSocket {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        within(&self.0.client, move || UdpSocket::bind(any).unwrap())
    }
}
