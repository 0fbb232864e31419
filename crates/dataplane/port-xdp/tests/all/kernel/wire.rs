//! Two network namespaces and a pair of interfaces between them: `s0`, the server's, and `c0`.

#![allow(dead_code, reason = "each test binary uses some of it")]
use test_support::skip;
use test_support::spaces;

pub use skip::{leave, skip};
use spaces::{Spaces, within};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// True when we are root; else this is said, and is an error where nothing may be skipped.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("network namespaces need root");
    }
    is_root
}

/// The namespaces, until it is dropped.
pub struct Wire(Spaces);

/// Who the two ends are to each other; `{s}` and `{c}` are the namespaces.
const NEIGHBOR_SETUP: &str = "
ip -n {s} neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev s0
ip -n {c} neigh replace 192.0.2.1 lladdr 02:00:00:00:00:01 dev c0
ip -n {s} neigh replace 2001:db8::2 lladdr 02:00:00:00:00:02 dev s0
ip -n {c} neigh replace 2001:db8::1 lladdr 02:00:00:00:00:01 dev c0
";

/// Tagged networks, where `s0.7` is there already.
const TAGGED: &str = "
ip -n {s} link set s0.7 address 02:00:00:00:00:71
ip -n {c} link add link c0 name c0.7 type vlan id 7
ip -n {s} link add link s0.7 name s0.7.9 type vlan id 9
ip -n {c} link add link c0.7 name c0.7.9 type vlan id 9
ip -n {s} addr add 198.51.100.1/28 dev s0.7
ip -n {c} addr add 198.51.100.2/28 dev c0.7
ip -n {s} addr add 198.51.100.17/28 dev s0.7.9
ip -n {c} addr add 198.51.100.18/28 dev c0.7.9
ip -n {s} link set s0.7 up
ip -n {c} link set c0.7 up
ip -n {s} link set s0.7.9 up
ip -n {c} link set c0.7.9 up
";

impl Wire {
    /// Two ends that know each other.
    pub fn new() -> Self {
        Self::with_queues(1, 1)
    }

    /// The same, with so many queues at the server's end, and at the client's.
    pub fn with_queues(server_queues: u32, client_queues: u32) -> Self {
        let end = |number, queues| {
            format!("address 02:00:00:00:00:0{number} numrxqueues {queues} numtxqueues {queues}")
        };
        let spaces = Spaces::wired("dunlin", [&end(1, server_queues), &end(2, client_queues)]);
        spaces.run(NEIGHBOR_SETUP);
        Self(spaces)
    }

    /// The name of the server's namespace.
    pub fn server_name(&self) -> &str {
        &self.0.server
    }

    /// The name of the client's namespace.
    pub fn client_name(&self) -> &str {
        &self.0.client
    }

    /// A command that runs a program where the server is.
    pub fn command(&self, program: &str) -> Command {
        command_in(&self.0.server, program)
    }

    /// A command that runs a program where the client is.
    pub fn client_command(&self, program: &str) -> Command {
        command_in(&self.0.client, program)
    }

    /// Does something as one of the server's threads.
    pub fn in_server<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        within(&self.0.server, act)
    }

    /// Does something as one of the client's threads.
    pub fn in_client<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        within(&self.0.client, act)
    }

    /// A client that asks the server, and hears only from there.
    pub fn client(&self, server: SocketAddr) -> UdpSocket {
        let own = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        self.in_client(|| {
            let client = UdpSocket::bind(own).unwrap();
            client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            client.connect(server).unwrap();
            client
        })
    }

    /// Joins both ends by a tagged network (7), in which the server has another link address, and
    /// by one inside that (7, 9); the client is .2, the server .1, of 198.51.100.0/28 and
    /// 198.51.100.16/28. False: this kernel has no tagged networks, which is said.
    pub fn tag(&self) -> bool {
        if self.0.told_by("ip -n {s} link add link s0 name s0.7 type vlan id 7").is_err() {
            leave("no tagged networks in this kernel (CONFIG_VLAN_8021Q)");
            return false;
        }
        self.0.run(TAGGED);
        true
    }

    /// Whether the client's device writes tags beside frames instead of into them.
    pub fn set_other_tags(&self, is_so: bool) {
        let how = if is_so { "on" } else { "off" };
        self.0.run(&format!("ip netns exec {{c}} ethtool -K c0 txvlan {how}"));
    }

    /// Has the client ping the server.
    pub fn ping(&self, address: &str) {
        self.0.run(&format!("ip netns exec {{c}} ping -c 1 -W 5 {address}"));
    }

    /// The server no longer knows anybody's link address.
    pub fn forget_neighbours(&self) {
        self.0.run("ip -n {s} neigh del 192.0.2.2 dev s0");
    }

    /// What the server knows of the client's link address has grown old.
    pub fn age_neighbours(&self) {
        self.0.run("ip -n {s} neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev s0 nud stale");
    }

    /// Whether the server does not know whether the client's link address still holds.
    pub fn has_stale_neighbour(&self) -> bool {
        let reported = self.0.told_by("ip -n {s} neigh show 192.0.2.2 dev s0");
        reported.is_ok_and(|reported| reported.contains("STALE"))
    }

    /// The client has another link address for the server than the server has itself.
    pub fn mistake_the_server(&self) {
        self.0.run("ip -n {c} neigh replace 192.0.2.1 lladdr 02:00:00:00:00:07 dev c0");
    }

    /// The server reaches an address by another interface.
    pub fn route_elsewhere(&self, address: &str) {
        self.0.run("ip -n {s} link add other type veth");
        self.0.run("ip -n {s} link set other up");
        self.0.run(&format!("ip -n {{s}} route add {address}/32 dev other"));
        self.0.run(&format!("ip -n {{s}} neigh add {address} lladdr 02:00:00:00:00:09 dev other"));
    }

    /// Takes the server's interface away.
    pub fn remove(&self) {
        self.0.run("ip -n {s} link del s0");
    }

    /// Whether a program is attached to the server's interface.
    pub fn has_program(&self) -> bool {
        self.program().is_some()
    }

    /// The kernel's number of the program that is attached to the server's interface.
    pub fn program(&self) -> Option<String> {
        let reported = self.0.told_by("ip -n {s} link show dev s0").ok()?;
        let number = reported.split("prog/xdp id ").nth(1)?;
        number.split_whitespace().next().map(str::to_owned)
    }

    /// How many AF_XDP sockets there are where the server is.
    pub fn sockets(&self) -> usize {
        let reported = self.0.told_by("ip netns exec {s} cat /proc/net/protocols").unwrap();
        let line = reported.lines().find(|line| line.starts_with("XDP ")).expect("AF_XDP is there");
        line.split_whitespace().nth(2).and_then(|count| count.parse().ok()).expect("a count")
    }
}

fn command_in(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}
