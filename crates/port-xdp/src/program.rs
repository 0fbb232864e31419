//! The program that the kernel runs for every packet of an interface: it lets in what is for us.

use crate::interface::{Interface, addresses};
use crate::limits::TARGETS_MAX;
use aya::maps::{HashMap, MapData, MapError, PerCpuArray, XskMap};
use aya::programs::links::FdLink;
use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::{Ebpf, EbpfError, EbpfLoader};
use packet::frame::NETWORK_MAX;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// `bpf/filter.c`, compiled.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/filter.o");

/// Why an interface is not served past the kernel.
#[derive(Debug)]
pub enum XdpError {
    /// The interface is not there, or is not fit.
    Interface(io::Error),
    /// The kernel does not load the program.
    Load(Box<dyn Error + Send + Sync>),
    /// The kernel does not attach the program.
    Attach(Box<dyn Error + Send + Sync>),
    /// Something is attached there already.
    Busy(String),
    /// What is attached would stay when this process ends.
    NoLink,
    /// A table of the program does not take an entry.
    Table(&'static str, MapError),
    /// More addresses and ports than the table holds.
    TooMany(usize),
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(error) => error.fmt(f),
            Self::Load(error) => write!(
                f,
                "the kernel does not load the XDP program: {}; it takes CAP_BPF and CAP_NET_ADMIN",
                chain(&**error)
            ),
            Self::Attach(error) => {
                write!(f, "the XDP program cannot be attached: {}", chain(&**error))
            }
            Self::Busy(name) => write!(
                f,
                "another XDP program is attached to {name} (`ip link show dev {name}` tells \
                 which): detach it, or leave this interface to sockets"
            ),
            Self::NoLink => write!(
                f,
                "this kernel attaches XDP programs only so that they outlive the process: it takes \
                 Linux 5.9"
            ),
            Self::Table(name, error) => {
                write!(f, "the XDP program's table of {name}: {}", chain(error))
            }
            Self::TooMany(count) => write!(
                f,
                "{count} addresses are to be answered at, and {TARGETS_MAX} may be: list those of \
                 [server] listen one by one"
            ),
        }
    }
}

impl Error for XdpError {}

/// An error with all that it comes from.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The driver, before the kernel has made anything of a packet.
    Native,
    /// The kernel, where the driver cannot: it works, and gains less.
    Generic,
}

impl Mode {
    /// The name used in status and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// What is let in.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Addresses and ports; an unspecified address means all of its family that this host has.
    pub listen: Vec<SocketAddr>,
    /// Whether a packet is left to the kernel that would answer it another way.
    pub route_check: bool,
}

/// What the program counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets that were let in.
    pub taken: u64,
    /// Of these, those whose way back the kernel would not tell (`net.ipv4.conf.lo.forwarding` and
    /// `net.ipv6.conf.lo.forwarding` are off).
    pub unchecked: u64,
    /// Left to the kernel since a reply goes another way.
    pub route: u64,
    /// Left to the kernel since it has to find the client's link address first.
    pub neighbour: u64,
    /// Left to the kernel since there is no room for so many octets.
    pub long: u64,
    /// Left to the kernel since no socket has that queue.
    pub socket: u64,
}

/// The program, attached. It is gone with this value, and with the process however that ends.
pub struct Program {
    ebpf: Ebpf,
    mode: Mode,
    _link: FdLink,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Program {
    /// Loads the program and attaches it to an interface, by the driver where that can. Nothing is
    /// let in before a queue is [`serve`](Self::serve)d.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn attach(interface: &Interface, rules: &Rules) -> Result<Self, XdpError> {
        let room = interface.mtu.saturating_sub(NETWORK_MAX) as u32;
        let check = u32::from(rules.route_check);
        let load = |error: EbpfError| XdpError::Load(error.into());
        let mut loader = EbpfLoader::new();
        loader.override_global("room", &room, true).override_global("route_check", &check, true);
        let mut ebpf = loader.load(OBJECT).map_err(load)?;
        fill_targets(&mut ebpf, &rules.listen)?;
        if rules.route_check {
            let_routes_be_asked();
        }
        let mut links = HashMap::<_, u32, u32>::try_from(map(&mut ebpf, "links")?)
            .map_err(|error| XdpError::Table("links", error))?;
        for (index, tags) in interface.links() {
            links.insert(index, tags, 0).map_err(|error| XdpError::Table("links", error))?;
        }
        let program = ebpf.program_mut("dunlin").ok_or_else(|| XdpError::Load("empty".into()))?;
        let load = |error: ProgramError| XdpError::Load(error.into());
        let xdp: &mut Xdp = program.try_into().map_err(load)?;
        xdp.load().map_err(load)?;
        let (mode, link) = match attach(xdp, interface, XdpMode::Driver) {
            Ok(link) => (Mode::Native, link),
            Err(error @ (XdpError::Busy(_) | XdpError::NoLink)) => return Err(error),
            Err(_) => (Mode::Generic, attach(xdp, interface, XdpMode::Skb)?),
        };
        Ok(Self { ebpf, mode, _link: link })
    }

