//! `[server]`
use super::section::Section;
use super::values::{self, Wrong};
use crate::limits::{
    DRAIN, LISTEN_MAX, SAVED_FOR, SECRETS_MAX, TEXT_LEN_MAX, UDP_SIZE, WORKERS_MAX,
};
use crate::{Roles, operate, roles, units};
use answer::CookieSecret;
use answer::limits::NSID_LEN_MAX;
use cpu::CpuList;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeValue;

/// `[server]`
#[derive(Debug, PartialEq)]
pub struct Server {
    /// The parts that run.
    pub roles: Roles,
    /// Its name among the servers of a fleet; empty: that of the host.
    pub name: String,
    /// Where it is, for those who list a fleet.
    pub location: String,
    /// Addresses for UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Worker threads.
    pub workers: Workers,
    /// How packets are received.
    pub port: PortKind,
    /// Whether each worker is bound to a CPU; always so if CPUs are listed.
    pub pin: bool,
    /// How packets reach workers.
    pub steering: Steering,
    /// The largest answer over UDP, in bytes.
    pub udp_size_max: u16,
    /// DNS cookies (RFC 7873).
    pub cookies: Cookies,
    /// The NSID (RFC 5001); empty: no response to the option.
    pub nsid: String,
    /// The answer to `version.bind`; empty: REFUSED.
    pub version: String,
    /// The answer to `id.server` (RFC 4892); empty: REFUSED.
    pub id: String,
    /// Whether the zones of RFC 6303 are built in.
    pub local_zones: bool,
    /// The data folder: copies of good zones, the store, credentials; `None`: none.
    pub data_dir: Option<PathBuf>,
    /// The folder in it that the server works in, set at its start; `None`: `data_dir` itself.
    pub own_folder: Option<PathBuf>,
    /// How long the copy of a zone stays that the config does not name any more.
    pub saved_for: Duration,
    /// The user of the process once its sockets are open; empty: unchanged.
    pub user: String,
    /// Empty: the user's group.
    pub group: String,
    /// How long the server still answers after SIGTERM, while `/readyz` fails.
    pub drain: Duration,
    /// Whether a config file that changes is loaded without a command.
    pub watch_config: bool,
    /// Whether a process of its own holds copies of the sockets, and starts a server that is killed
    /// again.
    pub hold_sockets: bool,
}

/// The number and the CPUs of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each CPU of this process, within the quota of its control group.
    Auto,
    /// One on each physical core, near the interface that packets arrive on.
    Cores,
    /// This number.
    Count(usize),
    /// One on each of these CPUs.
    Cpus(CpuList),
}

/// The kind of port of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Kernel UDP sockets.
    Socket,
    /// AF_XDP queues of one interface, and sockets beside them.
    Xdp,
    /// Queues of devices of DPDK, and sockets beside them.
    Dpdk,
}

/// Which worker receives a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// By CPU if each worker is bound to one, else by hash.
    Auto,
    /// The worker of the CPU that received the packet.
    Cpu,
    /// The kernel's hash of the addresses and ports.
    Hash,
}

/// `[server.cookies]` (RFC 7873, RFC 9018)
#[derive(Debug, PartialEq)]
pub struct Cookies {
    /// Whether cookies are sent and checked.
    pub enabled: bool,
    /// The first one signs, all verify; empty: a random secret for the process's lifetime.
    pub secrets: Vec<CookieSecret>,
}

/// `"auto"`, `"cores"`, a number of workers, or a list of CPUs such as `"2-5,8"`.
fn workers(value: &DeValue<'_>) -> Result<Workers, Wrong> {
    let what = || {
        format!("\"auto\", \"cores\", a number from 1 to {WORKERS_MAX}, or CPUs such as \"2-5,8\"")
    };
    if let Some(number) = values::integer(value) {
        let count = usize::try_from(number).ok().filter(|count| (1..=WORKERS_MAX).contains(count));
        return count
            .map_or_else(|| values::expected(what(), value), |count| Ok(Workers::Count(count)));
    }
    match value.as_str() {
        Some("auto") => Ok(Workers::Auto),
        Some("cores") => Ok(Workers::Cores),
        Some(list) => match list.parse::<CpuList>() {
            Ok(cpus) if cpus.as_slice().len() <= WORKERS_MAX => Ok(Workers::Cpus(cpus)),
            Ok(_) => Err(format!("at most {WORKERS_MAX} CPUs").into()),
            Err(error) => Err(format!("expected {}: {error}", what()).into()),
        },
        None => values::expected(what(), value),
    }
}

