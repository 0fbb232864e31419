//! Network namespaces: two of a server and of a client, or any number of hosts on a switch.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Ends the processes in the namespaces, and the namespaces, once the other end of its input is
/// closed, also if the test is killed. A signal at the parent's death does not work for servers
/// that drop privileges: they lose it.
const GUARD: &str = "read -r _
for space; do ip netns pids $space | xargs -r kill -KILL; ip netns del $space; done";

/// The namespaces, until it is dropped.
pub struct Spaces {
    /// The name of the server's.
    pub server: String,
    /// The name of the clients'.
    pub client: String,
    guard: Child,
}

impl Spaces {
    /// Makes both. Their names begin with `name` and are unique.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("{name}-{}-{number}-{end}", std::process::id());
        let (server, client) = (name("s"), name("c"));
        let guard = guard(&[&server, &client]);
        let spaces = Self { server, client, guard };
        spaces.run("ip netns add {s}\nip netns add {c}");
        spaces
    }

    /// The same with an interface in each, `s0` and `c0`, which are the two ends of a wire: .1 and
    /// .2 of 192.0.2.0/24, ::1 and ::2 of 2001:db8::/64. `ends` says more of each, as `ip link`
    /// does.
    pub fn wired(name: &str, ends: [&str; 2]) -> Self {
        let spaces = Self::new(name);
        let [server, client] = ends;
        spaces.run(&format!(
            "ip -n {{s}} link add s0 {server} type veth peer name c0 netns {{c}} {client}"
        ));
        for (space, end, number) in [("{s}", "s0", 1), ("{c}", "c0", 2)] {
            let ip = format!("ip -n {space}");
            spaces.run(&format!("{ip} addr add 192.0.2.{number}/24 dev {end}"));
            spaces.run(&format!("{ip} addr add 2001:db8::{number}/64 dev {end} nodad"));
            spaces.run(&format!("{ip} link set lo up\n{ip} link set {end} up"));
        }
        spaces
    }

    /// Runs commands, one a line; `{s}` and `{c}` are the namespaces.
    pub fn run(&self, lines: &str) {
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let told = self.told_by(line);
            assert!(told.is_ok(), "{line}: {told:?}");
        }
    }

    /// What a command writes, or all it says where it fails.
    pub fn told_by(&self, line: &str) -> Result<String, String> {
        told_by(&line.replace("{s}", &self.server).replace("{c}", &self.client))
    }
}

/// Starts what ends these namespaces.
pub(crate) fn guard(spaces: &[&str]) -> Child {
    let mut guard = Command::new("sh");
    // In a group of its own, which what interrupts the test does not interrupt.
    guard.args(["-c", GUARD, "guard"]).args(spaces).process_group(0);
    guard.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// What a command writes, or all it says where it fails.
fn told_by(line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().expect("a command")).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&[output.stdout, output.stderr].concat())),
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().expect("it ends");
    }
}

/// A host on a switch.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its network namespace.
    pub space: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// Hosts on a switch, until it is dropped.
pub struct Lan {
    /// The namespace of the switch, which is the host 192.0.2.254.
    pub switch: String,
    /// In the order of their addresses.
    pub hosts: Vec<Host>,
    guard: Child,
}

impl Lan {
    /// Makes a switch and hosts from 192.0.2.1 on. The names begin with `name`.
    ///
    /// # Panics
    /// Without root, or without iproute2.
    pub fn new(name: &str, hosts: u8) -> Self {
        let id = std::process::id();
        let switch = format!("{name}-{id}-sw");
        let host = |number| Host {
            space: format!("{name}-{id}-{number}"),
            address: Ipv4Addr::new(192, 0, 2, number),
        };
        let hosts: Vec<Host> = (1..=hosts).map(host).collect();
        let spaces = hosts.iter().map(|host| host.space.as_str()).chain([switch.as_str()]);
        let lan = Self { guard: guard(&spaces.collect::<Vec<_>>()), hosts, switch };
        let ip = format!("ip -n {}", lan.switch);
        run(&format!("ip netns add {}", lan.switch));
        run(&format!("{ip} link add lan type bridge"));
        run(&format!("{ip} addr add 192.0.2.254/24 dev lan"));
        run(&format!("{ip} link set lo up"));
        run(&format!("{ip} link set lan up"));
        for (number, Host { space, address }) in lan.hosts.iter().enumerate() {
            run(&format!("ip netns add {space}"));
            run(&format!("{ip} link add h{number} type veth peer name eth0 netns {space}"));
            run(&format!("{ip} link set h{number} master lan up"));
            run(&format!("ip -n {space} addr add {address}/24 dev eth0"));
            run(&format!("ip -n {space} link set lo up"));
            run(&format!("ip -n {space} link set eth0 up"));
        }
        lan
    }

    /// Cuts a host off from all others, or plugs it in again.
    pub fn plug(&self, host: usize, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        run(&format!("ip -n {} link set h{host} {state}", self.switch));
    }

    /// What a host sends to others is lost from now on, or arrives again.
    pub fn lose(&self, host: usize, others: std::ops::Range<usize>, is_lost: bool) {
        let space = &self.hosts[host].space;
        for Host { address, .. } in &self.hosts[others] {
            // A station that is not there.
            let to = if is_lost { "lladdr 02:00:00:00:00:ff nud permanent" } else { "" };
            let act = if is_lost { "replace" } else { "del" };
            run(&format!("ip -n {space} neigh {act} {address} dev eth0 {to}"));
        }
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().expect("it ends");
    }
}

pub(crate) fn run(line: &str) {
    let told = told_by(line);
    assert!(told.is_ok(), "{line}: {told:?}");
}

/// Does something in a thread of a network namespace.
pub fn within<T: Send>(space: &str, act: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        let space = File::open(format!("/run/netns/{space}")).unwrap();
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}