    /// Who runs it.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Lets in what comes by a queue, from now on, to this AF_XDP socket of it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn serve(&mut self, queue: u32, socket: impl AsFd) -> Result<(), XdpError> {
        let table = |error| XdpError::Table("sockets", error);
        let mut sockets = XskMap::try_from(map(&mut self.ebpf, "sockets")?).map_err(table)?;
        sockets.set(queue, socket.as_fd().as_raw_fd(), 0).map_err(table)
    }

    /// What it counted.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn passed(&self) -> Result<Passed, XdpError> {
        let table = |error| XdpError::Table("counts", error);
        let missing = || table(MapError::InvalidName { name: "counts".to_owned() });
        let map = self.ebpf.map("counts").ok_or_else(missing)?;
        let counts = PerCpuArray::<&MapData, u64>::try_from(map).map_err(table)?;
        let sum = |index: u32| -> Result<u64, XdpError> {
            Ok(counts.get(&index, 0).map_err(table)?.iter().sum())
        };
        Ok(Passed {
            taken: sum(0)?,
            unchecked: sum(1)?,
            route: sum(2)?,
            neighbour: sum(3)?,
            long: sum(4)?,
            socket: sum(5)?,
        })
    }
}

/// The kernel tells a program which way a packet goes only for interfaces that forward. Asked as of
/// the loopback, by which nothing comes that we did not send, it tells what it would do with a
/// packet of ours; so that one is let forward. Where it cannot be, replies go back the way their
/// questions came, and are counted as [`Passed::unchecked`].
fn let_routes_be_asked() {
    for family in ["ipv4", "ipv6"] {
        let _ = std::fs::write(format!("/proc/sys/net/{family}/conf/lo/forwarding"), "1");
    }
}

fn map<'e>(ebpf: &'e mut Ebpf, name: &'static str) -> Result<&'e mut aya::maps::Map, XdpError> {
    let missing = || XdpError::Table(name, MapError::InvalidName { name: name.to_owned() });
    ebpf.map_mut(name).ok_or_else(missing)
}

fn attach(xdp: &mut Xdp, interface: &Interface, mode: XdpMode) -> Result<FdLink, XdpError> {
    let failed = |error: ProgramError| match busy(&error) {
        true => XdpError::Busy(interface.name.clone()),
        false => XdpError::Attach(error.into()),
    };
    let id = xdp.attach_to_if_index(interface.index, mode).map_err(failed)?;
    let link = xdp.take_link(id).map_err(failed)?;
    // What has no link of its own was attached the old way, and is detached again here.
    link.try_into().map_err(|_| XdpError::NoLink)
}

/// Whether the kernel refused since something else is attached.
fn busy(error: &ProgramError) -> bool {
    let mut source: Option<&dyn Error> = Some(error);
    while let Some(error) = source {
        let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if matches!(code, Some(libc::EBUSY | libc::EEXIST)) {
            return true;
        }
        source = error.source();
    }
    false
}

/// An address and port as the program looks for it.
fn key(target: SocketAddr) -> [u8; 20] {
    let address = match target.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut key = [0; 20];
    key[..16].copy_from_slice(&address.octets());
    key[16..18].copy_from_slice(&target.port().to_be_bytes());
    key
}

fn fill_targets(ebpf: &mut Ebpf, listen: &[SocketAddr]) -> Result<(), XdpError> {
    let own = addresses().map_err(XdpError::Interface)?;
    let targets = expand(listen, &own);
    if targets.len() > TARGETS_MAX {
        return Err(XdpError::TooMany(targets.len()));
    }
    let table = |error| XdpError::Table("targets", error);
    let mut map = HashMap::<_, [u8; 20], u32>::try_from(map(ebpf, "targets")?).map_err(table)?;
    targets.into_iter().try_for_each(|target| map.insert(key(target), 1, 0).map_err(table))
}

/// Addresses that are listened on, one by one.
fn expand(listen: &[SocketAddr], own: &[IpAddr]) -> Vec<SocketAddr> {
    let mut targets = Vec::new();
    for target in listen {
        if target.ip().is_unspecified() {
            let family = own.iter().filter(|ip| ip.is_ipv4() == target.is_ipv4());
            targets.extend(family.map(|ip| SocketAddr::new(*ip, target.port())));
        } else {
            targets.push(SocketAddr::new(target.ip(), target.port()));
        }
    }
    targets.sort();
    targets.dedup();
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_means_those_that_there_are() {
        let own = ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let listen = ["0.0.0.0:53", "192.0.2.2:53", "[::]:54", "198.51.100.1:55"];
        let targets = expand(&listen.map(|at| at.parse().unwrap()), &own);
        let expected = ["192.0.2.1:53", "192.0.2.2:53", "198.51.100.1:55", "[2001:db8::1]:54"];
        assert_eq!(targets, expected.map(|at| at.parse().unwrap()));
    }

    #[test]
    fn a_key_is_what_the_program_looks_for() {
        let key = key("192.0.2.1:53".parse().unwrap());
        assert_eq!(key[10..], [0xff, 0xff, 192, 0, 2, 1, 0, 53, 0, 0]);
    }
}
