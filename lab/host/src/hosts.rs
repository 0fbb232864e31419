//! Two hosts on one machine: network namespaces for the server and for its clients, a veth pair
//! between them, CPUs for each.
//!
//! | | server | client |
//! | --- | --- | --- |
//! | namespace | `NAME-server` | `NAME-client` |
//! | device | `NAME-srv` | `NAME-gen` |
//! | addresses | 10.99.0.1, fd99::1 | 10.99.0.2, fd99::2, and all of 10.98.0.0/16 and fd98::/64 |
//!
//! Link addresses are set beforehand, and the kernels neither resolve one nor announce
//! an address or a multicast group: nothing crosses but what is sent, so that every packet can be
//! accounted for.

mod layout;
mod make;
mod state;

pub use layout::Layout;
pub use state::{HostStatus, NamespaceProcess, Status};

use crate::limits::{MTU, NAME_BYTES_MAX, QUEUES};
use crate::{Result, tool};
use cpu::CpuList;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::str::FromStr;

/// The server's IPv4 address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The server's IPv6 address.
pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);
/// The client's host.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
/// The client's host over IPv6.
pub const CLIENT6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);
/// Further addresses of the client's host, and their prefix length.
pub const CLIENTS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 98, 0, 0), 16);
/// The same for IPv6. Sockets can bind to them (`net.ipv6.ip_nonlocal_bind`).
pub const CLIENTS6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, 0), 64);

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The server's host.
    Server,
    /// The clients' host.
    Client,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Server, Self::Client];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// Its own addresses.
    pub fn addresses(self) -> [IpAddr; 2] {
        match self {
            Self::Server => [SERVER.into(), SERVER6.into()],
            Self::Client => [CLIENT.into(), CLIENT6.into()],
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Server => Self::Client,
            Self::Client => Self::Server,
        }
    }
}

impl FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|side| side.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a host of the bench: server or client"))
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Options of the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The prefix of their names: characters a-z, digits and hyphens.
    pub name: String,
    /// The CPUs that receive packets.
    pub layout: Layout,
    /// The server's CPUs, as a list: `0`, `2-5,8`.
    pub server_cpus: String,
    /// The client's CPUs.
    pub client_cpus: String,
    /// Receive and send queues of each device.
    pub queues: u32,
    /// Bytes of a packet, at most.
    pub mtu: u32,
}

impl Options {
    /// The name that is used where none is given.
    pub const NAME: &str = "lab";

    /// With these CPUs, or with the first two that this process may use, one for each; one queue,
    /// packet size of Ethernet.
    ///
    /// # Errors
    /// CPUs must be chosen, and this process may use only one.
    pub fn new(name: &str, server: Option<&CpuList>, client: Option<&CpuList>) -> Result<Self> {
        let allowed = cpu::allowed().map_err(|e| {
            format!(
                "cannot read which CPUs this process may \
                                                          use: {e}"
            )
        })?;
        let choose = |given: Option<&CpuList>, index: usize| {
            let chosen = allowed.as_slice().get(index).map(ToString::to_string);
            given.map(ToString::to_string).or(chosen).ok_or(
                "two hosts need two CPUs, and only one may be used here; both can be given it",
            )
        };
        Ok(Self {
            name: name.into(),
            layout: Layout::Whole,
            server_cpus: choose(server, 0)?,
            client_cpus: choose(client, 1)?,
            queues: 1,
            mtu: 1_500,
        })
    }

    /// # Errors
    /// An option is out of its bounds.
    pub fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        let allowed = cpu::allowed().map_err(|e| {
            format!(
                "cannot read which CPUs this process may \
                                                          use: {e}"
            )
        })?;
        for side in Side::ALL {
            let cpus = self.cpus(side)?;
            if let Some(cpu) = cpus.as_slice().iter().find(|cpu| !allowed.as_slice().contains(cpu))
            {
                return Err(format!(
                    "CPU {cpu}, for the {side}, is not one that this process may \
                                    use: {allowed}"
                ));
            }
        }
        if !QUEUES.contains(&self.queues) {
            return Err(format!(
                "{} queues: {} to {} can be made",
                self.queues,
                QUEUES.start(),
                QUEUES.end()
            ));
        }
        if !MTU.contains(&self.mtu) {
            return Err(format!(
                "an MTU of {}: {} to {} are possible",
                self.mtu,
                MTU.start(),
                MTU.end()
            ));
        }
        Ok(())
    }

    /// The CPUs of a host.
    ///
    /// # Errors
    /// The list is none.
    pub fn cpus(&self, side: Side) -> Result<CpuList> {
        let text = match side {
            Side::Server => &self.server_cpus,
            Side::Client => &self.client_cpus,
        };
        text.parse().map_err(|error| format!("CPUs of the {side}: {error}"))
    }

    /// The network namespace of a host.
    pub fn namespace(&self, side: Side) -> String {
        format!("{}-{side}", self.name)
    }

    /// The device of a host.
    pub fn device(&self, side: Side) -> String {
        device(&self.name, side)
    }
}

fn device(name: &str, side: Side) -> String {
    match side {
        Side::Server => format!("{name}-srv"),
        Side::Client => format!("{name}-gen"),
    }
}

fn check_name(name: &str) -> Result<()> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_fine) {
        return Err(format!(
            "`{name}` cannot name a bench: 1 to {NAME_BYTES_MAX} characters a-z, 0-9 and -"
        ));
    }
    Ok(())
}

/// The action of [`Hosts::up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostsState {
    /// They did not exist, or had other options, and have been created.
    Anew,
    /// They existed with these options. Polling threads have been pinned again.
    Already,
}

/// Two existing hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    options: Options,
}