/// The default of `saved_for`.
const A_DAY: Duration = Duration::from_secs(86_400);

impl Server {
    /// The folder that the server works in; `None`: it keeps nothing.
    pub fn folder(&self) -> Option<&Path> {
        self.own_folder.as_deref().or(self.data_dir.as_deref())
    }

    /// The default addresses.
    const EVERYWHERE: [SocketAddr; 2] = [
        SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 53),
        SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 53),
    ];

    /// Whether it listens on the default addresses.
    pub fn listens_by_default(&self) -> bool {
        self.listen == Self::EVERYWHERE
    }

    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let steering = [("auto", Steering::Auto), ("cpu", Steering::Cpu), ("hash", Steering::Hash)];
        let version = concat!("dunlin ", env!("CARGO_PKG_VERSION")).to_owned();
        let server = Self {
            roles: Roles::read(&mut section),
            name: section.read("name", String::new(), roles::member_name),
            location: section.read("location", String::new(), values::text(TEXT_LEN_MAX)),
            listen: section.list("listen", Self::EVERYWHERE.into(), LISTEN_MAX, values::address),
            workers: section.read("workers", Workers::Auto, workers),
            port: section.read(
                "port",
                PortKind::Socket,
                values::word([
                    ("socket", PortKind::Socket),
                    ("xdp", PortKind::Xdp),
                    ("dpdk", PortKind::Dpdk),
                ]),
            ),
            pin: section.read("pin", false, values::boolean),
            steering: section.read("steering", Steering::Auto, values::word(steering)),
            udp_size_max: section.read("udp_size_max", 1232, values::number(UDP_SIZE)),
            cookies: Cookies::read(section.section("cookies", "[server.cookies]")),
            nsid: section.read("nsid", String::new(), values::text(NSID_LEN_MAX)),
            version: section.read("version", version, values::text(TEXT_LEN_MAX)),
            id: section.read("id", String::new(), values::text(TEXT_LEN_MAX)),
            own_folder: None,
            data_dir: section.read("data_dir", Some("/var/lib/dunlin".into()), operate::path),
            saved_for: section.read("saved_for", A_DAY, units::duration(SAVED_FOR)),
            user: section.read("user", String::new(), values::text(TEXT_LEN_MAX)),
            group: section.read("group", String::new(), values::text(TEXT_LEN_MAX)),
            drain: section.read("drain", Duration::from_secs(5), units::duration(DRAIN)),
            watch_config: section.read("watch_config", false, values::boolean),
            hold_sockets: section.read("hold_sockets", false, values::boolean),
            local_zones: section.read("local_zones", true, values::boolean),
        };
        if let Some((address, holder)) = taken_twice(&server.listen) {
            let what = match address == holder {
                true => format!("names {address} twice"),
                false => format!("names {address} beside {holder}, which is all of them"),
            };
            section.wrong("listen", &what, "remove one of them");
        }
        if server.hold_sockets && server.port != PortKind::Socket {
            let what = "holds sockets, and no queues of a network card, which end with the server";
            section.wrong("hold_sockets", what, "take it out, or set port = \"socket\"");
        }
        section.close();
        server
    }
}

impl Cookies {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let cookies = Self {
            enabled: section.read("enabled", true, values::boolean),
            secrets: section.list("secrets", Vec::new(), SECRETS_MAX, values::secret),
        };
        section.close();
        cookies
    }
}

/// Whether a socket at `holder` takes what is sent to `address`.
pub fn holds(holder: &SocketAddr, address: &SocketAddr) -> bool {
    let family = holder.is_ipv4() == address.is_ipv4();
    let ip = holder.ip() == address.ip() || family && holder.ip().is_unspecified();
    // Port 0 is a new port each time.
    ip && holder.port() == address.port() && address.port() > 0
}

/// An address that conflicts with another one.
fn taken_twice(listen: &[SocketAddr]) -> Option<(SocketAddr, SocketAddr)> {
    listen.iter().enumerate().find_map(|(at, address)| {
        let mut others = listen.iter().enumerate().filter(|(other, _)| *other != at);
        let (_, holder) = others.find(|(_, holder)| holds(holder, address))?;
        Some((*address, *holder))
    })
}
