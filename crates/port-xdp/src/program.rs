//! The program that the kernel runs for every packet of an interface: it lets in what is for us.

use crate::attached::{Attached, Mode, Tables, XdpError};
use crate::interface::{Interface, addresses};
use crate::limits::TARGETS_MAX;
use aya::EbpfLoader;
use aya::maps::{HashMap, MapData, MapError, XskMap};
use packet::frame::NETWORK_MAX;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// `bpf/filter.c`, compiled.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/filter.o");

/// The value of a target that is let in by every queue: `ANY_QUEUE` of the program.
const ANY_QUEUE: u32 = u32::MAX;

/// What is let in.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Addresses and ports; an unspecified address means all of its family that this host has.
    pub listen: Vec<SocketAddr>,
    /// Whether a packet is left to the kernel that would answer it another way.
    pub route_check: bool,
    /// When it is its turn among other programs, where those are in a dispatcher of libxdp's: after
    /// those of a lower number. Nothing: no dispatcher is joined.
    pub priority: Option<u32>,
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
    /// Left to the kernel since no socket has that queue, or another one is meant
    /// ([`Program::admit`]).
    pub socket: u64,
    /// Left to the kernel since it is for another host's link address.
    pub foreign: u64,
    /// Left to the kernel, one in some thousands, since it looks whether the next hop is still
    /// there by which it sends itself.
    pub probe: u64,
}

/// The program, attached. It is gone with this value, and with the process however that ends; in a
/// dispatcher a component may stay, which leaves everything to the kernel.
#[derive(Debug)]
pub struct Program {
    attached: Attached,
    _routes: Option<Routes>,
}

impl Program {
    /// Loads the program and attaches it to an interface, by the driver where that can. Nothing is
    /// let in before a queue is [`serve`](Self::serve)d.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn attach(interface: &Interface, rules: &Rules) -> Result<Self, XdpError> {
        Self::with_table(interface, rules, TARGETS_MAX as u32)
    }

    /// The same for somebody who asks instead of being asked: up to `targets_max` addresses and
    /// ports of his are told one by one ([`admit`](Self::admit)), and he sees to the way back.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_for_answers(interface: &Interface, targets_max: u32) -> Result<Self, XdpError> {
        Self::with_table(interface, &Rules::default(), targets_max)
    }

    fn with_table(
        interface: &Interface,
        rules: &Rules,
        targets_max: u32,
    ) -> Result<Self, XdpError> {
        let room = interface.mtu.saturating_sub(NETWORK_MAX) as u32;
        let check = u32::from(rules.route_check);
        let mut loader = EbpfLoader::new();
        loader.override_global("room", &room, true).override_global("route_check", &check, true);
        loader.override_global("own", &interface.address, true);
        loader.override_global("interface", &interface.index, true);
        loader.map_max_entries("targets", targets_max);
        let prepare = |tables: &mut Tables| {
            set_targets(tables, &rules.listen)?;
            let table = |error| XdpError::Table("links", error);
            let mut links =
                HashMap::<_, u32, u32>::try_from(tables.get("links")?).map_err(table)?;
            interface
                .networks()
                .into_iter()
                .try_for_each(|(index, tags)| links.insert(index, tags, 0).map_err(table))
        };
        let routes = rules.route_check.then(Routes::let_be_asked);
        let attached = Attached::new(loader, OBJECT, interface, rules.priority, prepare)?;
        Ok(Self { attached, _routes: routes })
    }

    /// Who runs it.
    pub fn mode(&self) -> Mode {
        self.attached.mode()
    }

    /// Whether it runs in a dispatcher, beside others.
    pub fn is_joined(&self) -> bool {
        self.attached.is_joined()
    }

    /// Whether it is still attached, which others can change where it is joined.
    pub fn is_there(&self) -> bool {
        self.attached.is_there()
    }

    /// Lets in what comes by a queue, from now on, to this AF_XDP socket of it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn serve(&mut self, queue: u32, socket: impl AsFd) -> Result<(), XdpError> {
        let table = |error| XdpError::Table("sockets", error);
        let mut sockets = XskMap::try_from(self.attached.tables.get("sockets")?).map_err(table)?;
        sockets.set(queue, socket.as_fd().as_raw_fd(), 0).map_err(table)
    }

    /// Lets in what comes to these addresses and ports from now on, and nothing else; as in
    /// [`Rules::listen`].
    ///
    /// # Errors
    /// They are too many, and those from before stay; or the kernel refuses.
    pub fn listen(&mut self, listen: &[SocketAddr]) -> Result<(), XdpError> {
        set_targets(&mut self.attached.tables, listen)
    }

    /// Lets in what comes to one address and port, by this queue alone; by others it is left to the
    /// kernel.
    ///
    /// # Errors
    /// The table is full, or the kernel refuses.
    pub fn admit(&mut self, target: SocketAddr, queue: u32) -> Result<(), XdpError> {
        targets(&mut self.attached.tables)?.insert(key(target), queue, 0).map_err(of_targets)
    }

    /// Leaves what comes to an address and port to the kernel from now on.
    ///
    /// # Errors
    /// It was not let in, or the kernel refuses.
    pub fn dismiss(&mut self, target: SocketAddr) -> Result<(), XdpError> {
        targets(&mut self.attached.tables)?.remove(&key(target)).map_err(of_targets)
    }

    /// What it counted.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn passed(&self) -> Result<Passed, XdpError> {
        let counts = self.attached.counts()?;
        let [taken, unchecked, route, neighbour, long, socket, foreign, probe] = counts;
        Ok(Passed { taken, unchecked, route, neighbour, long, socket, foreign, probe })
    }

    /// Ends it, as dropping it does, and tells what that does not.
    ///
    /// # Errors
    /// It stays in its dispatcher, where it lets everything pass.
    pub fn leave(mut self) -> Result<(), XdpError> {
        self.refuse_all();
        self.attached.leave()
    }

    /// It may be that a dispatcher is not to be left any more. What stays there takes nothing.
    fn refuse_all(&mut self) {
        if self.is_joined() {
            let _ = self.listen(&[]);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.refuse_all();
    }
}