impl Hosts {
    /// Creates both, unless they exist with these options; hosts of the same name with other
    /// options are removed first, if no process is in them. Needs root.
    ///
    /// # Errors
    /// An option is out of its bounds, a process is in the old ones, or a command failed: then
    /// nothing stays behind.
    pub fn up(options: &Options) -> Result<(Self, HostsState)> {
        options.check()?;
        let hosts = Self { options: options.clone() };
        let _alone = state::lock()?;
        if state::read(&options.name)?.as_ref() == Some(options) && make::is_whole(options) {
            hosts.pin()?;
            return Ok((hosts, HostsState::Already));
        }
        let residents = state::residents(&options.name);
        if !residents.is_empty() {
            let list = state::list(&residents);
            let name = &options.name;
            return Err(format!(
                "{name} is up with other options, and these processes run in it: \
                                {list}"
            ));
        }
        make::unmake(&options.name)?;
        // The state is written first, so that incomplete hosts have a name if this process is
        // killed.
        state::write(options)?;
        let made = make::make(options).and_then(|()| hosts.pin());
        if let Err(error) = made {
            // The first error is the reason; `down` will name what cannot be removed either.
            let _ = make::unmake(&options.name);
            return Err(error);
        }
        Ok((hosts, HostsState::Anew))
    }

    /// The hosts of this name, if they are up.
    ///
    /// # Errors
    /// They are incomplete, or this process has no permission.
    pub fn find(name: &str) -> Result<Option<Self>> {
        check_name(name)?;
        match state::read(name)? {
            Some(options) if make::is_whole(&options) => Ok(Some(Self { options })),
            Some(_) => Err(format!(
                "the hosts {name} are incomplete; `dunlin lab hosts down --name {name}` \
                 removes what is left"
            )),
            None => Ok(None),
        }
    }

    /// Removes all parts of hosts of that name. Processes in them are an error, or, with `ends`,
    /// ended first. A namespace with a remaining process disappears with it; its device is gone
    /// already.
    ///
    /// # Errors
    /// A command failed.
    pub fn down(name: &str, ends: bool) -> Result<Vec<NamespaceProcess>> {
        check_name(name)?;
        let _alone = state::lock()?;
        if ends {
            state::end(name);
        }
        let residents = state::residents(name);
        make::unmake(name)?;
        Ok(residents)
    }

    /// Their options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Pins the polling threads to the CPUs of their side, a queue's to a CPU. Threads are made
    /// again whenever an XDP program comes or goes, or queues change.
    ///
    /// # Errors
    /// A CPU is not there, or we are not root.
    pub fn pin(&self) -> Result<()> {
        layout::pin(&self.options)
    }

    /// Makes these CPUs receive the packets of a host, with [`Layout::Steered`].
    ///
    /// # Errors
    /// There is no such CPU, or we are not root.
    pub fn steer(&self, side: Side, cpus: &CpuList) -> Result<()> {
        layout::steer(&self.options, side, cpus.as_slice())
    }

    /// Detaches an XDP program that a server left at its device.
    ///
    /// # Errors
    /// A command failed.
    pub fn detach_program(&self, side: Side) -> Result<()> {
        let (space, device) = (self.options.namespace(side), self.options.device(side));
        tool::run("ip", &format!("-n {space} link set {device} xdp off"))
    }

    /// A command on a host: in its namespace with its `/sys`, on its CPUs. Threads that were
    /// created since are pinned first.
    ///
    /// # Errors
    /// As [`Self::pin`], or `words` is empty.
    pub fn command(&self, side: Side, words: &[String]) -> Result<Command> {
        if words.is_empty() {
            return Err("a command is missing".into());
        }
        self.pin()?;
        let mut command = tool::command("ip");
        command.args(["netns", "exec", &self.options.namespace(side)]);
        command.args(["taskset", "--cpu-list", &self.options.cpus(side)?.to_string()]).args(words);
        Ok(command)
    }

    /// The hosts and the processes in them.
    ///
    /// # Errors
    /// A device cannot be read.
    pub fn status(&self) -> Result<Status> {
        state::status(&self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            name: "lab".into(),
            layout: Layout::Whole,
            server_cpus: "0".into(),
            client_cpus: "0".into(),
            queues: 1,
            mtu: 1_500,
        }
    }

    #[test]
    fn namespace_and_device_names_use_the_prefix() {
        let options = options();
        assert_eq!(options.namespace(Side::Server), "lab-server");
        assert_eq!(options.device(Side::Client), "lab-gen");
        assert_eq!(options.cpus(Side::Client).unwrap().as_slice(), [0]);
        // A device's name has 15 characters at most (IFNAMSIZ).
        assert!(device(&"x".repeat(NAME_BYTES_MAX), Side::Server).len() <= 15);
    }

    #[test]
    fn out_of_range_options_are_refused() {
        let wrong = |change: &dyn Fn(&mut Options)| {
            let mut options = options();
            change(&mut options);
            options.check().unwrap_err()
        };
        assert!(wrong(&|o| o.name = "a b".into()).contains("cannot name a bench"));
        assert!(wrong(&|o| o.name = "x".repeat(11)).contains("1 to 10"));
        assert!(wrong(&|o| o.name.clear()).contains("cannot name a bench"));
        assert!(wrong(&|o| o.queues = 0).contains("1 to 64"));
        assert!(wrong(&|o| o.mtu = 500).contains("1280 to 65535"));
        assert!(wrong(&|o| o.client_cpus = "x".into()).contains("CPUs of the client"));
        assert!(
            wrong(&|o| o.server_cpus = "1000".into())
                .contains("CPU 1000, for the server, is not one")
        );
        assert_eq!(options().check(), Ok(()));
        assert_eq!("client".parse(), Ok(Side::Client));
        assert!("gen".parse::<Side>().is_err());
    }
}
