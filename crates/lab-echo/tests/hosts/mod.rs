//! Two hosts made of namespaces, with a veth pair between them, for what needs a device.

#[path = "../../../../tests/skip.rs"]
mod skip;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
pub use skip::skip;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;

/// Where the server is.
pub const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// The hosts, until this is dropped.
pub struct Hosts {
    pub server: String,
    client: String,
}

impl Hosts {
    /// Makes both. Needs root and iproute2; where they lack this says so loudly, or fails if
    /// nothing may be skipped.
    pub fn up(name: &str) -> Option<Self> {
        Self::of_mtu(name, 9_000)
    }

    /// The same with packets of so many octets at most.
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
        let id = std::process::id();
        let hosts = Self { server: format!("{name}-s-{id}"), client: format!("{name}-c-{id}") };
        let (server, client) = (&hosts.server, &hosts.client);
        ip(&format!("netns add {server}"));
        ip(&format!("netns add {client}"));
        ip(&format!(
            "link add srv0 netns {server} mtu {mtu} type veth peer gen0 netns {client} mtu {mtu}"
        ));
        for (space, device, number) in [(server, "srv0", 1), (client, "gen0", 2)] {
            ip(&format!("-n {space} address add 192.0.2.{number}/24 dev {device}"));
            ip(&format!("-n {space} address add 2001:db8::{number}/64 dev {device} nodad"));
            ip(&format!("-n {space} link set {device} up"));
            ip(&format!("-n {space} link set lo up"));
        }
        Some(hosts)
    }

    /// Whether a program is attached to the server's device.
    pub fn has_program(&self) -> bool {
        let words = ["-n", &self.server, "link", "show", "dev", "srv0"];
        let output = Command::new("ip").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("prog/xdp")
    }

    /// Has a program at the client's end, which lets everything pass: without one, that end of a
    /// veth device does not receive what a program at the other end sends.
    pub fn let_client_poll(&self) -> port_xdp::Program {
        self.in_client(|| {
            let interface = port_xdp::Interface::find("gen0").unwrap();
            port_xdp::Program::attach(&interface, &port_xdp::Rules::default()).unwrap()
        })
    }

    /// A socket on the client's host, to ask what is at `server`.
    pub fn client(&self, server: IpAddr) -> UdpSocket {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        self.in_client(move || UdpSocket::bind(any).unwrap())
    }

    /// Does something in a thread of its own, which takes the client's namespace with it.
    fn in_client<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> T {
        let path = format!("/run/netns/{}", self.client);
        let inside = move || {
            let space = File::open(path).unwrap();
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            act()
        };
        std::thread::spawn(inside).join().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for space in [&self.server, &self.client] {
            // What is not there any more need not be removed.
            let _ = Command::new("ip").args(["netns", "delete", space]).output();
        }
    }
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}