/// The kernel tells a program which way a packet goes only for interfaces that forward. Asked as of
/// the loopback, by which nothing comes that we did not send, it tells what it would do with a
/// packet of ours; so that one is let forward as long as this lives. Where it cannot be, replies go
/// back the way their questions came, and are counted as [`Passed::unchecked`].
#[derive(Debug)]
struct Routes(Vec<String>);

impl Routes {
    fn let_be_asked() -> Self {
        let files = ["ipv4", "ipv6"].map(|of| format!("/proc/sys/net/{of}/conf/lo/forwarding"));
        let is_off = |file: &String| std::fs::read_to_string(file).is_ok_and(|on| on.trim() == "0");
        let set = |file: &String| is_off(file) && std::fs::write(file, "1").is_ok();
        Self(files.into_iter().filter(set).collect())
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        // Who has given up the privilege meanwhile leaves it as it is.
        self.0.iter().for_each(|file| drop(std::fs::write(file, "0")));
    }
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

fn of_targets(error: MapError) -> XdpError {
    XdpError::Table("targets", error)
}

/// The table of addresses, each with the queue that it is let in by.
fn targets(tables: &mut Tables) -> Result<HashMap<&mut MapData, [u8; 20], u32>, XdpError> {
    HashMap::try_from(tables.get("targets")?).map_err(of_targets)
}

/// Makes the table of addresses say these, and no others.
fn set_targets(tables: &mut Tables, listen: &[SocketAddr]) -> Result<(), XdpError> {
    let own = addresses().map_err(XdpError::Interface)?;
    let asked = expand(listen, &own);
    if asked.len() > TARGETS_MAX {
        return Err(XdpError::TooMany(asked.len()));
    }
    let wanted: BTreeSet<_> = asked.into_iter().map(key).collect();
    let mut map = targets(tables)?;
    let there: BTreeSet<_> = map.keys().collect::<Result<_, _>>().map_err(of_targets)?;
    // First those that go, so that there is room.
    there.difference(&wanted).try_for_each(|gone| map.remove(gone).map_err(of_targets))?;
    let mut new = wanted.difference(&there);
    new.try_for_each(|new| map.insert(new, ANY_QUEUE, 0).map_err(of_targets))
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
