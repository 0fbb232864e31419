//! The hosts of a run.

use std::fs;
use std::net::SocketAddr;

use cpu::CpuList;
use lab_host::counters::{Host, Reading, Socket};
use lab_host::namespace;
use lab_load::Options;

use super::{is_ours, processes};
use crate::Result;
use crate::limits::NAMESPACES_MAX;

/// The hosts of a run, as far as they can be known.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The server's host, if it is this machine.
    pub server: Option<Host>,
    /// The generator's.
    pub client: Host,
    /// Where the server answers.
    pub address: SocketAddr,
}

impl Endpoints {
    /// Searches for the server in the generator's network namespace, in that of this process, then
    /// in all that have a name.
    ///
    /// # Errors
    /// The generator's namespace cannot be entered.
    pub fn find(options: &Options, pids: &[u32]) -> Result<Self> {
        let address = options.server;
        let client_cpus = match options.cpus.is_empty() {
            true => cpu::allowed().map_err(|e| {
                format!(
                    "cannot read which CPUs this process may \
                                                        use: {e}"
                )
            })?,
            false => options.cpus.iter().copied().collect(),
        };
        let client = Host {
            netns: options.netns.clone(),
            device: device_to(options.netns.as_deref(), address),
            cpus: Some(client_cpus),
            pids: vec![std::process::id()],
        };
        let mut spaces = vec![options.netns.clone(), None];
        spaces.extend(named_spaces().into_iter().map(Some));
        let server = spaces.into_iter().find_map(|space| host_of(space, address, pids));
        Ok(Self { server, client, address })
    }

    /// The server's processes.
    pub fn server_pids(&self) -> &[u32] {
        self.server.as_ref().map_or(&[], |host| &host.pids)
    }

    /// Whether both sides share one network stack, so that its counters include both.
    pub fn is_one_host(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.netns == self.client.netns)
    }

    /// The server's sockets among these.
    pub fn sockets<'a>(&self, all: &'a [Socket]) -> impl Iterator<Item = &'a Socket> {
        let port = self.address.port();
        all.iter().filter(move |socket| socket.port == port)
    }
}

fn named_spaces() -> Vec<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.take(NAMESPACES_MAX).collect()
}

/// The host with a socket bound to the address.
fn host_of(netns: Option<String>, address: SocketAddr, pids: &[u32]) -> Option<Host> {
    let space = netns.as_deref();
    namespace::within(space, || Ok(is_ours(address))).ok().filter(|ours| *ours)?;
    let mut host = Host { netns: netns.clone(), ..Host::default() };
    let reading = Reading::take(&host).ok()?;
    let port = address.port();
    let inodes: Vec<u64> =
        reading.sockets.iter().filter(|s| s.port == port).map(|s| s.inode).collect();
    if inodes.is_empty() {
        return None;
    }
    host.pids = match pids {
        [] => processes::owners(&inodes),
        given => given.to_vec(),
    };
    host.device = device_of(space, address);
    host.cpus =
        Some(processes::cpus(&host.pids)).filter(|cpus: &CpuList| !cpus.as_slice().is_empty());
    Some(host)
}

/// The device that has an address. `None` for the loopback device, on which both directions are the
/// same.
fn device_of(netns: Option<&str>, address: SocketAddr) -> Option<String> {
    let said = ip(netns, &["-o", "address", "show", "to", &address.ip().to_string()])?;
    device(said.split_whitespace().nth(1)?)
}

/// The device on the route to an address.
fn device_to(netns: Option<&str>, address: SocketAddr) -> Option<String> {
    let said = ip(netns, &["-o", "route", "get", &address.ip().to_string()])?;
    let mut words = said.split_whitespace().skip_while(|word| *word != "dev");
    device(words.nth(1)?)
}

fn device(name: &str) -> Option<String> {
    Some(name.trim_end_matches(':')).filter(|name| *name != "lo").map(ToOwned::to_owned)
}

fn ip(netns: Option<&str>, words: &[&str]) -> Option<String> {
    let space = netns.map_or(vec![], |netns| vec!["-n", netns]);
    // Without `ip` the device is unknown, and the measurements omit it.
    let output = std::process::Command::new("ip").args(space).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
