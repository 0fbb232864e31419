//! Two hosts made of one machine (`lab_host::hosts`), until they are dropped; and what the kernel
//! tells of a server on one of them.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lab_host::hosts::{self, Layout, Options, Side};
use lab_host::namespace;

use crate::Result;
use crate::flood::Clients;

/// Where the server answers.
pub const SERVER: SocketAddrV4 = SocketAddrV4::new(hosts::SERVER, 53);
/// Addresses of the clients' host.
pub const CLIENTS: Clients = Clients(hosts::CLIENTS.0);

/// The hosts, until this is dropped. Each receives by interrupts on its own CPU, as one with a
/// network card does: before whatever runs there, whatever its priority.
#[derive(Debug)]
pub struct Hosts {
    /// The namespace of the server.
    pub server: String,
    /// The namespace of the clients.
    pub clients: String,
    name: String,
}

impl Hosts {
    /// Makes both. Needs root.
    pub fn up() -> Result<Self> {
        let name = format!("c{}", std::process::id());
        let options = Options { layout: Layout::Steered, ..Options::new(&name, None, None)? };
        hosts::Hosts::up(&options)?;
        let [server, clients] = Side::ALL.map(|side| options.namespace(side));
        Ok(Self { server, clients, name })
    }

    /// Moves the calling thread, and what it starts from now on, to the clients' host.
    pub fn enter_clients(&self) -> Result<()> {
        namespace::enter(&self.clients)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Err(why) = hosts::Hosts::down(&self.name, false) {
            eprintln!("the hosts {} stay: {why}", self.name);
        }
    }
}

/// A counter of the kernel on the host of a process, such as `Udp.InDatagrams`.
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

/// Bytes of a process that are in RAM: now, and at most since [`reset_peak`].
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
