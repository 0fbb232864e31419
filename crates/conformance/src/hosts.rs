//! Two hosts made of one machine: network namespaces for the server and for its clients, a veth
//! pair between them, a CPU for each.
//!
//! | | server | clients |
//! | --- | --- | --- |
//! | address | 10.99.0.1 | 10.99.0.2, and all of 10.98.0.0/16 |
//! | CPU | 0 | 1 |
//!
//! The server's host pays for receiving, as one with a network card does: each end's packets are
//! handed to the CPU of its side. All other addresses lie behind the clients' host, which drops
//! what comes for them.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Result;
use crate::flood::Clients;

/// Where the server answers.
pub const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 1), 53);
/// Addresses of the clients' host.
pub const CLIENTS: Clients = Clients(Ipv4Addr::new(10, 98, 0, 0));

/// The hosts, until this is dropped.
#[derive(Debug)]
pub struct Hosts {
    /// The namespace of the server.
    pub server: String,
    /// The namespace of the clients.
    pub clients: String,
}

impl Hosts {
    /// Makes both. Needs root.
    pub fn up() -> Result<Self> {
        let id = std::process::id();
        let hosts = Self { server: format!("dunlin-s-{id}"), clients: format!("dunlin-c-{id}") };
        let (s, c) = (&hosts.server, &hosts.clients);
        ip(&format!("netns add {s}"))?;
        ip(&format!("netns add {c}"))?;
        ip(&format!("link add srv0 netns {s} type veth peer name gen0 netns {c}"))?;
        for (space, device, address) in [(s, "srv0", "10.99.0.1/24"), (c, "gen0", "10.99.0.2/24")] {
            ip(&format!("-n {space} address add {address} dev {device}"))?;
            ip(&format!("-n {space} link set {device} up"))?;
            ip(&format!("-n {space} link set lo up"))?;
        }
        ip(&format!("-n {s} route add default via 10.99.0.2"))?;
        ip(&format!("-n {c} route add local 10.98.0.0/16 dev lo"))?;
        for (space, device, cpus) in [(s, "srv0", "1"), (c, "gen0", "2")] {
            let file = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
            run(Command::new("ip")
                .args(["netns", "exec", space, "sh", "-c"])
                .arg(format!("echo {cpus} >{file}")))?;
        }
        Ok(hosts)
    }

    /// Moves the calling thread, and what it starts from now on, to the clients' host.
    pub fn enter_clients(&self) -> Result<()> {
        let path = format!("/run/netns/{}", self.clients);
        let space = File::open(&path).map_err(|e| format!("{path}: {e}"))?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| format!("{path}: {e}"))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for space in [&self.server, &self.clients] {
            // What is not there any more need not be removed.
            let _ = ip(&format!("netns delete {space}"));
        }
    }
}

fn ip(words: &str) -> Result<()> {
    run(Command::new("ip").args(words.split(' ')))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|e| format!("ip: {e} (Debian: apt install iproute2)"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// What the kernel counted on the host of a process, such as `Udp.InDatagrams`.
pub fn kernel_counters(pid: u32) -> Result<BTreeMap<String, u64>> {
    let mut counters = BTreeMap::new();
    for file in ["snmp", "netstat"] {
        let path = format!("/proc/{pid}/net/{file}");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        read_counters(&text, &mut counters);
    }
    Ok(counters)
}

/// Pairs of lines: names, and numbers in the same order.
fn read_counters(text: &str, counters: &mut BTreeMap<String, u64>) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (names, numbers) = (pair[0].split(' '), pair[1].split(' ').skip(1));
        let mut names = names.map(|name| name.trim_end_matches(':'));
        let group = names.next().unwrap_or_default();
        for (name, number) in names.zip(numbers) {
            // Some are limits, of which -1 is one.
            let number = number.parse().unwrap_or_default();
            counters.insert(format!("{group}.{name}"), number);
        }
    }
}

/// Octets of a process that are in RAM: now, and at most since [`reset_peak`].
pub fn resident(pid: u32) -> Result<(u64, u64)> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    };
    field("VmRSS:").zip(field("VmHWM:")).ok_or(format!("{path} tells no resident memory"))
}

/// Begins a new peak (proc(5): `clear_refs`).
pub fn reset_peak(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    std::fs::write(&path, "5").map_err(|e| format!("{path}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let mut counters = BTreeMap::new();
        read_counters("Tcp: MaxConn InSegs\nTcp: -1 42\nUdp: In\nUdp: 7\n", &mut counters);
        assert_eq!(counters["Tcp.InSegs"], 42);
        assert_eq!(counters["Udp.In"], 7);
    }

    #[test]
    fn memory_of_this_process_is_read() {
        let (now, most) = resident(std::process::id()).unwrap();
        assert!(now > 0 && most >= now / 2);
    }
}
